//! Which queues of a device may have work: what a free, the default stream and whoever waits for the
//! device look at.
//!
//! | word | means | who changes it |
//! |---|---|---|
//! | `head` | the newest queue of the list; the others follow by `next_active` | who enqueues: puts a queue in front. The holder of `lock`: takes an idle queue out |
//! | `scans` | odd while the holder of `lock` may be taking queues out | the holder of `lock` |
//! | `is_active` of a queue | it is in the list or on its way into it | who enqueues, under the queue's own lock: sets. The holder of `lock`: clears, sets |
//!
//! Rules: whoever enqueues on a queue that is not active puts it in before the work is published; a
//! queue is taken out by who finds it idle, not by who makes it so, so a stream that is used again
//! and again costs its caller one look at a flag. The default stream's queue is never in the list:
//! who looks at the list looks at that one too. The lock is taken after the default stream's and
//! before any other queue's.

use crate::queue::Queue;
use llaisys_runtime_core::lock::{ForkLock, Mutex};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicPtr, AtomicU64, fence};

/// See the module text.
pub struct Active {
    head: AtomicPtr<Queue>,
    scans: AtomicU64,
    lock: Mutex<()>,
}

impl Active {
    /// No queue has work.
    pub fn new() -> Active {
        Active { head: AtomicPtr::new(null_mut()), scans: AtomicU64::new(0), lock: Mutex::new(()) }
    }

    /// A queue is about to get work. Under its ring's lock.
    #[inline]
    pub fn note(&self, queue: &'static Queue) {
        if !queue.is_active.load(Acquire) {
            self.put(queue);
        }
    }

    #[cold]
    fn put(&self, queue: &'static Queue) {
        if queue.is_active.swap(true, AcqRel) {
            return;
        }
        let own = std::ptr::from_ref(queue).cast_mut();
        let mut head = self.head.load(Relaxed);
        loop {
            queue.next_active.store(head, Relaxed);
            match self.head.compare_exchange_weak(head, own, AcqRel, Relaxed) {
                // Whoever puts a queue in looks at the default stream next, and the default stream's lock was
                // taken before the list is looked at: one of the two sees the other.
                Ok(_) => return fence(SeqCst),
                Err(newer) => head = newer,
            }
        }
    }

    /// Whether no queue has work, without a lock; `false` also where that cannot be seen so.
    #[inline]
    pub fn is_empty(&self) -> bool {
        let scans = self.scans.load(Acquire);
        let is_empty = self.head.load(Acquire).is_null();
        fence(Acquire);
        // A scan takes a queue out before it finds that the queue has got work meanwhile.
        is_empty && scans.is_multiple_of(2) && self.scans.load(Relaxed) == scans
    }

    /// Calls `visit` for each queue that has work, and forgets the others; until it answers `false`.
    /// Whether it went through all.
    pub fn visit(&self, mut visit: impl FnMut(&'static Queue) -> bool) -> bool {
        // See `put`.
        fence(SeqCst);
        if self.is_empty() {
            return true;
        }
        let guard = self.lock.lock();
        self.scans.store(self.scans.load(Relaxed) + 1, Release);
        // The odd number is seen before anything that the scan takes out.
        fence(AcqRel);
        let mut before: Option<&'static Queue> = None;
        // SAFETY: null or a queue, which lives as long as the process.
        let mut this = unsafe { self.head.load(Acquire).as_ref() };
        let mut went_through = true;
        while let Some(queue) = this {
            // SAFETY: as above.
            let next = unsafe { queue.next_active.load(Relaxed).as_ref() };
            if queue.has_work() {
                went_through = visit(queue);
                before = Some(queue);
            } else {
                self.take_out(queue, before);
                queue.is_active.swap(false, AcqRel);
                // Whoever enqueued before that relied on the list.
                if queue.has_work() {
                    self.put(queue);
                    // Another thread may be putting it in, under the ring's lock: then it is in the list when
                    // that is free.
                    queue.ring.settled_tail();
                    went_through = visit(queue);
                }
            }
            if !went_through {
                break;
            }
            this = next;
        }
        self.scans.store(self.scans.load(Relaxed) + 1, Release);
        drop(guard);
        went_through
    }

    /// Takes a queue out of the list. Under the lock.
    fn take_out(&self, queue: &'static Queue, before: Option<&'static Queue>) {
        let own = std::ptr::from_ref(queue).cast_mut();
        let next = queue.next_active.load(Relaxed);
        if let Some(before) = before {
            before.next_active.store(next, Relaxed);
            return;
        }
        if self.head.compare_exchange(own, next, AcqRel, Acquire).is_ok() {
            return;
        }
        // Others were put in front of it meanwhile.
        let mut this = self.head.load(Acquire);
        // SAFETY: the queue is in the list, so the way there is through queues.
        while let Some(other) = unsafe { this.as_ref() } {
            if other.next_active.load(Relaxed) == own {
                other.next_active.store(next, Relaxed);
                return;
            }
            this = other.next_active.load(Relaxed);
        }
    }

    /// Before a fork, with the default stream's queue held: keeps the lock.
    pub fn hold(&self) {
        self.lock.hold();
    }

    /// After a fork: releases it.
    ///
    /// # Safety
    /// - `hold` was called before the fork, on the thread that forked.
    pub unsafe fn release(&self) {
        // SAFETY: by the contract above.
        unsafe { self.lock.release() };
    }

    /// In the child of a fork: no queue has work.
    pub fn forget(&self) {
        self.head.store(null_mut(), Release);
    }
}
