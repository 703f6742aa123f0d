//! The threads that run what is queued: one per stream that has work.
//!
//! Rules: a worker starts when its stream has something to queue and none serves it, and ends when
//! its stream is destroyed and drained or has had nothing to do for a while. Nobody joins it: at
//! exit it ends with the process (contract L1). It takes no signals, so that handlers run in the
//! program's own threads (L3); only the faults that a thread raises itself stay as they are, since
//! the kernel kills a process that blocks those.
//!
//! Why not `std::thread`: each of its threads takes a lock of the standard library's when it starts
//! and when it ends. A fork may come while another thread, anybody's, holds it; then no thread of
//! the child ever starts (L2). The C library sees to its own locks at `fork`.

use crate::device::{Device, Next};
use llaisys_runtime_core::futex;
use llaisys_runtime_core::{Error, Result, Status};
use std::cell::Cell;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

thread_local! {
    static IN_HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
}

/// Runs a host function of the user's, in which nothing may wait.
pub fn as_host_function(function: impl FnOnce()) {
    IN_HOST_FUNCTION.set(true);
    function();
    IN_HOST_FUNCTION.set(false);
}

/// Refuses to wait inside a host function: the stream that runs it would wait for itself (H1).
///
/// # Errors
/// `NOT_PERMITTED` there.
pub fn check_may_wait(operation: &str) -> Result<()> {
    if IN_HOST_FUNCTION.get() {
        Err(Error::new(
            Status::NotPermitted,
            format!("{operation} would wait, and a host function must not"),
        ))
    } else {
        Ok(())
    }
}

/// In the child of a fork: its only thread may be a worker's copy, which is a plain thread now.
pub fn forget_host_function() {
    IN_HOST_FUNCTION.set(false);
}

/// What a new worker must know.
struct Start {
    device: &'static Device,
    slot: u32,
    token: u64,
}

/// Starts the worker of a slot. It finds the slot's lock held and waits for it.
///
/// # Errors
/// `OUT_OF_MEMORY` when the system gives no more threads.
pub fn start(device: &'static Device, slot: u32, token: u64) -> Result<()> {
    let start = Box::into_raw(Box::new(Start { device, slot, token }));
    let signals = BlockedSignals::block();
    let mut thread = MaybeUninit::uninit();
    // SAFETY: `main` takes the box, which is whole; the other arguments are a local and defaults.
    let code = unsafe {
        libc::pthread_create(thread.as_mut_ptr(), std::ptr::null(), main, start.cast::<c_void>())
    };
    drop(signals);
    if code != 0 {
        // SAFETY: no thread was started, so the box is still ours.
        drop(unsafe { Box::from_raw(start) });
        let reason = std::io::Error::from_raw_os_error(code);
        return Err(Error::new(
            Status::OutOfMemory,
            format!("no thread for a stream of CPU device {}: {reason}", device.ordinal()),
        )
        .with_native(i64::from(code), "errno"));
    }
    // SAFETY: written by `pthread_create` on success; nobody joins the thread.
    unsafe { libc::pthread_detach(thread.assume_init()) };
    Ok(())
}

extern "C" fn main(start: *mut c_void) -> *mut c_void {
    // SAFETY: made by `start`, for this thread alone.
    let Start { device, slot, token } = *unsafe { Box::from_raw(start.cast::<Start>()) };
    // The kernel keeps fifteen bytes.
    let name = format!("llaisys-cpu{}.{slot}\0", device.ordinal());
    // SAFETY: the text ends with a NUL and outlives the call, which names the calling thread.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    run(device, slot, token);
    std::ptr::null_mut()
}

fn run(device: &'static Device, slot: u32, token: u64) {
    let mut done = None;
    let mut idle_since: Option<Instant> = None;
    loop {
        let idle = idle_since.map_or(Duration::ZERO, |since| since.elapsed());
        match device.next(slot, token, done.take(), idle >= device.worker_idle()) {
            Next::Run { progress, number, command } => {
                idle_since = None;
                // What is missing is a claim: a thread that does the work before this one itself.
                progress.wait(number - 1);
                // SAFETY: the trait makes the caller promise that the pointers hold until the
                // stream has passed; it passes here.
                unsafe { command.run() };
                done = Some(number);
            }
            Next::Sleep { progress, doorbell } => {
                idle_since.get_or_insert_with(Instant::now);
                let rest = device.worker_idle().saturating_sub(idle);
                futex::wait(&progress.doorbell, doorbell, Some(rest));
            }
            Next::End => return,
        }
    }
}

/// The signals of this thread, blocked for as long as this lives; a thread started meanwhile
/// inherits that for good.
struct BlockedSignals {
    before: libc::sigset_t,
}

impl BlockedSignals {
    fn block() -> BlockedSignals {
        let mut all = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: the sets are written whole by `sigfillset` and `pthread_sigmask`, which cannot
        // fail with a valid set and operation.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            for fault in [
                libc::SIGSEGV,
                libc::SIGBUS,
                libc::SIGFPE,
                libc::SIGILL,
                libc::SIGTRAP,
                libc::SIGSYS,
            ] {
                libc::sigdelset(all.as_mut_ptr(), fault);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            BlockedSignals { before: before.assume_init() }
        }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: `before` is the set that `pthread_sigmask` gave us on this thread.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}
