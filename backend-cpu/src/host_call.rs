//! Users' functions that run inside a stream, and what is refused in them (contract H1).

use llaisys_runtime_core::{Error, Result, Status};
use std::cell::Cell;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Runs a host function of the user's, in which nothing may wait.
pub fn run(function: impl FnOnce()) {
    let outer = INSIDE.replace(true);
    function();
    INSIDE.set(outer);
}

/// Refuses to wait inside a host function: the stream that runs it would wait for itself (H1).
///
/// # Errors
/// `NOT_PERMITTED` there.
#[inline]
pub fn check_may_wait(operation: &str) -> Result<()> {
    if INSIDE.get() { Err(refusal(operation)) } else { Ok(()) }
}

#[cold]
fn refusal(operation: &str) -> Error {
    let message = format!("{operation} would wait, and a host function must not");
    Error::new(Status::NotPermitted, message)
}

/// In the child of a fork: its only thread may be a worker's copy, which is a plain thread now.
pub fn forget() {
    INSIDE.set(false);
}
