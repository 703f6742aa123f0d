//! Which devices there are and which one is current (D1–D7).

use crate::caller::Caller;
use crate::case::Area;
use crate::code::Code;
use crate::context::Context;
use crate::footprint::Footprint;
use crate::outcome::{Checked, Stop};
use crate::place::{Block, Place};
use crate::program::Bare;
use crate::subject;
use crate::twelve::Twelve;
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{MemcpyKind, Stream};
use std::collections::HashSet;
use std::sync::{Arc, Barrier};

cases! { Area::Devices;
    "D1" the_count_is_the_same_again_and_again [];
    "D1" the_first_count_from_sixteen_threads_at_once [];
    "D1" counting_leaves_nothing_in_the_error_slot [];
    "D1" the_count_can_be_asked_with_its_reason [];
    "D5" every_number_gets_a_full_table [];
    "D5" a_type_without_a_backend_has_no_device_and_eleven_errors [];
    "D5" a_type_without_a_backend_has_no_versioned_table_and_says_why [];
    "D5" device_types_have_names_and_strangers_are_unknown [];
    "D2" an_ordinal_that_is_none_is_refused_and_changes_nothing [];
    "D2" a_context_that_is_none_is_refused_and_changes_nothing [];
    "D2" choosing_by_table_and_by_context_is_the_same_choice [];
    "D2" only_choosing_a_device_changes_the_current_one [];
    "D3" a_thread_that_never_chose_is_on_device_zero [];
    "D3" memory_outlives_the_thread_that_made_it [];
    "D3" a_stream_outlives_the_thread_that_made_it [];
    "D4" listing_devices_leaves_a_forked_child_able_to_begin [];
    "D6" virtual_devices_are_counted_as_asked_for [BuiltIn, HostMemory];
    "E1" a_number_of_virtual_devices_that_is_none_does_no_harm [BuiltIn, HostMemory];
    "D7" a_context_outlives_heavy_use_and_every_stream [];
}

programs![
    tell_what_is_tested,
    tell_use_of_the_library,
    count_from_sixteen_threads,
    list_and_fork,
    count_is,
    count_is_at_least_one,
];

/// For the head of a run.
fn tell_what_is_tested(bare: &Bare) -> Checked<i32> {
    println!("{}", subject::of_library(bare.context()?));
    Ok(0)
}

/// The program: prints what it takes to use every device.
fn tell_use_of_the_library(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    let work = || {
        (0..context.count).for_each(|device| subject::use_once(&context.x, device));
        Ok(())
    };
    println!("{}", Footprint::of_use(work, |_| Vec::new())?);
    Ok(0)
}

fn the_count_is_the_same_again_and_again(context: &'static Context) -> Checked {
    for round in 0..1000 {
        ensure_eq!(context.t.get_device_count(), context.count, "count number {round}");
    }
    ensure_eq!(context.x.get_device_count(), Ok(context.count), "the versioned table's count");
    ensure!(context.count >= 1, "expected at least one device, found {}", context.count);
    Ok(())
}

fn the_first_count_from_sixteen_threads_at_once(context: &'static Context) -> Checked {
    context.program("count_from_sixteen_threads").run()?.expect_success()
}

fn count_from_sixteen_threads(bare: &Bare) -> Checked<i32> {
    let library = Arc::new(bare.library()?);
    let number = library.device_type(&bare.setup.device_type).map_err(Stop::fail)?;
    let start = Arc::new(Barrier::new(16));
    let threads: Vec<_> = (0..16)
        .map(|_| {
            let (library, start) = (Arc::clone(&library), Arc::clone(&start));
            std::thread::spawn(move || -> Result<i32, String> {
                start.wait();
                Ok(library.twelve(number)?.get_device_count())
            })
        })
        .collect();
    let mut counts = HashSet::new();
    for thread in threads {
        let count = thread.join().map_err(|_| Stop::fail("a thread panicked"))?;
        counts.insert(count.map_err(Stop::fail)?);
    }
    ensure_eq!(counts.len(), 1, "the number of different answers ({counts:?})");
    ensure!(counts.iter().all(|count| *count >= 1), "expected a device, found {counts:?}");
    Ok(0)
}

fn counting_leaves_nothing_in_the_error_slot(context: &'static Context) -> Checked {
    for number in [context.device_type, 0, 1, 2, 9, 31, 47, 48, 777, -1, i32::MIN, i32::MAX] {
        let count = context.library.twelve(number).map_err(Stop::fail)?.get_device_count();
        ensure!(count >= 0, "the count of type {number}: expected 0 or more, found {count}");
        context.clean(&format!("get_device_count of type {number}"))?;
    }
    Ok(())
}

fn the_count_can_be_asked_with_its_reason(context: &'static Context) -> Checked {
    let told = context.library.device_count(context.device_type);
    ensure_eq!(told, Ok(context.count), "llaisysGetDeviceCount");
    let told = context.library.device_count(777);
    context.answered(
        told,
        "llaisysGetDeviceCount",
        Status::BackendUnavailable,
        "llaisysGetDeviceCount(777)",
    )?;
    // SAFETY: a NULL output is refused.
    let code = unsafe {
        (context.library.call.get_device_count)(context.device_type, std::ptr::null_mut())
    };
    ensure_eq!(Code(code), Code::from(Status::InvalidValue), "llaisysGetDeviceCount into NULL");
    context.refused("llaisysGetDeviceCount", Status::InvalidValue, "into NULL")?;
    Ok(())
}

fn every_number_gets_a_full_table(context: &'static Context) -> Checked {
    for number in (-2..64).chain([100, 777, i32::MAX, i32::MIN]) {
        let table = context.library.twelve(number);
        table.map_err(|error| Stop::fail(format!("llaisysGetRuntimeAPI({number}): {error}")))?;
    }
    context.clean("llaisysGetRuntimeAPI")
}

/// Calls each of the eleven and expects `status` from each.
fn eleven_errors(context: &'static Context, t: &Twelve, status: Status) -> Checked {
    let mut bytes = [7u8; 16];
    let source = [9u8; 16];
    let to = crate::address::Address::of_mut(&mut bytes);
    let from = crate::address::Address::of(&source);
    let refused = |operation| context.refused(operation, status, "no backend").map(drop);
    t.set_device(0);
    refused("set_device")?;
    t.device_synchronize();
    refused("device_synchronize")?;
    ensure!(t.create_stream().is_default(), "create_stream: expected NULL");
    refused("create_stream")?;
    t.destroy_stream(Stream(to.pointer()));
    refused("destroy_stream")?;
    t.stream_synchronize(Stream::DEFAULT);
    refused("stream_synchronize")?;
    ensure!(t.malloc_device(64).is_null(), "malloc_device: expected NULL");
    refused("malloc_device")?;
    t.free_device(to);
    refused("free_device")?;
    ensure!(t.malloc_host(64).is_null(), "malloc_host: expected NULL");
    refused("malloc_host")?;
    t.free_host(to);
    refused("free_host")?;
    t.copy(to, from, 16, MemcpyKind::H2H);
    refused("memcpy_sync")?;
    t.enqueue(to, from, 16, MemcpyKind::H2H, Stream::DEFAULT);
    refused("memcpy_async")?;
    ensure_eq!(bytes, [7u8; 16], "the destination of copies that failed");
    Ok(())
}

fn a_type_without_a_backend_has_no_device_and_eleven_errors(context: &'static Context) -> Checked {
    for number in [777, -1, 48, i32::MIN] {
        let t = context.library.twelve(number).map_err(Stop::fail)?;
        ensure_eq!(t.get_device_count(), 0, "the count of type {number}");
        eleven_errors(context, &t, Status::BackendUnavailable)
            .map_err(|stop| stop.at(format!("type {number}")))?;
    }
    Ok(())
}

fn a_type_without_a_backend_has_no_versioned_table_and_says_why(
    context: &'static Context,
) -> Checked {
    for number in [777, -1, 48] {
        // SAFETY: takes a number.
        let table = unsafe { (context.library.call.get_backend_api)(number) };
        ensure!(table.is_null(), "llaisysGetBackendAPI({number}): expected NULL");
        let failure =
            context.refused("llaisysGetBackendAPI", Status::BackendUnavailable, "no backend")?;
        ensure!(
            failure.message.contains(&number.to_string()),
            "expected the message to name type {number}, found: {}",
            failure.message
        );
    }
    Ok(())
}

fn device_types_have_names_and_strangers_are_unknown(context: &'static Context) -> Checked {
    let name = |number| context.library.device_type_name(number).map_err(Stop::fail);
    ensure_eq!(name(0)?, "cpu", "the name of type 0");
    ensure_eq!(name(1)?, "nvidia", "the name of type 1");
    ensure_eq!(name(context.device_type)?, context.candidate.name, "the name under test");
    for number in [-1, 11, 48, 777, i32::MIN, i32::MAX] {
        ensure_eq!(name(number)?, "unknown", "the name of type {number}");
    }
    context.clean("llaisysDeviceTypeName")
}

/// Numbers that are no ordinal here.
fn no_ordinals(context: &Context) -> [i32; 6] {
    [context.count, 99.max(context.count + 1), -1, i32::MIN, i32::MAX, i32::MIN + 1]
}

fn an_ordinal_that_is_none_is_refused_and_changes_nothing(context: &'static Context) -> Checked {
    let kept = context.count - 1;
    context.library.set_context(context.device_type, kept);
    context.clean("llaisysSetContextRuntime")?;
    for ordinal in no_ordinals(context) {
        context.t.set_device(ordinal);
        let failure = context.refused("set_device", Status::InvalidDevice, "no such device")?;
        ensure!(
            failure.message.contains(&ordinal.to_string()),
            "expected the message to name device {ordinal}, found: {}",
            failure.message
        );
        ensure_eq!(context.library.context(), (context.device_type, kept), "after {ordinal}");
        context.answered(
            context.x.set_device(ordinal),
            "set_device",
            Status::InvalidDevice,
            "no such device (versioned table)",
        )?;
        for answer in [
            context.x.device_synchronize(ordinal),
            context.x.create_stream(ordinal).map(drop),
            context.x.malloc_device(ordinal, 64).map(drop),
            context.x.malloc_host(ordinal, 64).map(drop),
        ] {
            ensure_eq!(answer, Err(Code::from(Status::InvalidDevice)), "device {ordinal}");
        }
        context.failure()?;
    }
    // Memory that is allocated now is still on the device that was kept.
    let block = Block::device(context, 64)?;
    let own = context.x.free_device(kept, block.keep());
    context.ok(own, "freeing what was allocated after the failures")
}

fn a_context_that_is_none_is_refused_and_changes_nothing(context: &'static Context) -> Checked {
    context.library.set_context(context.device_type, context.count - 1);
    let before = context.library.context();
    for ordinal in no_ordinals(context) {
        context.library.set_context(context.device_type, ordinal);
        context.refused("llaisysSetContextRuntime", Status::InvalidDevice, "no such device")?;
        ensure_eq!(context.library.context(), before, "after device {ordinal}");
    }
    for number in [777, -1, 48, i32::MIN, i32::MAX] {
        context.library.set_context(number, 0);
        context.refused("llaisysSetContextRuntime", Status::BackendUnavailable, "no backend")?;
        ensure_eq!(context.library.context(), before, "after type {number}");
    }
    Ok(())
}

fn choosing_by_table_and_by_context_is_the_same_choice(context: &'static Context) -> Checked {
    for device in (0..context.count).rev() {
        context.library.set_context(context.device_type, device);
        ensure_eq!(context.library.context(), (context.device_type, device), "by context");
    }
    for device in 0..context.count {
        context.set_device(device)?;
        ensure_eq!(context.library.context(), (context.device_type, device), "by table");
    }
    // SAFETY: NULL outputs are left alone.
    let code =
        unsafe { (context.library.call.get_context)(std::ptr::null_mut(), std::ptr::null_mut()) };
    ensure_eq!(Code(code), Code::SUCCESS, "llaisysGetContextRuntime into NULL");
    Ok(())
}

fn only_choosing_a_device_changes_the_current_one(context: &'static Context) -> Checked {
    let (other, kept) = (context.count - 1, 0);
    context.library.set_context(context.device_type, kept);
    let stream = context.ok(context.x.create_stream(other), "create_stream")?;
    let device = context.ok(context.x.malloc_device(other, 4096), "malloc_device")?;
    let pinned = context.ok(context.x.malloc_host(other, 4096), "malloc_host")?;
    context.enqueue(device, pinned, 4096, MemcpyKind::H2D, stream)?;
    context.copy(pinned, device, 4096, MemcpyKind::D2H)?;
    context.wait(stream)?;
    context.ok(context.x.device_synchronize(other), "device_synchronize")?;
    ensure!(context.t.malloc_device(usize::MAX / 2).is_null(), "half of all memory is not there");
    context.refused_as(
        "malloc_device",
        &[Status::OutOfMemory, Status::InvalidValue],
        "half of all memory",
    )?;
    context.t.free_host(pinned);
    context.t.free_device(device);
    context.destroy(stream)?;
    ensure_eq!(context.library.context(), (context.device_type, kept), "the current device");
    Ok(())
}

fn a_thread_that_never_chose_is_on_device_zero(context: &'static Context) -> Checked {
    context.library.set_context(context.device_type, context.count - 1);
    context.clean("llaisysSetContextRuntime")?;
    let caller = Caller::start(move || {
        ensure_eq!(context.library.context(), (0, 0), "the context of a fresh thread");
        context.set_device(0)?;
        let block = Block::device(context, 64)?;
        block.free()
    })?;
    caller.join()
}

fn memory_outlives_the_thread_that_made_it(context: &'static Context) -> Checked {
    let bytes = context.bytes(1, 10_000);
    let copy = bytes.clone();
    let made = Caller::start(move || {
        let device = Block::filled(context, Place::Device, &copy)?;
        let pinned = Block::filled(context, Place::Pinned, &copy)?;
        Ok((device, pinned))
    })?;
    let (device, pinned) = made.join()?;
    ensure!(device.content()? == bytes, "device memory of a thread that ended has changed");
    ensure!(pinned.content()? == bytes, "pinned memory of a thread that ended has changed");
    device.free()?;
    pinned.free()
}

fn a_stream_outlives_the_thread_that_made_it(context: &'static Context) -> Checked {
    let stream = Caller::start(move || context.stream())?.join()?;
    let bytes = context.bytes(1, 4096);
    let source = Block::filled(context, Place::Pinned, &bytes)?;
    let middle = Block::device(context, 4096)?;
    let target = Block::pinned(context, 4096)?;
    context.enqueue(middle.address(), source.address(), 4096, MemcpyKind::H2D, stream)?;
    context.enqueue(target.address(), middle.address(), 4096, MemcpyKind::D2H, stream)?;
    Caller::start(move || context.wait(stream))?.join()?;
    ensure!(target.content()? == bytes, "the copies on the stream did not arrive");
    Caller::start(move || context.destroy(stream))?.join()
}

fn listing_devices_leaves_a_forked_child_able_to_begin(context: &'static Context) -> Checked {
    context.program("list_and_fork").run()?.expect_success()
}

fn list_and_fork(bare: &Bare) -> Checked<i32> {
    let library = bare.library()?;
    let number = library.device_type(&bare.setup.device_type).map_err(Stop::fail)?;
    let count = library.twelve(number).map_err(Stop::fail)?.get_device_count();
    ensure!(count >= 1, "expected a device, found {count}");
    // SAFETY: no thread of ours but this one; the child ends with `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let worked = bare.context().and_then(|context| {
            let bytes = context.bytes(1, 1000);
            let block = Block::filled(context, Place::Device, &bytes)?;
            ensure!(block.content()? == bytes, "the copy did not arrive");
            block.free()
        });
        let code = i32::from(worked.map_err(|stop| eprintln!("{}", stop.message)).is_err());
        // SAFETY: ends the child without its destructors.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: waits for the child that was just made.
    unsafe { libc::waitpid(child, &mut status, 0) };
    ensure_eq!(status, 0, "how a child that began after the fork ended");
    Ok(0)
}

fn virtual_devices_are_counted_as_asked_for(context: &'static Context) -> Checked {
    for count in ["1", "2", "3", "8"] {
        let program = context.program("count_is").env("LLAISYS_CPU_DEVICES", count);
        program.argument(count).run()?.expect_success()?;
    }
    Ok(())
}

fn count_is(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    ensure_eq!(context.count.to_string(), bare.argument(0)?, "the count");
    for device in 0..context.count {
        context.set_device(device)?;
        let bytes = context.bytes(device as u64, 100);
        let block = Block::filled(context, Place::Device, &bytes)?;
        ensure!(block.content()? == bytes, "device {device} does not copy");
    }
    Ok(0)
}

fn a_number_of_virtual_devices_that_is_none_does_no_harm(context: &'static Context) -> Checked {
    for word in ["", "0", "-1", "x", "3x", "99999999999999999999", " 2", "0x2"] {
        let program = context.program("count_is_at_least_one").env("LLAISYS_CPU_DEVICES", word);
        let ended = program.run()?;
        ended.expect_success().map_err(|stop| stop.at(format!("LLAISYS_CPU_DEVICES={word:?}")))?;
    }
    Ok(())
}

fn count_is_at_least_one(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    Block::device(context, 64)?.free()?;
    Ok(0)
}

fn a_context_outlives_heavy_use_and_every_stream(context: &'static Context) -> Checked {
    // The device is never reset: what was there before is there after everything else is gone.
    let bytes = context.bytes(1, 50_000);
    let block = Block::filled(context, Place::Device, &bytes)?;
    for _ in 0..context.times(40) {
        let streams: Vec<_> = (0..8).map(|_| context.stream()).collect::<Checked<_>>()?;
        let scratch = Block::device(context, 100_000)?;
        for stream in &streams {
            let (dst, src) = (scratch.address(), block.address());
            context.enqueue(dst, src, 50_000, MemcpyKind::D2D, *stream)?;
        }
        scratch.free()?;
        for stream in streams {
            context.destroy(stream)?;
        }
        context.t.device_synchronize();
        context.clean("device_synchronize")?;
    }
    ensure!(block.content()? == bytes, "memory that nobody freed has changed");
    block.free()
}
