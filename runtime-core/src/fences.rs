//! Which askings found that everything was done, so that what one thread learns serves the others.
//!
//! A fence asks all streams whether they are idle. What was freed before a fence began that found all of them
//! idle is anybody's, whoever asked.
//!
//! | word | means | who changes it |
//! |---|---|---|
//! | `begun` | fences that began | who begins one: one more; who takes a stamp writes it back as it is |
//! | `over` | the latest fence that found everything done | who ends such a fence: grows |
//! | `asking` | how many ask just now, as a hint | who begins a fence and who ends it |
//!
//! Both a stamp and a beginning are read-modify-writes of `begun`, so they have an order: a fence whose
//! number is above a stamp began after it, and has seen what was enqueued before the stamp was taken.

use crate::atomic::{AtomicU64, Ordering};

/// The fences of a backend.
pub struct Fences {
    begun: AtomicU64,
    over: AtomicU64,
    asking: AtomicU64,
}

/// A time: what was freed before it is done with when a fence that began later found everything done.
#[derive(Clone, Copy, Debug)]
pub struct Stamp(u64);

/// A fence that began.
#[derive(Debug)]
pub struct Begun(u64);

impl Fences {
    /// None yet.
    #[cfg(not(loom))]
    pub const fn new() -> Fences {
        Fences { begun: AtomicU64::new(0), over: AtomicU64::new(0), asking: AtomicU64::new(0) }
    }

    /// None yet; the model's atomics cannot be made at compile time.
    #[cfg(loom)]
    pub fn new() -> Fences {
        Fences { begun: AtomicU64::new(0), over: AtomicU64::new(0), asking: AtomicU64::new(0) }
    }

    /// The present time.
    pub fn stamp(&self) -> Stamp {
        Stamp(self.begun.fetch_add(0, Ordering::AcqRel))
    }

    /// A fence begins: its caller asks what is pending from here on, and ends it.
    pub fn begin(&self) -> Begun {
        self.asking.fetch_add(1, Ordering::Relaxed);
        Begun(self.begun.fetch_add(1, Ordering::AcqRel) + 1)
    }

    /// A fence ends, which found that nothing was pending, or did not.
    pub fn end(&self, fence: Begun, found_nothing: bool) {
        if found_nothing {
            self.over.fetch_max(fence.0, Ordering::AcqRel);
        }
        self.asking.fetch_sub(1, Ordering::Relaxed);
    }

    /// In the child of a fork: whoever asked in the parent is not here.
    pub fn forget(&self) {
        self.asking.store(0, Ordering::Relaxed);
    }

    /// Whether somebody is asking just now: worth a little patience, for all streams are asked at one door.
    pub fn are_asked(&self) -> bool {
        self.asking.load(Ordering::Relaxed) != 0
    }

    /// Whether what was freed before a stamp is done with.
    pub fn are_past(&self, stamp: Stamp) -> bool {
        self.over.load(Ordering::Acquire) > stamp.0
    }
}

#[cfg(not(loom))]
impl Default for Fences {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn who_asked_in_the_parent_of_a_fork_does_not_ask_in_its_child() {
        let fences = Fences::new();
        let _left_in_the_parent = fences.begin();
        assert!(fences.are_asked());
        fences.forget();
        assert!(!fences.are_asked());
    }
}
