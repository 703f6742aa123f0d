//! The last-error slot after the storage of the main thread went (E2, L1): exit handlers and static
//! destructors come later, fail like anybody else, and read what they left.

use crate::case::Area;
use crate::context::Context;
use crate::outcome::{Checked, Stop};
use crate::program::Bare;
use llaisys_runtime_core::Status;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

cases! { Area::Errors;
    "E2" handlers_at_exit_read_the_failures_they_cause [];
    "E2" static_destructors_read_the_failures_they_cause [];
    "E2" a_failure_left_unread_is_there_for_the_first_handler_at_exit [];
    "E2" handlers_at_an_exit_from_another_thread_read_the_failures_they_cause [];
}

programs![fail_in_a_handler, fail_in_a_destructor, leave_a_failure, fail_after_a_threads_exit];

/// What the program leaves with when every handler found what it expected.
const RIGHT: i32 = 21;
/// How many handlers have been through with what they had to do.
static PASSED: AtomicI32 = AtomicI32::new(0);
static LATE: OnceLock<&'static Context> = OnceLock::new();

unsafe extern "C" {
    /// How a C++ compiler registers the destructor of a static object.
    fn __cxa_atexit(
        destructor: extern "C" fn(*mut c_void),
        object: *mut c_void,
        library: *mut c_void,
    ) -> c_int;
}

/// Ends the process with a code that says that a handler found something else than it ought to.
fn give_up(what: &str) -> ! {
    eprintln!("{what}");
    // SAFETY: ends the process, without the handlers that are left.
    unsafe { libc::_exit(22) }
}

/// A failing call, seen by everything that reads the slot.
fn fails_and_reads(context: &Context) -> Checked {
    context.t.set_device(-1);
    let peeked = context.library.peek_failure().map_err(Stop::fail)?;
    let read = context.refused("set_device", Status::InvalidDevice, "the failure of a handler")?;
    ensure_eq!(peeked, Some(read), "what a look at the slot shows");
    context.clean("after the failure was read")?;
    // Again, with another one: the slot was emptied, not stuck.
    context.t.free_device(crate::address::Address::GARBAGE);
    context.refused("free_device", Status::InvalidValue, "the second failure of a handler")?;
    context.clean("after the second failure was read")
}

fn handle(work: impl FnOnce(&'static Context) -> Checked) {
    if let Some(context) = LATE.get() {
        if let Err(stop) = work(context) {
            give_up(&stop.message);
        }
        PASSED.fetch_add(1, Ordering::SeqCst);
    }
}

extern "C" fn fail_and_read() {
    handle(fails_and_reads);
}

extern "C" fn fail_and_read_in_a_destructor(_: *mut c_void) {
    handle(fails_and_reads);
}

extern "C" fn read_what_was_left() {
    handle(|context| {
        let what = "the failure that main left";
        context.refused("set_device", Status::InvalidDevice, what)?;
        fails_and_reads(context)
    });
}

/// Registered first, so it comes last: the handlers have all been there.
extern "C" fn count() {
    if LATE.get().is_some() && PASSED.load(Ordering::SeqCst) == 0 {
        give_up("no handler came to its end");
    }
}

/// The library in use, and this thread's storage too: a failure that was read, one before that.
fn use_the_slot(bare: &Bare) -> Checked<&'static Context> {
    // SAFETY: the handler is a function of this program.
    unsafe { libc::atexit(count) };
    let context = bare.context()?;
    fails_and_reads(context)?;
    let _ = LATE.set(context);
    Ok(context)
}

fn is_right(context: &'static Context, program: &str) -> Checked {
    let ended = context.program(program).run()?;
    ended.expect_code(RIGHT)?;
    ended.expect_silence()
}

fn handlers_at_exit_read_the_failures_they_cause(context: &'static Context) -> Checked {
    is_right(context, "fail_in_a_handler")
}

fn fail_in_a_handler(bare: &Bare) -> Checked<i32> {
    // One that comes after everything that the library registers, and one that comes before it.
    // SAFETY: the handler is a function of this program.
    unsafe { libc::atexit(fail_and_read) };
    use_the_slot(bare)?;
    // SAFETY: as above.
    unsafe { libc::atexit(fail_and_read) };
    Ok(RIGHT)
}

fn static_destructors_read_the_failures_they_cause(context: &'static Context) -> Checked {
    is_right(context, "fail_in_a_destructor")
}

fn fail_in_a_destructor(bare: &Bare) -> Checked<i32> {
    let null = std::ptr::null_mut();
    // SAFETY: the destructor is a function of this program and looks at no object.
    unsafe { __cxa_atexit(fail_and_read_in_a_destructor, null, null) };
    use_the_slot(bare)?;
    // SAFETY: as above.
    unsafe { __cxa_atexit(fail_and_read_in_a_destructor, null, null) };
    Ok(RIGHT)
}

fn a_failure_left_unread_is_there_for_the_first_handler_at_exit(
    context: &'static Context,
) -> Checked {
    is_right(context, "leave_a_failure")
}

fn leave_a_failure(bare: &Bare) -> Checked<i32> {
    let context = use_the_slot(bare)?;
    // SAFETY: the handler is a function of this program.
    unsafe { libc::atexit(read_what_was_left) };
    context.t.set_device(-1);
    Ok(RIGHT)
}

fn handlers_at_an_exit_from_another_thread_read_the_failures_they_cause(
    context: &'static Context,
) -> Checked {
    is_right(context, "fail_after_a_threads_exit")
}

fn fail_after_a_threads_exit(bare: &Bare) -> Checked<i32> {
    let context = use_the_slot(bare)?;
    // SAFETY: the handler is a function of this program.
    unsafe { libc::atexit(fail_and_read) };
    // The storage of the thread that exits goes before the handlers, which run on it.
    let thread = std::thread::spawn(move || -> Checked {
        fails_and_reads(context)?;
        std::process::exit(RIGHT)
    });
    let _ = thread.join();
    Ok(1)
}
