//! The NULL stream: accepted everywhere, with CUDA's legacy meaning (S2).

use crate::case::Area;
use crate::context::Context;
use crate::extended::Copy;
use crate::forever::forever;
use crate::gate::Gate;
use crate::guarded::Guarded;
use crate::outcome::Checked;
use crate::place::{Block, Place};
use crate::quiet::settle;
use llaisys_runtime_core::api::{MemcpyKind, Stream};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

cases! { Area::Streams;
    "S2" null_is_accepted_everywhere [];
    "S2" sixty_four_mebibytes_to_pinned_memory_on_the_default_stream [];
    "S2" the_default_stream_waits_for_blocking_streams [Gates];
    "S2" a_blocking_stream_waits_for_the_default_stream [Gates];
    "S2" work_goes_from_stream_to_default_stream_to_stream_in_order [Gates];
    "S2" a_host_function_on_the_default_stream_follows_a_blocking_stream [Gates];
    "S2" the_default_stream_is_the_same_for_every_thread [Gates];
    "S5" a_query_of_the_default_stream_does_not_wait [Gates, StreamQuery];
}

fn null_is_accepted_everywhere(context: &'static Context) -> Checked {
    let bytes = context.bytes(1, 1000);
    let source = Block::filled(context, Place::Pinned, &bytes)?;
    let target = Guarded::new(context, Place::Device, 1000)?;
    let (dst, src) = (target.address(), source.address());
    context.enqueue(dst, src, 1000, MemcpyKind::H2D, Stream::DEFAULT)?;
    context.wait(Stream::DEFAULT)?;
    target.expect(&bytes, "memcpy_async on NULL")?;
    context.destroy(Stream::DEFAULT)?;
    for device in 0..context.count {
        let answer = context.x.stream_synchronize(device, Stream::DEFAULT);
        context.ok(answer, "stream_synchronize(NULL)")?;
        // Destroying NULL, which every device has, took nothing away.
        context.ok(context.x.destroy_stream(device, Stream::DEFAULT), "destroy_stream(NULL)")?;
        let copy = Copy::new(dst, src, 1000, MemcpyKind::H2D);
        context.enqueue_extended(device.min(0), copy, Stream::DEFAULT)?;
    }
    context.wait(Stream::DEFAULT)
}

fn sixty_four_mebibytes_to_pinned_memory_on_the_default_stream(
    context: &'static Context,
) -> Checked {
    let size = context.times(64) << 20;
    let target = Block::pinned(context, size)?;
    for round in 0..4u64 {
        let bytes = context.bytes(round, size);
        let source = Block::filled(context, Place::Device, &bytes)?;
        let (dst, src) = (target.address(), source.address());
        context.enqueue(dst, src, size, MemcpyKind::D2H, Stream::DEFAULT)?;
        context.wait(Stream::DEFAULT)?;
        let end = target.read(size - 4096, 4096)?;
        ensure!(end == bytes[size - 4096..], "round {round}: the end had not arrived");
        ensure!(target.content()? == bytes, "round {round}: not all had arrived");
    }
    Ok(())
}

/// A copy on `second` that must stand behind a gate on `first`.
fn follows(context: &'static Context, first: Stream, second: Stream) -> Checked {
    let bytes = context.bytes(1, 60_000);
    let length = bytes.len();
    let source = Block::filled(context, Place::Device, &bytes)?;
    let target = Guarded::new(context, Place::Pinned, length)?;
    let gate = Gate::hold(context, 0, first)?;
    context.enqueue(target.address(), source.address(), length, MemcpyKind::D2H, second)?;
    target.expect_untouched("a copy that has to wait for the other stream")?;
    gate.open();
    context.wait(second)?;
    target.expect(&bytes, "after the gate opened")?;
    context.wait(first)
}

fn the_default_stream_waits_for_blocking_streams(context: &'static Context) -> Checked {
    let streams: Vec<Stream> = (0..3).map(|_| context.stream()).collect::<Checked<_>>()?;
    for stream in &streams {
        follows(context, *stream, Stream::DEFAULT)?;
    }
    for stream in streams {
        context.destroy(stream)?;
    }
    Ok(())
}

fn a_blocking_stream_waits_for_the_default_stream(context: &'static Context) -> Checked {
    let before = context.stream()?;
    follows(context, Stream::DEFAULT, before)?;
    context.destroy(before)?;
    // Also one that is made while the default stream is held.
    let bytes = context.bytes(1, 1000);
    let source = Block::filled(context, Place::Device, &bytes)?;
    let target = Guarded::new(context, Place::Pinned, 1000)?;
    let gate = Gate::hold(context, 0, Stream::DEFAULT)?;
    let late = context.stream()?;
    context.enqueue(target.address(), source.address(), 1000, MemcpyKind::D2H, late)?;
    target.expect_untouched("on a stream that was made while the default stream was held")?;
    gate.open();
    context.wait(late)?;
    target.expect(&bytes, "after the gate opened")?;
    context.destroy(late)
}

fn work_goes_from_stream_to_default_stream_to_stream_in_order(
    context: &'static Context,
) -> Checked {
    let (one, two) = (context.stream()?, context.stream()?);
    let bytes = context.bytes(1, 200_000);
    let length = bytes.len();
    let source = Block::filled(context, Place::Pinned, &bytes)?;
    let first = Block::filled(context, Place::Device, &vec![0; length])?;
    let second = Block::filled(context, Place::Device, &vec![0; length])?;
    let target = Guarded::new(context, Place::Pinned, length)?;
    let gate = Gate::hold(context, 0, one)?;
    context.enqueue(first.address(), source.address(), length, MemcpyKind::H2D, one)?;
    let (dst, src) = (second.address(), first.address());
    context.enqueue(dst, src, length, MemcpyKind::D2D, Stream::DEFAULT)?;
    context.enqueue(target.address(), second.address(), length, MemcpyKind::D2H, two)?;
    target.expect_untouched("while the first stream is held")?;
    gate.open();
    context.wait(two)?;
    target.expect(&bytes, "a chain over stream, default stream, stream")?;
    context.destroy(one)?;
    context.destroy(two)
}

fn a_host_function_on_the_default_stream_follows_a_blocking_stream(
    context: &'static Context,
) -> Checked {
    /// # Safety
    /// - `data` is a flag that outlives the call.
    unsafe extern "C" fn set(data: *mut c_void) {
        // SAFETY: by the contract above.
        unsafe { &*data.cast::<AtomicBool>() }.store(true, Ordering::SeqCst);
    }
    let flag = forever(AtomicBool::new(false));
    let stream = context.stream()?;
    let gate = Gate::hold(context, 0, stream)?;
    let data = std::ptr::from_ref(flag).cast_mut().cast();
    // SAFETY: the flag is never freed.
    let launched = unsafe { context.x.launch_host_function(0, Stream::DEFAULT, set, data) };
    context.ok(launched, "launch_host_function")?;
    settle();
    ensure!(!flag.load(Ordering::SeqCst), "it ran while a blocking stream was held");
    gate.open();
    context.wait(Stream::DEFAULT)?;
    ensure!(flag.load(Ordering::SeqCst), "it did not run");
    context.destroy(stream)
}

fn the_default_stream_is_the_same_for_every_thread(context: &'static Context) -> Checked {
    let bytes = context.bytes(1, 10_000);
    let source = Block::filled(context, Place::Device, &bytes)?;
    let target = Guarded::new(context, Place::Pinned, bytes.len())?;
    let (dst, src, length) = (target.address(), source.address(), bytes.len());
    let gate = Gate::hold(context, 0, Stream::DEFAULT)?;
    let other = crate::caller::Caller::start(move || {
        context.enqueue(dst, src, length, MemcpyKind::D2H, Stream::DEFAULT)
    })?;
    other.join()?;
    target.expect_untouched("enqueued by another thread behind this thread's gate")?;
    gate.open();
    context.wait(Stream::DEFAULT)?;
    target.expect(&bytes, "after the gate opened")
}

fn a_query_of_the_default_stream_does_not_wait(context: &'static Context) -> Checked {
    let gate = Gate::hold(context, 0, Stream::DEFAULT)?;
    for _ in 0..10 {
        ensure!(!context.ready(0, Stream::DEFAULT)?, "the held default stream is ready");
    }
    gate.open();
    context.wait(Stream::DEFAULT)?;
    ensure!(context.ready(0, Stream::DEFAULT)?, "the default stream is not ready when it is done");
    Ok(())
}
