//! Who looks after a queue: the word that says whether somebody runs its work, will look, or waits.
//!
//! One word of three bits:
//!
//! | bit | means | set by | cleared by |
//! |---|---|---|---|
//! | `CLAIMED` | a thread runs the queue's work, alone | `try_claim`, `take_entry`, `unblock` | the same thread: `release`, `keep`, `block` |
//! | `QUEUED` | an entry for the queue is in the ready list or in a worker's hand, and who has it will look | `try_queue`, `keep`, `unblock_to_entry` | who takes the entry: `take_entry`, `drop_entry` |
//! | `BLOCKED` | the next piece of work waits for another queue, which knows of it | `block` | who finds that the other has passed: `unblock`, `unblock_to_entry` |
//!
//! `CLAIMED` and `BLOCKED` exclude each other. A queue that has work has a bit set, or a thread that
//! has just cleared the last one and has not yet looked at the queue again (`Ring::settled_tail`);
//! whoever puts work in and sees 0 calls for a worker.

use crate::atomic::{AtomicU32, Ordering};

const CLAIMED: u32 = 1;
const QUEUED: u32 = 2;
const BLOCKED: u32 = 4;

/// See the table above.
pub struct Claim(AtomicU32);

impl Claim {
    /// Nobody looks after the queue.
    #[cfg(not(loom))]
    pub const fn new() -> Claim {
        Claim(AtomicU32::new(0))
    }

    /// Nobody looks after the queue; the model's atomics cannot be made at compile time.
    #[cfg(loom)]
    pub fn new() -> Claim {
        Claim(AtomicU32::new(0))
    }

    /// Whether somebody runs the queue, will look at it, or is told when it can go on.
    #[inline]
    pub fn is_looked_after(&self) -> bool {
        self.0.load(Ordering::Acquire) != 0
    }

    /// Whether a thread could have the claim now.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.0.load(Ordering::Acquire) & (CLAIMED | BLOCKED) == 0
    }

    /// The right to run the queue's work, for a thread that has no entry.
    #[inline]
    pub fn try_claim(&self) -> bool {
        self.update(|word| (word & (CLAIMED | BLOCKED) == 0).then_some(word | CLAIMED))
    }

    /// For who has taken the queue's entry: the right to run its work, unless another thread has it
    /// or the queue is blocked. The entry is gone either way.
    #[inline]
    pub fn take_entry(&self) -> bool {
        let mut claimed = false;
        self.update(|word| {
            claimed = word & (CLAIMED | BLOCKED) == 0;
            Some(if claimed { CLAIMED } else { word & !QUEUED })
        });
        claimed
    }

    /// For who has the queue's entry and will not look: whether somebody else looks after it. If not,
    /// the caller looks at the queue once more.
    pub fn drop_entry(&self) -> bool {
        self.0.fetch_and(!QUEUED, Ordering::AcqRel) & !QUEUED != 0
    }

    /// Whether the caller is to make an entry: nobody looks after the queue.
    #[inline]
    pub fn try_queue(&self) -> bool {
        self.0.compare_exchange(0, QUEUED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Ends the caller's claim. Whether somebody else looks after the queue; if not, the caller looks
    /// at it once more.
    #[inline]
    pub fn release(&self) -> bool {
        self.0.fetch_and(!CLAIMED, Ordering::AcqRel) & !CLAIMED != 0
    }

    /// Turns the caller's claim into an entry that the caller has; `false` when there is an entry
    /// elsewhere, and the claim has just ended.
    #[inline]
    pub fn keep(&self) -> bool {
        let mut kept = false;
        self.update(|word| {
            kept = word & QUEUED == 0;
            Some(word & !CLAIMED | QUEUED)
        });
        kept
    }

    /// Turns the caller's claim into a wait for another queue.
    pub fn block(&self) {
        self.update(|word| Some(word & !CLAIMED | BLOCKED));
    }

    /// Turns the wait into a claim of the caller's, who found that the other queue has passed.
    pub fn unblock(&self) {
        self.update(|word| Some(word & !BLOCKED | CLAIMED));
    }

    /// Ends the wait; whether the caller is to make an entry.
    pub fn unblock_to_entry(&self) -> bool {
        let mut needed = false;
        self.update(|word| {
            needed = word & QUEUED == 0;
            Some(word & !BLOCKED | QUEUED)
        });
        needed
    }

    /// In the child of a fork: nobody is there.
    pub fn forget(&self) {
        self.0.store(0, Ordering::Release);
    }

    #[inline]
    fn update(&self, mut to: impl FnMut(u32) -> Option<u32>) -> bool {
        let mut word = self.0.load(Ordering::Acquire);
        while let Some(next) = to(word) {
            match self.0.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }
}
