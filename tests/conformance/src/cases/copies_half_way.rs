//! A copy that is half-way in one thread while another one frees its memory, or waits for the device (M4,
//! C2). Such a copy may be in no stream: the calling thread does it.

use crate::address::Address;
use crate::caller::Caller;
use crate::case::Area;
use crate::context::Context;
use crate::held_page::HeldPage;
use crate::outcome::{Checked, Stop};
use crate::place::{Block, Place};
use crate::program::Bare;
use crate::way::{Ends, Way};
use llaisys_runtime_core::api::{MemcpyKind, Stream};

cases! { Area::Concurrency;
    "M4" memory_freed_during_another_threads_copy_is_kept_until_that_copy_is_done [HostMemory];
    "C2" whoever_waits_for_the_device_waits_for_another_threads_copy [HostMemory];
}

programs![free_half_way, wait_half_way];

/// A copy of the held pages in a thread of its own, from or into a block, which has come to the held page.
struct HalfWay {
    held: HeldPage,
    caller: Caller<()>,
}

impl HalfWay {
    fn start(
        context: &'static Context,
        way: Way,
        held: HeldPage,
        block: Address,
        from_block: bool,
    ) -> Checked<HalfWay> {
        let (here, size) = (held.address(), held.size());
        let (ends, kind) = match from_block {
            true => (Ends { dst: here, src: block, size }, MemcpyKind::D2H),
            false => (Ends { dst: block, src: here, size }, MemcpyKind::H2D),
        };
        let caller = Caller::start(move || way.must(context, ends, kind as u32, Stream::DEFAULT))?;
        held.await_reached()?;
        Ok(HalfWay { held, caller })
    }

    /// Lets the copy go on to its end.
    fn finish(self) -> Checked<HeldPage> {
        self.held.open();
        self.caller.join()?;
        Ok(self.held)
    }
}

fn memory_freed_during_another_threads_copy_is_kept_until_that_copy_is_done(
    context: &'static Context,
) -> Checked {
    context.program("free_half_way").run()?.expect_success()
}

fn free_half_way(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    for way in Way::ALL {
        for place in [Place::Device, Place::Pinned] {
            for from_block in [true, false] {
                let what = format!("{way:?}, {place:?} memory, from it: {from_block}");
                let at = |stop: Stop| stop.at(&what);
                free_during(context, way, place, from_block).map_err(at)?;
            }
        }
    }
    Ok(0)
}

fn free_during(context: &'static Context, way: Way, place: Place, from_block: bool) -> Checked {
    let held = HeldPage::filled(0x77)?;
    let size = held.size();
    let bytes = context.bytes(1, size);
    let block = Block::filled(context, place, &bytes)?;
    let start = block.address();
    let copy = HalfWay::start(context, way, held, start, from_block)?;
    // The free does not wait, and the memory goes to nobody.
    block.free()?;
    let mut others = Vec::new();
    for _ in 0..32 {
        let other = context.ok(allocate(context, place, size), "an allocation after the free")?;
        // As numbers: what is at the block's address now may be nobody's.
        let apart = other.0 + size <= start.0 || start.0 + size <= other.0;
        ensure!(
            apart,
            "the block at {start:?} was handed out again, at {other:?}, during the copy"
        );
        // SAFETY: host memory (the case needs it) of this size that was just allocated.
        unsafe { other.pointer().cast::<u8>().write_bytes(0xee, size) };
        others.push(other);
    }
    let held = copy.finish()?;
    context.t.device_synchronize();
    context.clean("device_synchronize")?;
    if from_block {
        ensure!(held.content() == bytes, "the copy read memory that was freed during it");
    }
    for other in others {
        // SAFETY: as above, and nobody writes any more.
        let found = unsafe { std::slice::from_raw_parts(other.pointer().cast::<u8>(), size) };
        ensure!(found.iter().all(|byte| *byte == 0xee), "the copy wrote into another block");
        match place {
            Place::Device => context.t.free_device(other),
            _ => context.t.free_host(other),
        }
        context.clean("freeing")?;
    }
    Ok(())
}

fn allocate(context: &Context, place: Place, size: usize) -> crate::extended::Answer<Address> {
    match place {
        Place::Device => context.x.malloc_device(0, size as u64),
        _ => context.x.malloc_host(0, size as u64),
    }
}

fn whoever_waits_for_the_device_waits_for_another_threads_copy(
    context: &'static Context,
) -> Checked {
    context.program("wait_half_way").run()?.expect_success()
}

fn wait_half_way(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    for way in Way::ALL {
        let held = HeldPage::filled(0x77)?;
        let block = Block::device(context, held.size())?;
        let copy = HalfWay::start(context, way, held, block.address(), false)?;
        let device = Caller::start(move || {
            context.t.device_synchronize();
            context.clean("device_synchronize")
        })?;
        let default = Caller::start(move || context.wait(Stream::DEFAULT))?;
        device.expect_waiting(&format!("device_synchronize during {way:?} of another thread"))?;
        default.expect_waiting(&format!("stream_synchronize(NULL) during {way:?}"))?;
        copy.finish()?;
        device.join()?;
        default.join()?;
        let found = block.content()?;
        ensure!(found.iter().all(|byte| *byte == 0x77), "{way:?}: the copy did not arrive");
    }
    Ok(0)
}
