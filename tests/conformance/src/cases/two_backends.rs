//! Memory of one backend in the copies of another (C1, C3, M4).
//!
//! Rule: what the host can reach is host memory to everybody else's copies, and a free in its own backend
//! knows nothing of their streams, so to them it is pageable; what the host cannot reach is refused.

use crate::address::Address;
use crate::caller::Caller;
use crate::case::Area;
use crate::context::Context;
use crate::extended::memory::Batch;
use crate::extended::{Answer, Copy};
use crate::gate::Gate;
use crate::outcome::Checked;
use crate::place::{Block, Place};
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{CopyFlags, LlaisysCopy3D, LlaisysCopyRange, MemcpyKind, Stream};

cases! { Area::Copies;
    "C1" memory_of_another_backend_that_the_host_reaches_is_host_memory_to_every_copy [CpuBeside];
    "C3" memory_of_another_backend_may_be_freed_when_the_copy_from_it_returns [CpuBeside, Gates];
    "C3" into_memory_of_another_backend_the_copy_waits_for_its_stream [CpuBeside, Gates];
    "C1" memory_of_the_cpu_is_no_device_memory_to_a_gpu [CpuBeside, OwnMemory];
    "C4" a_copy_stays_inside_the_blocks_of_another_backend [CpuBeside];
    "C1" memory_of_a_gpu_is_out_of_reach_of_the_cpus_copies [CpuBeside, OwnMemory];
    "C1" memory_of_a_gpu_is_out_of_reach_of_the_cpus_fills [CpuBeside, OwnMemory];
}

/// The operations that copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    TwelveSync,
    TwelveAsync,
    Sync,
    Async,
    PitchedSync,
    PitchedAsync,
    Batched,
}

impl Way {
    const ENQUEUED: [Way; 4] = [Way::TwelveAsync, Way::Async, Way::PitchedAsync, Way::Batched];
    const ALL: [Way; 7] = [
        Way::TwelveSync,
        Way::TwelveAsync,
        Way::Sync,
        Way::Async,
        Way::PitchedSync,
        Way::PitchedAsync,
        Way::Batched,
    ];

    fn is_of_the_twelve(self) -> bool {
        matches!(self, Way::TwelveSync | Way::TwelveAsync)
    }

    fn operation(self) -> &'static str {
        match self {
            Way::TwelveSync | Way::Sync => "memcpy_sync",
            Way::TwelveAsync | Way::Async => "memcpy_async",
            Way::PitchedSync => "memcpy_3d_sync",
            Way::PitchedAsync => "memcpy_3d_async",
            Way::Batched => "memcpy_batch_async",
        }
    }

    /// Makes the call; the twelve tell in the slot alone how it went.
    fn copy(self, context: &Context, ends: Ends, kind: u32, stream: Stream) -> Answer {
        let Ends { dst, src, size } = ends;
        let plain = Copy { dst, src, size, kind, flags: CopyFlags::NONE };
        // Two rows, one after the other, or one of an odd number of bytes.
        let height = if size.is_multiple_of(2) { 2 } else { 1 };
        let width = size as u64 / height;
        let pitched = LlaisysCopy3D {
            struct_size: size_of::<LlaisysCopy3D>() as u32,
            kind,
            dst: dst.pointer(),
            dst_pitch: width,
            dst_slice_height: height,
            src: src.pointer(),
            src_pitch: width,
            src_slice_height: height,
            width,
            height,
            depth: 1,
        };
        match self {
            Way::TwelveSync => context.t.memcpy_sync(dst, src, size, kind),
            Way::TwelveAsync => context.t.memcpy_async(dst, src, size, kind, stream),
            Way::Sync => return context.x.memcpy_sync(0, plain),
            Way::Async => return context.x.memcpy_async(0, plain, stream),
            Way::PitchedSync => return context.x.memcpy_3d_sync(0, &pitched),
            Way::PitchedAsync => return context.x.memcpy_3d_async(0, &pitched, stream),
            Way::Batched => {
                let half = size / 2;
                let range = |at: usize, size: usize| LlaisysCopyRange {
                    dst: dst.plus(at).pointer(),
                    src: src.plus(at).pointer(),
                    size: size as u64,
                };
                let ranges = [range(0, half), range(half, size - half)];
                let batch = Batch { ranges: &ranges, kind, flags: CopyFlags::NONE };
                return context.x.memcpy_batch_async(0, batch, stream);
            }
        }
        Ok(())
    }

    /// A copy that must succeed.
    fn must(self, context: &Context, ends: Ends, kind: u32, stream: Stream) -> Checked {
        let what = format!("{self:?} of kind {kind}");
        context.ok(self.copy(context, ends, kind, stream), &what)?;
        context.clean(&what)
    }

    /// A copy that must be refused, with these words.
    fn refused(self, context: &Context, ends: Ends, kind: u32, words: &str) -> Checked {
        let what = format!("{self:?} of kind {kind}");
        let answer = self.copy(context, ends, kind, Stream::DEFAULT);
        ensure!(
            self.is_of_the_twelve() || answer.is_err(),
            "{what}: expected an error, found none"
        );
        let failure = context.refused(self.operation(), Status::InvalidValue, &what)?;
        let told = failure.message.contains(words);
        ensure!(told, "{what}: expected {words:?} in the message, found {:?}", failure.message);
        Ok(())
    }
}

/// From where to where, and how much.
#[derive(Clone, Copy)]
struct Ends {
    dst: Address,
    src: Address,
    size: usize,
}

/// A backend that copies, another one that has the memory, and which memory that is.
#[derive(Clone, Copy)]
struct Pairing {
    copier: &'static Context,
    owner: &'static Context,
    place: Place,
}

impl Pairing {
    /// Every pairing in which the host reaches the memory.
    fn all(context: &'static Context) -> Checked<Vec<Pairing>> {
        let cpu = context.beside("cpu")?;
        let pairing = |copier, owner, place| Pairing { copier, owner, place };
        let mut all = vec![
            pairing(context, cpu, Place::Device),
            pairing(context, cpu, Place::Pinned),
            pairing(cpu, context, Place::Pinned),
        ];
        if context.host_memory() {
            all.push(pairing(cpu, context, Place::Device));
        }
        Ok(all)
    }

    fn story(self) -> String {
        let Pairing { copier, owner, place } = self;
        format!("{place:?} memory of {} copied by {}", owner.device_type, copier.device_type)
    }
}

/// Sizes on both sides of what a driver takes in at once.
const SIZES: [usize; 3] = [101, 4096, 300_000];

fn memory_of_another_backend_that_the_host_reaches_is_host_memory_to_every_copy(
    context: &'static Context,
) -> Checked {
    for pairing in Pairing::all(context)? {
        let Pairing { copier, owner, place } = pairing;
        let stream = copier.stream()?;
        for way in Way::ALL {
            // The extended table also finds the direction out.
            let kinds: &[_] = match way.is_of_the_twelve() {
                true => &[(MemcpyKind::H2D, MemcpyKind::D2H)],
                false => &[
                    (MemcpyKind::H2D, MemcpyKind::D2H),
                    (MemcpyKind::Inferred, MemcpyKind::Inferred),
                ],
            };
            for (size, (there, back)) in
                SIZES.iter().flat_map(|size| kinds.iter().map(move |k| (*size, *k)))
            {
                let what = format!("{}, {way:?}, {size} bytes, {there:?}", pairing.story());
                let bytes = context.bytes(size as u64, size);
                // From the middle of one block into the middle of another.
                let mut from = Block::new(owner, place, size + 200)?;
                from.write(7, &bytes)?;
                let into = Block::filled(owner, place, &vec![0x11; size + 200])?;
                let middle = Block::device(copier, size)?;
                let (there, back) = (there as u32, back as u32);
                let first = Ends { dst: middle.address(), src: from.address().plus(7), size };
                way.must(copier, first, there, stream).map_err(|stop| stop.at(&what))?;
                let second = Ends { dst: into.address().plus(13), src: middle.address(), size };
                way.must(copier, second, back, stream).map_err(|stop| stop.at(&what))?;
                copier.wait(stream)?;
                let found = into.content()?;
                ensure!(found[13..13 + size] == bytes, "{what}: the bytes did not arrive");
                let rest = found[..13].iter().chain(&found[13 + size..]);
                ensure!(rest.into_iter().all(|byte| *byte == 0x11), "{what}: more was written");
            }
        }
        // Host to host, by whoever copies.
        let bytes = context.bytes(1, 5000);
        let (from, into) = (Block::filled(owner, place, &bytes)?, Block::pinned(copier, 5000)?);
        let ends = Ends { dst: into.address(), src: from.address(), size: 5000 };
        Way::Sync.must(copier, ends, MemcpyKind::H2H as u32, stream)?;
        ensure!(into.content()? == bytes, "{}: from host to host", pairing.story());
        copier.destroy(stream)?;
    }
    Ok(())
}

fn memory_of_another_backend_may_be_freed_when_the_copy_from_it_returns(
    context: &'static Context,
) -> Checked {
    for pairing in Pairing::all(context)? {
        let Pairing { copier, owner, place } = pairing;
        let stream = copier.stream()?;
        for way in Way::ENQUEUED {
            for size in SIZES {
                let bytes = context.bytes(size as u64, size);
                let mut source = Block::filled(owner, place, &bytes)?;
                let target = Block::filled(copier, Place::Device, &vec![0; size])?;
                let gate = Gate::hold(copier, 0, stream)?;
                let ends = Ends { dst: target.address(), src: source.address(), size };
                way.must(copier, ends, MemcpyKind::H2D as u32, stream)?;
                // Its own backend has no stream that uses it: it goes at once, and to somebody else.
                source.write(0, &vec![0xee; size])?;
                source.free()?;
                gate.open();
                copier.wait(stream)?;
                ensure!(
                    target.content()? == bytes,
                    "{}, {way:?}, {size} bytes, held stream: expected what was there when the call \
                     returned, found what was written later",
                    pairing.story()
                );
            }
        }
        copier.destroy(stream)?;
    }
    Ok(())
}

fn into_memory_of_another_backend_the_copy_waits_for_its_stream(
    context: &'static Context,
) -> Checked {
    for pairing in Pairing::all(context)? {
        let Pairing { copier, owner, place } = pairing;
        let stream = copier.stream()?;
        for way in Way::ENQUEUED {
            let size = 70_000;
            let bytes = context.bytes(1, size);
            let source = Block::filled(copier, Place::Device, &bytes)?;
            let target = Block::filled(owner, place, &vec![0; size])?;
            let gate = Gate::hold(copier, 0, stream)?;
            let ends = Ends { dst: target.address(), src: source.address(), size };
            let caller =
                Caller::start(move || way.must(copier, ends, MemcpyKind::D2H as u32, stream))?;
            caller.expect_waiting(&format!("{}, {way:?} into it", pairing.story()))?;
            gate.open();
            caller.join()?;
            // Nobody waited for the stream: the call did.
            ensure!(
                target.content()? == bytes,
                "{}, {way:?}: the data was not there when the call returned",
                pairing.story()
            );
        }
        copier.destroy(stream)?;
    }
    Ok(())
}

fn memory_of_the_cpu_is_no_device_memory_to_a_gpu(context: &'static Context) -> Checked {
    let cpu = context.beside("cpu")?;
    let size = 4096;
    let (ours, theirs) = (context.bytes(1, size), context.bytes(2, size));
    let own = Block::filled(context, Place::Device, &ours)?;
    for place in [Place::Device, Place::Pinned] {
        let foreign = Block::filled(cpu, place, &theirs)?;
        let (device, host) = (own.address(), foreign.address());
        for way in Way::ALL {
            for (dst, src, kinds) in [
                (device, host, [MemcpyKind::D2D, MemcpyKind::D2H]),
                (host, device, [MemcpyKind::D2D, MemcpyKind::H2D]),
            ] {
                for kind in kinds {
                    let ends = Ends { dst, src, size };
                    way.refused(context, ends, kind as u32, " wants ")?;
                }
            }
        }
        let filled = context.x.memset_sync(0, host, &[0x5a], size as u64);
        context.answered(
            filled,
            "memset_sync",
            Status::InvalidValue,
            "a fill of the CPU's memory",
        )?;
        ensure!(own.content()? == ours, "a refused copy wrote device memory");
        ensure!(foreign.content()? == theirs, "a refused copy wrote memory of the CPU");
    }
    Ok(())
}

fn a_copy_stays_inside_the_blocks_of_another_backend(context: &'static Context) -> Checked {
    for Pairing { copier, owner, place } in Pairing::all(context)? {
        let foreign = Block::filled(owner, place, &[1; 4096])?;
        let own = Block::filled(copier, Place::Device, &[2; 8192])?;
        for way in Way::ALL {
            let (inside, size) = (foreign.address().plus(4000), 200);
            let out = Ends { dst: own.address(), src: inside, size };
            way.refused(copier, out, MemcpyKind::H2D as u32, "past the end")?;
            let into = Ends { dst: inside, src: own.address(), size };
            way.refused(copier, into, MemcpyKind::D2H as u32, "past the end")?;
        }
        ensure!(own.content()? == [2; 8192], "a refused copy wrote");
        ensure!(foreign.content()? == [1; 4096], "a refused copy wrote into the other backend");
    }
    Ok(())
}

/// How messages name memory that the host cannot reach.
fn name_of(context: &Context) -> String {
    format!("device memory of device type {}", context.device_type)
}

fn memory_of_a_gpu_is_out_of_reach_of_the_cpus_copies(context: &'static Context) -> Checked {
    let cpu = context.beside("cpu")?;
    let size = 4096;
    let (far, near) = (context.bytes(1, size), context.bytes(2, size));
    let gpu = Block::filled(context, Place::Device, &far)?;
    for place in Place::ALL {
        let own = Block::filled(cpu, place, &near)?;
        for way in Way::ALL {
            let last = if way.is_of_the_twelve() { MemcpyKind::D2D } else { MemcpyKind::Inferred };
            for kind in 0..=last as u32 {
                for (dst, src) in [(own.address(), gpu.address()), (gpu.address(), own.address())] {
                    way.refused(cpu, Ends { dst, src, size }, kind, &name_of(context))?;
                    // From the middle as well.
                    let ends = Ends { dst: dst.plus(100), src: src.plus(200), size: 1000 };
                    way.refused(cpu, ends, kind, "cannot reach")?;
                }
            }
        }
        cpu.t.device_synchronize();
        cpu.clean("device_synchronize of the CPU")?;
        ensure!(own.content()? == near, "a refused copy wrote {place:?} memory");
        ensure!(gpu.content()? == far, "a refused copy wrote the memory of the GPU");
    }
    Ok(())
}

fn memory_of_a_gpu_is_out_of_reach_of_the_cpus_fills(context: &'static Context) -> Checked {
    let cpu = context.beside("cpu")?;
    let bytes = context.bytes(1, 4096);
    let gpu = Block::filled(context, Place::Device, &bytes)?;
    let stream = cpu.stream()?;
    for (offset, size) in [(0, 4096), (256, 64)] {
        let at = gpu.address().plus(offset);
        for pattern in [&[0x5a][..], &[1, 2, 3, 4]] {
            for on in [stream, Stream::DEFAULT] {
                let answer = cpu.x.memset_async(0, at, pattern, size, on);
                let (operation, status) = ("memset_async", Status::InvalidValue);
                let failure =
                    cpu.answered(answer, operation, status, "a fill of a GPU's memory")?;
                let named = failure.message.contains(&name_of(context));
                ensure!(named, "the message names another memory: {:?}", failure.message);
            }
            let answer = cpu.x.memset_sync(0, at, pattern, size);
            let (operation, status) = ("memset_sync", Status::InvalidValue);
            let failure = cpu.answered(answer, operation, status, "a fill of a GPU's memory")?;
            let named = failure.message.contains(&name_of(context));
            ensure!(named, "the message names another memory: {:?}", failure.message);
        }
    }
    cpu.wait(stream)?;
    ensure!(gpu.content()? == bytes, "a refused fill wrote");
    cpu.destroy(stream)
}
