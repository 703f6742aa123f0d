//! Copies that somebody is inside of: a `memcpy_sync` is on no stream, so no mark can be put behind it.
//!
//! Rule (contract M4): whoever copies in its own call is counted from before the backend is called until
//! after. Memory that is freed meanwhile waits until those copies are over; copies that begin later are not
//! waited for (`visitors`).

use crate::lock::{ForkLock, Mutex};
use crate::visitors::{SHARDS, Ticket, Visit, Visitors};
use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Who is inside of a copy.
pub struct Copies {
    visitors: Visitors,
    /// Held by whoever flips the phases.
    flipping: Mutex<()>,
}

/// A thread's own: its shard plus one, 0 before its first copy, and how many copies it is inside of.
struct Own {
    shard: Cell<usize>,
    depth: Cell<usize>,
}

thread_local! {
    // No destructor, so it stays readable while a thread's other storage is torn down.
    static OWN: Own = const { Own { shard: Cell::new(0), depth: Cell::new(0) } };
}

/// A copy; it is over when this is dropped.
pub struct Inside<'a> {
    copies: &'a Copies,
    visit: Visit,
    own: *const Own,
    /// What is a thread's own stays on it.
    _this_thread: PhantomData<*const ()>,
}

impl Copies {
    /// Nobody copies.
    pub const fn new() -> Copies {
        Copies { visitors: Visitors::new(), flipping: Mutex::new(()) }
    }

    /// The calling thread begins to copy.
    #[inline]
    pub fn begin(&self) -> Inside<'_> {
        let own = OWN.with(|own| {
            if own.shard.get() == 0 {
                own.shard.set(next_shard() + 1);
            }
            own.depth.set(own.depth.get() + 1);
            ptr::from_ref(own)
        });
        // SAFETY: this thread's own, which is there until the thread ends.
        let shard = unsafe { (*own).shard.get() } - 1;
        Inside { copies: self, visit: self.visitors.enter(shard), own, _this_thread: PhantomData }
    }

    /// Whether nobody copies who began before this call, as far as the caller can know.
    #[inline(always)]
    pub fn are_none(&self) -> bool {
        self.visitors.are_none()
    }

    /// The copies that are under way now; `None` when there is none.
    pub fn under_way(&self) -> Option<Ticket> {
        let ticket = self.visitors.ticket();
        (!self.are_none()).then_some(ticket)
    }

    /// Whether those copies are over; with `wait`, once they are. Never waits for the calling thread's own.
    pub fn are_over(&self, ticket: Ticket, wait: bool) -> bool {
        let mut looks = 0;
        loop {
            let flipping = self.flipping.lock();
            let are_over = self.visitors.has_passed(ticket);
            drop(flipping);
            if are_over || !wait || OWN.with(|own| own.depth.get() != 0) {
                return are_over;
            }
            looks += 1;
            if looks < 100 {
                thread::yield_now();
            } else {
                // Somebody copies gigabytes, or waits for a stream in the copy.
                thread::sleep(Duration::from_micros(100));
            }
        }
    }

    /// In the child of a fork, where the threads are not that were copying.
    pub fn forget(&self) {
        self.visitors.forget();
    }

    /// Before a fork: keeps the lock.
    pub fn hold(&self) {
        self.flipping.hold();
    }

    /// After a fork: releases it.
    ///
    /// # Safety
    /// - `hold` was called before the fork, on the thread that forked.
    pub unsafe fn release(&self) {
        // SAFETY: by the contract above.
        unsafe { self.flipping.release() };
    }
}

#[cold]
fn next_shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        self.copies.visitors.leave(self.visit);
        // SAFETY: this thread's own, for this value does not leave its thread.
        let depth = unsafe { &(*self.own).depth };
        depth.set(depth.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_allocates_does_not_wait_for_itself() {
        let copies = Copies::new();
        assert!(copies.are_none() && copies.under_way().is_none());
        let outer = copies.begin();
        let inner = copies.begin();
        let ticket = copies.under_way().expect("two copies");
        assert!(!copies.are_over(ticket, true));
        drop(inner);
        assert!(!copies.are_over(ticket, true));
        drop(outer);
        assert!(copies.are_over(ticket, true) && copies.are_none());
    }

    #[test]
    fn copies_that_follow_each_other_without_a_pause_do_not_hold_up_those_who_wait() {
        let copies = Copies::new();
        let mut last = copies.begin();
        for _ in 0..100 {
            let ticket = copies.under_way().expect("a copy");
            assert!(!copies.are_over(ticket, false));
            // There is always one inside. Whoever asks has those who come from then on count elsewhere, so the
            // ticket comes to its end, if not with the copies that it saw then with the next ones.
            let is_over = (0..3).any(|_| {
                let next = copies.begin();
                drop(std::mem::replace(&mut last, next));
                copies.are_over(ticket, false)
            });
            assert!(is_over);
        }
    }
}
