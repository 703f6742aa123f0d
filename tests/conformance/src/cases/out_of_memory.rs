//! When memory runs out (E4).

use crate::address::Address;
use crate::case::Area;
use crate::context::Context;
use crate::outcome::{Checked, Stop};
use crate::place::{Block, Place};
use crate::program::Bare;
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::UNKNOWN_BYTES;

cases! { Area::Errors;
    "E4" after_out_of_memory_a_smaller_request_works [];
    "E4" the_device_is_filled_half_freed_and_filled_again [DeviceInformation, WholeDevice];
    "E4" eight_threads_run_out_of_memory_at_once [DeviceInformation, WholeDevice];
}

programs![fill_and_go_on, fill_from_eight_threads];

/// What a virtual CPU device is given in these cases, so that they do not fill the machine.
const LIMIT: u64 = 512 << 20;

/// Where a device's memory is the machine's, it is limited; elsewhere it is filled as it is.
fn run(context: &'static Context, name: &str) -> Checked {
    let program = context.program(name);
    let ended = if context.host_memory() {
        program.env("LLAISYS_CPU_MEMORY_LIMIT", LIMIT.to_string()).run()?
    } else {
        program.run()?
    };
    ended.expect_success()
}

fn after_out_of_memory_a_smaller_request_works(context: &'static Context) -> Checked {
    let call = |place, size| match place {
        Place::Device => ("malloc_device", context.t.malloc_device(size)),
        _ => ("malloc_host", context.t.malloc_host(size)),
    };
    for place in [Place::Device, Place::Pinned] {
        for size in [1usize << 50, 1 << 62, (1 << 62) + 1] {
            let (operation, pointer) = call(place, size);
            ensure!(pointer.is_null(), "{operation}({size}): expected NULL, found {pointer:?}");
            context.refused(operation, Status::OutOfMemory, &format!("{size} bytes"))?;
            let bytes = context.bytes(1, 1 << 20);
            let block = Block::filled(context, place, &bytes)?;
            ensure!(block.content()? == bytes, "{place:?} memory after OUT_OF_MEMORY");
        }
    }
    Ok(())
}

fn the_device_is_filled_half_freed_and_filled_again(context: &'static Context) -> Checked {
    run(context, "fill_and_go_on")
}

/// The size of the steps in which a device is filled.
fn step(context: &Context) -> Checked<usize> {
    let info = context.ok(context.x.get_memory_info(0), "get_memory_info")?;
    let left = if info.free == UNKNOWN_BYTES { info.total } else { info.free };
    if context.host_memory() && info.total > LIMIT {
        return Err(Stop::fail(format!(
            "LLAISYS_CPU_MEMORY_LIMIT={LIMIT} is set, and the device has {} bytes",
            info.total
        )));
    }
    Ok(usize::try_from(left / 40).unwrap_or(usize::MAX).max(8 << 20))
}

/// Allocates until there is nothing left; the failure is checked.
fn fill(context: &Context, step: usize, most: usize) -> Checked<Vec<Address>> {
    let mut blocks = Vec::new();
    loop {
        let pointer = context.t.malloc_device(step);
        if pointer.is_null() {
            let failure = context.refused("malloc_device", Status::OutOfMemory, "a full device")?;
            ensure!(
                failure.message.contains(&step.to_string()),
                "expected the size that was asked for in: {}",
                failure.message
            );
            return Ok(blocks);
        }
        context.clean("malloc_device")?;
        blocks.push(pointer);
        ensure!(blocks.len() <= most, "the device took {} blocks of {step} bytes", blocks.len());
    }
}

fn fill_and_go_on(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    context.set_device(0)?;
    let step = step(context)?;
    let mut blocks = fill(context, step, 1000)?;
    let first = blocks.len();
    ensure!(first >= 2, "expected the device to hold two blocks of {step} bytes, found {first}");
    let half = blocks.split_off(first / 2);
    let freed = half.len();
    for pointer in half {
        context.t.free_device(pointer);
    }
    context.clean("free_device of half of them")?;
    // The next smaller request works, also of another size than those that were freed.
    for size in [1, 4096, step / 3, step / 2] {
        Block::device(context, size)?.free()?;
    }
    let again = fill(context, step, 1000)?;
    ensure!(again.len() + 2 >= freed, "{freed} blocks were freed, only {} came back", again.len());
    for pointer in blocks.into_iter().chain(again) {
        context.t.free_device(pointer);
    }
    context.clean("free_device of all")?;
    // Most of the device in one piece: what is kept of other sizes is given up first.
    Block::device(context, step.saturating_mul(first) / 10 * 6)?.free()?;
    Ok(0)
}

fn eight_threads_run_out_of_memory_at_once(context: &'static Context) -> Checked {
    run(context, "fill_from_eight_threads")
}

fn fill_from_eight_threads(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    let step = step(context)?;
    let threads: Vec<_> = (0..8)
        .map(|_| {
            std::thread::spawn(move || -> Checked {
                for _ in 0..3 {
                    for pointer in fill(context, step, 1000)? {
                        context.t.free_device(pointer);
                    }
                    context.clean("free_device")?;
                }
                Ok(())
            })
        })
        .collect();
    for thread in threads {
        thread.join().map_err(|_| Stop::fail("a thread panicked"))??;
    }
    // Everything came back.
    let blocks = fill(context, step, 1000)?;
    ensure!(blocks.len() >= 2, "after all was freed, the device holds {} blocks", blocks.len());
    for pointer in blocks {
        context.t.free_device(pointer);
    }
    Ok(0)
}
