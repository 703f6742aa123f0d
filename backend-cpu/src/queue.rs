//! A queue: the inside of a stream. One for each slot, for the life of the process.
//!
//! Rules: a stream's pieces of work are numbered 1, 2, 3 … in the order in which they run, and
//! number n is run only when n − 1 is done. The numbers of a queue go on when its slot is given to a
//! new stream, so "number n of this queue is done" stays true for ever and a [`Position`] can be
//! kept as long as one likes. Order between queues comes from [`Command::Wait`] alone, and every wait
//! points to work that was published before the wait was, so waits cannot form a circle.
//!
//! Words that those who enqueue write, and words that those who run write, lie in different cache
//! lines.
//!
//! [`Command::Wait`]: crate::command::Command::Wait
//! [`Position`]: crate::position::Position

use crate::claim::Claim;
use crate::command::Record;
use crate::identity::Identity;
use crate::progress::{Link, Progress};
use crate::ring::Ring;
use crate::sleepers::Sleepers;
use crate::slots::Slots;
use std::ops::Deref;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64};

/// A value that shares its cache lines with no other; the hardware fetches them in pairs.
#[repr(align(128))]
pub struct Line<T>(T);

impl<T> Deref for Line<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// See the module text.
pub struct Queue {
    /// What is enqueued.
    pub ring: Line<Ring<Record>>,
    /// How far it is.
    pub progress: Line<Progress<Queue>>,
    /// Who looks after it.
    pub claim: Line<Claim>,
    /// Whose it is.
    pub identity: Identity,
    /// The newest work of the default stream that this stream was made to wait for. Under the
    /// ring's lock.
    pub waited_for_default: AtomicU64,
    /// The newest work of this stream that the default stream was made to wait for. Under the lock
    /// of the device's list of active queues.
    pub waited_by_default: AtomicU64,
    /// In the device's list of active queues, or being put there.
    pub is_active: AtomicBool,
    /// The next in that list.
    pub next_active: AtomicPtr<Queue>,
    /// The next in the ready list. Under the pool's lock.
    pub next_ready: AtomicPtr<Queue>,
    /// Its place among those that are blocked on another queue.
    pub link: Link<Queue>,
    sleepers: Sleepers,
    /// Where it belongs.
    pub slots: &'static Slots,
    /// Its slot.
    pub slot: u32,
}

impl Queue {
    /// A queue that is nobody's.
    pub fn new(slots: &'static Slots, slot: u32) -> Queue {
        Queue {
            ring: Line(Ring::new(slots.queue_limit)),
            progress: Line(Progress::new()),
            claim: Line(Claim::new()),
            identity: Identity::vacant(),
            waited_for_default: AtomicU64::new(0),
            waited_by_default: AtomicU64::new(0),
            is_active: AtomicBool::new(false),
            next_active: AtomicPtr::new(null_mut()),
            next_ready: AtomicPtr::new(null_mut()),
            link: Link::new(),
            sleepers: Sleepers::new(),
            slots,
            slot,
        }
    }

    /// Whether all work is done.
    #[inline]
    pub fn is_idle(&self) -> bool {
        // In this order: what is completed never exceeds a tail that is read later.
        let tail = self.ring.tail();
        self.progress.completed() >= tail
    }

    /// Whether work is pending, at a guess: see `ring`.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.ring.is_busy(|| self.progress.completed())
    }

    /// Whether there is work that is not done, for who may have to see to it: see `ring`.
    pub fn has_work(&self) -> bool {
        self.ring.settled_tail() > self.progress.completed()
    }

    /// Sees to it that somebody runs what was just enqueued.
    #[inline]
    pub fn call_for_a_worker(&'static self) {
        if !self.claim.is_looked_after() && self.claim.try_queue() {
            self.slots.pool.push(self);
        }
    }

    /// The same, where there may have been nothing.
    #[inline]
    pub fn call_if_busy(&'static self) {
        if !self.is_idle() {
            self.call_for_a_worker();
        }
    }

    /// Sleeps until the number is reached, or for no reason.
    pub fn sleep(&self, number: u64) {
        self.sleepers.sleep(number, |number| self.progress.alert_at(number));
    }

    /// For who has taken an alert away: wakes those whose number is reached.
    pub fn wake_sleepers(&self) {
        self.sleepers.wake(|number| self.progress.alert_at(number));
    }

    /// In the child of a fork, with the lock of the ring free again: what is pending is the
    /// parent's, nobody runs it, nobody waits.
    pub fn forget(&self) {
        self.progress.forget(self.ring.tail());
        self.claim.forget();
        self.is_active.store(false, Relaxed);
        self.sleepers.forget();
    }
}
