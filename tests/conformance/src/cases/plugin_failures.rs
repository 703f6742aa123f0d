//! What becomes of a plugin's failures, and of its nonsense (E1, E2, E5, E6, H1).

use super::plugin_abi::{the_twelve_work, with_plugin};
use crate::case::Area;
use crate::code::Code;
use crate::context::Context;
use crate::extended::{Answer, Copy};
use crate::forever::forever;
use crate::outcome::{Checked, Stop};
use crate::program::Bare;
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{MemcpyKind, Stream};
use std::ffi::c_void;
use std::sync::Mutex;

cases! { Area::Plugins;
    "E1" nonsense_from_a_plugin_is_an_error [Compiler];
    "E2" what_a_plugin_says_of_its_failure_arrives [Compiler];
    "E5" a_lost_device_answers_at_once_with_the_first_cause [Compiler];
    "E6" a_failure_that_a_plugin_left_unread_is_not_reported_as_ours [Compiler];
    "H1" a_backend_that_runs_functions_at_once_still_forbids_waiting_in_them [Compiler];
}

programs![
    answer_nonsense,
    fail_on_demand,
    lose_a_device,
    leave_a_failure_unread,
    wait_inside_at_once,
];

fn answer_nonsense(bare: &Bare) -> Checked<i32> {
    let context = bare.plugin(bare.argument(0)?)?;
    let internal = Status::Internal;
    for (size, what) in [
        (2000, "success without a pointer"),
        (2001, "9999, which is no status"),
        (2005, "-5, which is no status"),
        (2003, "a text longer than any buffer"),
    ] {
        let answer = context.x.malloc_device(0, size);
        let failure = context.answered(answer, "malloc_device", internal, what)?;
        ensure!(failure.message.len() < 1500, "a text of {} bytes", failure.message.len());
        ensure!(context.t.malloc_device(size as usize).is_null(), "{what}: expected NULL");
        context.refused("malloc_device", internal, what)?;
    }
    let answer = context.x.malloc_device(0, 2004);
    let failure = context.answered(answer, "malloc_device", Status::OutOfMemory, "no text")?;
    ensure!(!failure.message.is_empty(), "a failure without a text of the plugin's");
    let answer = context.x.create_stream(0);
    context.answered(answer, "create_stream", internal, "success with a NULL stream")?;
    let answer = context.x.stream_query(0, Stream::DEFAULT);
    context.answered(answer, "stream_query", internal, "success with an answer that is none")?;
    Ok(0)
}

fn nonsense_from_a_plugin_is_an_error(context: &'static Context) -> Checked {
    with_plugin(context, &["NULL_STREAMS=1", "READY=7"], "answer_nonsense")
}

fn fail_on_demand(bare: &Bare) -> Checked<i32> {
    let context = bare.plugin(bare.argument(0)?)?;
    for status in Status::ALL {
        // Success is none, and a lost device has a case of its own.
        if matches!(status, Status::Success | Status::DeviceLost) {
            continue;
        }
        let size = 1000 + status.code() as u64;
        let answer = context.x.malloc_device(1, size);
        let failure = context.answered(answer, "malloc_device", status, "on demand")?;
        ensure_eq!(failure.native_code, 4242, "the native code");
        ensure_eq!(failure.native_name, "FAKE_NATIVE", "the native name");
        let right = format!("asked for {size} on device 1");
        ensure_eq!(failure.message, right, "the message");
        // And the next call is none the worse.
        the_twelve_work(context)?;
    }
    Ok(0)
}

fn what_a_plugin_says_of_its_failure_arrives(context: &'static Context) -> Checked {
    with_plugin(context, &[], "fail_on_demand")
}

fn lose_a_device(bare: &Bare) -> Checked<i32> {
    let context = bare.plugin(bare.argument(0)?)?;
    let (x, lost) = (&context.x, Status::DeviceLost);
    let block = context.ok(x.malloc_device(1, 64), "malloc_device")?;
    let pinned = context.ok(x.malloc_host(1, 64), "malloc_host")?;
    let stream = context.ok(x.create_stream(1), "create_stream")?;
    let answer = x.malloc_device(1, 1000 + lost.code() as u64);
    let first = context.answered(answer, "malloc_device", lost, "the first cause")?;
    // The plugin ends the process when it is called again on that device.
    let copy = Copy::new(block, pinned, 64, MemcpyKind::H2D);
    let calls: [(&str, &dyn Fn() -> Answer); 9] = [
        ("set_device", &|| x.set_device(1)),
        ("device_synchronize", &|| x.device_synchronize(1)),
        ("create_stream", &|| x.create_stream(1).map(drop)),
        ("stream_synchronize", &|| x.stream_synchronize(1, stream)),
        ("stream_query", &|| x.stream_query(1, stream).map(drop)),
        ("malloc_device", &|| x.malloc_device(1, 64).map(drop)),
        ("malloc_host", &|| x.malloc_host(1, 64).map(drop)),
        ("memcpy_sync", &|| x.memcpy_sync(1, copy)),
        ("memcpy_async", &|| x.memcpy_async(1, copy, stream)),
    ];
    for (operation, call) in calls {
        let later = context.answered(call(), operation, lost, "on a lost device")?;
        ensure_eq!(later.message, first.message, "the cause that {operation} tells");
        ensure_eq!(later.native_code, first.native_code, "its native code");
    }
    // Frees come back, and are no crash; what they answer is theirs.
    for answer in [x.free_device(1, block), x.free_host(1, pinned), x.destroy_stream(1, stream)] {
        let right = answer.is_ok() || answer == Err(Code::from(lost));
        ensure!(right, "a free on a lost device: {answer:?}");
    }
    context.failure()?;
    // The other device and the CPU go on.
    context.set_device(0)?;
    let block = context.ok(x.malloc_device(0, 64), "malloc_device on the other device")?;
    context.ok(x.free_device(0, block), "free_device on the other device")?;
    let cpu = context.library.twelve(0).map_err(Stop::fail)?;
    cpu.free_device(cpu.malloc_device(64));
    context.clean("the CPU beside a lost device")?;
    ensure_eq!(context.t.get_device_count(), 2, "the count");
    Ok(0)
}

fn a_lost_device_answers_at_once_with_the_first_cause(context: &'static Context) -> Checked {
    with_plugin(context, &[], "lose_a_device")
}

fn leave_a_failure_unread(bare: &Bare) -> Checked<i32> {
    let context = bare.plugin(bare.argument(0)?)?;
    let block = context.ok(context.x.malloc_device(0, 2002), "malloc_device")?;
    context.clean("a call that succeeded and left another's failure in the plugin's slot")?;
    context.ok(context.x.free_device(0, block), "free_device")?;
    the_twelve_work(context)?;
    Ok(0)
}

fn a_failure_that_a_plugin_left_unread_is_not_reported_as_ours(
    context: &'static Context,
) -> Checked {
    with_plugin(context, &[], "leave_a_failure_unread")
}

/// What a host function calls, and what it was answered.
struct Inside {
    context: &'static Context,
    answer: Mutex<Option<Result<(), Code>>>,
}

/// # Safety
/// - `data` is an `Inside` that outlives the call.
unsafe extern "C" fn wait_inside(data: *mut c_void) {
    // SAFETY: by the contract above.
    let inside = unsafe { &*data.cast::<Inside>() };
    let answer = inside.context.x.device_synchronize(0);
    if let Ok(mut slot) = inside.answer.lock() {
        *slot = Some(answer);
    }
}

fn wait_inside_at_once(bare: &Bare) -> Checked<i32> {
    let context = bare.plugin(bare.argument(0)?)?;
    let inside = forever(Inside { context, answer: Mutex::new(None) });
    let data = std::ptr::from_ref(inside).cast_mut().cast();
    // SAFETY: the data is never freed.
    let launched = unsafe { context.x.launch_host_function(0, Stream::DEFAULT, wait_inside, data) };
    context.ok(launched, "launch_host_function")?;
    let answer = inside.answer.lock().map(|slot| *slot).unwrap_or_default();
    ensure_eq!(answer, Some(Err(Code::from(Status::NotPermitted))), "waiting inside");
    // The function ran on this very thread; its failure is in this thread's slot.
    context.refused("device_synchronize", Status::NotPermitted, "waiting inside")?;
    // Afterwards this thread may wait again.
    context.ok(context.x.device_synchronize(0), "waiting after the function")?;
    Ok(0)
}

fn a_backend_that_runs_functions_at_once_still_forbids_waiting_in_them(
    context: &'static Context,
) -> Checked {
    with_plugin(context, &[], "wait_inside_at_once")
}
