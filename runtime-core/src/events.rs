//! The events of a backend, by handles of the core's own (design, decision 2).
//!
//! Rule: that an event was reached is remembered here, so asking again is one load and no call of the
//! driver (G8). A handle is a number, index and generation; a stale one is refused, and a slot's
//! native event is destroyed by whoever uses it last, so no thread sees it vanish.
//!
//! The protocol of a slot is `event_state`.

use crate::api::{Event, EventFlags, Ordinal};
use crate::error::{Error, Result};
use crate::event_state::{EventState, Refusal, Snapshot};
use crate::fork::ForkAware;
use crate::lock::{ForkLock, Mutex};
use crate::status::Status;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};

const CHUNK: usize = 1024;
const CHUNKS: usize = 1024;

struct Slot {
    state: EventState,
    device: AtomicI32,
    flags: AtomicU32,
    native: AtomicPtr<c_void>,
}

type Chunk = [Slot; CHUNK];

/// The events that clients may name.
pub struct EventTable {
    /// Chunks are made when needed and never freed, so a slot can be read without a lock.
    chunks: [AtomicPtr<Chunk>; CHUNKS],
    free: Mutex<FreeSlots>,
}

struct FreeSlots {
    /// Slots that were used before.
    emptied: Vec<u32>,
    /// The first slot that was never used.
    next: u32,
}

/// An event that is in use by a call.
#[must_use = "give it to `leave`"]
pub struct Entered<'a> {
    slot: &'a Slot,
    index: u32,
    /// Whether it stays alive meanwhile.
    is_kept: bool,
    /// The device it was made on.
    pub device: Ordinal,
    /// How it was made.
    pub flags: EventFlags,
    /// The backend's event.
    pub native: Event,
    /// The state when the call came in.
    snapshot: Snapshot,
}

/// What a call that was the last user must destroy natively.
pub struct Doomed {
    /// The device it was made on.
    pub device: Ordinal,
    /// The backend's event.
    pub native: Event,
}

impl EventTable {
    /// A table without events.
    pub const fn new() -> EventTable {
        EventTable {
            chunks: [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS],
            free: Mutex::new(FreeSlots { emptied: Vec::new(), next: 0 }),
        }
    }

    /// Remembers an event that the backend just made and answers the client's handle.
    ///
    /// # Errors
    /// `OUT_OF_MEMORY` when a million events are alive.
    pub fn insert(&self, device: Ordinal, flags: EventFlags, native: Event) -> Result<Event> {
        let index = self.free_slot()?;
        let slot = self.slot(index).expect("a free slot has its chunk");
        slot.state.open();
        slot.device.store(device, Ordering::Relaxed);
        slot.flags.store(flags.0, Ordering::Relaxed);
        slot.native.store(native.0, Ordering::Relaxed);
        Ok(handle(index, slot.state.fill()))
    }

    fn free_slot(&self) -> Result<u32> {
        let mut free = self.free.lock();
        if let Some(index) = free.emptied.pop() {
            return Ok(index);
        }
        let index = free.next;
        let chunk = self.chunks.get(index as usize / CHUNK).ok_or_else(|| {
            let message = format!("{} events are alive; no more can be made", CHUNK * CHUNKS);
            Error::new(Status::OutOfMemory, message)
        })?;
        if chunk.load(Ordering::Relaxed).is_null() {
            let slots: Box<Chunk> = Box::new(
                [const {
                    Slot {
                        state: EventState::new(),
                        device: AtomicI32::new(0),
                        flags: AtomicU32::new(0),
                        native: AtomicPtr::new(ptr::null_mut()),
                    }
                }; CHUNK],
            );
            chunk.store(Box::into_raw(slots), Ordering::Release);
        }
        free.next += 1;
        Ok(index)
    }

    #[inline]
    fn slot(&self, index: u32) -> Option<&Slot> {
        let chunk = self.chunks.get(index as usize / CHUNK)?.load(Ordering::Acquire);
        // SAFETY: a chunk is null or was published whole, and is never freed.
        unsafe { chunk.as_ref() }.map(|chunk| &chunk[index as usize % CHUNK])
    }

    /// The slot that a handle names.
    #[inline]
    fn find(&self, event: Event) -> Result<(&Slot, u32, u32)> {
        let (index, generation) = parts(event);
        match self.slot(index) {
            Some(slot) => Ok((slot, index, generation)),
            None => Err(unknown(event)),
        }
    }

    /// Whether the event is known to be reached (or was never recorded): one load.
    ///
    /// # Errors
    /// `INVALID_HANDLE` for a handle that is none.
    #[inline]
    pub fn is_known_reached(&self, event: Event) -> Result<bool> {
        let (slot, _, generation) = self.find(event)?;
        slot.state.is_known_reached(generation).ok_or_else(|| unknown(event))
    }

    /// The event, which another thread may destroy meanwhile: for a backend that checks its handles, and
    /// that is asked each time whether an event was reached, so that this is not remembered.
    ///
    /// # Errors
    /// `INVALID_HANDLE` for a handle that is none.
    #[inline]
    pub fn look(&self, event: Event) -> Result<Entered<'_>> {
        let (slot, index, generation) = self.find(event)?;
        if let Some(snapshot) = slot.state.look(generation) {
            let entered = Entered::new(slot, index, snapshot, false);
            if slot.state.is_still(snapshot) {
                return Ok(entered);
            }
        }
        Err(unknown(event))
    }

    /// The event, kept alive until the result is given to [`Entered::leave`].
    ///
    /// # Errors
    /// `INVALID_HANDLE` for a handle that is none.
    pub fn enter(&self, event: Event) -> Result<Entered<'_>> {
        self.come_in(event, EventState::enter)
    }

    /// Takes the event out, for the one caller who destroys it.
    ///
    /// # Errors
    /// `INVALID_HANDLE` for a handle that is none.
    pub fn remove(&self, event: Event) -> Result<Entered<'_>> {
        self.come_in(event, EventState::remove)
    }

    fn come_in(
        &self,
        event: Event,
        how: impl Fn(&EventState, u32) -> std::result::Result<Snapshot, Refusal>,
    ) -> Result<Entered<'_>> {
        let (slot, index, generation) = self.find(event)?;
        let snapshot = how(&slot.state, generation).map_err(|refusal| match refusal {
            Refusal::NotAlive => unknown(event),
            Refusal::TooManyUsers => Error::new(
                Status::InvalidHandle,
                "4095 calls are inside this event; no more can come in",
            ),
        })?;
        Ok(Entered::new(slot, index, snapshot, true))
    }

    /// Frees the slot of an event that its last user destroyed natively.
    pub fn emptied(&self, index: u32) {
        if let Some(slot) = self.slot(index) {
            slot.state.free();
        }
        self.free.lock().emptied.push(index);
    }
}

impl Default for EventTable {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> Entered<'a> {
    #[inline]
    fn new(slot: &'a Slot, index: u32, snapshot: Snapshot, is_kept: bool) -> Entered<'a> {
        Entered {
            slot,
            index,
            is_kept,
            device: slot.device.load(Ordering::Relaxed),
            flags: EventFlags(slot.flags.load(Ordering::Relaxed)),
            native: Event(slot.native.load(Ordering::Relaxed)),
            snapshot,
        }
    }

    /// Whether it was ever recorded.
    pub fn was_recorded(&self) -> bool {
        self.snapshot.was_recorded()
    }

    /// Whether it is known to be reached, or was never recorded.
    pub fn is_ready(&self) -> bool {
        self.snapshot.is_ready()
    }

    /// Notes that the backend recorded it.
    #[inline]
    pub fn recorded(&self) {
        // Where it is not remembered that an event was reached, one record is as good as another.
        if self.is_kept || !self.snapshot.is_pending() {
            self.slot.state.recorded(self.snapshot);
        }
    }

    /// Notes that the record which this call found was reached; a newer one stays pending.
    #[inline]
    pub fn reached(&self) {
        if self.is_kept {
            self.slot.state.reached(self.snapshot);
        }
    }

    /// Ends the call. When it was the last one inside a removed event, the caller destroys the native
    /// event and then gives the index to [`EventTable::emptied`].
    #[inline]
    pub fn leave(self) -> Option<(Doomed, u32)> {
        let is_last = self.is_kept && self.slot.state.leave();
        is_last.then_some((Doomed { device: self.device, native: self.native }, self.index))
    }
}

/// A handle: the generation in the upper half, the index plus one in the lower, so never NULL.
#[inline]
fn handle(index: u32, generation: u32) -> Event {
    let bits = u64::from(generation) << 32 | u64::from(index + 1);
    Event(ptr::without_provenance_mut(bits as usize))
}

#[inline]
fn parts(event: Event) -> (u32, u32) {
    let bits = event.0 as u64;
    ((bits as u32).wrapping_sub(1), (bits >> 32) as u32)
}

#[cold]
fn unknown(event: Event) -> Error {
    let message = format!("{:p} is no event of this backend (destroyed, or never made)", event.0);
    Error::new(Status::InvalidHandle, message)
}

impl ForkAware for EventTable {
    fn prepare(&self) {
        self.free.hold();
    }
    fn parent(&self) {
        // SAFETY: held by `prepare` on this thread.
        unsafe { self.free.release() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NATIVE: Event = Event(ptr::without_provenance_mut(0x1234));

    fn table() -> (&'static EventTable, Event) {
        let table: &'static EventTable = Box::leak(Box::new(EventTable::new()));
        let event = table.insert(1, EventFlags::TIMING, NATIVE).expect("room");
        (table, event)
    }

    #[test]
    fn a_new_event_is_ready_and_a_record_makes_it_pending_until_reached() {
        let (table, event) = table();
        assert!(table.is_known_reached(event).expect("alive"));
        let call = table.enter(event).expect("alive");
        assert!(!call.was_recorded());
        call.recorded();
        assert!(call.leave().is_none());
        assert!(!table.is_known_reached(event).expect("alive"));
        let call = table.enter(event).expect("alive");
        assert!(call.was_recorded());
        call.reached();
        call.leave();
        assert!(table.is_known_reached(event).expect("alive"));
    }

    #[test]
    fn an_answer_about_an_older_record_does_not_make_the_newer_one_ready() {
        let (table, event) = table();
        let first = table.enter(event).expect("alive");
        first.recorded();
        first.leave();
        let asked = table.enter(event).expect("alive");
        let again = table.enter(event).expect("alive");
        again.recorded();
        again.leave();
        asked.reached();
        asked.leave();
        assert!(!table.is_known_reached(event).expect("alive"));
    }

    #[test]
    fn a_removed_event_is_unknown_at_once_and_destroyed_by_its_last_user() {
        let (table, event) = table();
        let user = table.enter(event).expect("alive");
        let destroyer = table.remove(event).expect("alive");
        assert!(destroyer.leave().is_none(), "destroyed under a call that uses it");
        assert_eq!(
            table.is_known_reached(event).expect_err("gone").status(),
            Status::InvalidHandle
        );
        assert!(table.enter(event).is_err() && table.remove(event).is_err());
        let (doomed, index) = user.leave().expect("the last user");
        assert_eq!((doomed.device, doomed.native), (1, NATIVE));
        table.emptied(index);
        let next = table.insert(0, EventFlags::NONE, NATIVE).expect("room");
        assert_ne!(next, event, "a slot that comes back has another handle");
        assert!(table.is_known_reached(event).is_err());
    }
}
