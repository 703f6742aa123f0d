//! The ready list: queues that wait for a worker, first come, first served.
//!
//! Rule: a queue is in it at most once, because whoever puts it in has the queue's entry (`claim`). The
//! list is guarded by the pool's lock; how long it is can be seen without.

use crate::queue::Queue;
use crate::schedule::Schedule;
use std::ptr::null;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The list. It goes through the queues themselves, so nothing is allocated.
pub struct Ready {
    first: *const Queue,
    last: *const Queue,
}

// SAFETY: the pointers are to queues, which live as long as the process and are shared.
unsafe impl Send for Ready {}

/// How many entries the list has.
pub struct Count(AtomicU32);

impl Count {
    /// None.
    pub const fn new() -> Count {
        Count(AtomicU32::new(0))
    }

    /// Whether there is an entry.
    #[inline]
    pub fn is_some(&self) -> bool {
        self.0.load(Acquire) != 0
    }

    /// There is none any more.
    pub fn forget(&self) {
        self.0.store(0, Release);
    }
}

impl Ready {
    /// An empty list.
    pub const fn new() -> Ready {
        Ready { first: null(), last: null() }
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// Puts a queue at the end.
    pub fn put(&mut self, queue: &'static Queue, count: &Count) {
        queue.next_ready.store(null::<Queue>().cast_mut(), Relaxed);
        // SAFETY: null or a queue of the list; queues live as long as the process.
        match unsafe { self.last.as_ref() } {
            Some(last) => last.next_ready.store(std::ptr::from_ref(queue).cast_mut(), Relaxed),
            None => self.first = queue,
        }
        self.last = queue;
        count.0.store(count.0.load(Relaxed) + 1, Release);
    }

    /// Takes the first out, or the one that the schedule chooses.
    pub fn take(
        &mut self,
        count: &Count,
        schedule: Option<&'static Schedule>,
    ) -> Option<&'static Queue> {
        let entries = count.0.load(Relaxed);
        let skip = match schedule {
            Some(schedule) if entries > 1 => schedule.below(entries),
            _ => 0,
        };
        let mut before: *const Queue = null();
        let mut this = self.first;
        for _ in 0..skip {
            before = this;
            // SAFETY: the list has `entries` queues, which live as long as the process.
            this = unsafe { &*this }.next_ready.load(Relaxed);
        }
        // SAFETY: null or a queue.
        let queue: &'static Queue = unsafe { this.as_ref() }?;
        let next = queue.next_ready.load(Relaxed);
        // SAFETY: null or a queue of the list.
        match unsafe { before.as_ref() } {
            Some(before) => before.next_ready.store(next, Relaxed),
            None => self.first = next,
        }
        if next.is_null() {
            self.last = before;
        }
        count.0.store(entries - 1, Release);
        Some(queue)
    }
}
