//! What a forked child may do: nothing with the driver, and no harm (contract L2).
//!
//! Rule: a driver that was initialised, or was just being initialised, before a `fork` is not
//! called in the child. The child learns of it in the fork itself, so no call pays for asking its
//! process id; but for the first one in a process: a fork that had begun before anybody watched, and is still
//! waiting for locks, tells its child nothing.

use crate::{doors, driver};
use llaisys_runtime_core::error::{Error, Result};
use llaisys_runtime_core::status::Status;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// Whether this process is a child that was forked after the driver had been touched. Written in
/// the child alone, before any of its code runs; never cleared.
static FORKED: AtomicBool = AtomicBool::new(false);

/// The process that touched the driver first; 0 before.
static TOUCHED_BY: AtomicI32 = AtomicI32::new(0);

/// This process is about to touch the driver, unless a parent has.
///
/// # Errors
/// `FORKED` when it is the parent's.
pub(crate) fn touch() -> Result<()> {
    watch();
    let _somebody_else_was_first =
        TOUCHED_BY.compare_exchange(0, this_process(), Ordering::AcqRel, Ordering::Acquire);
    check()
}

/// The same without touching it: for the first call in a process.
///
/// # Errors
/// As for [`touch`].
pub(crate) fn check() -> Result<()> {
    let by = TOUCHED_BY.load(Ordering::Acquire);
    if by == 0 || by == this_process() { Ok(()) } else { untold() }
}

fn this_process() -> i32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::getpid() }
}

/// In a child that may not have been told, before it waits for what a thread of the parent was doing.
#[cold]
fn untold() -> Result<()> {
    // SAFETY: it loads and stores atomics, in a child, where it belongs.
    unsafe { in_the_child() };
    if forked() { Err(error()) } else { Ok(()) }
}

/// Whether the driver belongs to a parent process.
#[inline]
pub(crate) fn forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// What every call but a free answers in such a child.
#[cold]
pub(crate) fn error() -> Error {
    Error::new(
        Status::Forked,
        "this process was forked after its parent had initialised the CUDA driver, which cannot be \
         used across a fork; start workers with `spawn` or `exec`, or fork before a device is used",
    )
}

/// Has a later `fork` tell its child. To be called before the driver is touched; more than once
/// does no harm, so threads that race to be first need no lock here (a lock could be held at the
/// fork).
pub(crate) fn watch() {
    // SAFETY: the handler is a plain function that lives as long as the plugin, which is never
    // unloaded; it is async-signal-safe (it loads and stores atomics).
    let _out_of_memory = unsafe { libc::pthread_atfork(None, None, Some(in_the_child)) };
}

/// Runs in the child, in the thread that forked, before `fork` returns there, or later ([`untold`]).
unsafe extern "C" fn in_the_child() {
    if driver::was_touched() {
        FORKED.store(true, Ordering::Relaxed);
        doors::shut();
    }
}
