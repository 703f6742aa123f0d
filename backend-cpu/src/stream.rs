//! A stream: what is queued on it, and how far it is.
//!
//! Rules: a stream's pieces of work are numbered 1, 2, 3 … in the order in which they run, and
//! number n is run only when n − 1 is done. The numbers of a slot go on when the slot is given to a
//! new stream, so "number n of this slot is done" stays true for ever and a [`Position`] can be kept
//! as long as one likes.

use crate::command::Command;
use crate::signal::Signal;
use std::collections::VecDeque;
use std::hint::spin_loop;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::{Duration, Instant};

/// How far a stream is. Lives as long as the process, readable without a lock.
///
/// | word | means | who changes it |
/// |---|---|---|
/// | `enqueued` | the number of the newest piece of work | under the device's lock: whoever enqueues or claims |
/// | `completed` | work up to this number is done, and what it wrote is visible | under the device's lock: the stream's worker, or the holder of a claim |
/// | `doorbell` | changed since the worker decided to sleep: there is something to do | whoever ended the worker's sleep |
///
/// `completed <= enqueued`; equal means idle. After a fork the child sets `completed = enqueued`.
pub struct Progress {
    enqueued: AtomicU64,
    completed: AtomicU64,
    changed: Signal,
    /// Where the stream's worker sleeps.
    pub doorbell: AtomicU32,
}

impl Progress {
    /// Of a new slot: nothing was ever enqueued. One per slot, for the life of the process.
    pub fn leak() -> &'static Progress {
        Box::leak(Box::new(Progress {
            enqueued: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            changed: Signal::new(),
            doorbell: AtomicU32::new(0),
        }))
    }

    /// The number of the newest piece of work.
    pub fn enqueued(&self) -> u64 {
        self.enqueued.load(SeqCst)
    }

    /// Whether all work up to this number is done.
    pub fn has_reached(&self, number: u64) -> bool {
        self.completed.load(SeqCst) >= number
    }

    /// Whether all work is done.
    pub fn is_idle(&self) -> bool {
        self.has_reached(self.enqueued())
    }

    /// Waits until all work up to this number is done.
    pub fn wait(&self, number: u64) {
        self.changed.wait(|| self.has_reached(number));
    }

    /// The number for a new piece of work. Under the device's lock.
    pub fn take_number(&self) -> u64 {
        self.enqueued.fetch_add(1, SeqCst) + 1
    }

    /// Work up to this number is done. Under the device's lock; `notify` follows without it.
    pub fn complete(&self, number: u64) {
        // In the child of a fork this may be past the number already. A plain store under the lock,
        // and not `fetch_max`, which the thread sanitizer does not see.
        if !self.has_reached(number) {
            self.completed.store(number, SeqCst);
        }
    }

    /// Wakes those who wait for this stream.
    pub fn notify(&self) {
        self.changed.notify();
    }

    /// In the child of a fork: the work that was pending is the parent's, and nobody waits.
    pub fn forget_pending(&self) {
        self.completed.store(self.enqueued(), SeqCst);
        self.changed.forget_waiters();
    }
}

/// How long a wait that spins does so: a few times what a wake-up takes.
const SPIN: Duration = Duration::from_micros(50);
/// How often it looks before it looks at the clock.
const LOOKS: u32 = 64;

/// A point in a stream: all work up to a number. What an event is, and what a wait waits for.
#[derive(Clone, Copy)]
pub struct Position {
    /// The stream's slot.
    pub progress: &'static Progress,
    /// The number of the last piece of work before the point.
    pub number: u64,
}

impl Position {
    /// Whether the stream has passed.
    pub fn is_reached(&self) -> bool {
        self.progress.has_reached(self.number)
    }

    /// Waits until the stream has passed.
    pub fn wait(&self) {
        self.progress.wait(self.number);
    }

    /// Waits awake at first, which saves the time of a wake-up, and then as `wait` does: here a
    /// thread that spins for long takes a processor away from the work that it waits for.
    pub fn spin(&self) {
        let end = Instant::now() + SPIN;
        while Instant::now() < end {
            for _ in 0..LOOKS {
                if self.is_reached() {
                    return;
                }
                spin_loop();
            }
        }
        self.wait();
    }
}

impl PartialEq for Position {
    fn eq(&self, other: &Position) -> bool {
        std::ptr::eq(self.progress, other.progress) && self.number == other.number
    }
}

/// Where a slot is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Belongs to a stream that exists.
    Live,
    /// Its stream was destroyed and has work left.
    Draining,
    /// Nobody's: destroyed, drained, without a worker.
    Vacant,
}

/// A slot for a stream. Guarded by the device's lock.
pub struct Slot {
    /// How far its stream is.
    pub progress: &'static Progress,
    /// What has a number and was not begun.
    pub queue: VecDeque<(u64, Command)>,
    /// See [`Life`].
    pub life: Life,
    /// How often the slot was given away.
    pub generation: u32,
    /// Whether the stream is ordered with the default stream (contract S2).
    pub is_blocking: bool,
    /// The worker that serves the slot, by its token.
    pub worker: Option<u64>,
    /// The worker sleeps, or is about to; whoever enqueues takes this and rings.
    pub worker_sleeps: bool,
    /// The newest work of the default stream that this stream was made to wait for.
    pub waited_for_default: u64,
    /// The newest work of this stream that the default stream was made to wait for.
    pub waited_by_default: u64,
}

impl Slot {
    /// A slot in the hands of its first stream, a blocking one.
    pub fn new() -> Slot {
        Slot {
            progress: Progress::leak(),
            queue: VecDeque::new(),
            life: Life::Live,
            generation: 1,
            is_blocking: true,
            worker: None,
            worker_sleeps: false,
            waited_for_default: 0,
            waited_by_default: 0,
        }
    }

    /// Puts a piece of work at the end and returns its number.
    pub fn push(&mut self, command: Command) -> u64 {
        let number = self.progress.take_number();
        self.queue.push_back((number, command));
        number
    }
}
