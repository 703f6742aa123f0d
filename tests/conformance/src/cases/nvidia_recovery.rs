//! What holds after a call of the driver has failed once: a stream that it would not destroy, and memory that
//! it did not have.

use super::nvidia_driver::{Fake, launch};
use crate::caller::Caller;
use crate::case::Area;
use crate::context::Context;
use crate::gate::Gate;
use crate::outcome::{Checked, Stop};
use crate::place::{Block, Place};
use crate::program::Bare;
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{MemcpyKind, Stream, StreamFlags};

cases! { Area::NvidiaDriver;
    "E1" a_stream_that_could_not_be_destroyed_is_used_and_destroyed_later [FakeDriver];
    "M4" memory_on_a_stream_that_could_not_be_destroyed_is_still_kept_for_it [FakeDriver];
    "E4" pinned_memory_that_is_kept_goes_back_before_out_of_memory_is_answered [FakeDriver];
    "E4" pinned_memory_that_is_still_in_use_is_waited_for_before_out_of_memory [FakeDriver];
    "E4" pinned_memory_that_is_not_there_is_told_and_a_later_request_works [FakeDriver];
}

programs![
    destroy_twice,
    free_after_a_failed_destroy,
    give_back_pinned,
    wait_for_pinned,
    run_out_of_pinned,
];

/// The driver's code for memory that it does not have.
const OUT_OF_MEMORY: i32 = 2;

fn runs(context: &'static Context, program: &str) -> Checked {
    launch(context, program).run()?.expect_success()
}

/// What the backend itself keeps, gives back and makes is counted: pools of the core would come between.
fn runs_plain(context: &'static Context, program: &str) -> Checked {
    launch(context, program).env("LLAISYS_ALLOCATOR", "plain").run()?.expect_success()
}

/// A stream of each kind.
fn streams(context: &Context) -> Checked<[(&'static str, Stream); 3]> {
    let made = |flags: StreamFlags| {
        let stream = context.x.create_stream_with(0, flags.0, 0);
        context.ok(stream, "create_stream_with")
    };
    Ok([
        ("a stream of the twelve", context.stream()?),
        ("a blocking stream", made(StreamFlags::BLOCKING)?),
        ("a non-blocking stream", made(StreamFlags::NON_BLOCKING)?),
    ])
}

/// Has the driver refuse to destroy a stream, with a code.
fn fail_to_destroy(context: &Context, fake: &Fake, stream: Stream, code: i32) -> Checked {
    fake.fail(c"cuStreamDestroy", 1, code)?;
    let answer = context.x.destroy_stream(0, stream);
    let told = context.failure()?;
    let told = told.ok_or_else(|| Stop::fail("a destroy that failed left no failure"))?;
    ensure_eq!(answer, Err(told.code), "what destroy_stream returns");
    ensure_eq!(told.operation, "destroy_stream", "the operation");
    ensure_eq!(told.native_code, i64::from(code), "the driver's code");
    fake.fail(c"cuStreamDestroy", 0, 0)
}

fn destroy_twice(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    let fake = Fake::open()?;
    // The backend makes streams of its own when they are first needed: some when it frees while there is work.
    for (_, stream) in streams(context)? {
        use_stream(context, stream)?;
        let freed = (Block::device(context, 4096)?, Block::pinned(context, 4096)?);
        let gate = Gate::hold(context, 0, stream)?;
        freed.0.free()?;
        freed.1.free()?;
        gate.open();
        context.wait(stream)?;
        context.destroy(stream)?;
    }
    let before = fake.count("fakecuda_live_streams")?;
    for code in [999, 400, 201, 304] {
        for (kind, stream) in streams(context)? {
            let at = |stop: Stop| stop.at(format!("{kind}, {code}"));
            let once = || -> Checked {
                fail_to_destroy(context, &fake, stream, code)?;
                use_stream(context, stream)?;
                // And a second time, before it goes.
                fail_to_destroy(context, &fake, stream, code)?;
                use_stream(context, stream)?;
                context.ok(context.x.destroy_stream(0, stream), "destroying it at last")?;
                let answer = context.x.destroy_stream(0, stream);
                let what = "destroying it once more";
                context.answered(answer, "destroy_stream", Status::InvalidHandle, what).map(drop)
            };
            once().map_err(at)?;
        }
        ensure_eq!(fake.count("fakecuda_live_streams")?, before, "streams that the driver has");
    }
    ensure_eq!(fake.count("fakecuda_misuses")?, 0, "uses of a handle after its end");
    Ok(0)
}

/// Copies through the stream, and asks what can be asked about it.
fn use_stream(context: &'static Context, stream: Stream) -> Checked {
    let bytes = context.bytes(1, 10_000);
    let source = Block::filled(context, Place::Pinned, &bytes)?;
    let middle = Block::device(context, bytes.len())?;
    let target = Block::pinned(context, bytes.len())?;
    let (from, over, to) = (source.address(), middle.address(), target.address());
    context.enqueue(over, from, bytes.len(), MemcpyKind::H2D, stream)?;
    context.enqueue(to, over, bytes.len(), MemcpyKind::D2H, stream)?;
    context.wait(stream)?;
    ensure!(target.content()? == bytes, "the copies did not arrive");
    ensure!(context.ready(0, stream)?, "a stream that was waited for is not ready");
    let device = context.ok(context.x.get_stream_device(stream), "get_stream_device")?;
    ensure_eq!(device, 0, "the stream's device");
    Ok(())
}

fn a_stream_that_could_not_be_destroyed_is_used_and_destroyed_later(
    context: &'static Context,
) -> Checked {
    // It counts streams, and the threads that copy have some.
    launch(context, "destroy_twice")
        .env("LLAISYS_ALLOCATOR", "plain")
        .env("LLAISYS_STAGING", "off")
        .run()?
        .expect_success()
}

fn free_after_a_failed_destroy(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    let fake = Fake::open()?;
    for (kind, stream) in streams(context)? {
        fail_to_destroy(context, &fake, stream, 999)?;
        let bytes = context.bytes(1, 100_000);
        let source = Block::filled(context, Place::Pinned, &bytes)?;
        let target = Block::device(context, bytes.len())?;
        let gate = Gate::hold(context, 0, stream)?;
        let (dst, src) = (target.address(), source.address());
        context.enqueue(dst, src, bytes.len(), MemcpyKind::H2D, stream)?;
        source.free()?;
        // Whoever gets pinned memory now writes into it at once.
        let mut others = Vec::new();
        for _ in 0..8 {
            others.push(Block::filled(context, Place::Pinned, &vec![0xee; bytes.len()])?);
        }
        gate.open();
        context.wait(stream)?;
        ensure!(target.content()? == bytes, "{kind}: its source was handed out while it was held");
        context.ok(context.x.destroy_stream(0, stream), "destroying it at last")?;
    }
    Ok(0)
}

fn memory_on_a_stream_that_could_not_be_destroyed_is_still_kept_for_it(
    context: &'static Context,
) -> Checked {
    runs(context, "free_after_a_failed_destroy")
}

/// The driver has no pinned memory the nth time that it is asked (0: ever), neither to allocate nor to
/// register.
fn no_pinned_memory(fake: &Fake, nth: u64) -> Checked {
    fake.fail(c"cuMemHostRegister", nth, OUT_OF_MEMORY)?;
    fake.fail(c"cuMemHostAlloc", nth, OUT_OF_MEMORY)
}

/// Pinned memory that was freed and is kept for the next one who asks: eight blocks.
fn keep_some(context: &'static Context) -> Checked {
    let blocks: Vec<Block> =
        (0..8).map(|_| Block::pinned(context, 1 << 20)).collect::<Checked<_>>()?;
    blocks.into_iter().try_for_each(Block::free)
}

fn give_back_pinned(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    let fake = Fake::open()?;
    keep_some(context)?;
    let before = fake.calls(c"cuMemFreeHost")?;
    no_pinned_memory(&fake, 1)?;
    // None of those that are kept is large enough.
    let large = Block::pinned(context, 16 << 20)?;
    let given_back = fake.calls(c"cuMemFreeHost")? - before;
    ensure_eq!(given_back, 8, "the kept blocks that went back to the driver");
    large.free()?;
    Ok(0)
}

fn pinned_memory_that_is_kept_goes_back_before_out_of_memory_is_answered(
    context: &'static Context,
) -> Checked {
    runs_plain(context, "give_back_pinned")
}

fn wait_for_pinned(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    let fake = Fake::open()?;
    let stream = context.stream()?;
    let bytes = context.bytes(1, 1 << 20);
    let source = Block::filled(context, Place::Pinned, &bytes)?;
    let target = Block::device(context, bytes.len())?;
    let gate = Gate::hold(context, 0, stream)?;
    let (dst, src) = (target.address(), source.address());
    context.enqueue(dst, src, bytes.len(), MemcpyKind::H2D, stream)?;
    source.free()?;
    let before = fake.calls(c"cuMemFreeHost")?;
    // Until the kept block is back there is no memory.
    no_pinned_memory(&fake, 1)?;
    no_pinned_memory(&fake, 2)?;
    let caller = Caller::start(move || Block::pinned(context, 16 << 20)?.free())?;
    caller.expect_waiting("malloc_host, when all that there is to give back is still in use")?;
    ensure_eq!(fake.calls(c"cuMemFreeHost")?, before, "frees of memory that is in use");
    gate.open();
    caller.join()?;
    ensure!(fake.calls(c"cuMemFreeHost")? > before, "the kept block did not go back");
    context.wait(stream)?;
    ensure!(target.content()? == bytes, "the copy from the block that was freed");
    context.destroy(stream)?;
    Ok(0)
}

fn pinned_memory_that_is_still_in_use_is_waited_for_before_out_of_memory(
    context: &'static Context,
) -> Checked {
    runs_plain(context, "wait_for_pinned")
}

fn run_out_of_pinned(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    let fake = Fake::open()?;
    // With nothing that is kept, and with blocks that are, too small for the second request.
    for (size, are_kept) in [(16 << 20, false), (40 << 20, true)] {
        if are_kept {
            keep_some(context)?;
        }
        no_pinned_memory(&fake, 0)?;
        let answer = context.x.malloc_host(0, size as u64);
        let what = "when there is none, whatever goes back";
        let told = context.answered(answer, "malloc_host", Status::OutOfMemory, what)?;
        ensure_eq!(told.native_code, i64::from(OUT_OF_MEMORY), "the driver's code");
        ensure!(told.message.contains(&size.to_string()), "the message says how much: {told:?}");
        fake.fail(c"cuMemHostRegister", 0, 0)?;
        fake.fail(c"cuMemHostAlloc", 0, 0)?;
        Block::pinned(context, size)?.free()?;
    }
    Ok(0)
}

fn pinned_memory_that_is_not_there_is_told_and_a_later_request_works(
    context: &'static Context,
) -> Checked {
    runs(context, "run_out_of_pinned")
}
