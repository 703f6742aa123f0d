//! Users' values, kept for a thread and device or for a stream.

use crate::address::Address;
use crate::case::Area;
use crate::context::Context;
use crate::forever::forever;
use crate::gate::Gate;
use crate::outcome::{Checked, Stop};
use crate::program::Bare;
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::Stream;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

cases! { Area::Slots;
    "D3" a_thread_keeps_a_value_for_each_device_and_key [];
    "D3" a_replaced_value_is_destroyed_once [];
    "D3" the_values_of_a_thread_end_with_it [];
    "L1" the_main_threads_values_are_destroyed_at_exit [];
    "D3" a_destructor_may_use_the_runtime [];
    "D3" a_stream_keeps_values [];
    "S3" the_values_of_a_stream_go_before_it [];
    "S3" a_busy_streams_values_are_destroyed_once [Gates];
    "S3" a_stream_that_is_none_keeps_nothing [];
    "D2" a_device_that_does_not_exist_keeps_nothing [];
}

programs![leave_a_value_behind];

unsafe extern "C" fn count(value: *mut c_void) {
    // SAFETY: the cases pass counters that live for the process.
    unsafe { &*value.cast::<AtomicUsize>() }.fetch_add(1, Ordering::SeqCst);
}

fn counter() -> &'static AtomicUsize {
    forever(AtomicUsize::new(0))
}

fn of(counter: &'static AtomicUsize) -> *mut c_void {
    ptr::from_ref(counter).cast_mut().cast()
}

fn times(counter: &AtomicUsize) -> usize {
    counter.load(Ordering::SeqCst)
}

fn set_thread(context: &Context, device: i32, key: u64, value: *mut c_void) -> Checked {
    // SAFETY: NULL, or a counter that lives for the process.
    let answer = unsafe { context.x.set_thread_slot(device, key, value, Some(count)) };
    context.ok(answer, "set_thread_slot")
}

fn of_thread(context: &Context, device: i32, key: u64) -> Checked<*mut c_void> {
    context.ok(context.x.get_thread_slot(device, key), "get_thread_slot")
}

fn set_stream(context: &Context, stream: Stream, key: u64, value: *mut c_void) -> Checked {
    // SAFETY: NULL, or a counter that lives for the process.
    let answer = unsafe { context.x.set_stream_slot(stream, key, value, Some(count)) };
    context.ok(answer, "set_stream_slot")
}

fn of_stream(context: &Context, stream: Stream, key: u64) -> Checked<*mut c_void> {
    context.ok(context.x.get_stream_slot(stream, key), "get_stream_slot")
}

fn in_thread(body: impl FnOnce() -> Checked + Send + 'static) -> Checked {
    std::thread::spawn(body).join().unwrap_or_else(|_| Err(Stop::fail("the thread panicked")))
}

fn a_thread_keeps_a_value_for_each_device_and_key(context: &'static Context) -> Checked {
    let keys = [0, 1, 7 << 40, u64::MAX];
    let mut values = Vec::new();
    for device in 0..context.count {
        for key in keys {
            ensure!(of_thread(context, device, key)?.is_null(), "a value before one was set");
            let value = counter();
            set_thread(context, device, key, of(value))?;
            values.push((device, key, value));
        }
    }
    for (device, key, value) in &values {
        let found = of_thread(context, *device, *key)?;
        ensure_eq!(found, of(value), "the value of device {device} and key {key}");
        ensure_eq!(times(value), 0, "destroyed while it is kept");
    }
    in_thread(move || {
        for key in keys {
            let found = of_thread(context, 0, key)?;
            ensure!(found.is_null(), "another thread's value was found");
        }
        Ok(())
    })?;
    for (device, key, value) in values {
        set_thread(context, device, key, ptr::null_mut())?;
        ensure_eq!(times(value), 1, "how often a value that was taken away is destroyed");
        ensure!(of_thread(context, device, key)?.is_null(), "a value after it was taken away");
    }
    Ok(())
}

fn a_replaced_value_is_destroyed_once(context: &'static Context) -> Checked {
    let (first, second) = (counter(), counter());
    let stream = context.stream()?;
    set_thread(context, 0, 5, of(first))?;
    set_thread(context, 0, 5, of(second))?;
    ensure_eq!((times(first), times(second)), (1, 0), "destroyed, in a thread");
    set_thread(context, 0, 5, ptr::null_mut())?;
    set_thread(context, 0, 5, ptr::null_mut())?;
    ensure_eq!((times(first), times(second)), (1, 1), "destroyed, in a thread");
    let (first, second) = (counter(), counter());
    set_stream(context, stream, 5, of(first))?;
    set_stream(context, stream, 5, of(second))?;
    ensure_eq!((times(first), times(second)), (1, 0), "destroyed, in a stream");
    set_stream(context, stream, 5, ptr::null_mut())?;
    ensure_eq!((times(first), times(second)), (1, 1), "destroyed, in a stream");
    context.destroy(stream)?;
    ensure_eq!((times(first), times(second)), (1, 1), "destroyed, after the stream");
    // Without a destructor nothing is called.
    // SAFETY: there is no destructor.
    let answer = unsafe { context.x.set_thread_slot(0, 6, Address::GARBAGE.pointer(), None) };
    context.ok(answer, "set_thread_slot without a destructor")?;
    ensure_eq!(of_thread(context, 0, 6)?, Address::GARBAGE.pointer(), "any value");
    set_thread(context, 0, 6, ptr::null_mut())
}

fn the_values_of_a_thread_end_with_it(context: &'static Context) -> Checked {
    let values: [&'static AtomicUsize; 3] = [counter(), counter(), counter()];
    in_thread(move || {
        for (key, value) in values.iter().enumerate() {
            set_thread(context, context.count - 1, key as u64, of(value))?;
        }
        for value in values {
            ensure_eq!(times(value), 0, "destroyed while the thread lives");
        }
        Ok(())
    })?;
    for value in values {
        ensure_eq!(times(value), 1, "how often a value is destroyed when its thread ends");
    }
    Ok(())
}

unsafe extern "C" fn say(value: *mut c_void) {
    println!("destroyed {}", value.expose_provenance());
}

/// The program: leaves `main` with a value that is kept.
fn leave_a_value_behind(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    // SAFETY: `say` does not follow the pointer.
    let answer = unsafe { context.x.set_thread_slot(0, 1, Address(77).pointer(), Some(say)) };
    context.ok(answer, "set_thread_slot")?;
    let stream = context.stream()?;
    // SAFETY: as above.
    let answer = unsafe { context.x.set_stream_slot(stream, 1, Address(88).pointer(), Some(say)) };
    context.ok(answer, "set_stream_slot")?;
    Ok(0)
}

fn the_main_threads_values_are_destroyed_at_exit(context: &'static Context) -> Checked {
    let ended = context.program("leave_a_value_behind").run()?;
    ended.expect_success()?;
    let of_main = ended.stdout.matches("destroyed 77").count();
    ensure_eq!(of_main, 1, "how often the main thread's value was destroyed");
    let of_stream = ended.stdout.matches("destroyed 88").count();
    ensure!(of_stream <= 1, "the value of a stream that is alive at exit: {of_stream} times");
    Ok(())
}

/// What a destructor finds when it uses the runtime.
struct Inside {
    context: &'static Context,
    stream: Stream,
    answers: Mutex<Vec<String>>,
}

/// # Safety
/// - `value` is an `Inside` that outlives the call.
unsafe extern "C" fn look_around(value: *mut c_void) {
    // SAFETY: by the contract above.
    let inside = unsafe { &*value.cast::<Inside>() };
    let (context, stream) = (inside.context, inside.stream);
    let x = &context.x;
    let mut answers = vec![
        format!("{:?}", x.malloc_device(0, 64).and_then(|block| x.free_device(0, block))),
        format!("{:?}", x.get_thread_slot(0, 99).map(|value| value.is_null())),
    ];
    // SAFETY: there is nothing to destroy.
    let set = unsafe { x.set_thread_slot(0, 99, ptr::null_mut(), None) };
    answers.push(format!("{set:?}"));
    if !stream.is_default() {
        // It is out of the table already, so no new work is accepted, but it must not crash.
        let _ = x.stream_query(0, stream);
    }
    let _ = context.failure();
    inside.answers.lock().unwrap_or_else(PoisonError::into_inner).extend(answers);
}

fn a_destructor_may_use_the_runtime(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let inside = forever(Inside { context, stream, answers: Mutex::new(Vec::new()) });
    let value: *mut c_void = ptr::from_ref(inside).cast_mut().cast();
    let set_here = || -> Checked {
        // SAFETY: `inside` is never freed.
        let answer = unsafe { context.x.set_thread_slot(0, 3, value, Some(look_around)) };
        context.ok(answer, "set_thread_slot")
    };
    set_here()?;
    set_here()?;
    set_thread(context, 0, 3, ptr::null_mut())?;
    // SAFETY: as above.
    let answer = unsafe { context.x.set_stream_slot(stream, 3, value, Some(look_around)) };
    context.ok(answer, "set_stream_slot")?;
    context.destroy(stream)?;
    let found = inside.answers.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let right = ["Ok(())", "Ok(true)", "Ok(())"].repeat(3);
    ensure_eq!(found, right, "what three destructors were answered");
    Ok(())
}

fn a_stream_keeps_values(context: &'static Context) -> Checked {
    let (one, two) = (context.stream()?, context.stream()?);
    let (first, second) = (counter(), counter());
    set_stream(context, one, 1, of(first))?;
    set_stream(context, two, 1, of(second))?;
    ensure_eq!(of_stream(context, one, 1)?, of(first), "the first stream's value");
    ensure!(of_stream(context, one, 2)?.is_null(), "another key's value");
    in_thread(move || {
        ensure_eq!(of_stream(context, two, 1)?, of(second), "as another thread sees it");
        Ok(())
    })?;
    context.destroy(one)?;
    ensure_eq!((times(first), times(second)), (1, 0), "destroyed with the first stream");
    context.destroy(two)?;
    ensure_eq!((times(first), times(second)), (1, 1), "destroyed with the second stream");
    Ok(())
}

fn the_values_of_a_stream_go_before_it(context: &'static Context) -> Checked {
    // A stream with the same handle has none of them.
    for _ in 0..50 {
        let stream = context.stream()?;
        ensure!(of_stream(context, stream, 9)?.is_null(), "a new stream has an old one's value");
        let value = counter();
        set_stream(context, stream, 9, of(value))?;
        context.destroy(stream)?;
        ensure_eq!(times(value), 1, "destroyed when destroy_stream has returned");
    }
    Ok(())
}

fn a_busy_streams_values_are_destroyed_once(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let value = counter();
    set_stream(context, stream, 1, of(value))?;
    let gate = Gate::hold(context, 0, stream)?;
    context.destroy(stream)?;
    gate.open();
    context.ok(context.x.device_synchronize(0), "device_synchronize")?;
    ensure_eq!(times(value), 1, "how often a busy stream's value is destroyed");
    Ok(())
}

fn a_stream_that_is_none_keeps_nothing(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    context.destroy(stream)?;
    let garbage = Stream(Address::GARBAGE.pointer());
    let value = counter();
    for (stream, what) in
        [(Stream::DEFAULT, "NULL"), (stream, "a destroyed stream"), (garbage, "garbage")]
    {
        // SAFETY: a counter that lives for the process.
        let answer = unsafe { context.x.set_stream_slot(stream, 1, of(value), Some(count)) };
        context.answered(answer, "set_stream_slot", Status::InvalidHandle, what)?;
        let answer = context.x.get_stream_slot(stream, 1);
        context.answered(answer, "get_stream_slot", Status::InvalidHandle, what)?;
    }
    ensure_eq!(times(value), 0, "a refused value is still the caller's");
    Ok(())
}

fn a_device_that_does_not_exist_keeps_nothing(context: &'static Context) -> Checked {
    let value = counter();
    for device in [-1, context.count] {
        let what = format!("device {device}");
        // SAFETY: a counter that lives for the process.
        let answer = unsafe { context.x.set_thread_slot(device, 1, of(value), Some(count)) };
        context.answered(answer, "set_thread_slot", Status::InvalidDevice, &what)?;
        let answer = context.x.get_thread_slot(device, 1);
        context.answered(answer, "get_thread_slot", Status::InvalidDevice, &what)?;
    }
    ensure_eq!(times(value), 0, "a refused value is still the caller's");
    Ok(())
}
