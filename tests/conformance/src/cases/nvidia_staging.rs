//! The staging engine over a driver that counts and fails on demand: that it is used, what its failures
//! become, and that what it took goes back.

use super::nvidia_driver::{Fake, launch};
use crate::address::Address;
use crate::case::Area;
use crate::context::Context;
use crate::outcome::{Checked, Stop};
use crate::place::{Block, Place};
use crate::program::{Bare, Launch};
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{MemcpyKind, Stream};
use std::ffi::CStr;
use std::fs;
use std::time::{Duration, Instant};

cases! { Area::NvidiaDriver;
    "C2" a_large_copy_is_taken_apart_where_that_is_forced_and_not_where_it_is_off [FakeDriver];
    "S1" the_threads_that_copy_share_two_streams_of_a_device_so_that_a_held_one_is_not_in_their_way [FakeDriver];
    "E2" a_part_that_fails_is_the_copys_failure_and_the_next_copy_works [FakeDriver];
    "E5" a_device_that_is_lost_in_the_middle_of_a_copy_is_latched_and_nothing_hangs [FakeDriver];
    "E4" without_pinned_memory_streams_or_events_a_copy_goes_the_plain_way [FakeDriver];
    "L1" threads_without_work_go_and_their_memory_and_streams_with_them [FakeDriver];
    "L1" a_process_may_end_while_copies_are_under_way [FakeDriver];
    "M6" large_pinned_memory_is_registered_and_let_go_of [FakeDriver];
    "E4" pinned_memory_that_cannot_be_registered_is_the_drivers_own [FakeDriver];
}

programs![
    copy_and_count,
    count_streams,
    fail_a_part,
    lose_a_device_in_a_copy,
    copy_without,
    rest,
    leave_in_a_copy,
    register_pinned,
    fail_to_register,
];

const SIZE: usize = (1 << 20) + 13;

/// A program over the fake driver whose copies all go through the engine.
fn forced(context: &'static Context, program: &str) -> Launch {
    launch(context, program).env("LLAISYS_STAGING", "force").env("LLAISYS_ALLOCATOR", "plain")
}

/// There and back by copies that wait.
fn there_and_back(context: &'static Context) -> Checked {
    let (bytes, mut back) = (context.bytes(1, SIZE), vec![0; SIZE]);
    let block = Block::device(context, SIZE)?;
    context.copy(block.address(), Address::of(&bytes), SIZE, MemcpyKind::H2D)?;
    context.copy(Address::of_mut(&mut back), block.address(), SIZE, MemcpyKind::D2H)?;
    ensure!(back == bytes, "the copies did not arrive");
    block.free()
}

fn copy_and_count(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    let fake = Fake::open()?;
    there_and_back(context)?;
    let count = |whole, part| Ok::<_, Stop>((fake.calls(whole)?, fake.calls(part)?));
    let (whole_in, parts_in) = count(c"cuMemcpyHtoD", c"cuMemcpyHtoDAsync")?;
    let (whole_out, parts_out) = count(c"cuMemcpyDtoH", c"cuMemcpyDtoHAsync")?;
    println!("{whole_in} {parts_in} {whole_out} {parts_out}");
    Ok(0)
}

fn a_large_copy_is_taken_apart_where_that_is_forced_and_not_where_it_is_off(
    context: &'static Context,
) -> Checked {
    let forced = forced(context, "copy_and_count").run()?;
    forced.expect_success()?;
    // Parts of 16 KiB.
    ensure_eq!(forced.stdout.trim(), "0 65 0 65", "copies that are forced");
    let off = launch(context, "copy_and_count").env("LLAISYS_STAGING", "off").run()?;
    off.expect_success()?;
    ensure_eq!(off.stdout.trim(), "1 0 1 0", "copies without the engine");
    Ok(())
}

fn count_streams(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    let fake = Fake::open()?;
    Block::device(context, 64)?.free()?;
    let before = fake.count("fakecuda_live_streams")?;
    for _ in 0..4 {
        there_and_back(context)?;
    }
    let made = fake.count("fakecuda_live_streams")? - before;
    // One more may be the backend's own.
    ensure!((2..=3).contains(&made), "{} threads took {made} streams", threads()?);
    Ok(0)
}

fn the_threads_that_copy_share_two_streams_of_a_device_so_that_a_held_one_is_not_in_their_way(
    context: &'static Context,
) -> Checked {
    // A dozen streams were in the hardware queue of a stream that was held, and every large copy with them.
    let launch = launch(context, "count_streams").env("LLAISYS_STAGING", "force,threads=12");
    launch.env("LLAISYS_ALLOCATOR", "plain").run()?.expect_success()
}

/// A copy in one direction, in which the driver's call for a part fails.
fn failing(
    context: &'static Context,
    fake: &Fake,
    (name, kind): (&CStr, MemcpyKind),
    (nth, code): (u64, i32),
    status: Status,
) -> Checked {
    let mut bytes = context.bytes(1, SIZE);
    let block = Block::device(context, SIZE)?;
    let (device, host) = (block.address(), Address::of_mut(&mut bytes));
    let (dst, src) = if kind == MemcpyKind::H2D { (device, host) } else { (host, device) };
    let what = format!("{kind:?}, where {name:?} answers {code} the {nth}th time");
    fake.fail(name, nth, code)?;
    context.t.copy(dst, src, SIZE, kind);
    let failure = context.refused("memcpy_sync", status, &what)?;
    fake.fail(name, 0, 0)?;
    ensure_eq!(failure.native_code, i64::from(code), "{what}: the driver's code");
    ensure!(failure.message.contains(&SIZE.to_string()), "{what}: {}", failure.message);
    if status == Status::DeviceLost {
        // A free says so, too.
        std::mem::forget(block);
        return Ok(());
    }
    block.free()
}

fn fail_a_part(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    let fake = Fake::open()?;
    there_and_back(context)?;
    for kind in [MemcpyKind::H2D, MemcpyKind::D2H] {
        let copy =
            if kind == MemcpyKind::H2D { c"cuMemcpyHtoDAsync" } else { c"cuMemcpyDtoHAsync" };
        for name in [copy, c"cuEventRecord", c"cuEventSynchronize"] {
            // The first record and the first wait are for the copy's turn.
            for nth in if name == copy { [1, 3, 65] } else { [2, 9, 60] } {
                failing_part(context, &fake, (name, kind), nth)?;
                there_and_back(context)?;
            }
        }
    }
    ensure_eq!(fake.count("fakecuda_misuses")?, 0, "uses of a handle after its end");
    Ok(0)
}

fn failing_part(
    context: &'static Context,
    fake: &Fake,
    at: (&CStr, MemcpyKind),
    nth: u64,
) -> Checked {
    failing(context, fake, at, (nth, 999), Status::DriverError)
}

fn a_part_that_fails_is_the_copys_failure_and_the_next_copy_works(
    context: &'static Context,
) -> Checked {
    forced(context, "fail_a_part").run()?.expect_success()
}

fn lose_a_device_in_a_copy(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    let fake = Fake::open()?;
    there_and_back(context)?;
    let kind = if bare.argument(0)? == "in" { MemcpyKind::H2D } else { MemcpyKind::D2H };
    failing(context, &fake, (c"cuEventSynchronize", kind), (7, 700), Status::DeviceLost)?;
    // The first cause is what every later call gets.
    context.t.device_synchronize();
    context.refused("device_synchronize", Status::DeviceLost, "after the loss")?;
    let bytes = context.bytes(1, SIZE);
    context.t.copy(Address::of(&bytes), Address::of(&bytes).plus(SIZE), 0, MemcpyKind::H2D);
    context.clean("a copy of nothing")?;
    Ok(0)
}

fn a_device_that_is_lost_in_the_middle_of_a_copy_is_latched_and_nothing_hangs(
    context: &'static Context,
) -> Checked {
    for way in ["in", "out"] {
        forced(context, "lose_a_device_in_a_copy").argument(way).run()?.expect_success()?;
    }
    Ok(())
}

fn copy_without(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    let fake = Fake::open()?;
    context.t.device_synchronize();
    context.clean("device_synchronize")?;
    let stream = context.stream()?;
    let names =
        [c"cuMemHostAlloc", c"cuStreamCreate", c"cuStreamCreateWithPriority", c"cuEventCreate"];
    for name in names {
        fake.fail(name, 0, 2)?;
        there_and_back(context).map_err(|stop| stop.at(format!("without {name:?}")))?;
        let bytes = context.bytes(2, SIZE);
        let block = Block::device(context, SIZE)?;
        context.enqueue(block.address(), Address::of(&bytes), SIZE, MemcpyKind::H2D, stream)?;
        context.wait(stream)?;
        fake.fail(name, 0, 0)?;
        ensure!(block.content()? == bytes, "without {name:?}: what was enqueued");
        there_and_back(context)?;
    }
    context.destroy(stream)?;
    Ok(0)
}

fn without_pinned_memory_streams_or_events_a_copy_goes_the_plain_way(
    context: &'static Context,
) -> Checked {
    // Threads that go at once have to find everything anew.
    let launch = launch(context, "copy_without").env("LLAISYS_STAGING", "force,idle=0");
    launch.run()?.expect_success()
}

/// How many threads of this process serve the engine.
fn threads() -> Checked<usize> {
    let tasks = fs::read_dir("/proc/self/task").map_err(|error| Stop::skip(error.to_string()))?;
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).ok();
    Ok(tasks.flatten().filter_map(name).filter(|name| name.starts_with("llaisys.staging")).count())
}

fn rest(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    let fake = Fake::open()?;
    let block = Block::device(context, 64)?;
    ensure_eq!(threads()?, 0, "threads before there was a copy");
    let streams = fake.count("fakecuda_live_streams")?;
    let events = fake.count("fakecuda_live_events")?;
    for _ in 0..4 {
        there_and_back(context)?;
        let limit = Instant::now() + Duration::from_secs(20);
        // The backend makes one more stream of its own, and keeps what was freed behind an event or two.
        while threads()? > 0
            || fake.count("fakecuda_live_streams")? > streams + 1
            || fake.count("fakecuda_live_events")? > events + 8
        {
            ensure!(
                Instant::now() < limit,
                "left: {} threads, {} streams after {streams}, {} events after {events}",
                threads()?,
                fake.count("fakecuda_live_streams")?,
                fake.count("fakecuda_live_events")?
            );
            std::thread::yield_now();
        }
    }
    ensure_eq!(fake.count("fakecuda_misuses")?, 0, "uses of a handle after its end");
    block.free()?;
    Ok(0)
}

fn threads_without_work_go_and_their_memory_and_streams_with_them(
    context: &'static Context,
) -> Checked {
    let launch = launch(context, "rest").env("LLAISYS_STAGING", "force,idle=5");
    let launch = launch.env("LLAISYS_ALLOCATOR", "plain");
    launch.run()?.expect_success()
}

fn leave_in_a_copy(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    there_and_back(context)?;
    for _ in 0..2 {
        std::thread::spawn(move || {
            // To the end of the process, whatever comes of it.
            loop {
                let _ = there_and_back(context);
            }
        });
    }
    there_and_back(context)?;
    Ok(7)
}

fn a_process_may_end_while_copies_are_under_way(context: &'static Context) -> Checked {
    for ends in ["0", "1"] {
        let launch =
            forced(context, "leave_in_a_copy").env("FAKE_CUDA_DEINITIALIZED_AT_EXIT", ends);
        let ended = launch.run()?;
        ensure_eq!(ended.code, Some(7), "the exit code of a process that copies: {ended:?}");
    }
    Ok(())
}

fn register_pinned(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    let fake = Fake::open()?;
    let bytes = context.bytes(1, (5 << 20) + 1);
    let size = bytes.len();
    for _ in 0..40 {
        let source = Block::filled(context, Place::Pinned, &bytes)?;
        ensure!(
            source.address().0.is_multiple_of(4096),
            "large pinned memory is aligned to a page"
        );
        let (block, target) = (Block::device(context, size)?, Block::pinned(context, size)?);
        let (there, to) = (block.address(), target.address());
        context.enqueue(there, source.address(), size, MemcpyKind::H2D, Stream::DEFAULT)?;
        context.enqueue(to, there, size, MemcpyKind::D2H, Stream::DEFAULT)?;
        // Freed while the copy may be under way.
        source.free()?;
        context.wait(Stream::DEFAULT)?;
        ensure!(target.content()? == bytes, "what came through registered memory");
        // Held, so that the next round cannot have it.
        std::mem::forget(target);
    }
    let (taken, given) = (fake.calls(c"cuMemHostRegister")?, fake.calls(c"cuMemHostUnregister")?);
    ensure!(taken >= 40 && given <= taken, "{taken} registrations, {given} undone");
    ensure_eq!(fake.calls(c"cuMemHostAlloc")?, 0, "blocks of the driver's own");
    ensure_eq!(fake.count("fakecuda_misuses")?, 0, "memory that was unmapped while registered");
    Ok(0)
}

fn large_pinned_memory_is_registered_and_let_go_of(context: &'static Context) -> Checked {
    launch(context, "register_pinned").env("LLAISYS_ALLOCATOR", "plain").run()?.expect_success()
}

fn fail_to_register(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    let fake = Fake::open()?;
    // It is there, and cannot be registered: the driver has no room, or may not.
    for code in [2, 801, 999] {
        fake.fail(c"cuMemHostRegister", 0, code)?;
        let before = fake.calls(c"cuMemHostAlloc")?;
        let bytes = context.bytes(1, (80 << 20) + code as usize);
        let pinned = Block::filled(context, Place::Pinned, &bytes)?;
        ensure_eq!(fake.calls(c"cuMemHostAlloc")?, before + 1, "blocks of the driver's own");
        let block = Block::device(context, bytes.len())?;
        context.copy(block.address(), pinned.address(), bytes.len(), MemcpyKind::H2D)?;
        ensure!(block.content()? == bytes, "what came from memory of the driver's own");
        pinned.free()?;
        fake.fail(c"cuMemHostRegister", 0, 0)?;
    }
    ensure_eq!(fake.calls(c"cuMemHostUnregister")?, 0, "registrations that were undone");
    Ok(0)
}

fn pinned_memory_that_cannot_be_registered_is_the_drivers_own(
    context: &'static Context,
) -> Checked {
    launch(context, "fail_to_register").env("LLAISYS_ALLOCATOR", "plain").run()?.expect_success()
}
