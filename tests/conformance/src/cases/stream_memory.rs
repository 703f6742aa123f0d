//! Memory in the order of a stream (M7).

use crate::address::Address;
use crate::case::Area;
use crate::context::Context;
use crate::gate::Gate;
use crate::guarded::Guarded;
use crate::outcome::Checked;
use crate::place::{Block, Place};
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{EventFlags, MemcpyKind, Stream};

cases! { Area::Memory;
    "M7" memory_of_a_stream_serves_what_comes_later_on_it [Gates];
    "M2" memory_of_a_stream_is_aligned [];
    "M1" zero_bytes_in_a_stream_are_null_and_null_is_freed [];
    "M7" a_free_in_a_held_stream_is_not_handed_out_to_another [Gates];
    "M7" a_free_in_a_held_stream_is_not_handed_out_by_malloc_device [Gates];
    "M7" a_free_in_a_stream_does_not_wait [Gates];
    "M7" blocks_come_and_go_in_one_stream [];
    "M5" a_second_free_in_a_stream_is_refused [];
    "M5" what_is_no_block_is_not_freed_in_a_stream [];
    "M7" a_free_on_another_devices_stream_is_refused [SecondDevice];
    "M7" both_frees_take_the_memory_of_both_allocations [Gates];
    "E4" after_out_of_memory_in_a_stream_a_smaller_request_works [];
    "S3" memory_outlives_its_stream [Gates];
    "S4" memory_of_a_stream_is_on_the_streams_device [SecondDevice];
    "M7" another_stream_uses_the_memory_after_an_event [Gates, Events];
    "S6" a_stream_that_allocates_and_frees_does_not_hold_more_and_more [];
    "S3" a_destroyed_stream_allocates_nothing [];
}

fn take(context: &Context, size: usize, stream: Stream) -> Checked<Address> {
    let block = context.ok(context.x.malloc_async(0, size as u64, stream), "malloc_async")?;
    ensure!(!block.is_null(), "malloc_async({size}): found NULL and no failure");
    Ok(block)
}

fn give(context: &Context, block: Address, stream: Stream) -> Checked {
    context.ok(context.x.free_async(0, block, stream), "free_async")
}

fn memory_of_a_stream_serves_what_comes_later_on_it(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    for on in [stream, Stream::DEFAULT] {
        for size in [1, 300, 70_000, 3 << 20] {
            let bytes = context.bytes(size as u64, size);
            let source = Block::filled(context, Place::Pinned, &bytes)?;
            let target = Guarded::new(context, Place::Pinned, size)?;
            let gate = Gate::hold(context, 0, on)?;
            let block = take(context, size, on)?;
            context.enqueue(block, source.address(), size, MemcpyKind::H2D, on)?;
            context.enqueue(target.address(), block, size, MemcpyKind::D2H, on)?;
            give(context, block, on)?;
            gate.open();
            context.wait(on)?;
            target.expect(&bytes, &format!("{size} bytes through memory of a held stream"))?;
        }
    }
    context.destroy(stream)
}

fn memory_of_a_stream_is_aligned(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let mut blocks = Vec::new();
    for size in [1, 2, 7, 255, 256, 257, 4095, 100_001, (1 << 20) + 1] {
        let block = take(context, size, stream)?;
        ensure!(block.0 % 256 == 0, "{size} bytes at {block:?} are not aligned to 256");
        blocks.push(block);
    }
    for block in blocks {
        give(context, block, stream)?;
    }
    context.wait(stream)?;
    context.destroy(stream)
}

fn zero_bytes_in_a_stream_are_null_and_null_is_freed(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    for on in [stream, Stream::DEFAULT] {
        let block = context.ok(context.x.malloc_async(0, 0, on), "malloc_async(0)")?;
        ensure!(block.is_null(), "malloc_async(0): expected NULL, found {block:?}");
        give(context, Address::NULL, on)?;
    }
    context.destroy(stream)
}

/// Memory that a held stream reads and then frees, and who gets memory of the same size meanwhile.
fn not_handed_out(
    context: &'static Context,
    successor: impl Fn(usize) -> Checked<Address>,
) -> Checked {
    let (held, other) = (context.stream()?, context.stream()?);
    let bytes = context.bytes(1, 100_000);
    let length = bytes.len();
    let block = take(context, length, held)?;
    let source = Block::filled(context, Place::Pinned, &bytes)?;
    let spoiler = Block::filled(context, Place::Pinned, &vec![0xee; length])?;
    let target = Guarded::new(context, Place::Pinned, length)?;
    context.enqueue(block, source.address(), length, MemcpyKind::H2D, held)?;
    context.wait(held)?;
    let gate = Gate::hold(context, 0, held)?;
    context.enqueue(target.address(), block, length, MemcpyKind::D2H, held)?;
    give(context, block, held)?;
    let successors: Vec<Address> = (0..16).map(|_| successor(length)).collect::<Checked<_>>()?;
    for next in &successors {
        context.enqueue(*next, spoiler.address(), length, MemcpyKind::H2D, other)?;
    }
    context.wait(other)?;
    gate.open();
    context.wait(held)?;
    target.expect(&bytes, "a copy that stands before a free in its stream")?;
    successors.into_iter().try_for_each(|next| give(context, next, other))
}

fn a_free_in_a_held_stream_is_not_handed_out_to_another(context: &'static Context) -> Checked {
    let taker = context.stream()?;
    not_handed_out(context, |size| {
        let block = take(context, size, taker)?;
        // Everybody may use it from here on.
        context.wait(taker)?;
        Ok(block)
    })
}

fn a_free_in_a_held_stream_is_not_handed_out_by_malloc_device(
    context: &'static Context,
) -> Checked {
    not_handed_out(context, |size| {
        context.ok(context.x.malloc_device(0, size as u64), "malloc_device")
    })
}

fn a_free_in_a_stream_does_not_wait(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let gate = Gate::hold(context, 0, stream)?;
    for _ in 0..64 {
        let block = take(context, 10_000, stream)?;
        give(context, block, stream)?;
    }
    // To be here is to have passed; a free that waits is found by the watchdog.
    gate.open();
    context.wait(stream)?;
    context.destroy(stream)
}

fn blocks_come_and_go_in_one_stream(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let mut rng = context.rng();
    let bytes = context.bytes(1, 40_000);
    let source = Block::filled(context, Place::Pinned, &bytes)?;
    let target = Guarded::new(context, Place::Pinned, bytes.len())?;
    for round in 0..context.times(200) {
        let size = 1 + rng.below(bytes.len());
        let block = take(context, size, stream)?;
        target.address();
        context.enqueue(block, source.address(), size, MemcpyKind::H2D, stream)?;
        context.enqueue(target.address(), block, size, MemcpyKind::D2H, stream)?;
        give(context, block, stream)?;
        if round % 50 == 49 {
            context.wait(stream)?;
        }
    }
    context.enqueue(target.address(), source.address(), bytes.len(), MemcpyKind::H2H, stream)?;
    context.wait(stream)?;
    target.expect(&bytes, "the last copy of the stream")?;
    context.destroy(stream)
}

fn refuse(context: &Context, block: Address, stream: Stream, what: &str) -> Checked {
    let answer = context.x.free_async(0, block, stream);
    context.answered(answer, "free_async", Status::InvalidValue, what).map(drop)
}

fn a_second_free_in_a_stream_is_refused(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let block = take(context, 4096, stream)?;
    give(context, block, stream)?;
    refuse(context, block, stream, "freed twice in a stream")?;
    let answer = context.x.free_device(0, block);
    context.answered(answer, "free_device", Status::InvalidValue, "freed in a stream before")?;
    let block = Block::device(context, 4096)?.keep();
    context.ok(context.x.free_device(0, block), "free_device")?;
    refuse(context, block, stream, "freed by free_device before")?;
    context.wait(stream)?;
    context.destroy(stream)
}

fn what_is_no_block_is_not_freed_in_a_stream(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let pinned = Block::pinned(context, 4096)?;
    let own = Block::new(context, Place::Pageable, 4096)?;
    let block = take(context, 4096, stream)?;
    refuse(context, block.plus(256), stream, "an interior pointer")?;
    refuse(context, pinned.address(), stream, "pinned memory")?;
    refuse(context, own.address(), stream, "the program's own memory")?;
    refuse(context, Address::GARBAGE, stream, "garbage")?;
    let answer = context.x.free_host(0, block);
    context.answered(answer, "free_host", Status::InvalidValue, "memory of a stream")?;
    give(context, block, stream)?;
    context.wait(stream)?;
    context.destroy(stream)
}

fn a_free_on_another_devices_stream_is_refused(context: &'static Context) -> Checked {
    let here = context.ok(context.x.create_stream(0), "create_stream")?;
    let there = context.ok(context.x.create_stream(1), "create_stream")?;
    let block = take(context, 4096, here)?;
    refuse(context, block, there, "memory of device 0 in a stream of device 1")?;
    let answer = context.x.free_async(1, block, Stream::DEFAULT);
    context.answered(answer, "free_async", Status::InvalidValue, "device 1's default stream")?;
    give(context, block, here)?;
    context.wait(here)?;
    context.destroy(here)?;
    context.destroy(there)
}

fn both_frees_take_the_memory_of_both_allocations(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let bytes = context.bytes(1, 30_000);
    let length = bytes.len();
    let source = Block::filled(context, Place::Pinned, &bytes)?;
    for (in_stream, freed_in_stream) in [(true, false), (false, true)] {
        let target = Guarded::new(context, Place::Pinned, length)?;
        let block = if in_stream {
            take(context, length, stream)?
        } else {
            Block::device(context, length)?.keep()
        };
        let gate = Gate::hold(context, 0, stream)?;
        context.enqueue(block, source.address(), length, MemcpyKind::H2D, stream)?;
        context.enqueue(target.address(), block, length, MemcpyKind::D2H, stream)?;
        if freed_in_stream {
            give(context, block, stream)?;
        } else {
            context.ok(context.x.free_device(0, block), "free_device")?;
        }
        gate.open();
        context.wait(stream)?;
        target.expect(&bytes, "what stands before the other kind's free")?;
    }
    context.destroy(stream)
}

fn after_out_of_memory_in_a_stream_a_smaller_request_works(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    for size in [1u64 << 50, 1 << 62, u64::MAX - 255, u64::MAX] {
        let answer = context.x.malloc_async(0, size, stream);
        let what = format!("{size} bytes");
        context.answered(answer, "malloc_async", Status::OutOfMemory, &what)?;
        let block = take(context, 1 << 20, stream)?;
        give(context, block, stream)?;
    }
    context.wait(stream)?;
    context.destroy(stream)
}

fn memory_outlives_its_stream(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let bytes = context.bytes(1, 30_000);
    let source = Block::filled(context, Place::Pinned, &bytes)?;
    let block = take(context, bytes.len(), stream)?;
    let gate = Gate::hold(context, 0, stream)?;
    context.enqueue(block, source.address(), bytes.len(), MemcpyKind::H2D, stream)?;
    context.destroy(stream)?;
    gate.open();
    context.ok(context.x.device_synchronize(0), "device_synchronize")?;
    let target = Guarded::new(context, Place::Pageable, bytes.len())?;
    context.copy(target.address(), block, bytes.len(), MemcpyKind::D2H)?;
    target.expect(&bytes, "memory of a stream that was destroyed")?;
    give(context, block, Stream::DEFAULT)?;
    context.wait(Stream::DEFAULT)
}

fn memory_of_a_stream_is_on_the_streams_device(context: &'static Context) -> Checked {
    let stream = context.ok(context.x.create_stream(1), "create_stream")?;
    // The ordinal beside it says 0.
    let block = take(context, 4096, stream)?;
    let found = context.ok(context.x.get_pointer_attributes(block), "get_pointer_attributes")?;
    ensure_eq!(found.device, 1, "the device of memory of a stream of device 1");
    give(context, block, stream)?;
    context.wait(stream)?;
    context.destroy(stream)
}

fn another_stream_uses_the_memory_after_an_event(context: &'static Context) -> Checked {
    let (one, two) = (context.stream()?, context.stream()?);
    let event = context.ok(context.x.create_event(0, EventFlags::NONE), "create_event")?;
    let bytes = context.bytes(1, 30_000);
    let length = bytes.len();
    let source = Block::filled(context, Place::Pinned, &bytes)?;
    let target = Guarded::new(context, Place::Pinned, length)?;
    let gate = Gate::hold(context, 0, one)?;
    let block = take(context, length, one)?;
    context.enqueue(block, source.address(), length, MemcpyKind::H2D, one)?;
    context.ok(context.x.record_event(0, event, one), "record_event")?;
    context.ok(context.x.stream_wait_event(0, two, event), "stream_wait_event")?;
    context.enqueue(target.address(), block, length, MemcpyKind::D2H, two)?;
    give(context, block, two)?;
    gate.open();
    context.wait(two)?;
    target.expect(&bytes, "memory of one stream, read and freed in another after an event")?;
    context.ok(context.x.destroy_event(event), "destroy_event")?;
    context.destroy(one)?;
    context.destroy(two)
}

fn a_stream_that_allocates_and_frees_does_not_hold_more_and_more(
    context: &'static Context,
) -> Checked {
    let stream = context.stream()?;
    let size = 1 << 20;
    let round = |times: usize| -> Checked<u64> {
        for number in 0..times {
            let block = take(context, size, stream)?;
            give(context, block, stream)?;
            if number % 16 == 15 {
                context.wait(stream)?;
            }
        }
        context.wait(stream)?;
        context.ok(context.x.get_reserved_memory(0), "get_reserved_memory")
    };
    let before = round(64)?;
    let after = round(context.times(1000))?;
    ensure!(
        after <= before + (64 << 20),
        "1000 times 1 MiB in one stream: {before} bytes were held before, {after} after"
    );
    context.destroy(stream)
}

fn a_destroyed_stream_allocates_nothing(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let block = take(context, 64, stream)?;
    context.destroy(stream)?;
    let answer = context.x.malloc_async(0, 64, stream);
    context.answered(answer, "malloc_async", Status::InvalidHandle, "a destroyed stream")?;
    let answer = context.x.free_async(0, block, stream);
    context.answered(answer, "free_async", Status::InvalidHandle, "a destroyed stream")?;
    context.ok(context.x.free_device(0, block), "free_device")
}
