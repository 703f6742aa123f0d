//! Memory of one backend in the copies of another (C1, C3, M4).
//!
//! Rule: what the host can reach is host memory to everybody else's copies, and a free in its own backend
//! knows nothing of their streams, so to them it is pageable; what the host cannot reach is refused.

use crate::caller::Caller;
use crate::case::Area;
use crate::context::Context;
use crate::gate::Gate;
use crate::outcome::Checked;
use crate::place::{Block, Place};
use crate::way::{Ends, Way};
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{MemcpyKind, Stream};

cases! { Area::Copies;
    "C1" memory_of_another_backend_that_the_host_reaches_is_host_memory_to_every_copy [CpuBeside];
    "C3" memory_of_another_backend_may_be_freed_when_the_copy_from_it_returns [CpuBeside, Gates];
    "C3" into_memory_of_another_backend_the_copy_waits_for_its_stream [CpuBeside, Gates];
    "C1" memory_of_the_cpu_is_no_device_memory_to_a_gpu [CpuBeside, OwnMemory];
    "C4" a_copy_stays_inside_the_blocks_of_another_backend [CpuBeside];
    "C1" memory_of_a_gpu_is_out_of_reach_of_the_cpus_copies [CpuBeside, OwnMemory];
    "C1" memory_of_a_gpu_is_out_of_reach_of_the_cpus_fills [CpuBeside, OwnMemory];
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
