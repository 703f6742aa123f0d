//! Where memory went: what is used, how much at most, how often; and a limit.
//!
//! Rule: an allocation is reserved in the account before the backend is asked, so two threads cannot
//! pass a limit together. All counters are single atomics; no lock on the way of an allocation.

use crate::api::LlaisysMemoryStatistics;
use std::sync::atomic::{AtomicU64, Ordering};

/// The account of a device or of a stream.
#[derive(Debug)]
pub struct Account {
    used: AtomicU64,
    peak: AtomicU64,
    live: AtomicU64,
    allocations: AtomicU64,
    frees: AtomicU64,
    failures: AtomicU64,
    limit: AtomicU64,
}

impl Account {
    /// Nothing used, no limit.
    pub const fn new() -> Account {
        Account {
            used: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            live: AtomicU64::new(0),
            allocations: AtomicU64::new(0),
            frees: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            limit: AtomicU64::new(u64::MAX),
        }
    }

    /// Counts `size` bytes as used, if the limit allows.
    ///
    /// # Errors
    /// What is used and the limit, in bytes.
    pub fn reserve(&self, size: u64) -> Result<(), (u64, u64)> {
        let limit = self.limit.load(Ordering::Relaxed);
        let used = self.used.fetch_add(size, Ordering::Relaxed);
        if used.saturating_add(size) > limit {
            self.used.fetch_sub(size, Ordering::Relaxed);
            return Err((used, limit));
        }
        Ok(())
    }

    /// Takes a reservation back: the allocation failed.
    pub fn cancel(&self, size: u64) {
        self.used.fetch_sub(size, Ordering::Relaxed);
    }

    /// Notes that a reserved block was handed out.
    pub fn allocated(&self) {
        self.peak.fetch_max(self.used.load(Ordering::Relaxed), Ordering::Relaxed);
        self.live.fetch_add(1, Ordering::Relaxed);
        self.allocations.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that a block of `size` bytes came back.
    pub fn freed(&self, size: u64) {
        self.used.fetch_sub(size, Ordering::Relaxed);
        self.live.fetch_sub(1, Ordering::Relaxed);
        self.frees.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes an allocation that failed for want of memory.
    pub fn failed(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Begins the peak anew.
    pub fn reset_peak(&self) {
        self.peak.store(self.used.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Sets the limit in bytes; `u64::MAX` is none.
    pub fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// The account, with what the backend says it holds for the device.
    pub fn statistics(&self, reserved: u64) -> LlaisysMemoryStatistics {
        let used = self.used.load(Ordering::Relaxed);
        LlaisysMemoryStatistics {
            struct_size: size_of::<LlaisysMemoryStatistics>() as u32,
            reserved: 0,
            used,
            reserved_bytes: reserved.max(used),
            peak: self.peak.load(Ordering::Relaxed).max(used),
            live: self.live.load(Ordering::Relaxed),
            allocations: self.allocations.load(Ordering::Relaxed),
            frees: self.frees.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            limit: self.limit.load(Ordering::Relaxed),
        }
    }
}

impl Default for Account {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_holds_and_what_was_refused_is_not_used() {
        let account = Account::new();
        account.set_limit(100);
        account.reserve(60).expect("fits");
        account.allocated();
        assert_eq!(account.reserve(60), Err((60, 100)));
        assert_eq!(account.reserve(u64::MAX), Err((60, 100)));
        account.reserve(40).expect("fits exactly");
        account.allocated();
        account.freed(60);
        let now = account.statistics(0);
        assert_eq!((now.used, now.peak, now.live), (40, 100, 1));
        account.reset_peak();
        assert_eq!(account.statistics(500).peak, 40);
        assert_eq!(account.statistics(500).reserved_bytes, 500);
    }
}
