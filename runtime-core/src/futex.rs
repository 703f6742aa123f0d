//! The two system calls under every wait of our own.
//!
//! Rule: a wait may end for no reason (a signal, a stray wake); whoever waits looks again.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps while `word` holds `expected`, until a wake, a signal or the end of `timeout`.
pub fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
    let timeout = timeout.map(|limit| libc::timespec {
        tv_sec: libc::time_t::try_from(limit.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(limit.subsec_nanos() as i32),
    });
    let limit = timeout.as_ref().map_or(std::ptr::null(), |limit| limit as *const libc::timespec);
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word is borrowed for the whole call, and `limit` is NULL or names a local.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, expected, limit) };
}

/// Wakes up to `count` sleepers.
pub fn wake(word: &AtomicU32, count: i32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the kernel uses the address as a key only; the word is borrowed for the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, count) };
}
