//! Threads of the runtime's own.
//!
//! Rules: nobody joins them; at exit they end with the process (contract L1). They take no signals,
//! so that handlers run in the program's own threads (L3); only the faults that a thread raises
//! itself stay as they are, since the kernel kills a process that blocks those.
//!
//! Why not `std::thread`: each of its threads takes a lock of the standard library's when it starts
//! and when it ends. A fork may come while another thread, anybody's, holds it; then no thread of
//! the child ever starts (L2). The C library sees to its own locks at `fork`.

use crate::error::{Error, Result};
use crate::status::Status;
use std::ffi::c_void;
use std::mem::MaybeUninit;

struct Start {
    name: String,
    main: Box<dyn FnOnce() + Send>,
}

/// Starts a thread. Of the name the kernel keeps fifteen bytes.
///
/// # Errors
/// `OUT_OF_MEMORY` when the system gives no more threads.
pub fn start(name: String, main: impl FnOnce() + Send + 'static) -> Result<()> {
    let shown = name.clone();
    let start = Box::into_raw(Box::new(Start { name, main: Box::new(main) }));
    let signals = BlockedSignals::block();
    let mut thread = MaybeUninit::uninit();
    // SAFETY: `enter` takes the box, which is whole; the other arguments are a local and defaults.
    let code = unsafe {
        libc::pthread_create(thread.as_mut_ptr(), std::ptr::null(), enter, start.cast::<c_void>())
    };
    drop(signals);
    if code != 0 {
        // SAFETY: no thread was started, so the box is still ours.
        drop(unsafe { Box::from_raw(start) });
        let reason = std::io::Error::from_raw_os_error(code);
        let message = format!("no thread `{shown}`: {reason}");
        return Err(Error::new(Status::OutOfMemory, message).with_native(i64::from(code), "errno"));
    }
    // SAFETY: written by `pthread_create` on success; nobody joins the thread.
    unsafe { libc::pthread_detach(thread.assume_init()) };
    Ok(())
}

extern "C" fn enter(start: *mut c_void) -> *mut c_void {
    // SAFETY: made by `start`, for this thread alone.
    let Start { mut name, main } = *unsafe { Box::from_raw(start.cast::<Start>()) };
    name.push('\0');
    // SAFETY: the text ends with a NUL and outlives the call, which names the calling thread.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    drop(name);
    main();
    std::ptr::null_mut()
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
