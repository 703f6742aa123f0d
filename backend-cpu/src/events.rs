//! An event: the point in a stream where it was recorded last, and the time at which that was reached.
//!
//! Rules: whoever changes an event has made its version odd; whoever asks takes no lock. Who gives an event
//! away or destroys it holds the lock of the list of free slots, which a fork carries over, so in the child
//! of a fork only a record can be half written: it counts as not made. The slots are never freed, so a mark that comes
//! late, after its event was recorded anew or destroyed, finds a slot that has gone on and changes
//! nothing.

use crate::handle::Handle;
use crate::position::Position;
use crate::queue::Queue;
use llaisys_runtime_core::api::{Event, EventFlags, Ordinal};
use llaisys_runtime_core::lock::{ForkLock, Mutex};
use llaisys_runtime_core::{Error, Result, Status};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, fence};
use std::thread;

const CHUNK: usize = 1024;
const CHUNKS: usize = 1024;

/// A place for an event.
///
/// | word | means | who changes it |
/// |---|---|---|
/// | `version` | odd while the words below are being changed, and another number afterwards | whoever makes it odd, until it is even again |
/// | `generation` | how often the slot was given away; with `is_live`, whose it is | the same |
/// | `queue`, `number` | the last record: a [`Position`]; null when there is none | the same |
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
    queue: AtomicPtr<Queue>,
    number: AtomicU64,
    time: AtomicU64,
    /// The number of the newest record that is timed by a mark. Goes on when the slot is given away, so
    /// no two marks are alike.
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
            queue: AtomicPtr::new(null_mut()),
            number: AtomicU64::new(0),
            time: AtomicU64::new(0),
            records: AtomicU64::new(0),
        }
    }

    /// What the event is now.
    #[inline]
    fn read(&self) -> Snapshot {
        loop {
            let version = self.version.load(Acquire);
            // SAFETY: null, or a queue, which lives as long as the process.
            let queue = unsafe { self.queue.load(Acquire).as_ref() };
            let number = self.number.load(Relaxed);
            let snapshot = Snapshot {
                is_live: self.is_live.load(Relaxed) != 0,
                generation: self.generation.load(Relaxed),
                flags: EventFlags(self.flags.load(Relaxed)),
                record: queue.map(|queue| Position { queue, number }),
                time: self.time.load(Acquire),
            };
            fence(Acquire);
            if version.is_multiple_of(2) && self.version.load(Relaxed) == version {
                return snapshot;
            }
            // Whoever changes it is done in a moment, unless it must give way.
            thread::yield_now();
        }
    }

    /// Changes the words, alone.
    #[inline]
    fn change<R>(&self, change: impl FnOnce(&EventSlot) -> R) -> R {
        let mut version = self.version.load(Relaxed);
        loop {
            if version.is_multiple_of(2) {
                match self.version.compare_exchange_weak(version, version + 1, Acquire, Relaxed) {
                    Ok(_) => break,
                    Err(now) => version = now,
                }
            } else {
                thread::yield_now();
                version = self.version.load(Relaxed);
            }
        }
        // Whoever reads a new word reads an odd version, or a later one.
        fence(Release);
        let result = change(self);
        self.version.store(version + 2, Release);
        result
    }

    /// In the child of a fork, with no other thread: a record that was half made was not made.
    fn forget_writer(&self) {
        let version = self.version.load(Relaxed);
        if !version.is_multiple_of(2) {
            self.queue.store(null_mut(), Relaxed);
            self.time.store(0, Relaxed);
            self.version.store(version + 1, Release);
        }
    }

    /// The number of a new mark.
    pub fn new_mark(&self) -> u64 {
        self.records.fetch_add(1, AcqRel) + 1
    }

    fn is_of(&self, device: Ordinal, event: Event) -> bool {
        let handle = Handle::from_event(event);
        self.is_live.load(Relaxed) != 0
            && self.generation.load(Relaxed) == handle.generation
            && handle.is_of(device)
    }

    /// Puts the event at a point of a stream.
    fn record(&self, at: Position, timing: &Timing) {
        self.queue.store(std::ptr::from_ref(at.queue).cast_mut(), Relaxed);
        self.number.store(at.number, Relaxed);
        let time = match *timing {
            Timing::None => 0,
            Timing::At(time) => time,
            Timing::ByMark(record) => PENDING | record,
        };
        self.time.store(time, Release);
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

/// Which slots are free.
#[derive(Default)]
struct FreeEvents {
    /// Slots that were used before.
    emptied: Vec<u32>,
    /// The first slot that was never used.
    next: u32,
}

/// The events of a device. Chunks are made when needed and never freed.
pub struct Events {
    chunks: Box<[AtomicPtr<[EventSlot; CHUNK]>; CHUNKS]>,
    free: Mutex<FreeEvents>,
}

impl Events {
    /// No events.
    pub fn new() -> Events {
        let chunks = Box::new([const { AtomicPtr::new(null_mut()) }; CHUNKS]);
        Events { chunks, free: Mutex::new(FreeEvents::default()) }
    }

    #[inline]
    fn slot(&self, index: u32) -> Option<&'static EventSlot> {
        let chunk = self.chunks.get(index as usize / CHUNK)?.load(Acquire);
        // SAFETY: null, or a chunk that was stored whole and lives as long as the process.
        unsafe { chunk.as_ref() }.map(|chunk| &chunk[index as usize % CHUNK])
    }

    /// Makes an event that was never recorded; its slot and generation.
    ///
    /// # Errors
    /// `OUT_OF_MEMORY` when a million are alive.
    pub fn insert(&self, flags: EventFlags) -> Result<(u32, u32)> {
        let mut free = self.free.lock();
        let index = match free.emptied.pop() {
            Some(index) => index,
            None => {
                let index = free.next;
                self.make_chunk(index)?;
                free.next += 1;
                index
            }
        };
        let slot = self.slot(index).expect("its chunk was made");
        let generation = slot.generation.load(Relaxed).checked_add(1).unwrap_or(1);
        slot.change(|slot| {
            slot.is_live.store(1, Relaxed);
            slot.generation.store(generation, Relaxed);
            slot.flags.store(flags.0, Relaxed);
            slot.queue.store(null_mut(), Relaxed);
            slot.time.store(0, Relaxed);
        });
        drop(free);
        Ok((index, generation))
    }

    fn make_chunk(&self, index: u32) -> Result<()> {
        let chunk = self.chunks.get(index as usize / CHUNK).ok_or_else(|| {
            let message = format!("{} events are alive; no more can be made", CHUNK * CHUNKS);
            Error::new(Status::OutOfMemory, message)
        })?;
        if chunk.load(Acquire).is_null() {
            chunk.store(Box::into_raw(Box::new([const { EventSlot::new() }; CHUNK])), Release);
        }
        Ok(())
    }

    /// Takes an event away. A mark of it that is still queued changes nothing when it is reached.
    ///
    /// # Errors
    /// `INVALID_HANDLE` for what is no event of this device.
    pub fn remove(&self, device: Ordinal, event: Event) -> Result<()> {
        let slot = self.slot(Handle::from_event(event).slot);
        let slot = slot.ok_or_else(|| unknown(device, event))?;
        let mut free = self.free.lock();
        let is_removed = slot.change(|slot| {
            let is_removed = slot.is_of(device, event);
            if is_removed {
                slot.is_live.store(0, Relaxed);
                slot.queue.store(null_mut(), Relaxed);
                slot.time.store(0, Relaxed);
            }
            is_removed
        });
        if is_removed {
            free.emptied.push(Handle::from_event(event).slot);
        }
        drop(free);
        if is_removed { Ok(()) } else { Err(unknown(device, event)) }
    }

    /// Puts an event at a point of a stream.
    ///
    /// # Errors
    /// `INVALID_HANDLE` for what is no event of this device.
    #[inline]
    pub fn record(
        &self,
        device: Ordinal,
        event: Event,
        at: Position,
        timing: Timing,
    ) -> Result<()> {
        let slot = self.slot(Handle::from_event(event).slot);
        let slot = slot.ok_or_else(|| unknown(device, event))?;
        let is_recorded = slot.change(|slot| {
            let is_recorded = slot.is_of(device, event);
            if is_recorded {
                slot.record(at, &timing);
            }
            is_recorded
        });
        if is_recorded { Ok(()) } else { Err(unknown(device, event)) }
    }

    /// Puts an event that takes no time at a point that was passed; `false` where it could not, and
    /// nothing was changed.
    #[inline]
    pub fn record_passed(&self, device: Ordinal, event: Event, at: Position) -> bool {
        let Some(slot) = self.slot(Handle::from_event(event).slot) else { return false };
        slot.change(|slot| {
            let is_timed = EventFlags(slot.flags.load(Relaxed)).contains(EventFlags::TIMING);
            let is_recorded = !is_timed && slot.is_of(device, event);
            if is_recorded {
                slot.record(at, &Timing::None);
            }
            is_recorded
        })
    }

    /// The event and what it is now.
    ///
    /// # Errors
    /// `INVALID_HANDLE` for what is no event of this device.
    #[inline]
    pub fn find(&self, device: Ordinal, event: Event) -> Result<(&'static EventSlot, Snapshot)> {
        let slot = self.slot(Handle::from_event(event).slot);
        let slot = slot.ok_or_else(|| unknown(device, event))?;
        slot.read().of(device, event).map(|snapshot| (slot, snapshot))
    }

    /// Before a fork: keeps the lock.
    pub fn hold(&self) {
        self.free.hold();
    }

    /// After a fork: releases it.
    ///
    /// # Safety
    /// - `hold` was called before the fork, on the thread that forked.
    pub unsafe fn release(&self) {
        // SAFETY: by the contract above.
        unsafe { self.free.release() };
    }

    /// In the child of a fork: who was recording an event is not there.
    pub fn forget_writers(&self) {
        let slots = 0..self.free.lock().next;
        slots.filter_map(|index| self.slot(index)).for_each(EventSlot::forget_writer);
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
    use crate::rig::queues;

    #[test]
    fn a_mark_that_comes_after_a_newer_record_does_not_change_its_time() {
        let events = Events::new();
        let (index, generation) = events.insert(EventFlags::TIMING).expect("room");
        let event = Handle::new(0, index, generation).to_event();
        let slot = events.find(0, event).expect("live").0;
        let at = Position { queue: queues(1)[0], number: 0 };
        let old = slot.new_mark();
        events.record(0, event, at, Timing::ByMark(old)).expect("live");
        events.record(0, event, at, Timing::At(7)).expect("live");
        slot.mark_reached(old);
        let time = || events.find(0, event).expect("live").1.time();
        assert_eq!(time().expect("a time"), 7);
        let new = slot.new_mark();
        events.record(0, event, at, Timing::ByMark(new)).expect("live");
        slot.mark_reached(old);
        assert_eq!(time().expect_err("no time yet").status(), Status::NotReady);
        slot.mark_reached(new);
        assert!(time().expect("a time") > 7);
    }

    #[test]
    fn a_slot_that_comes_back_has_another_handle_and_no_record() {
        let events = Events::new();
        let (index, generation) = events.insert(EventFlags::NONE).expect("room");
        let old = Handle::new(3, index, generation).to_event();
        let at = Position { queue: queues(1)[0], number: 1 };
        events.record(3, old, at, Timing::None).expect("live");
        assert!(events.find(2, old).is_err(), "another device's");
        events.remove(3, old).expect("removed");
        assert!(events.remove(3, old).is_err() && events.record(3, old, at, Timing::None).is_err());
        let (again, generation) = events.insert(EventFlags::NONE).expect("room");
        let new = Handle::new(3, again, generation).to_event();
        assert!(again == index && new != old);
        assert!(events.find(3, old).is_err());
        assert!(events.find(3, new).expect("live").1.is_reached());
    }

    #[test]
    fn whoever_asks_during_changes_sees_one_record_or_another_and_no_mixture() {
        let events = Events::new();
        let (index, generation) = events.insert(EventFlags::NONE).expect("room");
        let event = Handle::new(0, index, generation).to_event();
        let queues = queues(2);
        std::thread::scope(|scope| {
            let asker = scope.spawn(|| {
                let mut seen = 0;
                while seen < 2_000 {
                    if let Some(record) = events.find(0, event).expect("live").1.record {
                        let which = record.number as usize % 2;
                        assert!(std::ptr::eq(record.queue, queues[which]), "a mixture");
                        seen += 1;
                    }
                }
            });
            let mut number = 0;
            while !asker.is_finished() {
                number += 1;
                let at = Position { queue: queues[number as usize % 2], number };
                events.record(0, event, at, Timing::None).expect("live");
                if number % 64 == 0 {
                    std::thread::yield_now();
                }
            }
        });
    }
}
