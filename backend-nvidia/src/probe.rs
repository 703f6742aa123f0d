//! How many devices there are, asked so that this process is left as it was.
//!
//! Rule (case 4): a driver that was initialised cannot be used in a child that is forked later. A
//! process that only counts devices must therefore not initialise it, so a child is forked that
//! does, tells what it found, and leaves. The answer is kept; once the driver is initialised here
//! (`driver`), nobody asks any more.
//!
//! The child lives for one question in the image of a process that may have threads: it calls the
//! driver, writes eight bytes, and ends with `_exit`. Should it meet a lock that another thread held
//! at the fork, it is ended after a while.

use crate::driver;
use crate::errors::{self, SUCCESS};
use crate::fork;
use crate::library::{Library, Started};
use crate::search;
use llaisys_runtime_core::error::{Error, Result};
use once_cell::race::OnceBox;
use std::ffi::c_int;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long the child may take. A driver without persistence mode starts each device anew, which
/// takes seconds on a machine with many.
const PATIENCE: Duration = Duration::from_secs(20);

/// What was found. Not a cell that others wait for: a child that is forked meanwhile would wait for a
/// thread that it does not have. Two threads that ask at once may both probe; the first answer stays.
static ANSWER: OnceBox<Result<i32>> = OnceBox::new();

/// The number of devices. Leaves the driver of this process alone.
///
/// # Errors
/// Why there are none.
pub(crate) fn count() -> Result<i32> {
    if fork::forked() {
        return Err(fork::error());
    }
    if let Some(outcome) = driver::outcome() {
        return outcome.map(|driver| driver.devices.len() as i32);
    }
    let answer = ANSWER.get_or_init(|| Box::new(search::find(ask).map(|found| found.count)));
    answer.as_ref().copied().map_err(Error::clone)
}

/// Starts a driver where it does no harm: not at all when someone has done so here already.
fn ask(library: &Library) -> Started {
    let here = library.count();
    if here.code == SUCCESS {
        return here;
    }
    in_a_child(library)
}

/// What the driver answers in a forked child.
fn in_a_child(library: &Library) -> Started {
    let Some((from, to)) = pipe() else { return here_after_all(library) };
    let child = {
        let _quiet = NoSignals::begin();
        // SAFETY: the child below calls the driver, `write` and `_exit` alone.
        match unsafe { libc::fork() } {
            0 => answer_and_leave(library, &to),
            child => child,
        }
    };
    if child < 0 {
        return here_after_all(library);
    }
    drop(to);
    let answer = read_within(&from, child, PATIENCE);
    if answer.is_none() && !collect(child) {
        // SAFETY: ends our own child: it has not ended, so its number is still its own.
        unsafe { libc::kill(child, libc::SIGKILL) };
    }
    // Bounded as well: a process that hangs inside the kernel's driver cannot be ended.
    let start = Instant::now();
    while !collect(child) && start.elapsed() < Duration::from_secs(2) {
        std::thread::sleep(Duration::from_millis(1));
    }
    answer.unwrap_or(Started { code: errors::NO_ANSWER, count: 0 })
}

/// Where no child can be forked, none is there to be harmed.
fn here_after_all(library: &Library) -> Started {
    fork::watch();
    library.start()
}

/// The whole life of the child.
fn answer_and_leave(library: &Library, to: &OwnedFd) -> ! {
    let Started { code, count } = library.start();
    let message = [code.to_ne_bytes(), count.to_ne_bytes()];
    // SAFETY: eight readable bytes into our own pipe; a pipe takes so few in one piece. `_exit` runs
    // no destructor and flushes no buffer that the parent will flush too.
    unsafe {
        libc::write(to.as_raw_fd(), message.as_ptr().cast(), size_of_val(&message));
        libc::_exit(0)
    }
}

/// The child's eight bytes; `None` when it ended without them or time is up.
fn read_within(from: &OwnedFd, child: libc::pid_t, patience: Duration) -> Option<Started> {
    let start = Instant::now();
    loop {
        let ended = collect(child);
        let mut poll = libc::pollfd { fd: from.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor, ours. An interrupted wait looks like one that found nothing.
        let ready = unsafe { libc::poll(&mut poll, 1, if ended { 0 } else { 20 }) };
        if ready > 0 {
            let mut message = [[0_u8; size_of::<c_int>()]; 2];
            let room = size_of_val(&message);
            // SAFETY: `message` has `room` writable bytes.
            let size = unsafe { libc::read(from.as_raw_fd(), message.as_mut_ptr().cast(), room) };
            let [code, count] = message.map(c_int::from_ne_bytes);
            return (size == room as isize).then_some(Started { code, count });
        }
        if ended || start.elapsed() > patience {
            return None;
        }
    }
}

/// Collects the child if it has ended, so that it does not stay as a zombie; whether it has. Somebody
/// else may have collected it (a handler that waits for every child, or SIGCHLD ignored): then it has.
fn collect(child: libc::pid_t) -> bool {
    // SAFETY: nothing is written; the child is ours. Without a wait there is no interruption.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), libc::WNOHANG) != 0 }
}

/// Both ends of a pipe that no program started meanwhile inherits.
fn pipe() -> Option<(OwnedFd, OwnedFd)> {
    let mut ends = [-1; 2];
    // SAFETY: `ends` has room for two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return None;
    }
    // SAFETY: the two were just made and belong to nobody else.
    Some(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

/// While this lives no signal is handled on this thread: the child must not run the host's handlers.
/// The child keeps it so until it ends.
struct NoSignals(libc::sigset_t);

impl NoSignals {
    fn begin() -> NoSignals {
        // SAFETY: all-zero is a valid set of signals, and both calls write a set.
        unsafe {
            let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
            NoSignals(before)
        }
    }
}

impl Drop for NoSignals {
    fn drop(&mut self) {
        // SAFETY: restores what `begin` found on this thread.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}
