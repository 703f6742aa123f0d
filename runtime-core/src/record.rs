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

use crate::atomic::{AtomicU64, Ordering, fence};

/// How many words a record has.
pub const WORDS: usize = 5;

/// The words, in one cache line.
#[repr(align(64))]
pub struct Record {
    sequence: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl Record {
    /// All words are 0.
    pub fn new() -> Record {
        Record { sequence: AtomicU64::new(0), words: std::array::from_fn(|_| AtomicU64::new(0)) }
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
}
