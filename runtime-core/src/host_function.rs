//! Users' functions that run inside a stream (contract H1).
//!
//! Rule: the runtime knows on which threads one is running, so a blocking call from inside is an
//! error instead of a stream that waits for itself. While none is running anywhere, which a thread inside
//! one sees to itself, asking is one load.

use crate::api::HostFunction;
use crate::error::{Error, Result};
use crate::status::Status;
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// How many threads are inside, so that a thread which is sees at least 1. Read on the way of every wait,
/// where a thread's own variable costs more than all else.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// A user's function with its argument, on its way through a backend.
pub struct Call {
    function: HostFunction,
    data: *mut c_void,
}

impl Call {
    /// Packs the call for [`Call::run`]; the result is owned by whoever will pass it there.
    pub fn pack(function: HostFunction, data: *mut c_void) -> *mut c_void {
        Box::into_raw(Box::new(Call { function, data })).cast()
    }

    /// Takes a packed call back that the backend did not accept.
    ///
    /// # Safety
    /// - `packed` came from [`Call::pack`] and nobody will run it.
    pub unsafe fn discard(packed: *mut c_void) {
        // SAFETY: by the contract above it is a box that nobody else owns.
        drop(unsafe { Box::from_raw(packed.cast::<Call>()) });
    }

    /// What the backend calls.
    ///
    /// # Safety
    /// - `packed` came from [`Call::pack`] and is run once.
    pub unsafe extern "C" fn run(packed: *mut c_void) {
        // SAFETY: by the contract above it is a box that nobody else owns.
        let call = unsafe { Box::from_raw(packed.cast::<Call>()) };
        RUNNING.fetch_add(1, Ordering::Relaxed);
        let outer = INSIDE.replace(true);
        // SAFETY: whoever launched it allowed this call, from any thread, once.
        unsafe { (call.function)(call.data) };
        // In the child of a fork that the function did, `forget` has taken it back.
        if INSIDE.replace(outer) {
            RUNNING.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// In the child of a fork: its only thread may be the copy of one that ran a host function, whose stream
/// is not there to wait for.
pub fn forget() {
    INSIDE.set(false);
    RUNNING.store(0, Ordering::Relaxed);
}

/// Refuses a call that waits, inside a host function.
#[inline]
pub fn may_block() -> Result<()> {
    if RUNNING.load(Ordering::Relaxed) != 0 && INSIDE.get() { Err(refusal()) } else { Ok(()) }
}

#[cold]
fn refusal() -> Error {
    let message = "a call that waits is not allowed inside a host function: the stream that runs \
                   it would wait for itself";
    Error::new(Status::NotPermitted, message)
}
