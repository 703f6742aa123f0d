//! What a caching allocator could get wrong, whether or not there is one (cases 13, 18, 51, 52, 53).

use crate::address::Address;
use crate::case::Area;
use crate::context::Context;
use crate::data::Rng;
use crate::gate::Gate;
use crate::guarded::Guarded;
use crate::outcome::{Checked, Stop};
use crate::place::{Block, Place};
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{MemcpyKind, Stream};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::thread;

cases! { Area::Memory;
    "M4" eight_threads_on_four_streams_never_share_a_block [];
    "M4" memory_freed_under_a_held_stream_is_handed_out_on_no_thread [Gates];
    "M4" memory_freed_behind_a_destroyed_busy_stream_is_not_handed_out [Gates];
    "S3" what_a_stream_freed_is_not_the_next_streams_with_its_handle [Gates];
    "M4" blocks_of_threads_that_ended_come_back [];
    "M5" a_block_freed_by_another_thread_is_free_for_all [];
    "E4" a_cache_full_of_small_blocks_makes_room_for_large_ones [DeviceInformation];
    "M2" every_second_block_freed_leaves_the_others_whole [];
}

fn run(count: usize, body: impl Fn(usize) -> Checked + Send + Sync + 'static) -> Checked {
    let (start, body) = (Arc::new(Barrier::new(count)), Arc::new(body));
    let threads: Vec<_> = (0..count)
        .map(|index| {
            let (start, body) = (Arc::clone(&start), Arc::clone(&body));
            thread::spawn(move || {
                start.wait();
                body(index)
            })
        })
        .collect();
    let join = |thread: thread::JoinHandle<Checked>| {
        thread.join().unwrap_or_else(|_| Err(Stop::fail("a thread panicked")))
    };
    threads.into_iter().map(join).collect::<Vec<_>>().into_iter().collect()
}

/// A block with the pattern that a stream was told to write into it.
struct Marked {
    address: Address,
    size: usize,
    pattern: u8,
    stream: Stream,
}

fn mark(context: &Context, block: &Marked) -> Checked {
    let Marked { address, size, pattern, stream } = *block;
    context.ok(context.x.memset_async(0, address, &[pattern], size as u64, stream), "memset_async")
}

/// Waits for a block's stream, and fails unless the block has its pattern at both ends and in the middle.
fn check(context: &'static Context, block: &Marked) -> Checked {
    context.wait(block.stream)?;
    for at in [0, block.size / 2, block.size.saturating_sub(16)] {
        let length = 16.min(block.size - at);
        let mut found = vec![0_u8; length];
        let to = Address::of_mut(found.as_mut_slice());
        context.copy(to, block.address.plus(at), length, MemcpyKind::D2H)?;
        ensure!(
            found.iter().all(|byte| *byte == block.pattern),
            "{} bytes at {:?} were overwritten at {at}: expected {:#x}, found {found:x?}",
            block.size,
            block.address,
            block.pattern
        );
    }
    Ok(())
}

fn eight_threads_on_four_streams_never_share_a_block(context: &'static Context) -> Checked {
    let streams: Vec<Stream> = (0..4).map(|_| context.stream()).collect::<Checked<_>>()?;
    let of_threads = streams.iter().map(|stream| stream.0 as usize).collect::<Vec<_>>();
    // Blocks that one thread allocated and another one frees.
    let shared = Arc::new(Mutex::new(Vec::<(usize, usize, u8, usize)>::new()));
    let times = context.times(1500);
    run(8, move |thread| {
        let mut rng = Rng::new(context.seed ^ (thread as u64 + 1).wrapping_mul(0x9e37_79b9));
        let mut live: Vec<Marked> = Vec::new();
        for round in 0..times {
            let stream = Stream(of_threads[rng.below(4)] as *mut _);
            if live.len() < 24 && rng.below(100) < 55 {
                let magnitude = 4 + rng.below(15);
                let size = 1 + rng.below(1 << magnitude);
                let in_order = rng.below(3) == 0;
                let address = if in_order {
                    context.ok(context.x.malloc_async(0, size as u64, stream), "malloc_async")?
                } else {
                    context.ok(context.x.malloc_device(0, size as u64), "malloc_device")?
                };
                ensure!(address.0 % 256 == 0, "{size} bytes at {address:?} are not aligned");
                let pattern = (thread * 31 + round) as u8;
                let block = Marked { address, size, pattern, stream };
                mark(context, &block)?;
                live.push(block);
                continue;
            }
            if live.is_empty() {
                continue;
            }
            let block = live.swap_remove(rng.below(live.len()));
            match rng.below(4) {
                0 => {
                    check(context, &block)?;
                    context.ok(context.x.free_device(0, block.address), "free_device")?;
                }
                1 => {
                    // Freed behind work that may not have run.
                    context.ok(context.x.free_device(0, block.address), "free_device")?;
                }
                2 => {
                    let answer = context.x.free_async(0, block.address, block.stream);
                    context.ok(answer, "free_async")?;
                }
                _ => {
                    let handle = block.stream.0 as usize;
                    let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
                    shared.push((block.address.0, block.size, block.pattern, handle));
                    let other = shared.len() > 16;
                    let taken = other.then(|| shared.swap_remove(0));
                    drop(shared);
                    if let Some((address, size, pattern, handle)) = taken {
                        let (address, stream) = (Address(address), Stream(handle as *mut _));
                        check(context, &Marked { address, size, pattern, stream })?;
                        context.ok(context.x.free_device(0, address), "free_device")?;
                    }
                }
            }
        }
        for block in live {
            check(context, &block)?;
            context.ok(context.x.free_device(0, block.address), "free_device")?;
        }
        Ok(())
    })?;
    streams.into_iter().try_for_each(|stream| context.destroy(stream))
}

/// Fails when one of some new blocks lies over this one.
fn not_handed_out(context: &'static Context, freed: Address, size: usize) -> Checked {
    let blocks: Vec<Block> =
        (0..12).map(|_| Block::device(context, size)).collect::<Checked<_>>()?;
    for block in &blocks {
        let (from, to) = (block.address().0, block.address().0 + size);
        ensure!(
            to <= freed.0 || freed.0 + size <= from,
            "memory at {freed:?} was handed out again while work enqueued before its free waits"
        );
    }
    blocks.into_iter().try_for_each(Block::free)
}

const SIZES: [usize; 4] = [1000, 60_000, 900_000, 5 << 20];

fn memory_freed_under_a_held_stream_is_handed_out_on_no_thread(
    context: &'static Context,
) -> Checked {
    for size in SIZES {
        let bytes = context.bytes(size as u64, size);
        let source = Block::filled(context, Place::Device, &bytes)?.keep();
        let target = Guarded::new(context, Place::Device, size)?;
        let stream = context.stream()?;
        let gate = Gate::hold(context, 0, stream)?;
        context.enqueue(target.address(), source, size, MemcpyKind::D2D, stream)?;
        // Another thread frees it, and ends.
        run(1, move |_| context.ok(context.x.free_device(0, source), "free_device"))?;
        not_handed_out(context, source, size)?;
        run(3, move |_| not_handed_out(context, source, size))?;
        gate.open();
        context.wait(stream)?;
        target.expect(&bytes, "the copy from memory that was freed behind it")?;
        context.destroy(stream)?;
    }
    Ok(())
}

fn memory_freed_behind_a_destroyed_busy_stream_is_not_handed_out(
    context: &'static Context,
) -> Checked {
    for size in SIZES {
        let bytes = context.bytes(size as u64, size);
        let source = Block::filled(context, Place::Device, &bytes)?.keep();
        let target = Guarded::new(context, Place::Device, size)?;
        let stream = context.stream()?;
        let gate = Gate::hold(context, 0, stream)?;
        context.enqueue(target.address(), source, size, MemcpyKind::D2D, stream)?;
        context.destroy(stream)?;
        context.ok(context.x.free_device(0, source), "free_device")?;
        not_handed_out(context, source, size)?;
        gate.open();
        context.ok(context.x.device_synchronize(0), "device_synchronize")?;
        target.expect(&bytes, "the copy of a stream that was destroyed")?;
    }
    Ok(())
}

fn what_a_stream_freed_is_not_the_next_streams_with_its_handle(
    context: &'static Context,
) -> Checked {
    let size = 50_000;
    let bytes = context.bytes(1, size);
    for _ in 0..context.times(20) {
        let target = Guarded::new(context, Place::Device, size)?;
        let stream = context.stream()?;
        let block = context.ok(context.x.malloc_async(0, size as u64, stream), "malloc_async")?;
        let source = Block::filled(context, Place::Pinned, &bytes)?;
        context.enqueue(block, source.address(), size, MemcpyKind::H2D, stream)?;
        context.wait(stream)?;
        let gate = Gate::hold(context, 0, stream)?;
        context.enqueue(target.address(), block, size, MemcpyKind::D2D, stream)?;
        context.ok(context.x.free_async(0, block, stream), "free_async")?;
        context.destroy(stream)?;
        // Its handle may have come back.
        let next = context.stream()?;
        let other = context.ok(context.x.malloc_async(0, size as u64, next), "malloc_async")?;
        let apart = other.0 + size <= block.0 || block.0 + size <= other.0;
        gate.open();
        context.ok(context.x.device_synchronize(0), "device_synchronize")?;
        ensure!(apart, "a new stream was given what the old one had freed and still read");
        target.expect(&bytes, "the last copy of the old stream")?;
        context.ok(context.x.free_async(0, other, next), "free_async")?;
        context.destroy(next)?;
    }
    Ok(())
}

fn held(context: &Context) -> Checked<u64> {
    context.ok(context.x.get_reserved_memory(0), "get_reserved_memory")
}

fn blocks_of_threads_that_ended_come_back(context: &'static Context) -> Checked {
    let used = context.ok(context.x.get_memory_statistics(0), "get_memory_statistics")?.used;
    let round = || {
        run(4, move |thread| {
            let blocks: Vec<Block> = (0..64)
                .map(|number| Block::device(context, 1 + (number * 977 + thread * 131) % 40_000))
                .collect::<Checked<_>>()?;
            blocks.into_iter().try_for_each(Block::free)
        })
    };
    round()?;
    let before = held(context)?;
    for _ in 0..context.times(100) {
        round()?;
    }
    let after = held(context)?;
    ensure!(
        after <= before + (32 << 20),
        "threads came and went: {before} bytes were held before, {after} after"
    );
    let now = context.ok(context.x.get_memory_statistics(0), "get_memory_statistics")?;
    ensure_eq!(now.used, used, "used after all threads ended");
    Ok(())
}

fn a_block_freed_by_another_thread_is_free_for_all(context: &'static Context) -> Checked {
    for size in SIZES {
        let block = Block::device(context, size)?.keep();
        run(1, move |_| context.ok(context.x.free_device(0, block), "free_device"))?;
        let answer = context.x.free_device(0, block);
        context.answered(answer, "free_device", Status::InvalidValue, "freed by another thread")?;
        let answer = context.x.free_device(0, block.plus(256));
        context.answered(answer, "free_device", Status::InvalidValue, "inside a freed block")?;
        let found = context.ok(context.x.get_pointer_attributes(block), "attributes")?;
        ensure!(found.ours == 0, "{size} bytes that were freed are still said to be ours");
        Block::device(context, size)?.free()?;
    }
    Ok(())
}

fn a_cache_full_of_small_blocks_makes_room_for_large_ones(context: &'static Context) -> Checked {
    let total = context.ok(context.x.get_memory_info(0), "get_memory_info")?.total;
    // As much as a small device has; on a large one this shows less.
    let part = (total / 4).min(1 << 30);
    let small = 1000;
    let count = (part / 16 / small).min(50_000) as usize;
    for _ in 0..3 {
        let blocks: Vec<Block> =
            (0..count).map(|_| Block::device(context, small as usize)).collect::<Checked<_>>()?;
        blocks.into_iter().try_for_each(Block::free)?;
        Block::device(context, part as usize)?.free()?;
        for size in [part / 2, part / 3, part / 64] {
            Block::device(context, size as usize)?.free()?;
        }
    }
    Ok(())
}

fn every_second_block_freed_leaves_the_others_whole(context: &'static Context) -> Checked {
    let mut rng = context.rng();
    for magnitude in [8, 12, 16, 20] {
        let mut blocks = Vec::new();
        for _ in 0..24 {
            let size = (1 << magnitude) + rng.below(1 << magnitude);
            let bytes = rng.bytes(size);
            blocks.push((Block::filled(context, Place::Device, &bytes)?, bytes));
        }
        let mut kept = Vec::new();
        for (index, pair) in blocks.into_iter().enumerate() {
            if index % 2 == 0 { pair.0.free()? } else { kept.push(pair) }
        }
        let more: Vec<Block> = (0..24)
            .map(|_| {
                let size = 1 + rng.below(1 << (magnitude + 1));
                let bytes = rng.bytes(size);
                Block::filled(context, Place::Device, &bytes)
            })
            .collect::<Checked<_>>()?;
        for (block, bytes) in kept {
            ensure!(block.content()? == bytes, "a block that was not freed changed");
            block.free()?;
        }
        more.into_iter().try_for_each(Block::free)?;
    }
    Ok(())
}
