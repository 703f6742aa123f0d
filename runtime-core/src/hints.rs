//! The records that addresses were last found in: where a look-up begins, for most end there.
//!
//! Rule: a hint is a guess. Records are never freed and are used again for other blocks, so whoever
//! takes one checks that it is live and holds the address, as with any record; a stale hint costs a
//! look into the map and nothing else. Nobody has to take hints back.

use crate::record::Record;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// How many there are; a power of two.
const COUNT: usize = 1024;

/// Addresses in one cell of this many bytes share a hint.
const CELL_SHIFT: u32 = 8;

/// A guess for each address, which some addresses share.
pub struct Hints {
    hints: [Hint; COUNT],
}

/// A guess for some addresses.
pub struct Hint(AtomicPtr<Record>);

impl Hints {
    /// Nothing is guessed yet.
    pub const fn new() -> Hints {
        Hints { hints: [const { Hint(AtomicPtr::new(ptr::null_mut())) }; COUNT] }
    }

    /// The hint of an address.
    #[inline(always)]
    pub fn of(&self, address: usize) -> &Hint {
        // Fibonacci hashing (Knuth, volume 3, 6.4): bases of blocks differ in few of their bits.
        let mixed = ((address >> CELL_SHIFT) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.hints[(mixed >> (64 - COUNT.trailing_zeros())) as usize]
    }
}

impl Hint {
    /// The record, if there is a guess.
    #[inline(always)]
    pub fn record(&self) -> Option<&'static Record> {
        // SAFETY: null, or what `remember` stored: a record, which is never freed.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// Guesses this record from now on.
    pub fn remember(&self, record: &'static Record) {
        self.0.store(ptr::from_ref(record).cast_mut(), Ordering::Release);
    }
}
