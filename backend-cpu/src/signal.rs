//! A place to wait at until something, kept elsewhere in an atomic, has become true.
//!
//! Rule: whoever makes it true stores it with `SeqCst` first and then calls `notify`; whoever waits
//! reads it with `SeqCst`. So of the two, at least one sees the other.

use crate::atomic::Ordering::SeqCst;
use crate::atomic::{AtomicU32, futex};

/// Two words, because a notification without waiters must not cost a system call:
///
/// | word | means | who changes it |
/// |---|---|---|
/// | `waiters` | so many threads have looked and may be asleep | each of them, up before it looks, down after |
/// | `generation` | so many notifications that had somebody to wake | `notify` |
///
/// A waiter counts itself, reads the generation, looks, and sleeps only while the generation is
/// unchanged. A notification that saw no waiter came before the count, thus before the look.
pub struct Signal {
    generation: AtomicU32,
    waiters: AtomicU32,
}

impl Signal {
    /// Nobody waits.
    #[cfg(not(loom))]
    pub const fn new() -> Signal {
        Signal { generation: AtomicU32::new(0), waiters: AtomicU32::new(0) }
    }

    /// Nobody waits; the model's atomics cannot be made at compile time.
    #[cfg(loom)]
    pub fn new() -> Signal {
        Signal { generation: AtomicU32::new(0), waiters: AtomicU32::new(0) }
    }

    /// Waits until `done` says yes.
    pub fn wait(&self, done: impl Fn() -> bool) {
        while !done() {
            self.waiters.fetch_add(1, SeqCst);
            let generation = self.generation.load(SeqCst);
            if !done() {
                futex::wait(&self.generation, generation, None);
            }
            self.waiters.fetch_sub(1, SeqCst);
        }
    }

    /// Sleeps until the next notification, unless `done` says yes once this thread counts as a waiter;
    /// or for no reason.
    pub fn wait_once(&self, done: impl FnOnce() -> bool) {
        self.waiters.fetch_add(1, SeqCst);
        let generation = self.generation.load(SeqCst);
        if !done() {
            futex::wait(&self.generation, generation, None);
        }
        self.waiters.fetch_sub(1, SeqCst);
    }

    /// Has everybody who waits look again.
    pub fn notify(&self) {
        if self.waiters.load(SeqCst) != 0 {
            self.generation.fetch_add(1, SeqCst);
            futex::wake(&self.generation, i32::MAX);
        }
    }

    /// In the child of a fork: nobody waits any more.
    pub fn forget_waiters(&self) {
        self.waiters.store(0, SeqCst);
    }
}
