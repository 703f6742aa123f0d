//! The live streams of a backend: which handles exist, and on which device each one is.
//!
//! Rules: a stream can no longer be named when it is destroyed (contract S3); natively it is destroyed
//! by whoever uses it last. A thread that is inside a call on it, a long synchronize for example,
//! therefore never sees it vanish, and the destroyer never waits.
//!
//! Every enqueue looks its stream up, so a look-up takes no lock: it reads a cache line, which is the
//! slot itself. A handle is native (design, decision 2), so the slot is found by hashing: in a level of
//! slots a handle has a window of four neighbours, and where these are taken the next, larger level
//! has another window for it. Levels are made when needed and never freed or moved.
//!
//! The protocol of a slot is `stream_state`.

use crate::accounting::Account;
use crate::api::{Ordinal, Stream};
use crate::error::{Error, Result};
use crate::fork::ForkAware;
use crate::lock::{ForkLock, Mutex};
use crate::slots::Slot as UserSlot;
use crate::status::Status;
use crate::stream_state::{Seen, StreamState};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

static NEXT_SERIAL: AtomicU64 = AtomicU64::new(0);

/// A stream that exists natively.
pub struct LiveStream {
    /// The native handle.
    pub stream: Stream,
    /// The device it was made on.
    pub device: Ordinal,
    /// Tells it from another stream whose native address was the same (S3).
    pub serial: u64,
    /// The memory that was allocated on it.
    pub account: Account,
    /// Its owner, who is not this runtime, has destroyed it natively.
    pub is_gone: AtomicBool,
}

impl LiveStream {
    /// A stream without history.
    fn new(stream: Stream, device: Ordinal) -> LiveStream {
        let account = Account::new();
        let serial = NEXT_SERIAL.fetch_add(1, Ordering::Relaxed);
        let is_gone = AtomicBool::new(false);
        LiveStream { stream, device, serial, account, is_gone }
    }
}

/// Where a stream is kept. What an enqueue needs of it is here; the rest is behind `live`.
#[repr(align(64))]
struct Slot {
    state: StreamState,
    handle: AtomicUsize,
    device: AtomicI32,
    /// A box that this slot owns while it is not vacant.
    live: AtomicPtr<LiveStream>,
}

impl Slot {
    const fn new() -> Slot {
        Slot {
            state: StreamState::new(),
            handle: AtomicUsize::new(0),
            device: AtomicI32::new(0),
            live: AtomicPtr::new(ptr::null_mut()),
        }
    }
}

/// The slots of the first level; each further one has eight times as many.
const FIRST: usize = 64;
const GROWTH: u32 = 3;
const LEVELS: usize = 7;
/// The neighbours that a handle can be in.
const WINDOW: usize = 4;

/// The streams that clients may name.
pub struct StreamTable {
    levels: [AtomicPtr<Slot>; LEVELS],
    /// Held by whoever puts a stream in.
    filling: Mutex<()>,
    /// The users' values, by the stream's serial and their key. In one place, and not with each stream, so that
    /// a fork can hold the lock.
    values: Mutex<BTreeMap<(u64, u64), UserSlot>>,
}

/// A stream that is in use by a call and stays alive meanwhile.
#[must_use = "give it to `leave`"]
pub struct Held<'a>(&'a Slot);

/// A destroyed stream that nobody uses any more, to be destroyed natively.
#[must_use = "it is destroyed natively, then `vacate`d or `restore`d"]
pub struct Doomed<'a>(&'a Slot);

impl StreamTable {
    /// A table without streams.
    pub const fn new() -> StreamTable {
        StreamTable {
            levels: [const { AtomicPtr::new(ptr::null_mut()) }; LEVELS],
            filling: Mutex::new(()),
            values: Mutex::new(BTreeMap::new()),
        }
    }

    /// Remembers a stream that the backend just made.
    ///
    /// # Errors
    /// `OUT_OF_MEMORY` when millions of streams are alive.
    pub fn insert(&self, stream: Stream, device: Ordinal) -> Result<()> {
        // An adopted stream that its owner has destroyed meanwhile: the address has come back.
        if let Ok(stale) = self.remove(stream) {
            stale.live().is_gone.store(true, Ordering::Relaxed);
            stale.leave().into_iter().for_each(Doomed::vacate);
        }
        let _filling = self.filling.lock();
        self.fill(stream, device)
    }

    /// Remembers a stream of somebody else's, once.
    ///
    /// # Errors
    /// As for [`StreamTable::insert`].
    pub fn adopt(&self, stream: Stream, device: Ordinal) -> Result<()> {
        let _filling = self.filling.lock();
        if self.device_of(stream).is_ok() { Ok(()) } else { self.fill(stream, device) }
    }

    /// Puts a stream into a vacant slot. The caller holds `filling`.
    fn fill(&self, stream: Stream, device: Ordinal) -> Result<()> {
        let live = Box::into_raw(Box::new(LiveStream::new(stream, device)));
        let Some(slot) = self.vacant_slot(stream) else {
            // SAFETY: made above, and nobody else knows it.
            drop(unsafe { Box::from_raw(live) });
            let message = "so many streams are alive that no more can be remembered";
            return Err(Error::new(Status::OutOfMemory, message));
        };
        slot.handle.store(stream.0 as usize, Ordering::Relaxed);
        slot.device.store(device, Ordering::Relaxed);
        slot.live.store(live, Ordering::Relaxed);
        slot.state.fill();
        Ok(())
    }

    /// A slot for this handle. The caller holds `filling`.
    fn vacant_slot(&self, stream: Stream) -> Option<&Slot> {
        (0..LEVELS).find_map(|level| {
            if self.levels[level].load(Ordering::Relaxed).is_null() {
                let slots: Box<[Slot]> = (0..size_of_level(level)).map(|_| Slot::new()).collect();
                let slots = Box::leak(slots).as_mut_ptr();
                self.levels[level].store(slots, Ordering::Release);
            }
            self.window(level, stream)?.find(|slot| slot.state.is_vacant())
        })
    }

    /// The slots of a level that a handle can be in; `None` where there is no such level yet.
    #[inline(always)]
    fn window(&self, level: usize, stream: Stream) -> Option<impl Iterator<Item = &Slot>> {
        let slots = self.levels[level].load(Ordering::Acquire);
        let mask = size_of_level(level) - 1;
        let first = hash(stream);
        (!slots.is_null()).then(|| {
            // SAFETY: a level has this many slots, was published whole, and is never freed.
            (0..WINDOW).map(move |step| unsafe { &*slots.add(first.wrapping_add(step) & mask) })
        })
    }

    /// The stream with this handle, kept alive while the result is held.
    ///
    /// # Errors
    /// `INVALID_HANDLE` when there is none.
    #[inline]
    pub fn enter(&self, stream: Stream) -> Result<Held<'_>> {
        match self.enter_at_sight(stream) {
            Some(held) => Ok(held),
            None => self.come_in(stream, StreamState::enter),
        }
    }

    /// [`StreamTable::enter`] for a stream that is where one looks first, as most are; `None` where one has
    /// to look further.
    #[inline(always)]
    pub fn enter_at_sight(&self, stream: Stream) -> Option<Held<'_>> {
        let slot = self.window(0, stream)?.next()?;
        let seen = slot.state.load()?;
        (slot.handle.load(Ordering::Relaxed) == stream.0 as usize && slot.state.enter(seen))
            .then_some(Held(slot))
    }

    /// Keeps a user's value for a stream, or forgets it; answers the one that was there.
    pub fn set_value(&self, serial: u64, key: u64, value: Option<UserSlot>) -> Option<UserSlot> {
        let mut values = self.values.lock();
        match value {
            Some(value) => values.insert((serial, key), value),
            None => values.remove(&(serial, key)),
        }
    }

    /// The value that is kept for a stream.
    pub fn value(&self, serial: u64, key: u64) -> Option<*mut c_void> {
        self.values.lock().get(&(serial, key)).map(UserSlot::value)
    }

    /// Takes out all values of a stream.
    pub fn take_values(&self, serial: u64) -> BTreeMap<(u64, u64), UserSlot> {
        let mut values = self.values.lock();
        let mut own = BTreeMap::new();
        let of_stream = (serial, 0)..=(serial, u64::MAX);
        while let Some((&key, _)) = values.range(of_stream.clone()).next() {
            own.extend(values.remove_entry(&key));
        }
        own
    }

    /// The device of the stream with this handle. Keeps nothing alive.
    ///
    /// # Errors
    /// `INVALID_HANDLE` when there is none.
    #[inline]
    pub fn device_of(&self, stream: Stream) -> Result<Ordinal> {
        self.find(stream, |slot, seen| {
            let device = slot.device.load(Ordering::Relaxed);
            slot.state.is_still(seen).then_some(device)
        })
    }

    /// Takes a stream out, for the one caller who destroys it.
    ///
    /// # Errors
    /// `INVALID_HANDLE` when there is none (destroyed before, or never made).
    pub fn remove(&self, stream: Stream) -> Result<Held<'_>> {
        self.come_in(stream, StreamState::remove)
    }

    #[cold]
    fn come_in(&self, stream: Stream, by: impl Fn(&StreamState, Seen) -> bool) -> Result<Held<'_>> {
        self.find(stream, |slot, seen| by(&slot.state, seen).then_some(Held(slot)))
    }

    /// Gives `take` the slot of a live stream until it answers something, or the stream is not there (any
    /// more).
    #[inline]
    fn find<'a, T>(
        &'a self,
        stream: Stream,
        take: impl Fn(&'a Slot, Seen) -> Option<T>,
    ) -> Result<T> {
        for level in 0..LEVELS {
            let Some(window) = self.window(level, stream) else { break };
            for slot in window {
                while let Some(seen) = slot.state.load()
                    && slot.handle.load(Ordering::Relaxed) == stream.0 as usize
                {
                    if let Some(taken) = take(slot, seen) {
                        return Ok(taken);
                    }
                }
            }
        }
        Err(unknown(stream))
    }
}

impl Default for StreamTable {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> Held<'a> {
    /// The device it was made on.
    #[inline]
    pub fn device(&self) -> Ordinal {
        self.0.device.load(Ordering::Relaxed)
    }

    /// What is kept of it.
    pub fn live(&self) -> &'a LiveStream {
        // SAFETY: written before the slot was filled; freed by `vacate`, which comes after the last
        // call has left.
        unsafe { &*self.0.live.load(Ordering::Relaxed) }
    }

    /// Ends the use; what is left to be done natively when this was the last one of a destroyed stream.
    #[inline]
    pub fn leave(self) -> Option<Doomed<'a>> {
        self.0.state.leave().then_some(Doomed(self.0))
    }
}

impl Doomed<'_> {
    /// What is kept of it.
    pub fn live(&self) -> &LiveStream {
        // SAFETY: written before the slot was filled; freed by `vacate`, which consumes this.
        unsafe { &*self.0.live.load(Ordering::Relaxed) }
    }

    /// It is gone natively too: the slot is the next stream's.
    pub fn vacate(self) {
        // SAFETY: the slot owns the box, and nobody else is inside: this was the last call.
        drop(unsafe { Box::from_raw(self.0.live.swap(ptr::null_mut(), Ordering::Relaxed)) });
        self.0.state.vacate();
    }

    /// It could not be destroyed, so it can be named again.
    pub fn restore(self) {
        self.0.state.restore();
    }
}

const fn size_of_level(level: usize) -> usize {
    FIRST << (GROWTH as usize * level)
}

/// Spreads handles, which are addresses at regular distances.
#[inline]
fn hash(stream: Stream) -> usize {
    ((stream.0 as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize
}

#[cold]
fn unknown(stream: Stream) -> Error {
    let message = format!("{:p} is no stream of this backend (destroyed, or never made)", stream.0);
    Error::new(Status::InvalidHandle, message)
}

impl ForkAware for StreamTable {
    fn prepare(&self) {
        self.filling.hold();
        self.values.hold();
    }
    fn parent(&self) {
        // SAFETY: held by `prepare` on this thread.
        unsafe {
            self.values.release();
            self.filling.release();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(number: usize) -> Stream {
        Stream((0x7000_0000 + number * 64) as *mut c_void)
    }

    fn destroy(table: &StreamTable, stream: Stream) -> bool {
        let doomed = table.remove(stream).expect("alive").leave();
        doomed.map(Doomed::vacate).is_some()
    }

    #[test]
    fn ten_thousand_streams_are_found_each_on_its_device_and_none_after_its_end() {
        let table = StreamTable::new();
        for number in 0..10_000 {
            table.insert(stream(number), number as Ordinal % 5).expect("room");
        }
        for number in 0..10_000 {
            let held = table.enter(stream(number)).expect("alive");
            assert_eq!(held.device(), number as Ordinal % 5);
            assert!(held.leave().is_none());
            if number % 2 == 0 {
                assert!(destroy(&table, stream(number)));
            }
        }
        for number in 0..10_000 {
            assert_eq!(table.enter(stream(number)).map(Held::leave).is_ok(), number % 2 == 1);
        }
    }

    #[test]
    fn an_address_that_comes_back_names_the_new_stream_while_the_old_one_is_still_in_use() {
        let table = StreamTable::new();
        table.insert(stream(0), 1).expect("room");
        let old = table.enter(stream(0)).expect("alive");
        assert!(!destroy(&table, stream(0)), "it is still in use");
        assert_eq!(
            table.enter(stream(0)).map(Held::leave).err().map(|e| e.status()),
            Some(Status::InvalidHandle)
        );
        table.insert(stream(0), 2).expect("room");
        let new = table.enter(stream(0)).expect("alive");
        assert_eq!((old.device(), new.device()), (1, 2));
        assert_ne!(old.live().serial, new.live().serial);
        assert!(new.leave().is_none());
        old.leave().expect("the last one destroys it").vacate();
        assert!(destroy(&table, stream(0)));
    }

    #[test]
    fn a_stream_that_could_not_be_destroyed_can_still_be_named() {
        let table = StreamTable::new();
        table.insert(stream(0), 0).expect("room");
        table.remove(stream(0)).expect("alive").leave().expect("the last one").restore();
        assert!(destroy(&table, stream(0)));
        assert!(table.remove(stream(0)).is_err());
    }
}
