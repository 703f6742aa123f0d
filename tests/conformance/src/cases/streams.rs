//! Streams: order, waiting, handles (S1, S3, S5, S7).

use crate::address::Address;
use crate::caller::Caller;
use crate::case::Area;
use crate::context::Context;
use crate::extended::Copy;
use crate::forever::forever;
use crate::gate::Gate;
use crate::guarded::Guarded;
use crate::outcome::Checked;
use crate::place::{Block, Place};
use crate::program::Bare;
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{Capabilities, MemcpyKind, Stream};
use std::collections::HashSet;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

cases! { Area::Streams;
    "S1" a_chain_of_copies_runs_in_order [];
    "S1" a_held_chain_of_copies_runs_in_order [Gates];
    "S1" two_streams_do_not_wait_for_each_other [Gates];
    "S1" stream_synchronize_waits_for_the_stream [Gates];
    "S1" device_synchronize_waits_for_every_stream [Gates];
    "S1" stream_synchronize_does_not_wait_for_what_comes_later [Gates];
    "S2" create_stream_is_never_null_and_never_the_same [];
    "S3" destroying_null_is_nothing [];
    "S3" a_destroyed_handle_is_an_error_everywhere [];
    "S3" a_handle_that_never_was_is_an_error_everywhere [];
    "S3" destroying_a_busy_stream_returns_at_once_and_its_work_completes [Gates];
    "S3" a_stream_destroyed_behind_a_waiting_thread_lets_it_finish [Gates];
    "S3" a_handle_that_comes_back_names_the_new_stream [];
    "S3" a_handle_that_comes_back_while_the_old_stream_is_busy_is_sound [Gates];
    "S5" a_query_says_ready_and_not_ready_without_waiting [Gates, StreamQuery];
    "S5" a_query_of_an_idle_stream_is_ready [StreamQuery];
    "S7" launch_blocking_completes_every_operation_before_it_returns [Gates];
    "S7" launch_blocking_is_only_the_word_one [Gates];
}

programs![blocking_launches, asynchronous_launches];

fn a_chain_of_copies_runs_in_order(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let size = 100_000;
    for round in 0..context.times(50) {
        let bytes = context.bytes(round as u64, size);
        let source = Block::filled(context, Place::Pinned, &bytes)?;
        let blocks: Vec<Block> =
            (0..6).map(|_| Block::device(context, size)).collect::<Checked<_>>()?;
        let target = Guarded::new(context, Place::Pinned, size)?;
        context.enqueue(blocks[0].address(), source.address(), size, MemcpyKind::H2D, stream)?;
        for pair in blocks.windows(2) {
            let (src, dst) = (pair[0].address(), pair[1].address());
            context.enqueue(dst, src, size, MemcpyKind::D2D, stream)?;
        }
        context.enqueue(target.address(), blocks[5].address(), size, MemcpyKind::D2H, stream)?;
        context.wait(stream)?;
        target.expect(&bytes, &format!("a chain of seven copies, round {round}"))?;
    }
    context.destroy(stream)
}

fn a_held_chain_of_copies_runs_in_order(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let mut rng = context.rng();
    let size = 4000;
    let block = Block::filled(context, Place::Device, &vec![0; size])?;
    let mut model = vec![0; size];
    let sources: Vec<(Block, Vec<u8>)> = (0..100)
        .map(|_| {
            let length = 1 + rng.below(size - 1);
            let bytes = rng.bytes(length);
            Ok((Block::filled(context, Place::Pinned, &bytes)?, bytes))
        })
        .collect::<Checked<_>>()?;
    let gate = Gate::hold(context, 0, stream)?;
    for (source, bytes) in &sources {
        let at = rng.below(size - bytes.len() + 1);
        let (dst, src) = (block.address().plus(at), source.address());
        context.enqueue(dst, src, bytes.len(), MemcpyKind::H2D, stream)?;
        model[at..at + bytes.len()].copy_from_slice(bytes);
    }
    gate.open();
    context.wait(stream)?;
    if let Some(difference) = crate::data::difference(&block.content()?, &model) {
        fail!("a hundred overlapping writes in one stream: {difference}");
    }
    context.destroy(stream)
}

fn two_streams_do_not_wait_for_each_other(context: &'static Context) -> Checked {
    let (held, free) = (context.stream()?, context.stream()?);
    let bytes = context.bytes(1, 100_000);
    let length = bytes.len();
    let source = Block::filled(context, Place::Pinned, &bytes)?;
    let middle = Block::device(context, length)?;
    let target = Guarded::new(context, Place::Pinned, length)?;
    let gate = Gate::hold(context, 0, held)?;
    context.enqueue(middle.address(), source.address(), length, MemcpyKind::H2D, free)?;
    context.enqueue(target.address(), middle.address(), length, MemcpyKind::D2H, free)?;
    // Would wait for ever if the streams were one: the watchdog tells.
    context.wait(free)?;
    target.expect(&bytes, "a stream beside one that is held")?;
    gate.open();
    context.wait(held)?;
    context.destroy(held)?;
    context.destroy(free)
}

fn stream_synchronize_waits_for_the_stream(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let gate = Gate::hold(context, 0, stream)?;
    let caller = Caller::start(move || context.wait(stream))?;
    caller.expect_waiting("stream_synchronize of a held stream")?;
    gate.open();
    caller.join()?;
    context.destroy(stream)
}

fn device_synchronize_waits_for_every_stream(context: &'static Context) -> Checked {
    let streams: Vec<Stream> = (0..3).map(|_| context.stream()).collect::<Checked<_>>()?;
    for held in &streams {
        let gate = Gate::hold(context, 0, *held)?;
        let caller = Caller::start(move || {
            context.t.device_synchronize();
            context.clean("device_synchronize")
        })?;
        caller.expect_waiting("device_synchronize with one of three streams held")?;
        gate.open();
        caller.join()?;
    }
    for stream in streams {
        context.destroy(stream)?;
    }
    Ok(())
}

fn stream_synchronize_does_not_wait_for_what_comes_later(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let first = Gate::hold(context, 0, stream)?;
    let caller = Caller::start(move || context.wait(stream))?;
    caller.expect_waiting("stream_synchronize of a held stream")?;
    // Enqueued after the call: it waits for what was there before.
    let second = Gate::put(context, 0, stream)?;
    first.open();
    caller.join()?;
    second.open();
    context.wait(stream)?;
    context.destroy(stream)
}

fn create_stream_is_never_null_and_never_the_same(context: &'static Context) -> Checked {
    let mut handles = HashSet::new();
    let streams: Vec<Stream> = (0..64).map(|_| context.stream()).collect::<Checked<_>>()?;
    for stream in &streams {
        ensure!(handles.insert(*stream), "{stream:?} was given twice");
    }
    for stream in streams {
        context.wait(stream)?;
        context.destroy(stream)?;
    }
    Ok(())
}

fn destroying_null_is_nothing(context: &'static Context) -> Checked {
    for _ in 0..3 {
        context.destroy(Stream::DEFAULT)?;
        ensure_eq!(context.x.destroy_stream(0, Stream::DEFAULT), Ok(()), "versioned table");
    }
    context.wait(Stream::DEFAULT)
}

/// Every operation that takes a stream refuses this one.
fn refused_everywhere(context: &'static Context, stream: Stream) -> Checked {
    let target = Guarded::new(context, Place::Pinned, 64)?;
    let source = Block::pinned(context, 64)?;
    let (dst, src) = (target.address(), source.address());
    let status = Status::InvalidHandle;
    context.t.stream_synchronize(stream);
    context.refused("stream_synchronize", status, "no stream")?;
    context.t.destroy_stream(stream);
    context.refused("destroy_stream", status, "no stream")?;
    context.t.enqueue(dst, src, 64, MemcpyKind::H2H, stream);
    context.refused("memcpy_async", status, "no stream")?;
    let copy = Copy::new(dst, src, 64, MemcpyKind::H2H);
    context.answered(context.x.memcpy_async(0, copy, stream), "memcpy_async", status, "none")?;
    context.answered(context.x.stream_synchronize(0, stream), "stream_synchronize", status, "")?;
    context.answered(context.x.destroy_stream(0, stream), "destroy_stream", status, "no stream")?;
    // What the backend does not have says so whatever the stream is.
    let unless_missing =
        |group| if context.capabilities.contains(group) { status } else { Status::NotSupported };
    let right = unless_missing(Capabilities::STREAM_QUERY);
    context.answered(context.x.stream_query(0, stream), "stream_query", right, "no stream")?;
    static RAN: AtomicBool = AtomicBool::new(false);
    unsafe extern "C" fn ran(_: *mut c_void) {
        RAN.store(true, Ordering::SeqCst);
    }
    // SAFETY: `ran` may be called from anywhere.
    let launched = unsafe { context.x.launch_host_function(0, stream, ran, std::ptr::null_mut()) };
    let right = unless_missing(Capabilities::HOST_FUNCTIONS);
    context.answered(launched, "launch_host_function", right, "no stream")?;
    ensure!(!RAN.load(Ordering::SeqCst), "a function of a launch that was refused ran");
    target.expect_untouched("the destination of copies that were refused")
}

fn a_destroyed_handle_is_an_error_everywhere(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    context.destroy(stream)?;
    refused_everywhere(context, stream)
}

fn a_handle_that_never_was_is_an_error_everywhere(context: &'static Context) -> Checked {
    let block = Block::pinned(context, 64)?;
    // 1 and 2 are CUDA's names for the legacy and the per-thread default stream; here they are none.
    for word in [Address(1), Address(2), Address::GARBAGE, Address(usize::MAX), block.address()] {
        refused_everywhere(context, Stream(word.pointer()))
            .map_err(|stop| stop.at(format!("handle {word:?}")))?;
    }
    Ok(())
}

fn destroying_a_busy_stream_returns_at_once_and_its_work_completes(
    context: &'static Context,
) -> Checked {
    let stream = context.stream()?;
    let bytes = context.bytes(1, 100_000);
    let length = bytes.len();
    let source = Block::filled(context, Place::Pinned, &bytes)?;
    let middle = Block::device(context, length)?;
    let target = Guarded::new(context, Place::Pinned, length)?;
    let gate = Gate::hold(context, 0, stream)?;
    context.enqueue(middle.address(), source.address(), length, MemcpyKind::H2D, stream)?;
    context.enqueue(target.address(), middle.address(), length, MemcpyKind::D2H, stream)?;
    // Would wait for ever if it waited: the watchdog tells.
    context.destroy(stream)?;
    target.expect_untouched("behind the gate of a destroyed stream")?;
    gate.open();
    context.t.device_synchronize();
    context.clean("device_synchronize")?;
    target.expect(&bytes, "the work of a stream that was destroyed while it was busy")
}

fn a_stream_destroyed_behind_a_waiting_thread_lets_it_finish(context: &'static Context) -> Checked {
    for _ in 0..context.times(20) {
        let stream = context.stream()?;
        let gate = Gate::hold(context, 0, stream)?;
        let caller = Caller::start(move || context.wait(stream))?;
        caller.expect_waiting("stream_synchronize of a held stream")?;
        context.destroy(stream)?;
        gate.open();
        caller.join()?;
    }
    Ok(())
}

fn a_handle_that_comes_back_names_the_new_stream(context: &'static Context) -> Checked {
    let bytes = context.bytes(1, 1000);
    let source = Block::filled(context, Place::Pinned, &bytes)?;
    let mut seen = HashSet::new();
    for round in 0..context.times(2000) {
        let stream = context.stream()?;
        seen.insert(stream);
        let middle = Block::device(context, 1000)?;
        context.enqueue(middle.address(), source.address(), 1000, MemcpyKind::H2D, stream)?;
        if round % 2 == 0 {
            context.wait(stream)?;
            ensure!(middle.content()? == bytes, "round {round}: a new stream's copy is missing");
        }
        context.destroy(stream)?;
        context.t.destroy_stream(stream);
        context.refused("destroy_stream", Status::InvalidHandle, "the second time")?;
    }
    Ok(())
}

fn a_handle_that_comes_back_while_the_old_stream_is_busy_is_sound(
    context: &'static Context,
) -> Checked {
    let old = context.stream()?;
    let bytes = context.bytes(1, 1000);
    let source = Block::filled(context, Place::Pinned, &bytes)?;
    let target = Guarded::new(context, Place::Pinned, 1000)?;
    let gate = Gate::hold(context, 0, old)?;
    context.enqueue(target.address(), source.address(), 1000, MemcpyKind::H2H, old)?;
    context.destroy(old)?;
    // Streams made now work by themselves, whatever their address is, and the old work waits.
    for _ in 0..16 {
        let stream = context.stream()?;
        let middle = Block::device(context, 1000)?;
        context.enqueue(middle.address(), source.address(), 1000, MemcpyKind::H2D, stream)?;
        context.wait(stream)?;
        context.destroy(stream)?;
    }
    target.expect_untouched("the work of the old stream, whose gate is closed")?;
    gate.open();
    context.t.device_synchronize();
    context.clean("device_synchronize")?;
    target.expect(&bytes, "the work of the old stream")
}

fn a_query_says_ready_and_not_ready_without_waiting(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    for _ in 0..context.times(100) {
        ensure!(context.ready(0, stream)?, "a stream with nothing pending is not ready");
        let gate = Gate::hold(context, 0, stream)?;
        for _ in 0..10 {
            ensure!(!context.ready(0, stream)?, "a held stream is ready");
        }
        gate.open();
        context.wait(stream)?;
        ensure!(context.ready(0, stream)?, "a stream that was waited for is not ready");
    }
    context.destroy(stream)
}

fn a_query_of_an_idle_stream_is_ready(context: &'static Context) -> Checked {
    for device in 0..context.count {
        ensure!(context.ready(device, Stream::DEFAULT)?, "the default stream of {device}");
        let stream = context.ok(context.x.create_stream(device), "create_stream")?;
        ensure!(context.ready(device, stream)?, "a fresh stream of {device}");
        context.ok(context.x.destroy_stream(device, stream), "destroy_stream")?;
    }
    Ok(())
}

fn launch_blocking_completes_every_operation_before_it_returns(
    context: &'static Context,
) -> Checked {
    context.program("blocking_launches").env("LLAISYS_LAUNCH_BLOCKING", "1").run()?.expect_success()
}

fn launch_blocking_is_only_the_word_one(context: &'static Context) -> Checked {
    for word in ["", "0", "no", "11", " 1"] {
        let program = context.program("asynchronous_launches");
        let ended = program.env("LLAISYS_LAUNCH_BLOCKING", word).run()?;
        ended.expect_success().map_err(|stop| stop.at(format!("the value {word:?}")))?;
    }
    Ok(())
}

/// Sets the flag after a while that no launch would last by itself.
///
/// # Safety
/// - `data` is a flag that outlives the call.
unsafe extern "C" fn set_late(data: *mut c_void) {
    std::thread::sleep(std::time::Duration::from_millis(20));
    // SAFETY: by the contract above.
    unsafe { &*data.cast::<AtomicBool>() }.store(true, Ordering::SeqCst);
}

fn blocking_launches(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    let stream = context.stream()?;
    for on in [stream, Stream::DEFAULT] {
        for _ in 0..5 {
            let flag = forever(AtomicBool::new(false));
            let data = std::ptr::from_ref(flag).cast_mut().cast();
            // SAFETY: the flag is never freed.
            let launched = unsafe { context.x.launch_host_function(0, on, set_late, data) };
            context.ok(launched, "launch_host_function")?;
            ensure!(
                flag.load(Ordering::SeqCst),
                "launch_host_function returned before it was done"
            );
        }
        for size in [64, 100_000, 16 << 20] {
            let bytes = context.bytes(size as u64, size);
            let source = Block::filled(context, Place::Device, &bytes)?;
            let target = Guarded::new(context, Place::Pinned, size)?;
            let copy = Copy::new(target.address(), source.address(), size, MemcpyKind::D2H);
            context.enqueue_extended(0, copy, on)?;
            target
                .expect(&bytes, "memcpy_async with LLAISYS_LAUNCH_BLOCKING=1, when it returned")?;
        }
    }
    context.destroy(stream)?;
    Ok(0)
}

fn asynchronous_launches(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    let stream = context.stream()?;
    // With blocking launches this would say that the function waited for itself, or never end.
    let gate = Gate::hold(context, 0, stream)?;
    gate.open();
    context.wait(stream)?;
    Ok(0)
}
