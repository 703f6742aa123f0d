//! Freeing: what is refused (M5), and what must not come back too early (M4).

use crate::address::Address;
use crate::caller::Caller;
use crate::case::Area;
use crate::context::Context;
use crate::extended::Copy;
use crate::gate::Gate;
use crate::guarded::Guarded;
use crate::outcome::{Checked, Stop};
use crate::place::{Block, Place};
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{MemcpyKind, Stream};

cases! { Area::Memory;
    "M5" a_second_free_is_refused_and_nothing_is_handed_out_twice [];
    "M5" a_pointer_into_a_block_is_refused_and_the_block_lives_on [];
    "M5" foreign_memory_is_refused [];
    "M5" the_wrong_function_is_refused_and_the_right_one_still_works [];
    "M5" another_backends_table_refuses_the_pointer [];
    "M5" one_of_eight_threads_wins_a_free [];
    "M4" device_memory_is_not_handed_out_while_a_queued_copy_reads_it [Gates];
    "M4" device_memory_is_not_handed_out_while_a_queued_copy_writes_it [Gates];
    "M4" device_memory_is_not_handed_out_before_the_default_stream_has_passed [Gates];
    "M4" pinned_memory_is_not_handed_out_while_a_queued_copy_reads_it [Gates];
    "M4" pinned_memory_is_not_handed_out_while_a_queued_copy_writes_it [Gates];
    "M4" a_free_does_not_wait_for_a_held_stream [Gates];
    "M4" an_overwritten_successor_does_not_disturb_a_queued_copy [Gates];
    "M4" freed_memory_comes_back [DeviceInformation];
    "M4" memory_freed_behind_queued_work_comes_back_when_it_is_done [Gates];
    "M4" a_cache_that_grows_token_by_token [];
    "M4" memory_made_on_one_stream_and_freed_by_another_thread_is_sound [];
}

/// The two kinds of allocation with their functions.
const PLACES: [(Place, &str); 2] = [(Place::Device, "free_device"), (Place::Pinned, "free_host")];

fn free(context: &Context, place: Place, pointer: Address) {
    match place {
        Place::Device => context.t.free_device(pointer),
        _ => context.t.free_host(pointer),
    }
}

fn a_second_free_is_refused_and_nothing_is_handed_out_twice(context: &'static Context) -> Checked {
    for (place, operation) in PLACES {
        for size in [64, 4096, 1 << 20] {
            let pointer = Block::new(context, place, size)?.keep();
            free(context, place, pointer);
            context.clean(operation)?;
            for _ in 0..3 {
                free(context, place, pointer);
                context.refused(operation, Status::InvalidValue, "a second free")?;
            }
            let blocks: Vec<Block> =
                (0..8).map(|_| Block::new(context, place, size)).collect::<Checked<_>>()?;
            for (index, block) in blocks.iter().enumerate() {
                let twice = blocks[..index].iter().any(|one| one.address() == block.address());
                ensure!(!twice, "{:?} was handed out twice after a double free", block.address());
            }
        }
    }
    Ok(())
}

fn a_pointer_into_a_block_is_refused_and_the_block_lives_on(context: &'static Context) -> Checked {
    for (place, operation) in PLACES {
        let bytes = context.bytes(1, 10_000);
        let block = Block::filled(context, place, &bytes)?;
        for offset in [1, 16, 64, 256, 4096, 9999, 10_000, usize::MAX] {
            free(context, place, block.address().plus(offset));
            context.refused(operation, Status::InvalidValue, &format!("{offset} bytes into"))?;
        }
        ensure!(block.content()? == bytes, "the block changed");
        block.free()?;
    }
    Ok(())
}

fn foreign_memory_is_refused(context: &'static Context) -> Checked {
    let mut on_the_stack = [1u8; 64];
    let mut on_the_heap = vec![2u8; 1 << 16];
    static CONSTANT: [u8; 64] = [3; 64];
    let words = [
        Address::of_mut(&mut on_the_stack),
        Address::of_mut(&mut on_the_heap),
        Address::of(&CONSTANT),
        Address::GARBAGE,
        Address(1),
        Address(usize::MAX),
    ];
    for (place, operation) in PLACES {
        for word in words {
            free(context, place, word);
            context.refused(operation, Status::InvalidValue, &format!("{word:?}"))?;
        }
    }
    ensure!(on_the_heap.iter().all(|byte| *byte == 2), "memory of the program's own changed");
    Ok(())
}

fn the_wrong_function_is_refused_and_the_right_one_still_works(
    context: &'static Context,
) -> Checked {
    let device = Block::device(context, 4096)?;
    let pinned = Block::pinned(context, 4096)?;
    context.t.free_host(device.address());
    let failure = context.refused("free_host", Status::InvalidValue, "device memory")?;
    ensure!(failure.message.contains("free_device"), "expected a hint, found {}", failure.message);
    context.t.free_device(pinned.address());
    let failure = context.refused("free_device", Status::InvalidValue, "pinned memory")?;
    ensure!(failure.message.contains("free_host"), "expected a hint, found {}", failure.message);
    let bytes = context.bytes(1, 4096);
    for mut block in [device, pinned] {
        block.write(0, &bytes)?;
        ensure!(block.content()? == bytes, "{:?} memory after the wrong function", block.place());
        block.free()?;
    }
    Ok(())
}

fn another_backends_table_refuses_the_pointer(context: &'static Context) -> Checked {
    let device = Block::device(context, 4096)?;
    let pinned = Block::pinned(context, 4096)?;
    let right = [Status::InvalidValue, Status::BackendUnavailable, Status::BackendRefused];
    for number in [0, 1, 2, 32, 777] {
        if number == context.device_type {
            continue;
        }
        let other = context.library.twelve(number).map_err(Stop::fail)?;
        other.free_device(device.address());
        context.refused_as("free_device", &right, &format!("table of type {number}"))?;
        other.free_host(pinned.address());
        context.refused_as("free_host", &right, &format!("table of type {number}"))?;
    }
    device.free()?;
    pinned.free()
}

fn one_of_eight_threads_wins_a_free(context: &'static Context) -> Checked {
    for (place, _) in PLACES {
        for round in 0..context.times(200) {
            let pointer = Block::new(context, place, 4096)?.keep();
            let start = std::sync::Barrier::new(8);
            let won = std::sync::atomic::AtomicUsize::new(0);
            std::thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        start.wait();
                        let freed = match place {
                            Place::Device => context.x.free_device(0, pointer),
                            _ => context.x.free_host(0, pointer),
                        };
                        won.fetch_add(freed.is_ok().into(), std::sync::atomic::Ordering::SeqCst);
                    });
                }
            });
            let won = won.into_inner();
            ensure!(won == 1, "round {round}: {won} of 8 threads freed the same {place:?} memory");
        }
    }
    Ok(())
}

/// Fails when one of sixteen new blocks lies in the one that was freed.
fn not_handed_out(
    context: &'static Context,
    place: Place,
    freed: Address,
    size: usize,
) -> Checked<Vec<Block>> {
    let blocks: Vec<Block> =
        (0..16).map(|_| Block::new(context, place, size)).collect::<Checked<_>>()?;
    for block in &blocks {
        let apart = block.address().0 + size <= freed.0 || freed.0 + size <= block.address().0;
        ensure!(
            apart,
            "{place:?} memory at {freed:?} was handed out again ({:?}) while work that was \
             enqueued before its free is not done",
            block.address()
        );
    }
    Ok(blocks)
}

fn device_memory_is_not_handed_out_while_a_queued_copy_reads_it(
    context: &'static Context,
) -> Checked {
    let size = 200_000;
    let bytes = context.bytes(1, size);
    let source = Block::filled(context, Place::Device, &bytes)?.keep();
    let target = Guarded::new(context, Place::Device, size)?;
    let stream = context.stream()?;
    let gate = Gate::hold(context, 0, stream)?;
    context.enqueue(target.address(), source, size, MemcpyKind::D2D, stream)?;
    context.t.free_device(source);
    context.clean("free_device")?;
    let blocks = not_handed_out(context, Place::Device, source, size)?;
    gate.open();
    context.wait(stream)?;
    target.expect(&bytes, "the copy from memory that was freed behind it")?;
    drop(blocks);
    context.destroy(stream)
}

fn device_memory_is_not_handed_out_while_a_queued_copy_writes_it(
    context: &'static Context,
) -> Checked {
    let size = 200_000;
    let bytes = context.bytes(1, size);
    let source = Block::filled(context, Place::Device, &bytes)?;
    let target = Block::device(context, size)?.keep();
    let stream = context.stream()?;
    let gate = Gate::hold(context, 0, stream)?;
    context.enqueue(target, source.address(), size, MemcpyKind::D2D, stream)?;
    context.t.free_device(target);
    context.clean("free_device")?;
    let blocks = not_handed_out(context, Place::Device, target, size)?;
    gate.open();
    context.wait(stream)?;
    for mut block in blocks {
        block.write(0, &bytes)?;
        ensure!(block.content()? == bytes, "a later block was written by the earlier copy");
    }
    context.destroy(stream)
}

fn device_memory_is_not_handed_out_before_the_default_stream_has_passed(
    context: &'static Context,
) -> Checked {
    let size = 200_000;
    let bytes = context.bytes(1, size);
    let source = Block::filled(context, Place::Device, &bytes)?.keep();
    let target = Guarded::new(context, Place::Device, size)?;
    let gate = Gate::hold(context, 0, Stream::DEFAULT)?;
    context.enqueue(target.address(), source, size, MemcpyKind::D2D, Stream::DEFAULT)?;
    context.t.free_device(source);
    context.clean("free_device")?;
    let blocks = not_handed_out(context, Place::Device, source, size)?;
    gate.open();
    context.wait(Stream::DEFAULT)?;
    target.expect(&bytes, "the copy from memory that was freed behind it")?;
    drop(blocks);
    Ok(())
}

fn pinned_memory_is_not_handed_out_while_a_queued_copy_reads_it(
    context: &'static Context,
) -> Checked {
    let size = 200_000;
    let bytes = context.bytes(1, size);
    let source = Block::filled(context, Place::Pinned, &bytes)?.keep();
    let target = Guarded::new(context, Place::Device, size)?;
    let stream = context.stream()?;
    let gate = Gate::hold(context, 0, stream)?;
    context.enqueue(target.address(), source, size, MemcpyKind::H2D, stream)?;
    context.t.free_host(source);
    context.clean("free_host")?;
    let mut blocks = not_handed_out(context, Place::Pinned, source, size)?;
    for block in &mut blocks {
        block.write(0, &vec![0xee; size])?;
    }
    gate.open();
    context.wait(stream)?;
    target.expect(&bytes, "the copy from pinned memory that was freed behind it")?;
    context.destroy(stream)
}

fn pinned_memory_is_not_handed_out_while_a_queued_copy_writes_it(
    context: &'static Context,
) -> Checked {
    let size = 200_000;
    let bytes = context.bytes(1, size);
    let source = Block::filled(context, Place::Device, &bytes)?;
    let target = Block::pinned(context, size)?.keep();
    let stream = context.stream()?;
    let gate = Gate::hold(context, 0, stream)?;
    context.enqueue(target, source.address(), size, MemcpyKind::D2H, stream)?;
    context.t.free_host(target);
    context.clean("free_host")?;
    let mut blocks = not_handed_out(context, Place::Pinned, target, size)?;
    for block in &mut blocks {
        block.write(0, &vec![0xee; size])?;
    }
    gate.open();
    context.wait(stream)?;
    for block in &blocks {
        let whole = block.content()?.iter().all(|byte| *byte == 0xee);
        ensure!(whole, "a later block was written by the earlier copy");
    }
    context.destroy(stream)
}

fn a_free_does_not_wait_for_a_held_stream(context: &'static Context) -> Checked {
    for stream in [Stream::DEFAULT, context.stream()?] {
        let blocks: Vec<(Block, Block)> = [64usize, 1 << 16, 5 << 20]
            .into_iter()
            .map(|size| Ok((Block::device(context, size)?, Block::pinned(context, size)?)))
            .collect::<Checked<_>>()?;
        let gate = Gate::hold(context, 0, stream)?;
        // A call that waits would wait for ever: the watchdog tells.
        for (device, pinned) in blocks {
            device.free()?;
            pinned.free()?;
        }
        gate.open();
        context.wait(stream)?;
    }
    Ok(())
}

fn an_overwritten_successor_does_not_disturb_a_queued_copy(context: &'static Context) -> Checked {
    let size = context.times(32) << 20;
    let bytes = context.bytes(1, size);
    let source = Block::filled(context, Place::Device, &bytes)?.keep();
    let target = Guarded::new(context, Place::Device, size)?;
    let garbage = Block::filled(context, Place::Pinned, &vec![0xee; size])?;
    let (held, other) = (context.stream()?, context.stream()?);
    let gate = Gate::hold(context, 0, held)?;
    context.enqueue(target.address(), source, size, MemcpyKind::D2D, held)?;
    context.t.free_device(source);
    context.clean("free_device")?;
    for _ in 0..3 {
        let next = Block::device(context, size)?;
        let (dst, src) = (next.address(), garbage.address());
        context.enqueue(dst, src, size, MemcpyKind::H2D, other)?;
        context.wait(other)?;
    }
    gate.open();
    context.wait(held)?;
    target.expect(&bytes, "the copy from memory that was freed behind it")?;
    context.destroy(held)?;
    context.destroy(other)
}

fn freed_memory_comes_back(context: &'static Context) -> Checked {
    let total = context.ok(context.x.get_memory_info(0), "get_memory_info")?.total;
    let step = (total / 16).clamp(1 << 20, 4 << 30) as usize;
    // Three times what the device has, in blocks of changing size.
    for round in 0..(3 * total / step as u64) as usize {
        let block = Block::device(context, step - (round % 7) * 4096)?;
        block.free().map_err(|stop| stop.at(format!("round {round}")))?;
    }
    // Pinned memory too; it is the host's, so less of it.
    for round in 0..context.times(2000) {
        Block::pinned(context, (16 << 20) - (round % 7) * 4096)?.free()?;
    }
    Ok(())
}

fn memory_freed_behind_queued_work_comes_back_when_it_is_done(
    context: &'static Context,
) -> Checked {
    let stream = context.stream()?;
    let size = 8 << 20;
    let target = Block::device(context, size)?;
    let before = crate::data::resident_bytes();
    for _ in 0..context.times(100) {
        let gate = Gate::hold(context, 0, stream)?;
        let source = Block::device(context, size)?;
        let (dst, src) = (target.address(), source.address());
        context.enqueue(dst, src, size, MemcpyKind::D2D, stream)?;
        source.free()?;
        gate.open();
        context.wait(stream)?;
    }
    if context.host_memory() {
        let grown = crate::data::resident_bytes().saturating_sub(before);
        ensure!(grown < 256 << 20, "100 blocks of 8 MiB, all freed and passed, keep {grown} bytes");
    }
    context.destroy(stream)
}

fn a_cache_that_grows_token_by_token(context: &'static Context) -> Checked {
    // Keys and values of one layer grow by a token at a time: a larger block, a copy, a free.
    let stream = context.stream()?;
    let token = 256;
    let bytes = context.bytes(1, token);
    let source = Block::filled(context, Place::Pinned, &bytes)?;
    let mut cache = Block::device(context, token)?;
    let (first, src) = (cache.address(), source.address());
    context.enqueue(first, src, token, MemcpyKind::H2D, stream)?;
    let tokens = context.times(4096);
    for length in 1..tokens {
        let longer = Block::device(context, (length + 1) * token)?;
        let (dst, old) = (longer.address(), cache.address());
        context.enqueue(dst, old, length * token, MemcpyKind::D2D, stream)?;
        context.enqueue(dst.plus(length * token), src, token, MemcpyKind::H2D, stream)?;
        // Freed with the copy still in the stream.
        std::mem::replace(&mut cache, longer).free()?;
    }
    context.wait(stream)?;
    let content = cache.content()?;
    for (index, found) in content.chunks(token).enumerate() {
        ensure!(found == bytes, "token {index} of {tokens} is not what was written");
    }
    context.destroy(stream)
}

fn memory_made_on_one_stream_and_freed_by_another_thread_is_sound(
    context: &'static Context,
) -> Checked {
    let (sender, receiver) = std::sync::mpsc::channel::<(Block, Vec<u8>)>();
    let rounds = context.times(2000);
    let freer = Caller::start(move || {
        for (block, bytes) in receiver {
            let found = block.content()?;
            ensure!(found == bytes, "a block changed between two threads");
            block.free()?;
        }
        Ok(())
    })?;
    let stream = context.ok(context.x.create_stream(0), "create_stream")?;
    let mut rng = context.rng();
    for _ in 0..rounds {
        let bytes = {
            let size = 1 + rng.below(20_000);
            rng.bytes(size)
        };
        let block = Block::device(context, bytes.len())?;
        let copy = Copy::new(block.address(), Address::of(&bytes), bytes.len(), MemcpyKind::H2D);
        context.enqueue_extended(0, copy, stream)?;
        if sender.send((block, bytes)).is_err() {
            break;
        }
    }
    drop(sender);
    freer.join()?;
    context.destroy(stream)
}
