//! Where memory went: what is used, how much at most, how often; and a limit.
//!
//! Rules: an allocation is reserved in the account before the backend is asked, so two threads cannot
//! pass a limit together. The commonest allocations are counted in a shard of their thread, which
//! costs no locked instruction and is added up by whoever asks; a shard holds at most a mebibyte back
//! from the account. So all is exact as soon as the threads rest; the peak of several threads may be
//! off by a mebibyte for each.

use crate::api::LlaisysMemoryStatistics;
use crate::lock::{ForkLock, Mutex};
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};

/// What a shard may hold back, in bytes.
const SLACK: u64 = 1 << 20;

/// The account of a device or of a stream.
#[derive(Debug)]
pub struct Account {
    /// Without the shards, so it may wrap below zero.
    used: AtomicU64,
    peak: AtomicU64,
    allocations: AtomicU64,
    frees: AtomicU64,
    failures: AtomicU64,
    limit: AtomicU64,
    /// There were shards: the lock is not touched before, so an account that never has any is never locked.
    has_shards: AtomicBool,
    shards: Mutex<Vec<&'static Shard>>,
}

/// What one thread has counted. Only that thread changes it, but for the peak, which whoever asks for
/// it begins anew.
#[derive(Debug, Default)]
pub struct Shard {
    used: AtomicI64,
    peak: AtomicI64,
    allocations: AtomicU64,
    frees: AtomicU64,
}

impl Shard {
    /// Notes that this thread was handed a block; whether the shard is to be [`Account::fold`]ed.
    #[inline(always)]
    pub fn allocated(&self, size: u64) -> bool {
        let used = self.used.load(Relaxed) + size as i64;
        self.used.store(used, Relaxed);
        if used > self.peak.load(Relaxed) {
            self.peak.store(used, Relaxed);
        }
        self.allocations.store(self.allocations.load(Relaxed) + 1, Relaxed);
        used.unsigned_abs() > SLACK
    }

    /// Notes that this thread freed a block; whether the shard is to be [`Account::fold`]ed.
    #[inline(always)]
    pub fn freed(&self, size: u64) -> bool {
        let used = self.used.load(Relaxed) - size as i64;
        self.used.store(used, Relaxed);
        self.frees.store(self.frees.load(Relaxed) + 1, Relaxed);
        used.unsigned_abs() > SLACK
    }
}

impl Account {
    /// Nothing used, no limit.
    pub const fn new() -> Account {
        Account {
            used: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            allocations: AtomicU64::new(0),
            frees: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            limit: AtomicU64::new(u64::MAX),
            has_shards: AtomicBool::new(false),
            shards: Mutex::new(Vec::new()),
        }
    }

    fn with_shards<T>(&self, body: impl FnOnce(&[&'static Shard]) -> T) -> T {
        if self.has_shards.load(Relaxed) { body(&self.shards.lock()) } else { body(&[]) }
    }

    /// A shard for the calling thread, until [`Account::close`].
    pub fn open(&self) -> &'static Shard {
        let shard: &'static Shard = Box::leak(Box::default());
        self.shards.lock().push(shard);
        self.has_shards.store(true, Relaxed);
        shard
    }

    /// Takes in what a thread that ends has counted.
    pub fn close(&self, shard: &'static Shard) {
        let mut shards = self.shards.lock();
        self.note_peak(&shards);
        shards.retain(|other| !ptr::eq(*other, shard));
        self.take_in(shard);
        drop(shards);
        // SAFETY: `open` leaked it, it is in no list any more, and its thread gives it up here.
        drop(unsafe { Box::from_raw(ptr::from_ref(shard).cast_mut()) });
    }

    /// Takes in what the calling thread's own shard holds back.
    #[cold]
    pub fn fold(&self, shard: &Shard) {
        let shards = self.shards.lock();
        self.note_peak(&shards);
        self.take_in(shard);
    }

    fn take_in(&self, shard: &Shard) {
        self.used.fetch_add(shard.used.load(Relaxed) as u64, Relaxed);
        self.allocations.fetch_add(shard.allocations.load(Relaxed), Relaxed);
        self.frees.fetch_add(shard.frees.load(Relaxed), Relaxed);
        shard.used.store(0, Relaxed);
        shard.peak.store(0, Relaxed);
        shard.allocations.store(0, Relaxed);
        shard.frees.store(0, Relaxed);
    }

    /// What is used, shards and all.
    fn total(&self, shards: &[&'static Shard]) -> u64 {
        let held_back: i64 = shards.iter().map(|shard| shard.used.load(Relaxed)).sum();
        // Below zero only while threads are between the two ends of one block's life.
        (self.used.load(Relaxed).wrapping_add(held_back as u64) as i64).max(0) as u64
    }

    /// Takes in the shards' peaks, which belong to what the account has been until now.
    fn note_peak(&self, shards: &[&'static Shard]) {
        let held_back: i64 = shards.iter().map(|shard| shard.peak.load(Relaxed)).sum();
        let peak = self.used.load(Relaxed).wrapping_add(held_back as u64) as i64;
        self.peak.fetch_max(peak.max(0) as u64, Relaxed);
        for shard in shards {
            shard.peak.store(shard.used.load(Relaxed), Relaxed);
        }
    }

    /// Whether a limit is set; then every allocation goes through [`Account::reserve`].
    #[inline(always)]
    pub fn has_limit(&self) -> bool {
        self.limit.load(Relaxed) != u64::MAX
    }

    /// Counts `size` bytes as used, if the limit allows.
    ///
    /// # Errors
    /// What is used and the limit, in bytes.
    pub fn reserve(&self, size: u64) -> Result<(), (u64, u64)> {
        let limit = self.limit.load(Relaxed);
        self.with_shards(|shards| {
            self.note_peak(shards);
            if size > limit {
                return Err((self.total(shards), limit));
            }
            // First counted, then looked at: two threads at once both see both.
            self.used.fetch_add(size, Relaxed);
            let used = self.total(shards).saturating_sub(size);
            if used.saturating_add(size) > limit {
                self.used.fetch_sub(size, Relaxed);
                return Err((used, limit));
            }
            Ok(())
        })
    }

    /// Counts `size` bytes as used, whatever the limit.
    pub fn add(&self, size: u64) {
        self.used.fetch_add(size, Relaxed);
    }

    /// Takes a reservation back: the allocation failed.
    pub fn cancel(&self, size: u64) {
        self.used.fetch_sub(size, Relaxed);
    }

    /// Notes that a reserved block was handed out.
    pub fn allocated(&self) {
        self.with_shards(|shards| self.note_peak(shards));
        self.allocations.fetch_add(1, Relaxed);
    }

    /// Counts an allocation of `size` bytes in an account that has neither a limit nor shards, as those of
    /// streams are.
    #[inline]
    pub fn add_allocated(&self, size: u64) {
        let used = self.used.fetch_add(size, Relaxed).wrapping_add(size);
        if used > self.peak.load(Relaxed) {
            self.peak.fetch_max(used, Relaxed);
        }
        self.allocations.fetch_add(1, Relaxed);
    }

    /// The way back of [`Account::add_allocated`].
    #[inline]
    pub fn add_freed(&self, size: u64) {
        self.used.fetch_sub(size, Relaxed);
        self.frees.fetch_add(1, Relaxed);
    }

    /// Notes that a block of `size` bytes came back.
    pub fn freed(&self, size: u64) {
        self.with_shards(|shards| self.note_peak(shards));
        self.used.fetch_sub(size, Relaxed);
        self.frees.fetch_add(1, Relaxed);
    }

    /// Notes an allocation that failed for want of memory.
    pub fn failed(&self) {
        self.failures.fetch_add(1, Relaxed);
    }

    /// Begins the peak anew.
    pub fn reset_peak(&self) {
        self.with_shards(|shards| {
            self.note_peak(shards);
            self.peak.store(self.total(shards), Relaxed);
        });
    }

    /// Sets the limit in bytes; `u64::MAX` is none.
    pub fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Relaxed);
    }

    /// The account, with what the backend says it holds for the device.
    pub fn statistics(&self, reserved: u64) -> LlaisysMemoryStatistics {
        self.with_shards(|shards| {
            self.note_peak(shards);
            let used = self.total(shards);
            let sum = |own: &AtomicU64, part: fn(&Shard) -> &AtomicU64| {
                let of_shards: u64 = shards.iter().map(|shard| part(shard).load(Relaxed)).sum();
                own.load(Relaxed) + of_shards
            };
            let frees = sum(&self.frees, |shard| &shard.frees);
            let allocations = sum(&self.allocations, |shard| &shard.allocations);
            LlaisysMemoryStatistics {
                struct_size: size_of::<LlaisysMemoryStatistics>() as u32,
                reserved: 0,
                used,
                reserved_bytes: reserved.max(used),
                peak: self.peak.load(Relaxed).max(used),
                live: allocations.saturating_sub(frees),
                allocations,
                frees,
                failures: self.failures.load(Relaxed),
                limit: self.limit.load(Relaxed),
            }
        })
    }

    /// Before a fork: keeps the lock.
    pub fn hold(&self) {
        self.shards.hold();
    }

    /// After a fork: releases it.
    ///
    /// # Safety
    /// - `hold` was called before the fork, on the thread that forked.
    pub unsafe fn release(&self) {
        // SAFETY: by the contract above.
        unsafe { self.shards.release() };
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

    #[test]
    fn shards_count_with_the_account_and_stay_counted_when_their_thread_ends() {
        let account = Account::new();
        let (one, two) = (account.open(), account.open());
        one.allocated(300);
        one.allocated(200);
        // Freed by another thread than the one that allocated it.
        two.freed(300);
        account.reserve(50).expect("no limit");
        account.allocated();
        let now = account.statistics(0);
        assert_eq!((now.used, now.live, now.allocations, now.frees), (250, 2, 3, 1));
        assert_eq!(now.peak, 500);
        account.close(one);
        account.set_limit(300);
        assert_eq!(account.reserve(60), Err((250, 300)));
        account.reset_peak();
        two.freed(200);
        account.close(two);
        let now = account.statistics(0);
        assert_eq!((now.used, now.peak, now.live, now.frees), (50, 250, 1, 2));
    }

    #[test]
    fn a_shard_asks_to_be_folded_before_it_holds_much_back() {
        let account = Account::new();
        let shard = account.open();
        assert!(!shard.allocated(SLACK) && shard.allocated(1));
        account.fold(shard);
        assert!(!shard.freed(SLACK));
        assert_eq!(account.statistics(0).used, 1);
        assert_eq!(account.statistics(0).peak, SLACK + 1);
        account.close(shard);
    }
}
