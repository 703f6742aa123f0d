//! A few words that are read without a lock while somebody may be writing them.
//!
//! Rule: one writer at a time (its lock is elsewhere); any number of readers, who get all words of one
//! write, or are told to look again. This is a sequence lock, after Boehm, "Can seqlocks get along
//! with programming language memory models?" (MSPC 2012).
//!
//! | sequence | means | becomes |
//! |---|---|---|
//! | even | the words belong together | odd when a writer begins |
//! | odd | a writer is at work | even, two more than before, when it is done |
//!
//! The record of a block of the allocator is written this way when the block comes out of the heap. From
//! then on its second word alone says whether the block is live, and changes by itself: that is one step,
//! so the sequence stays. The block's owner, of whom there is one while the word is 0, sets it
//! ([`Record::set_live`]); whoever frees the block takes it back to 0 ([`Record::take_live`]), and exactly
//! one caller can.

use crate::atomic::{AtomicU64, Ordering, fence};

/// How many words a record has.
pub const WORDS: usize = 5;

/// The word that is 0 while a block is free.
const LIVE: usize = 1;

/// The words, in one cache line.
#[repr(align(64))]
pub struct Record {
    sequence: AtomicU64,
    words: [AtomicU64; WORDS],
    /// What its owner keeps beside the words.
    companion: AtomicU64,
}

impl Record {
    /// All words are 0.
    pub fn new() -> Record {
        Record {
            sequence: AtomicU64::new(0),
            words: std::array::from_fn(|_| AtomicU64::new(0)),
            companion: AtomicU64::new(0),
        }
    }

    /// Writes all words. Only one thread at a time does.
    pub fn write(&self, words: [u64; WORDS]) {
        let before = self.sequence.load(Ordering::Relaxed);
        self.sequence.store(before.wrapping_add(1), Ordering::Relaxed);
        // Whoever sees one of the new words sees the odd number too.
        fence(Ordering::Release);
        for (word, value) in self.words.iter().zip(words) {
            word.store(value, Ordering::Relaxed);
        }
        self.sequence.store(before.wrapping_add(2), Ordering::Release);
    }

    /// The words of one write; `None` when a writer was at work meanwhile.
    pub fn read(&self) -> Option<[u64; WORDS]> {
        self.read_first()
    }

    /// The first words of one write; `None` when a writer was at work meanwhile.
    #[inline]
    pub fn read_first<const COUNT: usize>(&self) -> Option<[u64; COUNT]> {
        const { assert!(COUNT <= WORDS) };
        let before = self.sequence.load(Ordering::Acquire);
        let words = std::array::from_fn(|index| self.words[index].load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        let after = self.sequence.load(Ordering::Relaxed);
        (before == after && before.is_multiple_of(2)).then_some(words)
    }

    /// A word, for its owner or whoever knows that it stays.
    #[inline(always)]
    pub fn word(&self, index: usize) -> u64 {
        self.words[index].load(Ordering::Relaxed)
    }

    /// Sets a word that nobody relies on while the block is free; only the owner of a free block does.
    #[inline]
    pub fn set_word(&self, index: usize, value: u64) {
        self.words[index].store(value, Ordering::Relaxed);
    }

    /// What the owner keeps beside the words.
    #[inline]
    pub fn companion(&self) -> u64 {
        self.companion.load(Ordering::Relaxed)
    }

    /// Keeps something beside the words; only the owner does.
    pub fn set_companion(&self, value: u64) {
        self.companion.store(value, Ordering::Relaxed);
    }

    /// Makes a free block a live one; only its owner does, who gives it up.
    #[inline(always)]
    pub fn set_live(&self, size: u64) {
        self.words[LIVE].store(size, Ordering::Release);
    }

    /// Makes a live block a free one, if it is as it was seen; true for exactly one caller, who owns it.
    #[inline(always)]
    pub fn take_live(&self, size: u64) -> bool {
        let word = &self.words[LIVE];
        word.compare_exchange(size, 0, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}
