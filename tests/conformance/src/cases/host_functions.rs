//! Users' functions in a stream (H1).

use crate::address::Address;
use crate::case::Area;
use crate::code::Code;
use crate::context::Context;
use crate::extended::Copy;
use crate::forever::forever;
use crate::gate::Gate;
use crate::guarded::Guarded;
use crate::outcome::Checked;
use crate::place::{Block, Place};
use crate::quiet::settle;
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{HostFunction, MemcpyKind, Stream};
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

cases! { Area::HostFunctions;
    "H1" each_runs_once_in_the_order_of_its_stream [Gates];
    "H1" it_gets_the_pointer_that_was_given [Gates];
    "H1" it_sees_what_came_before_and_holds_up_what_comes_after [Gates];
    "H1" a_call_that_waits_is_an_error_inside [Gates];
    "H1" the_thread_that_ran_one_may_wait_again [Gates];
    "H1" null_is_no_function [Gates];
    "H1" those_of_a_destroyed_stream_still_run [Gates];
    "H1" a_hundred_thousand_of_them [Gates];
    "H1" those_of_many_streams_each_run_once [Gates];
    "H1" they_run_with_pinned_copies_between_them_in_order [Gates];
}

/// Launches a function with data that is never freed.
fn launch<T: Sync>(
    context: &Context,
    stream: Stream,
    function: HostFunction,
    data: &'static T,
) -> Checked {
    let data = std::ptr::from_ref(data).cast_mut().cast();
    // SAFETY: the data is never freed, and each function here takes it for what it is.
    let launched = unsafe { context.x.launch_host_function(0, stream, function, data) };
    context.ok(launched, "launch_host_function")
}

/// A step that writes its number into a list.
struct Step {
    number: usize,
    list: &'static Mutex<Vec<usize>>,
}

/// # Safety
/// - `data` is a `Step` that outlives the call.
unsafe extern "C" fn note(data: *mut c_void) {
    // SAFETY: by the contract above.
    let step = unsafe { &*data.cast::<Step>() };
    step.list.lock().unwrap_or_else(PoisonError::into_inner).push(step.number);
}

/// # Safety
/// - `data` is a counter that outlives the call.
unsafe extern "C" fn count(data: *mut c_void) {
    // SAFETY: by the contract above.
    unsafe { &*data.cast::<AtomicUsize>() }.fetch_add(1, Ordering::SeqCst);
}

fn each_runs_once_in_the_order_of_its_stream(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    for on in [stream, Stream::DEFAULT] {
        let list = forever(Mutex::new(Vec::new()));
        let gate = Gate::hold(context, 0, on)?;
        for number in 0..500 {
            launch(context, on, note, forever(Step { number, list }))?;
        }
        settle();
        ensure!(
            list.lock().unwrap_or_else(PoisonError::into_inner).is_empty(),
            "functions behind a closed gate ran"
        );
        gate.open();
        context.wait(on)?;
        let found = list.lock().unwrap_or_else(PoisonError::into_inner).clone();
        ensure_eq!(found, (0..500).collect::<Vec<_>>(), "which ran, in which order");
    }
    context.destroy(stream)
}

fn it_gets_the_pointer_that_was_given(context: &'static Context) -> Checked {
    static FOUND: AtomicUsize = AtomicUsize::new(1);
    unsafe extern "C" fn keep(data: *mut c_void) {
        FOUND.store(data as usize, Ordering::SeqCst);
    }
    for word in [0, 1, 0xdead_beef, usize::MAX] {
        // SAFETY: `keep` does not follow the pointer.
        let launched = unsafe {
            let data = Address(word).pointer();
            context.x.launch_host_function(0, Stream::DEFAULT, keep, data)
        };
        context.ok(launched, "launch_host_function")?;
        context.wait(Stream::DEFAULT)?;
        ensure_eq!(FOUND.load(Ordering::SeqCst), word, "the pointer that arrived");
    }
    Ok(())
}

/// A look at pinned memory from inside a stream.
struct Look {
    from: Address,
    length: usize,
    found: Mutex<Vec<u8>>,
}

/// # Safety
/// - `data` is a `Look` that outlives the call, at memory that does too.
unsafe extern "C" fn look(data: *mut c_void) {
    // SAFETY: by the contract above.
    let look = unsafe { &*data.cast::<Look>() };
    // SAFETY: as above.
    let bytes =
        unsafe { std::slice::from_raw_parts(look.from.pointer().cast::<u8>(), look.length) };
    *look.found.lock().unwrap_or_else(PoisonError::into_inner) = bytes.to_vec();
}

fn it_sees_what_came_before_and_holds_up_what_comes_after(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let (first, second) = (context.bytes(1, 100_000), context.bytes(2, 100_000));
    let length = first.len();
    let one = Block::filled(context, Place::Device, &first)?;
    let two = Block::filled(context, Place::Device, &second)?;
    let target = Guarded::new(context, Place::Pinned, length)?;
    let to = target.address();
    let looked = forever(Look { from: to, length, found: Mutex::new(Vec::new()) });
    context.enqueue(to, one.address(), length, MemcpyKind::D2H, stream)?;
    launch(context, stream, look, looked)?;
    let gate = Gate::put(context, 0, stream)?;
    context.enqueue(to, two.address(), length, MemcpyKind::D2H, stream)?;
    gate.await_reached();
    target.expect(&first, "while a function holds the stream")?;
    gate.open();
    context.wait(stream)?;
    let found = looked.found.lock().unwrap_or_else(PoisonError::into_inner).clone();
    ensure!(found == first, "the function did not see what the copy before it wrote");
    target.expect(&second, "after the function was done")?;
    context.destroy(stream)
}

/// The answers of calls from inside a stream.
struct Inside {
    context: &'static Context,
    stream: Stream,
    device: Address,
    pageable: Address,
    answers: Mutex<Vec<(&'static str, Result<(), Code>)>>,
}

/// # Safety
/// - `data` is an `Inside` that outlives the call.
unsafe extern "C" fn call_from_inside(data: *mut c_void) {
    // SAFETY: by the contract above.
    let inside = unsafe { &*data.cast::<Inside>() };
    let (x, stream) = (&inside.context.x, inside.stream);
    let copy = Copy::new(inside.pageable, inside.device, 64, MemcpyKind::D2H);
    let answers = vec![
        ("stream_synchronize", x.stream_synchronize(0, stream)),
        ("stream_synchronize(NULL)", x.stream_synchronize(0, Stream::DEFAULT)),
        ("device_synchronize", x.device_synchronize(0)),
        ("memcpy_sync", x.memcpy_sync(0, copy)),
        ("memcpy_async into pageable memory", x.memcpy_async(0, copy, stream)),
    ];
    let _ = inside.context.failure();
    *inside.answers.lock().unwrap_or_else(PoisonError::into_inner) = answers;
}

fn a_call_that_waits_is_an_error_inside(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let block = Block::filled(context, Place::Device, &[1; 64])?;
    let target = Guarded::new(context, Place::Pageable, 64)?;
    let inside = forever(Inside {
        context,
        stream,
        device: block.address(),
        pageable: target.address(),
        answers: Mutex::new(Vec::new()),
    });
    for on in [stream, Stream::DEFAULT] {
        launch(context, on, call_from_inside, inside)?;
        context.wait(on)?;
        let answers =
            std::mem::take(&mut *inside.answers.lock().unwrap_or_else(PoisonError::into_inner));
        ensure_eq!(answers.len(), 5, "the number of calls that returned");
        for (call, answer) in answers {
            let right = Err(Code::from(Status::NotPermitted));
            ensure_eq!(answer, right, "{call} inside a host function");
        }
        target.expect_untouched("the destination of copies that were refused")?;
    }
    context.clean("what happens on the stream's thread is not reported on this one")?;
    context.destroy(stream)
}

fn the_thread_that_ran_one_may_wait_again(context: &'static Context) -> Checked {
    // The mark of being inside must not stay on a thread: neither on the stream's nor on ours.
    let counter = forever(AtomicUsize::new(0));
    for round in 1..=50 {
        let stream = context.stream()?;
        launch(context, stream, count, counter)?;
        context.wait(stream)?;
        context.t.device_synchronize();
        context.clean("device_synchronize")?;
        ensure_eq!(counter.load(Ordering::SeqCst), round, "how often it ran");
        context.destroy(stream)?;
    }
    Ok(())
}

fn null_is_no_function(context: &'static Context) -> Checked {
    let (x, this) = (context.x.raw, context.x.this());
    // SAFETY: a NULL function is refused.
    let code =
        unsafe { (x.launch_host_function)(this, 0, Stream::DEFAULT, None, std::ptr::null_mut()) };
    let answer = Code(code).result();
    context.answered(answer, "launch_host_function", Status::InvalidValue, "no function")?;
    context.wait(Stream::DEFAULT)
}

fn those_of_a_destroyed_stream_still_run(context: &'static Context) -> Checked {
    let counter = forever(AtomicUsize::new(0));
    for _ in 0..10 {
        let stream = context.stream()?;
        let gate = Gate::hold(context, 0, stream)?;
        for _ in 0..10 {
            launch(context, stream, count, counter)?;
        }
        context.destroy(stream)?;
        gate.open();
    }
    context.t.device_synchronize();
    context.clean("device_synchronize")?;
    ensure_eq!(counter.load(Ordering::SeqCst), 100, "how many of 100 functions ran");
    Ok(())
}

fn a_hundred_thousand_of_them(context: &'static Context) -> Checked {
    let counter = forever(AtomicUsize::new(0));
    let stream = context.stream()?;
    let times = context.times(100_000);
    for _ in 0..times {
        launch(context, stream, count, counter)?;
    }
    context.wait(stream)?;
    ensure_eq!(counter.load(Ordering::SeqCst), times, "how many ran");
    context.destroy(stream)
}

fn those_of_many_streams_each_run_once(context: &'static Context) -> Checked {
    let streams: Vec<Stream> = (0..8).map(|_| context.stream()).collect::<Checked<_>>()?;
    let list = forever(Mutex::new(Vec::new()));
    let times = context.times(400);
    for number in 0..times {
        launch(context, streams[number % 8], note, forever(Step { number, list }))?;
    }
    context.t.device_synchronize();
    context.clean("device_synchronize")?;
    let found = list.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for (index, stream) in streams.into_iter().enumerate() {
        let own: Vec<usize> = found.iter().copied().filter(|n| n % 8 == index).collect();
        let right: Vec<usize> = (0..times).filter(|n| n % 8 == index).collect();
        ensure_eq!(own, right, "what ran on stream {index}, in which order");
        context.destroy(stream)?;
    }
    Ok(())
}

fn they_run_with_pinned_copies_between_them_in_order(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let length = 5000;
    let target = Block::pinned(context, length)?;
    let mut looks = Vec::new();
    let mut sources = Vec::new();
    for round in 0..context.times(100) as u64 {
        let bytes = context.bytes(round, length);
        let source = Block::filled(context, Place::Device, &bytes)?;
        let (to, from) = (target.address(), source.address());
        context.enqueue(to, from, length, MemcpyKind::D2H, stream)?;
        let looked = forever(Look { from: to, length, found: Mutex::new(Vec::new()) });
        launch(context, stream, look, looked)?;
        looks.push((looked, bytes));
        sources.push(source);
    }
    context.wait(stream)?;
    for (round, (looked, bytes)) in looks.into_iter().enumerate() {
        let found = looked.found.lock().unwrap_or_else(PoisonError::into_inner).clone();
        ensure!(found == bytes, "function {round} saw another copy than the one before it");
    }
    context.destroy(stream)
}
