//! The lock of everything that a fork concerns: `parking_lot`'s interface over one futex word.
//!
//! Why not `parking_lot`'s own lock: it queues waiting threads in one table for the whole process,
//! and a child of `fork` inherits the table with the parent's threads in it. Their stacks are reused
//! for the child's threads, which then hang (seen in 16 of 20 children of a parent that had four
//! threads waiting). Contract L2 wants workers in the child. A futex has no memory outside its word.
//!
//! Rule: while one lock of this runtime is held, no other is taken; only a fork takes several. What a
//! lock guards is consistent whenever the lock is free.

use crate::futex;
use parking_lot::lock_api::{self, GuardNoSend, RawMutex};
use std::hint::spin_loop;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A lock around a value.
pub type Mutex<T> = lock_api::Mutex<RawFutex, T>;
/// What holds it.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawFutex, T>;

/// One word:
///
/// | value | means | who changes it |
/// |---|---|---|
/// | `FREE` | nobody holds the lock | whoever takes it: to `HELD`, or to `AWAITED` after a wait |
/// | `HELD` | held; nobody sleeps | the holder: to `FREE`. Whoever must sleep: to `AWAITED` |
/// | `AWAITED` | held; somebody may sleep | the holder: to `FREE`, and wakes one |
pub struct RawFutex(AtomicU32);

const FREE: u32 = 0;
const HELD: u32 = 1;
const AWAITED: u32 = 2;

/// How often a thread looks again before it sleeps; critical sections here are short.
const LOOKS: u32 = 100;

impl RawFutex {
    #[cold]
    fn lock_contended(&self) {
        for _ in 0..LOOKS {
            match self.0.load(Relaxed) {
                FREE if self.try_lock() => return,
                AWAITED => break,
                _ => spin_loop(),
            }
        }
        // From here on others may sleep too, and this thread cannot know: it takes the lock as
        // `AWAITED` only, so that its own unlock wakes the next.
        while self.0.swap(AWAITED, Acquire) != FREE {
            futex::wait(&self.0, AWAITED, None);
        }
    }
}

// SAFETY: only a change from `FREE` takes the lock, and each such change is one atomic operation
// with acquire ordering that exactly one thread can do; `unlock` releases.
unsafe impl RawMutex for RawFutex {
    const INIT: RawFutex = RawFutex(AtomicU32::new(FREE));
    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock(&self) {
        if !self.try_lock() {
            self.lock_contended();
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.0.compare_exchange(FREE, HELD, Acquire, Relaxed).is_ok()
    }

    #[inline]
    unsafe fn unlock(&self) {
        if self.0.swap(FREE, Release) == AWAITED {
            futex::wake(&self.0, 1);
        }
    }
}

/// A lock that is carried over a fork: taken before, released after.
pub trait ForkLock {
    /// Takes the lock before a fork and keeps it.
    fn hold(&self);

    /// Releases it after the fork, in the parent and in the child alike: a futex that remembers
    /// waiters whom the child does not have costs the child one needless wake.
    ///
    /// # Safety
    /// - `hold` was called on this thread, or on the one whose copy this is, and not released since.
    unsafe fn release(&self);
}

impl<T> ForkLock for Mutex<T> {
    fn hold(&self) {
        std::mem::forget(self.lock());
    }

    unsafe fn release(&self) {
        // SAFETY: locked by `hold`, by the contract above.
        unsafe { self.force_unlock() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn one_thread_at_a_time_and_nobody_is_left_asleep() {
        static COUNT: Mutex<u64> = Mutex::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let mut count = COUNT.lock();
                        let before = *count;
                        if before.is_multiple_of(512) {
                            thread::yield_now();
                        }
                        *count = before + 1;
                    }
                });
            }
        });
        assert_eq!(*COUNT.lock(), 80_000);
    }
}
