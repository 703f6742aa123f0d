//! An event: the point in a stream where it was recorded last, and the time at which that was reached.
//!
//! Rules: whoever changes an event holds its device's lock (and shows it by holding the
//! [`FreeEvents`]), so a fork never finds one half written; whoever asks takes no lock. The slots are
//! never freed, so a mark that comes late, after its event was recorded anew or destroyed, finds a
//! slot that has gone on and changes nothing.

use crate::handle::Handle;
use crate::stream::{Position, Progress};
use llaisys_runtime_core::api::{Event, EventFlags, Ordinal};
use llaisys_runtime_core::{Error, Result, Status};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

const CHUNK: usize = 1024;
const CHUNKS: usize = 1024;

/// A place for an event.
///
/// | word | means | who changes it |
/// |---|---|---|
/// | `version` | odd while the words below are being changed, and another number afterwards | the holder of the lock |
/// | `generation` | how often the slot was given away; with `is_live`, whose it is | the same |
/// | `progress`, `number` | the last record: a [`Position`]; null when there is none | the same |
/// | `time` | see below | the same; and the worker that reaches a mark, from `PENDING` with the mark's record only |
///
/// | `time` | means | becomes |
/// |---|---|---|
/// | 0 | the last record takes no time | anything, by the next record |
/// | `PENDING` + n | the last record is number n of this slot, and its mark was not reached | the time, by the mark; anything, by the next record |
/// | any other | when the last record was reached, in nanoseconds | anything, by the next record |
pub struct EventSlot {
    version: AtomicU64,
    is_live: AtomicU32,
    generation: AtomicU32,
    flags: AtomicU32,
    progress: AtomicPtr<Progress>,
    number: AtomicU64,
    time: AtomicU64,
    /// The number of the newest record that is timed by a mark. Only under the lock; goes on when
    /// the slot is given away, so no two marks are alike.
    records: AtomicU64,
}

/// Not a time yet. A clock that counts nanoseconds gets here in 292 years.
const PENDING: u64 = 1 << 63;

/// What an event was at one moment.
#[derive(Clone, Copy)]
pub struct Snapshot {
    is_live: bool,
    generation: u32,
    /// How it was made.
    pub flags: EventFlags,
    /// Where it was recorded last, if it was.
    pub record: Option<Position>,
    time: u64,
}

/// How the time of a record becomes known.
pub enum Timing {
    /// Nobody asked for it.
    None,
    /// It was reached at this time.
    At(u64),
    /// The mark with this number will tell.
    ByMark(u64),
}

impl EventSlot {
    const fn new() -> EventSlot {
        EventSlot {
            version: AtomicU64::new(0),
            is_live: AtomicU32::new(0),
            generation: AtomicU32::new(0),
            flags: AtomicU32::new(0),
            progress: AtomicPtr::new(null_mut()),
            number: AtomicU64::new(0),
            time: AtomicU64::new(0),
            records: AtomicU64::new(0),
        }
    }

    /// What the event is now; `None` when it is being changed meanwhile, which cannot be for the
    /// holder of the device's lock.
    fn read(&self) -> Option<Snapshot> {
        let version = self.version.load(SeqCst);
        // SAFETY: null, or a `Progress`, which lives as long as the process.
        let progress = unsafe { self.progress.load(SeqCst).as_ref() };
        let number = self.number.load(SeqCst);
        let snapshot = Snapshot {
            is_live: self.is_live.load(SeqCst) != 0,
            generation: self.generation.load(SeqCst),
            flags: EventFlags(self.flags.load(SeqCst)),
            record: progress.map(|progress| Position { progress, number }),
            time: self.time.load(SeqCst),
        };
        (version.is_multiple_of(2) && self.version.load(SeqCst) == version).then_some(snapshot)
    }

    fn change(&self, _lock: &mut FreeEvents, change: impl FnOnce(&EventSlot)) {
        self.version.fetch_add(1, SeqCst);
        change(self);
        self.version.fetch_add(1, SeqCst);
    }

    /// The number of a new mark.
    pub fn new_mark(&self, _lock: &mut FreeEvents) -> u64 {
        self.records.fetch_add(1, SeqCst) + 1
    }

    /// Puts the event at a point of a stream.
    pub fn record(&self, lock: &mut FreeEvents, at: Position, timing: Timing) {
        self.change(lock, |slot| {
            slot.progress.store(std::ptr::from_ref(at.progress).cast_mut(), SeqCst);
            slot.number.store(at.number, SeqCst);
            let time = match timing {
                Timing::None => 0,
                Timing::At(time) => time,
                Timing::ByMark(record) => PENDING | record,
            };
            slot.time.store(time, SeqCst);
        });
    }

    /// A mark was reached: this is the time of its record, unless there is a newer one.
    pub fn mark_reached(&self, record: u64) {
        let _ = self.time.compare_exchange(PENDING | record, now(), SeqCst, SeqCst);
    }
}

impl Snapshot {
    /// Whether the stream has passed the last record; never recorded counts as reached (V1).
    pub fn is_reached(&self) -> bool {
        self.record.is_none_or(|position| position.is_reached())
    }

    /// When the last record was reached, in nanoseconds of a monotonic clock.
    ///
    /// # Errors
    /// `TIMING_DISABLED`, `NOT_RECORDED`, `NOT_READY` (V2).
    pub fn time(&self) -> Result<i64> {
        let (status, what) = if !self.flags.contains(EventFlags::TIMING) {
            (Status::TimingDisabled, "the event was made without timing")
        } else if self.record.is_none() {
            (Status::NotRecorded, "the event was never recorded")
        } else if !self.is_reached() {
            (Status::NotReady, "the event is not reached yet")
        } else if self.time & PENDING != 0 {
            (Status::NotReady, "the record was pending in another process when this one was forked")
        } else {
            return Ok(self.time as i64);
        };
        Err(Error::new(status, what))
    }
}

/// The monotonic clock in nanoseconds; never 0.
pub fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to a local; this clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    (time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64).max(1)
}

/// Which slots are free. Guarded by the device's lock; whoever holds it may change events.
#[derive(Default)]
pub struct FreeEvents {
    /// Slots that were used before.
    emptied: Vec<u32>,
    /// The first slot that was never used.
    next: u32,
}

/// The events of a device. Chunks are made when needed and never freed.
pub struct Events {
    chunks: Box<[AtomicPtr<[EventSlot; CHUNK]>; CHUNKS]>,
}

impl Events {
    /// No events.
    pub fn new() -> Events {
        Events { chunks: Box::new([const { AtomicPtr::new(null_mut()) }; CHUNKS]) }
    }

    fn slot(&self, index: u32) -> Option<&'static EventSlot> {
        let chunk = self.chunks.get(index as usize / CHUNK)?.load(SeqCst);
        // SAFETY: null, or a chunk that was stored whole and lives as long as the process.
        unsafe { chunk.as_ref() }.map(|chunk| &chunk[index as usize % CHUNK])
    }

    /// Makes an event that was never recorded; its slot and generation.
    ///
    /// # Errors
    /// `OUT_OF_MEMORY` when a million are alive.
    pub fn insert(&self, lock: &mut FreeEvents, flags: EventFlags) -> Result<(u32, u32)> {
        let index = match lock.emptied.pop() {
            Some(index) => index,
            None => {
                let index = lock.next;
                self.make_chunk(index)?;
                lock.next += 1;
                index
            }
        };
        let slot = self.slot(index).expect("its chunk was made");
        let generation = slot.generation.load(SeqCst).checked_add(1).unwrap_or(1);
        slot.change(lock, |slot| {
            slot.is_live.store(1, SeqCst);
            slot.generation.store(generation, SeqCst);
            slot.flags.store(flags.0, SeqCst);
            slot.progress.store(null_mut(), SeqCst);
            slot.time.store(0, SeqCst);
        });
        Ok((index, generation))
    }

    fn make_chunk(&self, index: u32) -> Result<()> {
        let chunk = self.chunks.get(index as usize / CHUNK).ok_or_else(|| {
            let message = format!("{} events are alive; no more can be made", CHUNK * CHUNKS);
            Error::new(Status::OutOfMemory, message)
        })?;
        if chunk.load(SeqCst).is_null() {
            chunk.store(Box::into_raw(Box::new([const { EventSlot::new() }; CHUNK])), SeqCst);
        }
        Ok(())
    }

    /// Takes an event away. A mark of it that is still queued changes nothing when it is reached.
    ///
    /// # Errors
    /// `INVALID_HANDLE` for what is no event of this device.
    pub fn remove(&self, lock: &mut FreeEvents, device: Ordinal, event: Event) -> Result<()> {
        let slot = self.find(lock, device, event)?.0;
        slot.change(lock, |slot| {
            slot.is_live.store(0, SeqCst);
            slot.progress.store(null_mut(), SeqCst);
            slot.time.store(0, SeqCst);
        });
        lock.emptied.push(Handle::from_event(event).slot);
        Ok(())
    }

    /// The event and what it is, for the holder of the device's lock.
    ///
    /// # Errors
    /// `INVALID_HANDLE` for what is no event of this device.
    pub fn find(
        &self,
        _lock: &mut FreeEvents,
        device: Ordinal,
        event: Event,
    ) -> Result<(&'static EventSlot, Snapshot)> {
        let slot = self.slot(Handle::from_event(event).slot).ok_or_else(|| unknown(device, event));
        let slot = slot?;
        let snapshot = slot.read().expect("nobody else changes events under the lock");
        snapshot.of(device, event).map(|snapshot| (slot, snapshot))
    }

    /// What the event is, for anybody; `None` when it is being changed meanwhile.
    ///
    /// # Errors
    /// `INVALID_HANDLE` for what is no event of this device.
    pub fn try_find(&self, device: Ordinal, event: Event) -> Option<Result<Snapshot>> {
        match self.slot(Handle::from_event(event).slot) {
            Some(slot) => slot.read().map(|snapshot| snapshot.of(device, event)),
            None => Some(Err(unknown(device, event))),
        }
    }
}

impl Snapshot {
    fn of(self, device: Ordinal, event: Event) -> Result<Snapshot> {
        let handle = Handle::from_event(event);
        if self.is_live && self.generation == handle.generation && handle.is_of(device) {
            Ok(self)
        } else {
            Err(unknown(device, event))
        }
    }
}

#[cold]
fn unknown(device: Ordinal, event: Event) -> Error {
    let message = format!("{:p} is not an event of CPU device {device}, or no longer", event.0);
    Error::new(Status::InvalidHandle, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events() -> (Events, FreeEvents) {
        (Events::new(), FreeEvents::default())
    }

    #[test]
    fn a_mark_that_comes_after_a_newer_record_does_not_change_its_time() {
        let (events, mut lock) = events();
        let (index, generation) = events.insert(&mut lock, EventFlags::TIMING).expect("room");
        let event = Handle::new(0, index, generation).to_event();
        let slot = events.find(&mut lock, 0, event).expect("live").0;
        let at = Position { progress: Progress::leak(), number: 0 };
        let old = slot.new_mark(&mut lock);
        slot.record(&mut lock, at, Timing::ByMark(old));
        slot.record(&mut lock, at, Timing::At(7));
        slot.mark_reached(old);
        let time = |lock: &mut FreeEvents| events.find(lock, 0, event).expect("live").1.time();
        assert_eq!(time(&mut lock).expect("a time"), 7);
        let new = slot.new_mark(&mut lock);
        slot.record(&mut lock, at, Timing::ByMark(new));
        slot.mark_reached(old);
        assert_eq!(time(&mut lock).expect_err("no time yet").status(), Status::NotReady);
        slot.mark_reached(new);
        assert!(time(&mut lock).expect("a time") > 7);
    }

    #[test]
    fn a_slot_that_comes_back_has_another_handle_and_no_record() {
        let (events, mut lock) = events();
        let (index, generation) = events.insert(&mut lock, EventFlags::NONE).expect("room");
        let old = Handle::new(3, index, generation).to_event();
        let at = Position { progress: Progress::leak(), number: 1 };
        events.find(&mut lock, 3, old).expect("live").0.record(&mut lock, at, Timing::None);
        assert!(events.find(&mut lock, 2, old).is_err(), "another device's");
        events.remove(&mut lock, 3, old).expect("removed");
        assert!(events.remove(&mut lock, 3, old).is_err());
        let (again, generation) = events.insert(&mut lock, EventFlags::NONE).expect("room");
        let new = Handle::new(3, again, generation).to_event();
        assert!(again == index && new != old);
        assert!(events.find(&mut lock, 3, old).is_err());
        assert!(events.find(&mut lock, 3, new).expect("live").1.is_reached());
    }

    #[test]
    fn whoever_asks_during_changes_sees_one_record_or_another_and_no_mixture() {
        let (events, mut lock) = events();
        let (index, generation) = events.insert(&mut lock, EventFlags::NONE).expect("room");
        let event = Handle::new(0, index, generation).to_event();
        let slot = events.find(&mut lock, 0, event).expect("live").0;
        let progress = [Progress::leak(), Progress::leak()];
        std::thread::scope(|scope| {
            let asker = scope.spawn(|| {
                let mut seen = 0;
                while seen < 2_000 {
                    let Some(snapshot) = events.try_find(0, event) else { continue };
                    if let Some(record) = snapshot.expect("live").record {
                        let which = record.number as usize % 2;
                        assert!(std::ptr::eq(record.progress, progress[which]), "a mixture");
                        seen += 1;
                    }
                }
            });
            let mut number = 0;
            while !asker.is_finished() {
                number += 1;
                let at = Position { progress: progress[number as usize % 2], number };
                slot.record(&mut lock, at, Timing::None);
                if number % 64 == 0 {
                    std::thread::yield_now();
                }
            }
        });
    }
}
