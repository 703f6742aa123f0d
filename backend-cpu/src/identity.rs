//! Whose a queue is: which stream, by generation, and of which kind.

use crate::atomic::AtomicU64;
use crate::atomic::Ordering::{AcqRel, Acquire, Release};

/// One word: the generation in the upper half, which grows when the slot is given away, then a bit
/// for a blocking stream, then the life in the lowest two bits.
///
/// | life | means | becomes |
/// |---|---|---|
/// | `VACANT` | nobody's; in the list of vacant slots, or about to be | `LIVE` by who took it from that list |
/// | `LIVE` | belongs to a stream that exists | `DRAINING` by who destroys it, under the ring's lock |
/// | `DRAINING` | its stream was destroyed and may have work left | `VACANT` by who finds it idle, with the claim |
pub struct Identity(AtomicU64);

const VACANT: u64 = 0;
const LIVE: u64 = 1;
const DRAINING: u64 = 2;
const LIFE: u64 = 3;
const BLOCKING: u64 = 4;

impl Identity {
    /// Never given away.
    pub fn vacant() -> Identity {
        Identity(AtomicU64::new(VACANT))
    }

    /// Gives it to a new stream and answers the generation, which is never 0.
    pub fn give(&self, is_blocking: bool) -> u32 {
        let generation = ((self.0.load(Acquire) >> 32) as u32).checked_add(1).unwrap_or(1);
        let kind = if is_blocking { BLOCKING } else { 0 };
        self.0.store(u64::from(generation) << 32 | kind | LIVE, Release);
        generation
    }

    /// Whether it belongs to the stream of this generation, which exists.
    #[inline]
    pub fn is(&self, generation: u32) -> bool {
        let word = self.0.load(Acquire);
        word >> 32 == u64::from(generation) && word & LIFE == LIVE
    }

    /// Whether its stream is, or was, ordered with the default stream (contract S2).
    #[inline]
    pub fn is_blocking(&self) -> bool {
        self.0.load(Acquire) & BLOCKING != 0
    }

    /// Its stream is destroyed.
    pub fn drain(&self) {
        let word = self.0.load(Acquire);
        self.0.store(word & !LIFE | DRAINING, Release);
    }

    /// Whether its stream was destroyed and the slot is not vacant yet.
    #[inline]
    pub fn is_draining(&self) -> bool {
        self.0.load(Acquire) & LIFE == DRAINING
    }

    /// Whether it belongs to a stream that exists.
    pub fn is_live(&self) -> bool {
        self.0.load(Acquire) & LIFE == LIVE
    }

    /// The slot of a destroyed stream is vacant from now on; `false` when it was already.
    pub fn vacate(&self) -> bool {
        let word = self.0.load(Acquire);
        word & LIFE == DRAINING
            && self.0.compare_exchange(word, word & !LIFE | VACANT, AcqRel, Acquire).is_ok()
    }
}
