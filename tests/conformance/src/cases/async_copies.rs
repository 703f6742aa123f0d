//! Copies that are enqueued: what pageable and pinned memory mean (C3), and a CPU's operators (S8).

use crate::address::Address;
use crate::caller::Caller;
use crate::case::Area;
use crate::context::Context;
use crate::extended::Copy;
use crate::gate::Gate;
use crate::guarded::Guarded;
use crate::outcome::Checked;
use crate::place::{Block, Place};
use llaisys_runtime_core::api::{CopyFlags, MemcpyKind, Stream};

cases! { Area::Copies;
    "C3" a_local_vector_may_go_when_the_copy_from_it_returns [];
    "C3" a_local_vector_may_go_though_the_stream_is_held [Gates];
    "C3" a_very_large_local_vector_may_go_when_the_copy_from_it_returns [Gates];
    "C3" the_default_stream_stages_pageable_memory_too [Gates];
    "C3" into_pageable_memory_the_data_is_there_when_the_copy_returns [];
    "C3" into_pageable_memory_the_copy_waits_for_a_held_stream [Gates];
    "C3" from_pinned_memory_the_copy_is_asynchronous [Gates];
    "C3" into_pinned_memory_the_copy_is_asynchronous [Gates];
    "C3" between_device_blocks_the_copy_is_asynchronous [Gates];
    "C3" a_promised_buffer_is_not_waited_for [Gates];
    "C3" many_staged_copies_from_one_buffer_keep_their_data [Gates];
    "C3" a_part_of_pinned_memory_is_pinned_too [Gates];
    "S1" staged_and_pinned_copies_stay_in_order [Gates];
    "S8" on_an_idle_stream_the_twelve_copy_at_once [HostMemory];
    "S8" behind_pending_work_the_twelve_queue [HostMemory, Gates];
    "S8" an_operator_on_the_calling_thread_reads_the_index_at_once [HostMemory];
}

fn a_local_vector_may_go_when_the_copy_from_it_returns(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    for on in [stream, Stream::DEFAULT] {
        for size in [1, 100, 65_535, 65_537, 1 << 20, (9 << 20) + 1] {
            let bytes = context.bytes(size as u64, size);
            let target = Guarded::new(context, Place::Device, size)?;
            let mut local = bytes.clone();
            context.enqueue(target.address(), Address::of(&local), size, MemcpyKind::H2D, on)?;
            local.fill(0xee);
            drop(local);
            context.wait(on)?;
            target.expect(&bytes, &format!("{size} bytes from a vector that is gone"))?;
        }
    }
    context.destroy(stream)
}

/// A copy from a vector, on a stream that is held; the vector is overwritten before it is opened.
fn staged(context: &'static Context, stream: Stream, size: usize) -> Checked {
    let bytes = context.bytes(size as u64, size);
    let target = Guarded::new(context, Place::Device, size)?;
    let gate = Gate::hold(context, 0, stream)?;
    let mut local = bytes.clone();
    context.enqueue(target.address(), Address::of(&local), size, MemcpyKind::H2D, stream)?;
    local.fill(0xee);
    drop(local);
    gate.open();
    context.wait(stream)?;
    target.expect(&bytes, &format!("{size} bytes from a vector that is gone, stream held"))
}

fn a_local_vector_may_go_though_the_stream_is_held(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    for size in [1, 16, 4096, 65_535, 65_536, 65_537, 1 << 20, (16 << 20) + 13] {
        staged(context, stream, size)?;
    }
    context.destroy(stream)
}

fn a_very_large_local_vector_may_go_when_the_copy_from_it_returns(
    context: &'static Context,
) -> Checked {
    // More than a runtime that keeps its memory bounded (S6) can be asked to stage: the call may wait
    // for its turn. What it may not do is to read the vector after it returned.
    let stream = context.stream()?;
    let size = (context.times(260) << 20) + 13;
    let bytes = context.bytes(1, size);
    let target = Guarded::new(context, Place::Device, size)?;
    let gate = Gate::hold(context, 0, stream)?;
    let (dst, mut local) = (target.address(), bytes.clone());
    let caller = Caller::start(move || {
        context.enqueue(dst, Address::of(&local), size, MemcpyKind::H2D, stream)?;
        local.fill(0xee);
        Ok(())
    })?;
    // Either way is right; a call that stages has returned by now.
    let _ = caller.expect_waiting("a copy that may be too large to be staged");
    gate.open();
    caller.join()?;
    context.wait(stream)?;
    target.expect(&bytes, &format!("{size} bytes from a vector that is gone"))?;
    context.destroy(stream)
}

fn the_default_stream_stages_pageable_memory_too(context: &'static Context) -> Checked {
    for size in [100, 70_000, 2 << 20] {
        staged(context, Stream::DEFAULT, size)?;
    }
    Ok(())
}

fn into_pageable_memory_the_data_is_there_when_the_copy_returns(
    context: &'static Context,
) -> Checked {
    let stream = context.stream()?;
    for on in [stream, Stream::DEFAULT] {
        for size in [1, 4096, 65_537, (7 << 20) + 1] {
            let bytes = context.bytes(size as u64, size);
            let source = Block::filled(context, Place::Device, &bytes)?;
            let target = Guarded::new(context, Place::Pageable, size)?;
            context.enqueue(target.address(), source.address(), size, MemcpyKind::D2H, on)?;
            target.expect(&bytes, &format!("{size} bytes, without a synchronize"))?;
        }
    }
    context.destroy(stream)
}

fn into_pageable_memory_the_copy_waits_for_a_held_stream(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let bytes = context.bytes(1, 50_000);
    let length = bytes.len();
    let source = Block::filled(context, Place::Pinned, &bytes)?;
    let middle = Block::filled(context, Place::Device, &vec![0; length])?;
    let gate = Gate::hold(context, 0, stream)?;
    context.enqueue(middle.address(), source.address(), length, MemcpyKind::H2D, stream)?;
    let from = middle.address();
    let caller = Caller::start(move || {
        let mut found = vec![0u8; length];
        context.enqueue(Address::of_mut(&mut found), from, length, MemcpyKind::D2H, stream)?;
        Ok(found)
    })?;
    caller.expect_waiting("memcpy_async into pageable memory behind queued work")?;
    gate.open();
    ensure!(caller.join()? == bytes, "the data was not there when memcpy_async returned");
    context.destroy(stream)
}

fn from_pinned_memory_the_copy_is_asynchronous(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let (first, second) = (context.bytes(1, 70_000), context.bytes(2, 70_000));
    let mut source = Block::filled(context, Place::Pinned, &first)?;
    let target = Guarded::new(context, Place::Device, first.len())?;
    let gate = Gate::hold(context, 0, stream)?;
    context.enqueue(target.address(), source.address(), first.len(), MemcpyKind::H2D, stream)?;
    // The stream reads pinned memory when it comes to the copy, not before.
    source.write(0, &second)?;
    gate.open();
    context.wait(stream)?;
    target.expect(&second, "what the stream read when it came to the copy")?;
    context.destroy(stream)
}

/// A queued copy into host memory that is not written before the gate opens.
fn arrives_behind_the_gate(context: &'static Context, place: Place, flags: CopyFlags) -> Checked {
    let stream = context.stream()?;
    let bytes = context.bytes(1, 70_000);
    let source = Block::filled(context, Place::Device, &bytes)?;
    let target = Guarded::new(context, place, bytes.len())?;
    let gate = Gate::hold(context, 0, stream)?;
    let copy = Copy::new(target.address(), source.address(), bytes.len(), MemcpyKind::D2H);
    context.enqueue_extended(0, copy.with(flags), stream)?;
    target.expect_untouched("before the gate opened")?;
    gate.open();
    context.wait(stream)?;
    target.expect(&bytes, "after the gate opened")?;
    context.destroy(stream)
}

fn into_pinned_memory_the_copy_is_asynchronous(context: &'static Context) -> Checked {
    arrives_behind_the_gate(context, Place::Pinned, CopyFlags::NONE)
}

fn between_device_blocks_the_copy_is_asynchronous(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let (first, second) = (context.bytes(1, 70_000), context.bytes(2, 70_000));
    let length = first.len();
    let late = Block::filled(context, Place::Pinned, &second)?;
    let source = Block::filled(context, Place::Device, &first)?;
    let target = Guarded::new(context, Place::Device, length)?;
    let other = context.stream()?;
    let gate = Gate::hold(context, 0, stream)?;
    context.enqueue(target.address(), source.address(), length, MemcpyKind::D2D, stream)?;
    // Another stream overwrites the source while the copy stands behind the gate.
    context.enqueue(source.address(), late.address(), length, MemcpyKind::H2D, other)?;
    context.wait(other)?;
    gate.open();
    context.wait(stream)?;
    target.expect(&second, "what the stream read when it came to the copy")?;
    context.destroy(other)?;
    context.destroy(stream)
}

fn a_promised_buffer_is_not_waited_for(context: &'static Context) -> Checked {
    let promised = CopyFlags::HOST_BUFFER_PROMISED;
    arrives_behind_the_gate(context, Place::Pageable, promised)?;
    // From a promised buffer: right whether the data was taken at once or later.
    let stream = context.stream()?;
    let bytes = context.bytes(3, 300_000);
    let target = Guarded::new(context, Place::Device, bytes.len())?;
    let gate = Gate::hold(context, 0, stream)?;
    let copy = Copy::new(target.address(), Address::of(&bytes), bytes.len(), MemcpyKind::H2D);
    context.enqueue_extended(0, copy.with(promised), stream)?;
    gate.open();
    context.wait(stream)?;
    target.expect(&bytes, "from a promised buffer")?;
    context.destroy(stream)
}

fn many_staged_copies_from_one_buffer_keep_their_data(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let size = 3000;
    let rounds = context.times(500);
    let target = Block::device(context, size * rounds)?;
    let gate = Gate::hold(context, 0, stream)?;
    let mut local = vec![0u8; size];
    let mut model = Vec::new();
    for round in 0..rounds {
        local.copy_from_slice(&context.bytes(round as u64, size));
        model.extend_from_slice(&local);
        let dst = target.address().plus(round * size);
        context.enqueue(dst, Address::of(&local), size, MemcpyKind::H2D, stream)?;
    }
    gate.open();
    context.wait(stream)?;
    if let Some(difference) = crate::data::difference(&target.content()?, &model) {
        fail!("{rounds} copies from one reused buffer: {difference}");
    }
    context.destroy(stream)
}

fn a_part_of_pinned_memory_is_pinned_too(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let (first, second) = (context.bytes(1, 1000), context.bytes(2, 1000));
    let mut source = Block::pinned(context, 10_000)?;
    source.write(5001, &first)?;
    let target = Guarded::new(context, Place::Device, 1000)?;
    let gate = Gate::hold(context, 0, stream)?;
    let from = source.address().plus(5001);
    context.enqueue(target.address(), from, 1000, MemcpyKind::H2D, stream)?;
    source.write(5001, &second)?;
    gate.open();
    context.wait(stream)?;
    target.expect(&second, "from the middle of pinned memory")?;
    context.destroy(stream)
}

fn staged_and_pinned_copies_stay_in_order(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let size = 20_000;
    let target = Block::device(context, size)?;
    let mut rng = context.rng();
    for _ in 0..context.times(40) {
        let mut model = vec![0; size];
        context.copy(target.address(), Address::of(&model), size, MemcpyKind::H2D)?;
        let pinned: Vec<(Block, Vec<u8>)> = (0..8)
            .map(|_| {
                let bytes = rng.bytes(size);
                Ok((Block::filled(context, Place::Pinned, &bytes)?, bytes))
            })
            .collect::<Checked<_>>()?;
        let gate = Gate::hold(context, 0, stream)?;
        for step in 0..24 {
            let length = 1 + rng.below(size - 1);
            let at = rng.below(size - length + 1);
            let dst = target.address().plus(at);
            if step % 3 == 0 {
                let (block, bytes) = &pinned[step / 3];
                model[at..at + length].copy_from_slice(&bytes[..length]);
                context.enqueue(dst, block.address(), length, MemcpyKind::H2D, stream)?;
            } else {
                let local = rng.bytes(length);
                model[at..at + length].copy_from_slice(&local);
                context.enqueue(dst, Address::of(&local), length, MemcpyKind::H2D, stream)?;
            }
        }
        gate.open();
        context.wait(stream)?;
        if let Some(difference) = crate::data::difference(&target.content()?, &model) {
            fail!("copies from pinned and pageable memory in turn: {difference}");
        }
    }
    context.destroy(stream)
}

fn on_an_idle_stream_the_twelve_copy_at_once(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    for on in [stream, Stream::DEFAULT] {
        for (from, to) in [
            (Place::Pageable, Place::Device),
            (Place::Pinned, Place::Device),
            (Place::Device, Place::Device),
            (Place::Device, Place::Pinned),
        ] {
            for size in [1, 4096, 100_000, 6 << 20] {
                let bytes = context.bytes(size as u64, size);
                let source = Block::filled(context, from, &bytes)?;
                let target = Block::new(context, to, size)?;
                let kind = Place::kind(from, to);
                context.enqueue(target.address(), source.address(), size, kind, on)?;
                // The host reads device memory itself, without a synchronize.
                // SAFETY: capability bit 0 says that it is host memory; the block is alive.
                let found = unsafe {
                    std::slice::from_raw_parts(target.address().pointer().cast::<u8>(), size)
                };
                ensure!(found == bytes, "{size} bytes from {from:?} to {to:?} were not there yet");
            }
        }
    }
    context.destroy(stream)
}

fn behind_pending_work_the_twelve_queue(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let bytes = context.bytes(1, 5000);
    let source = Block::filled(context, Place::Pinned, &bytes)?;
    let target = Guarded::new(context, Place::Pinned, bytes.len())?;
    let gate = Gate::hold(context, 0, stream)?;
    let kind = MemcpyKind::H2D;
    context.enqueue(target.address(), source.address(), bytes.len(), kind, stream)?;
    target.expect_untouched("a copy behind pending work, through the twelve")?;
    gate.open();
    context.wait(stream)?;
    target.expect(&bytes, "after the gate opened")?;
    context.destroy(stream)
}

fn an_operator_on_the_calling_thread_reads_the_index_at_once(context: &'static Context) -> Checked {
    // LLAISYS copies an index vector with memcpy_async and reads it in an operator on the next line.
    let stream = context.stream()?;
    for round in 0..context.times(500) {
        let indices: Vec<u8> = (0..64u64).flat_map(|i| (i * round as u64).to_le_bytes()).collect();
        let block = Block::device(context, indices.len())?;
        let (dst, src) = (block.address(), Address::of(&indices));
        context.enqueue(dst, src, indices.len(), MemcpyKind::H2D, stream)?;
        // SAFETY: capability bit 0 says that it is host memory; the block is alive.
        let read = unsafe { std::slice::from_raw_parts(dst.pointer().cast::<u8>(), indices.len()) };
        ensure!(read == indices, "round {round}: the operator read something else");
    }
    context.destroy(stream)
}
