//! The protocol of a stream's slot: one word that says whether a stream is alive and in use.
//!
//! The state of a slot is one word:
//!
//! | bits | what |
//! |---|---|
//! | 63..34 | generation: grows when the slot is vacated |
//! | 33..2 | users: the calls that are inside the native stream |
//! | 1..0 | phase |
//!
//! | phase | means | becomes |
//! |---|---|---|
//! | 0 vacant | no stream here; no users | 1 by `fill` |
//! | 1 live | a stream that may be named | 2 by `remove` |
//! | 2 removed | a stream that is destroyed as soon as `users` is zero | 0 by `vacate`, 1 by `restore` |
//!
//! What a slot holds is written before `fill` and stays until `vacate`. A call that saw it and then
//! comes in with the very state that it saw before (`load`, then `enter` or `remove`) has therefore
//! seen the stream that it holds now. Nobody comes in after `remove`, so whoever takes `users` of a
//! removed stream to zero is the last, and only that one goes on to `vacate` or `restore`.

use crate::atomic::{AtomicU64, Ordering, fence};

const VACANT: u64 = 0;
const LIVE: u64 = 1;
const REMOVED: u64 = 2;
const PHASE: u64 = 3;
const USER: u64 = 1 << 2;
const USERS: u64 = (1 << 34) - USER;
const GENERATION_ONE: u64 = 1 << 34;

/// The state of a slot; see the table above.
pub struct StreamState(AtomicU64);

/// A state in which the slot held a live stream.
#[derive(Clone, Copy, Debug)]
pub struct Seen(u64);

impl StreamState {
    /// A vacant slot.
    #[cfg(not(loom))]
    pub const fn new() -> StreamState {
        StreamState(AtomicU64::new(VACANT))
    }

    /// A vacant slot; the model's atomics cannot be made at compile time.
    #[cfg(loom)]
    pub fn new() -> StreamState {
        StreamState(AtomicU64::new(VACANT))
    }

    /// Whether a stream may be put here. Only one thread at a time asks, writes and fills.
    pub fn is_vacant(&self) -> bool {
        let is_vacant = self.0.load(Ordering::Acquire) & PHASE == VACANT;
        // Whoever sees what is written here from now on sees the slot vacated too (`is_still`).
        fence(Ordering::Release);
        is_vacant
    }

    /// Makes the stream, whose description was written before, one that may be named.
    pub fn fill(&self) {
        self.0.fetch_add(LIVE, Ordering::Release);
    }

    /// The present state, when there is a live stream; what the slot holds may be read then.
    #[inline]
    pub fn load(&self) -> Option<Seen> {
        let state = self.0.load(Ordering::Acquire);
        (state & PHASE == LIVE).then_some(Seen(state))
    }

    /// Whether what was read since `seen` belongs to the stream that was there then.
    #[inline]
    pub fn is_still(&self, seen: Seen) -> bool {
        fence(Ordering::Acquire);
        (self.0.load(Ordering::Relaxed) ^ seen.0) & !USERS == 0
    }

    /// Comes in, if nothing has changed since `seen`; [`StreamState::leave`] ends it.
    #[inline]
    pub fn enter(&self, seen: Seen) -> bool {
        self.change(seen, seen.0 + USER)
    }

    /// Comes in and removes the stream, if nothing has changed since `seen`.
    pub fn remove(&self, seen: Seen) -> bool {
        self.change(seen, (seen.0 + USER) & !PHASE | REMOVED)
    }

    #[inline]
    fn change(&self, Seen(from): Seen, to: u64) -> bool {
        // Four thousand million calls inside one stream: the next waits for one of them to leave.
        from & USERS != USERS
            && self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Goes out; whether this was the last call inside a removed stream, and so destroys it.
    #[inline]
    pub fn leave(&self) -> bool {
        let before = self.0.fetch_sub(USER, Ordering::AcqRel);
        before & USERS == USER && before & PHASE == REMOVED
    }

    /// Gives the slot to the next stream; for the last one inside a removed stream.
    pub fn vacate(&self) {
        let state = self.0.load(Ordering::Relaxed);
        self.0.store((state & !PHASE).wrapping_add(GENERATION_ONE) | VACANT, Ordering::Release);
    }

    /// Lets the stream be named again; for the last one inside a removed stream.
    pub fn restore(&self) {
        let state = self.0.load(Ordering::Relaxed);
        self.0.store(state & !PHASE | LIVE, Ordering::Release);
    }
}
