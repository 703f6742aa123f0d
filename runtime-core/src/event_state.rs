//! The protocol of an event's slot: one word that says whether the event is alive, known to be reached,
//! and in use.
//!
//! The state of a slot is one word:
//!
//! | bits | what |
//! |---|---|
//! | 63..36 | generation: grows when the slot is freed; part of the handle |
//! | 35..24 | users: the calls that are inside the native event |
//! | 23..2 | record: grows with each record, never 0 after the first |
//! | 1..0 | phase |
//!
//! | phase | means | becomes |
//! |---|---|---|
//! | 0 empty | no event here, or one that is removed and still in use by `users` calls | 1 by `insert` |
//! | 1 ready | never recorded (record 0), or the last record was reached | 2 by `recorded`, 0 by `remove` |
//! | 2 pending | recorded and not known to be reached | 1 by `reached` with the same record, 2 by `recorded`, 0 by `remove` |
//!
//! A call comes in by adding itself to `users` of a slot that is not empty and has the handle's
//! generation, in one step; so nobody comes in after `remove`, and whoever takes `users` of an empty
//! slot to zero is the last: it destroys the native event and frees the slot.

use crate::atomic::{AtomicU64, Ordering, fence};

const EMPTY: u64 = 0;
const READY: u64 = 1;
const PENDING: u64 = 2;
const PHASE: u64 = 3;
const RECORD_ONE: u64 = 1 << 2;
const RECORD: u64 = (1 << 24) - RECORD_ONE;
const USER: u64 = 1 << 24;
const USERS: u64 = (1 << 36) - USER;
const GENERATION_SHIFT: u32 = 36;
const GENERATION: u64 = (1 << 28) - 1;

/// The state of a slot; see the table above.
pub struct EventState(AtomicU64);

/// What a call found when it came in.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot(u64);

/// Why a call could not come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The event was removed, or the slot belongs to another one now.
    NotAlive,
    /// The count of calls is full.
    TooManyUsers,
}

impl EventState {
    /// An empty slot.
    #[cfg(not(loom))]
    pub const fn new() -> EventState {
        EventState(AtomicU64::new(EMPTY))
    }

    /// An empty slot; the model's atomics cannot be made at compile time.
    #[cfg(loom)]
    pub fn new() -> EventState {
        EventState(AtomicU64::new(EMPTY))
    }

    /// Puts an event into an empty slot that this caller owns; answers its generation.
    pub fn fill(&self) -> u32 {
        let generation = self.0.load(Ordering::Relaxed) >> GENERATION_SHIFT;
        self.0.store(generation << GENERATION_SHIFT | READY, Ordering::Release);
        generation as u32
    }

    /// Empties a slot for the next event; the caller was the last user of a removed one.
    pub fn free(&self) {
        let generation = ((self.0.load(Ordering::Relaxed) >> GENERATION_SHIFT) + 1) & GENERATION;
        self.0.store(generation << GENERATION_SHIFT | EMPTY, Ordering::Release);
    }

    /// Whether the event is known to be reached; `None` when it is not alive. One load.
    #[inline]
    pub fn is_known_reached(&self, generation: u32) -> Option<bool> {
        let state = self.0.load(Ordering::Acquire);
        is_alive(state, generation).then_some(state & PHASE == READY)
    }

    /// What the slot holds may be written from now on: it is empty, and the caller's. Whoever sees what
    /// is written sees it emptied too ([`EventState::is_still`]).
    pub fn open(&self) {
        fence(Ordering::Release);
    }

    /// The present state, for a call that does not come in; what was read of the slot since belongs to the
    /// event if [`EventState::is_still`] says so.
    #[inline]
    pub fn look(&self, generation: u32) -> Option<Snapshot> {
        let state = self.0.load(Ordering::Acquire);
        is_alive(state, generation).then_some(Snapshot(state))
    }

    /// Whether what was read since `found` belongs to the event that was there then.
    #[inline]
    pub fn is_still(&self, found: Snapshot) -> bool {
        fence(Ordering::Acquire);
        let generation = (found.0 >> GENERATION_SHIFT) as u32;
        is_alive(self.0.load(Ordering::Relaxed), generation)
    }

    /// Comes in; [`EventState::leave`] ends it.
    #[inline]
    pub fn enter(&self, generation: u32) -> Result<Snapshot, Refusal> {
        self.come_in(generation, |state| state + USER)
    }

    /// Comes in and removes the event, for the one caller who succeeds.
    pub fn remove(&self, generation: u32) -> Result<Snapshot, Refusal> {
        self.come_in(generation, |state| (state + USER) & !PHASE | EMPTY)
    }

    fn come_in(&self, generation: u32, to: impl Fn(u64) -> u64) -> Result<Snapshot, Refusal> {
        let mut state = self.0.load(Ordering::Acquire);
        loop {
            if !is_alive(state, generation) {
                return Err(Refusal::NotAlive);
            }
            if state & USERS == USERS {
                return Err(Refusal::TooManyUsers);
            }
            let next = to(state);
            match self.0.compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(Snapshot(state)),
                Err(now) => state = now,
            }
        }
    }

    /// Notes a new record of the event that `found` saw.
    pub fn recorded(&self, found: Snapshot) {
        self.update(found, |state| {
            let record = match (state & RECORD).wrapping_add(RECORD_ONE) & RECORD {
                0 => RECORD_ONE,
                next => next,
            };
            Some(state & !(RECORD | PHASE) | record | PENDING)
        });
    }

    /// Notes that the record which `found` saw was reached; a newer one stays pending.
    pub fn reached(&self, found: Snapshot) {
        self.update(found, |state| {
            let same = state & (RECORD | PHASE) == found.0 & (RECORD | PHASE);
            (same && state & PHASE == PENDING).then_some(state & !PHASE | READY)
        });
    }

    /// Changes the state unless the event was removed meanwhile.
    fn update(&self, found: Snapshot, to: impl Fn(u64) -> Option<u64>) {
        let generation = (found.0 >> GENERATION_SHIFT) as u32;
        let alive = |state: u64| if is_alive(state, generation) { to(state) } else { None };
        // Nothing to be done when it was removed, or a newer record is there.
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, alive);
    }

    /// Goes out; whether this was the last call inside a removed event, and so destroys it.
    #[inline]
    pub fn leave(&self) -> bool {
        let before = self.0.fetch_sub(USER, Ordering::AcqRel);
        before & USERS == USER && before & PHASE == EMPTY
    }
}

impl Snapshot {
    /// Whether the event was ever recorded.
    pub fn was_recorded(self) -> bool {
        self.0 & RECORD != 0
    }

    /// Whether it was known to be reached, or never recorded.
    pub fn is_ready(self) -> bool {
        self.0 & PHASE == READY
    }

    /// Whether it was recorded and not known to be reached.
    pub fn is_pending(self) -> bool {
        self.0 & PHASE == PENDING
    }
}

#[inline]
fn is_alive(state: u64, generation: u32) -> bool {
    state >> GENERATION_SHIFT == u64::from(generation) && state & PHASE != EMPTY
}
