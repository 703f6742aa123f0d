//! How many are inside of something, in two phases, so that one can learn when those who were inside at a
//! time have left, while others come and go. After the kernel's sleepable RCU (McKenney, 2006).
//!
//! | word | means | who changes it |
//! |---|---|---|
//! | `epoch` | its last bit is the phase that visitors enter | the one who flips: one more, once the other phase is empty |
//! | `inside[phase]` of a shard | visitors of that phase | a visitor: one more as it enters, one less as it leaves |
//! | `used` | shards that were ever entered | a visitor, before it enters a shard for the first time: grows |
//!
//! A visitor counts itself and then looks at the epoch again: if it has changed, the visitor takes itself out and
//! begins anew. Whoever flips looks at the counters of the old phase with read-modify-writes. So either the
//! flipper's look comes later, and sees the visitor; or the visitor's count comes later, and the visitor
//! has then seen the flip. Hence nobody stays in a phase that was closed, and a phase that was seen
//! empty after it was closed stays empty.
//!
//! Rule: one thread at a time flips ([`Visitors::has_passed`]); its lock is its caller's.

use crate::atomic::{AtomicU64, Ordering};

/// Shards, so that threads do not share a cache line.
#[cfg(not(loom))]
pub const SHARDS: usize = 32;
/// The model has two.
#[cfg(loom)]
pub const SHARDS: usize = 2;

#[repr(align(64))]
struct Shard {
    inside: [AtomicU64; 2],
}

/// The counters.
pub struct Visitors {
    used: AtomicU64,
    epoch: AtomicU64,
    shards: [Shard; SHARDS],
}

/// Where a visitor counted itself. It is given back to [`Visitors::leave`].
#[derive(Clone, Copy, Debug)]
pub struct Visit {
    shard: usize,
    phase: usize,
}

/// A time: everybody who was inside then is waited for.
#[derive(Clone, Copy, Debug)]
pub struct Ticket(u64);

impl Visitors {
    /// Nobody is inside.
    #[cfg(not(loom))]
    pub const fn new() -> Visitors {
        Visitors {
            used: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            shards: [const { Shard { inside: [const { AtomicU64::new(0) }; 2] } }; SHARDS],
        }
    }

    /// Nobody is inside; the model's atomics cannot be made at compile time.
    #[cfg(loom)]
    pub fn new() -> Visitors {
        Visitors {
            used: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            shards: std::array::from_fn(|_| Shard {
                inside: std::array::from_fn(|_| AtomicU64::new(0)),
            }),
        }
    }

    /// Comes in, by a shard below [`SHARDS`] that few others use.
    #[inline]
    pub fn enter(&self, shard: usize) -> Visit {
        if self.used.load(Ordering::Relaxed) <= shard as u64 {
            self.used.fetch_max(shard as u64 + 1, Ordering::Relaxed);
        }
        loop {
            let epoch = self.epoch.load(Ordering::Relaxed);
            let visit = Visit { shard, phase: (epoch & 1) as usize };
            // Acquires what a flipper did before it looked at this counter.
            self.counter(visit).fetch_add(1, Ordering::AcqRel);
            if self.epoch.load(Ordering::Relaxed) == epoch {
                return visit;
            }
            self.leave(visit);
        }
    }

    /// Goes out. What was done inside happens before whatever follows on that nobody is.
    #[inline]
    pub fn leave(&self, visit: Visit) {
        self.counter(visit).fetch_sub(1, Ordering::Release);
    }

    fn counter(&self, Visit { shard, phase }: Visit) -> &AtomicU64 {
        &self.shards[shard].inside[phase]
    }

    /// Whether nobody is inside of those who were known to come in.
    #[inline(always)]
    pub fn are_none(&self) -> bool {
        let used = self.used.load(Ordering::Relaxed);
        used == 0 || self.are_none_in(used as usize)
    }

    fn are_none_in(&self, used: usize) -> bool {
        let is_empty = |counter: &AtomicU64| counter.load(Ordering::Acquire) == 0;
        self.shards[..used].iter().all(|shard| shard.inside.iter().all(is_empty))
    }

    /// The present time.
    pub fn ticket(&self) -> Ticket {
        Ticket(self.epoch.load(Ordering::Relaxed))
    }

    /// Whether everybody has left who was inside at the time of the ticket. Does not wait. One thread at a time
    /// asks.
    pub fn has_passed(&self, ticket: Ticket) -> bool {
        loop {
            let epoch = self.epoch.load(Ordering::Relaxed);
            // Two flips: the first one finds the phase before the ticket's empty, the second one the
            // ticket's own.
            if epoch >= ticket.0 + 2 {
                return true;
            }
            let old = (epoch as usize + 1) & 1;
            // Not a load, which might not see who has just come in (see the module text).
            let is_empty = |shard: &Shard| shard.inside[old].fetch_add(0, Ordering::AcqRel) == 0;
            if !self.shards.iter().all(is_empty) {
                return false;
            }
            self.epoch.store(epoch + 1, Ordering::Relaxed);
        }
    }

    /// In the child of a fork, where no visitor of the parent's is: nobody is inside.
    pub fn forget(&self) {
        for counter in self.shards.iter().flat_map(|shard| &shard.inside) {
            counter.store(0, Ordering::Relaxed);
        }
    }
}
