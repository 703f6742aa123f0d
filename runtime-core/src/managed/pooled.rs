//! Device memory and pinned memory from the pools of `allocator`: who is asked what is still pending, and when memory is
//! short.
//!
//! Rule (contract M4): what a freed block waits for is the end of everything that was enqueued, on any
//! stream of the backend and on the default streams that can have work. A mark is an event on the stream
//! itself. The default stream's is on a private blocking stream without work: there it waits for the
//! default stream and holds up nobody, while one on the default stream would tie all blocking streams
//! together.

use super::{Entered, Managed};
use crate::allocator::block::{Block, Claimed};
use crate::allocator::copies::{Copies, Inside};
use crate::allocator::quarantine::{Fence, Mark, Until};
use crate::allocator::sources::{DEVICES, Source, Sources};
use crate::allocator::{self, Backing, Pool};
use crate::api::*;
use crate::error::{Error, Result};
use crate::fences::{Fences, Stamp};
use crate::host_function;
use crate::lock::{ForkLock, Mutex};
use crate::pointers::{About, MemoryKind, Place};
use crate::status::Status;
use crate::streams::LiveStream;
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// The pools of a backend, and what they ask it with.
pub struct Pools {
    /// Device memory comes from pools. Never changes.
    are_on: bool,
    /// They give out nothing any more: in the child of a fork that has no driver.
    are_closed: AtomicBool,
    pools: [AtomicPtr<Pool>; DEVICES],
    /// Pinned memory comes from pools too: where it is not what device memory is. Never changes.
    have_pinned: bool,
    pinned: [AtomicPtr<Pool>; DEVICES],
    /// Held by whoever makes a pool or a private stream.
    making: Mutex<()>,
    /// For each device, its private blocking stream.
    private_streams: [AtomicPtr<c_void>; DEVICES],
    sources: Sources,
    copies: Copies,
    fences: Fences,
    /// Events that no mark uses.
    events: Mutex<Vec<Mark>>,
}

// SAFETY: handles of the backend's, which every thread may use (contract D3); nothing is read through
// them here.
unsafe impl Send for Mark {}
// SAFETY: as above.
unsafe impl Sync for Mark {}

impl Pools {
    /// No pools yet; none ever unless they are on.
    pub const fn new(are_on: bool, host_memory: bool) -> Pools {
        Pools {
            are_on,
            are_closed: AtomicBool::new(false),
            pools: [const { AtomicPtr::new(ptr::null_mut()) }; DEVICES],
            have_pinned: are_on && !host_memory,
            pinned: [const { AtomicPtr::new(ptr::null_mut()) }; DEVICES],
            making: Mutex::new(()),
            private_streams: [const { AtomicPtr::new(ptr::null_mut()) }; DEVICES],
            sources: Sources::new(),
            copies: Copies::new(),
            fences: Fences::new(),
            events: Mutex::new(Vec::new()),
        }
    }

    /// The pool of a device, if it has one.
    #[inline(always)]
    pub fn get(&self, device: Ordinal) -> Option<&'static Pool> {
        pool_at(&self.pools, device)
    }

    /// The pool of pinned memory for a device, if there is one.
    #[inline(always)]
    pub fn pinned(&self, device: Ordinal) -> Option<&'static Pool> {
        pool_at(&self.pinned, device)
    }

    /// The default stream of a device can have work from now on.
    #[inline]
    pub fn note_default(&self, device: Ordinal) {
        if self.are_on {
            self.sources.note_default(device);
        }
    }

    /// The calling thread copies in its own call, until the result is dropped: what is freed meanwhile is kept.
    #[inline]
    pub fn copying(&self) -> Option<Inside<'_>> {
        self.are_on.then(|| self.copies.begin())
    }

    /// The same of a copy that is enqueued, where the call does part of it itself.
    #[inline]
    pub fn enqueueing(&self, flags: CopyFlags) -> Option<Inside<'_>> {
        let pageable = CopyFlags::SOURCE_PAGEABLE.with(CopyFlags::DESTINATION_PAGEABLE);
        if flags.without(pageable) == flags { None } else { self.copying() }
    }

    /// Whether nothing can be pending or under way that uses what is freed now.
    #[inline(always)]
    fn are_at_rest(&self) -> bool {
        self.sources.are_none() && self.copies.are_none()
    }

    fn of_devices(&self) -> impl Iterator<Item = &'static Pool> {
        (0..DEVICES as Ordinal).filter_map(|device| self.get(device))
    }

    fn all_pinned(&self) -> impl Iterator<Item = &'static Pool> {
        (0..DEVICES as Ordinal).filter_map(|device| self.pinned(device))
    }

    fn all(&self) -> impl Iterator<Item = &'static Pool> {
        self.of_devices().chain(self.all_pinned())
    }

    /// Before a fork: keeps the locks.
    pub fn prepare(&self) {
        self.making.hold();
        self.sources.hold();
        self.copies.hold();
        self.events.hold();
        self.all().for_each(Pool::hold);
        // Those of devices are held with the backend's accounts.
        self.all_pinned().for_each(|pool| pool.account().hold());
    }

    /// After a fork: releases them.
    pub fn parent(&self) {
        // SAFETY: held by `prepare` on this thread; no pool was made meanwhile, for that takes `making`.
        unsafe {
            self.all_pinned().for_each(|pool| pool.account().release());
            self.all().for_each(|pool| pool.release());
            self.events.release();
            self.copies.release();
            self.sources.release();
            self.making.release();
        }
    }

    /// In the child of a fork: nothing of the parent's is pending. Where the driver stayed behind, so did
    /// the memory.
    pub fn forget_work(&self, host_memory: bool) {
        self.sources.forget_work();
        self.copies.forget();
        self.fences.forget();
        self.all().for_each(Pool::forget_work);
        if !host_memory {
            self.are_closed.store(true, Ordering::Relaxed);
            let all = self.pools.iter().chain(&self.pinned);
            all.for_each(|pool| pool.store(ptr::null_mut(), Ordering::Relaxed));
        }
    }
}

#[inline(always)]
fn pool_at(pools: &[AtomicPtr<Pool>; DEVICES], device: Ordinal) -> Option<&'static Pool> {
    let pool = pools.get(device as usize)?.load(Ordering::Acquire);
    // SAFETY: null, or a pool, which is never freed.
    unsafe { pool.as_ref() }
}

impl<B: RuntimeApi> Managed<B> {
    /// The pool that a block of this size comes from, made by the first caller; `None` for what the backend
    /// allocates itself.
    pub(super) fn pool_for(
        &self,
        kind: MemoryKind,
        device: Ordinal,
        size: usize,
    ) -> Result<Option<&'static Pool>> {
        let pools = &self.pools;
        let (are_there, of_kind) = match kind {
            MemoryKind::Host => (pools.have_pinned, &pools.pinned),
            _ => (pools.are_on, &pools.pools),
        };
        if !are_there || size > allocator::LARGEST || pools.are_closed.load(Ordering::Relaxed) {
            return Ok(None);
        }
        self.check_device(device)?;
        if let Some(pool) = pool_at(of_kind, device) {
            return Ok(Some(pool));
        }
        let Some(place) = of_kind.get(device as usize) else { return Ok(None) };
        let account = match kind {
            // Pinned memory is in no device's account; this one only has the threads' shards.
            MemoryKind::Host => Box::leak(Box::default()),
            _ => self.accounts.device(device)?,
        };
        if !self.host_memory {
            // Users may launch there without our knowing.
            pools.sources.note_default(device);
        }
        // Before the lock: no lock is held while the backend runs.
        let information = self.on(device, |backend| backend.get_memory_info(device));
        let total = information.map_or(0, |information| information.total);
        let _making = pools.making.lock();
        if pool_at(of_kind, device).is_none() {
            let on_host = self.host_memory || kind == MemoryKind::Host;
            let at = Place { kind, owner: self.device_type, device, on_host };
            let pool = Pool::new(at, account, total);
            place.store(Box::into_raw(Box::new(pool)), Ordering::Release);
        }
        Ok(pool_at(of_kind, device))
    }

    /// Allocates from a pool; on a stream, if one is named, which the caller keeps alive.
    #[cold]
    pub(super) fn allocate_pooled(
        &self,
        pool: &'static Pool,
        device: Ordinal,
        size: usize,
        on: Option<(Stream, u64)>,
    ) -> Result<*mut c_void> {
        if !self.is_some_memory(device, size)? {
            return Ok(ptr::null_mut());
        }
        self.lost.check(device)?;
        let block =
            self.ask_when_short(device, size, || self.try_pooled(pool, device, size, on))?;
        Ok(match on {
            Some((stream, serial)) => block.hand_out_on(size, stream, serial),
            None => block.hand_out(size),
        })
    }

    /// One try, counted, and more after what is cached was given up (E4).
    fn try_pooled(
        &self,
        pool: &'static Pool,
        device: Ordinal,
        size: usize,
        on: Option<(Stream, u64)>,
    ) -> Result<Block> {
        let account = pool.account();
        let is_limited = account.has_limit();
        if is_limited {
            self.reserve(account, device, size)?;
        }
        let block = match on.and_then(|key| pool.take_of(key, size)) {
            Some(block) => Ok(block),
            None => self.make_room_for(pool.kind(), device, size, || pool.allocate(size, self)),
        };
        match (&block, is_limited) {
            (Ok(_), true) => account.allocated(),
            (Ok(_), false) => pool.count(size),
            (Err(error), _) => {
                if is_limited {
                    account.cancel(size as u64);
                }
                if error.status() == Status::OutOfMemory {
                    account.failed();
                }
            }
        }
        block
    }

    /// Allocates; when memory is short, gives up what is cached, then waits for what was freed and may still
    /// be in use, and tries again each time. An error says what holds the memory.
    pub(super) fn make_room_for<T>(
        &self,
        kind: MemoryKind,
        device: Ordinal,
        size: usize,
        allocate: impl Fn() -> Result<T>,
    ) -> Result<T> {
        let is_short =
            |outcome: &Result<T>| matches!(outcome, Err(e) if e.status() == Status::OutOfMemory);
        let mut outcome = allocate();
        if !is_short(&outcome) {
            return outcome;
        }
        let is_pinned = kind == MemoryKind::Host && !self.host_memory;
        let pools: Vec<&'static Pool> = if self.host_memory {
            // Devices that are views of one memory.
            self.pools.of_devices().collect()
        } else if is_pinned {
            self.pools.all_pinned().collect()
        } else {
            self.pools.get(device).into_iter().collect()
        };
        pools.iter().for_each(|pool| pool.trim(0, self));
        let is_trimmed = !is_pinned && self.trim_backend(device);
        if is_trimmed || !pools.is_empty() {
            outcome = allocate();
        }
        for pool in &pools {
            while is_short(&outcome)
                && self.could_fit(kind, device, size, pool.waiting_bytes())
                && host_function::may_block().is_ok()
                && pool.wait(self)
            {
                outcome = allocate();
            }
        }
        let own = if is_pinned { self.pools.pinned(device) } else { self.pools.get(device) };
        outcome.map_err(|error| match own {
            Some(pool) if error.status() == Status::OutOfMemory => {
                let found = error.message();
                let message = format!("{size} bytes were asked for: {found}; {}", pool.report());
                error.with_message(message)
            }
            _ => error,
        })
    }

    /// Whether it is worth while to wait until `waiting` bytes come back.
    fn could_fit(&self, kind: MemoryKind, device: Ordinal, size: usize, waiting: usize) -> bool {
        if kind == MemoryKind::Host && !self.host_memory {
            return waiting != 0;
        }
        let information = self.on(device, |backend| backend.get_memory_info(device));
        let free = information.map_or(0, |info| info.free);
        let free = if free == UNKNOWN_BYTES { 0 } else { free };
        waiting != 0 && size as u64 <= free.saturating_add(waiting as u64)
    }

    /// Takes a live block of device memory, or of another side, of a pool from its user; `None` for any other
    /// pointer.
    #[inline(always)]
    pub(super) fn claim_pooled(&self, pointer: *mut c_void, side: About) -> Option<Claimed> {
        if !self.pools.are_on {
            return None;
        }
        Block::claim(pointer as usize, About::of(self.device_type).and(side))
    }

    /// Frees a block of device memory that any stream may use.
    #[inline(always)]
    pub(super) fn free_pooled(&self, freed: Claimed) -> Result<()> {
        if let Some(of) = freed.block.leave_stream() {
            self.settle_stream(freed.device, of, freed.size)?;
        }
        let Some(pool) = self.pools.get(freed.device) else { return Ok(()) };
        self.check_freed(pool, &freed)?;
        pool.free(freed, self.pools.are_at_rest(), self);
        Ok(())
    }

    /// Frees a block of pinned memory.
    pub(super) fn free_pinned(&self, freed: Claimed) -> Result<()> {
        let Some(pool) = self.pools.pinned(freed.device) else { return Ok(()) };
        self.check_freed(pool, &freed)?;
        pool.free_out_of_line(freed, self.pools.are_at_rest(), self);
        Ok(())
    }

    /// Refuses what is on a lost device, which keeps its memory.
    #[inline(always)]
    fn check_freed(&self, pool: &'static Pool, freed: &Claimed) -> Result<()> {
        self.lost.check(freed.device).inspect_err(|_| pool.uncount(freed.size))
    }

    /// Frees a block in the order of a stream, which the caller keeps alive.
    pub(super) fn free_pooled_on(
        &self,
        freed: Claimed,
        entered: &Entered<'_, B>,
        stream: Stream,
    ) -> Result<()> {
        let key = (stream, entered.serial());
        match (freed.block.leave_stream(), &entered.stream) {
            (None, _) => {}
            (Some(of), Some(held)) if of == key => {
                held.live().account.add_freed(freed.size as u64);
            }
            (Some(of), _) => self.settle_stream(freed.device, of, freed.size)?,
        }
        let Some(pool) = self.pools.get(freed.device) else { return Ok(()) };
        pool.uncount(freed.size);
        self.lost.check(freed.device)?;
        pool.free_on(freed.block, key, self);
        Ok(())
    }

    /// A stream was made or taken in; nobody else has its handle yet.
    pub(super) fn note_stream(&self, stream: Stream) {
        if self.pools.are_on
            && let Ok(entered) = self.enter(0, stream)
        {
            self.arrive(stream, entered.device, entered.serial());
        }
    }

    /// A stream can be given work.
    pub(super) fn arrive(&self, stream: Stream, device: Ordinal, serial: u64) {
        if self.pools.are_on {
            self.pools.sources.add(Source { stream, serial, device });
        }
    }

    /// A stream is about to be destroyed: what it has to do is marked, and what it kept is anybody's then.
    pub(super) fn depart(&self, live: &LiveStream, is_gone: bool) {
        if !self.pools.are_on {
            return;
        }
        let LiveStream { stream, device, serial, .. } = *live;
        let end = if is_gone { Ok(None) } else { self.mark(device, stream) };
        let end = end.unwrap_or_else(|error| {
            // What is captured does not run. Otherwise there is no way without a mark but this; a lost
            // device answers at once.
            if error.status() != Status::NotPermitted {
                // SAFETY: it is destroyed only after this.
                let _ = self
                    .on(device, |backend| unsafe { backend.stream_synchronize(device, stream) });
            }
            None
        });
        self.pools.sources.depart(stream, serial, end);
        if let Some(pool) = self.pools.get(device) {
            pool.end_lane((stream, serial));
        }
    }

    /// A mark for what a stream has to do; `None` when that is nothing. The caller keeps the stream alive. An
    /// error when the stream is captured into a graph: such a stream is left alone.
    fn mark(&self, device: Ordinal, stream: Stream) -> Result<Option<Mark>> {
        // SAFETY: alive, by the contract above.
        if self.on(device, |backend| unsafe { backend.stream_query(device, stream) })? {
            return Ok(None);
        }
        let on = if stream.is_default() { self.private_stream(device)? } else { stream };
        let mark = self.take_event(device)?;
        // SAFETY: the event is nobody else's, and the stream is alive.
        let recorded =
            self.on(device, |backend| unsafe { backend.record_event(device, mark.event, on) });
        match recorded {
            Ok(()) => Ok(Some(mark)),
            Err(error) => {
                self.pools.events.lock().push(mark);
                Err(error)
            }
        }
    }

    fn take_event(&self, device: Ordinal) -> Result<Mark> {
        let mut events = self.pools.events.lock();
        let found = events.iter().rposition(|mark| mark.device == device);
        if let Some(mark) = found.map(|index| events.swap_remove(index)) {
            return Ok(mark);
        }
        drop(events);
        let event = self.on(device, |backend| backend.create_event(device, EventFlags::NONE))?;
        Ok(Mark { device, event })
    }

    /// The private blocking stream of a device.
    fn private_stream(&self, device: Ordinal) -> Result<Stream> {
        let Some(place) = self.pools.private_streams.get(device as usize) else {
            return Err(Error::new(Status::Internal, "a device without a private stream"));
        };
        let known = place.load(Ordering::Acquire);
        if !known.is_null() {
            return Ok(Stream(known));
        }
        let made = self.on(device, |backend| backend.create_stream(device))?;
        match place.compare_exchange(ptr::null_mut(), made.0, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(made),
            Err(first) => {
                // SAFETY: just made, and known to nobody else.
                let _ = self.on(device, |backend| unsafe { backend.destroy_stream(device, made) });
                Ok(Stream(first))
            }
        }
    }

    /// Marks for everything that can be pending.
    fn marks(&self, until: &mut Vec<Arc<Mark>>) -> Result<()> {
        let sources = &self.pools.sources;
        let known = sources.snapshot();
        let (reached, ends): (Vec<_>, Vec<_>) =
            known.departed.into_iter().partition(|end| self.is_over(end, false));
        until.extend(ends);
        if !reached.is_empty() {
            sources.forget(&reached);
            self.recycle(reached);
        }
        let is_lost = |error: &Error| error.status() == Status::DeviceLost;
        for Source { stream, serial, device } in known.live {
            let entered = self.enter(device, stream)?;
            if entered.serial() != serial {
                return Err(Error::new(
                    Status::InvalidHandle,
                    "the stream was destroyed meanwhile",
                ));
            }
            match self.mark(device, stream) {
                Ok(mark) => until.extend(mark.map(Arc::new)),
                // It does nothing any more.
                Err(error) if is_lost(&error) => {}
                Err(error) => return Err(error),
            }
        }
        for device in sources.defaults() {
            match self.mark(device, Stream::DEFAULT) {
                Ok(mark) => until.extend(mark.map(Arc::new)),
                Err(error) if is_lost(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// What stands between what was freed until now and its use.
    fn ask(&self) -> Fence {
        let copies = self.pools.copies.under_way();
        let mut marks = Vec::new();
        if !self.pools.sources.are_none() && self.marks(&mut marks).is_err() {
            self.recycle(marks);
            return Fence::Unknown;
        }
        let until = Until { marks, copies };
        if until.is_over() { Fence::Over } else { Fence::Until(until) }
    }

    /// Whether a mark was reached; with `wait`, once it was.
    fn is_over(&self, mark: &Mark, wait: bool) -> bool {
        let Mark { device, event } = *mark;
        // SAFETY: a mark's event is alive; it is given up only when nobody has the mark.
        let reached = self.on(device, |backend| unsafe {
            if wait {
                backend.event_synchronize(device, event).map(|()| true)
            } else {
                backend.event_query(device, event)
            }
        });
        // A lost device does nothing any more.
        reached.unwrap_or_else(|error| error.status() == Status::DeviceLost)
    }

    /// Keeps the events of marks that nobody else has for the next ones.
    fn recycle(&self, marks: Vec<Arc<Mark>>) {
        let free = marks.into_iter().filter_map(Arc::into_inner);
        self.pools.events.lock().extend(free);
    }
}

impl<B: RuntimeApi> Backing for Managed<B> {
    fn reserve(&self, Place { kind, device, .. }: Place, size: usize) -> Result<usize> {
        let reserved = self.on(device, |backend| match kind {
            MemoryKind::Host => backend.malloc_host(device, size),
            _ => backend.malloc_device(device, size),
        });
        reserved.map(|pointer| pointer as usize)
    }

    fn release(&self, Place { kind, device, .. }: Place, base: usize) {
        let base = base as *mut c_void;
        // SAFETY: a segment that this backend allocated, of which nothing is in use; it left its heap
        // once. There is nobody to report a failure to: a backend that keeps it has lost it.
        let _ = self.on(device, |backend| unsafe {
            match kind {
                MemoryKind::Host => backend.free_host(device, base),
                _ => backend.free_device(device, base),
            }
        });
    }

    fn stamp(&self) -> Stamp {
        self.pools.fences.stamp()
    }

    fn are_past(&self, stamp: Stamp) -> bool {
        self.pools.fences.are_past(stamp)
    }

    fn are_asked(&self) -> bool {
        self.pools.fences.are_asked()
    }

    fn fence(&self) -> Fence {
        let begun = self.pools.fences.begin();
        let found = self.ask();
        self.pools.fences.end(begun, matches!(found, Fence::Over));
        found
    }

    fn fence_of(&self, device: Ordinal, stream: Stream) -> Fence {
        match self.mark(device, stream) {
            Ok(None) => Fence::Over,
            Ok(Some(mark)) => Fence::Until(Until { marks: vec![Arc::new(mark)], copies: None }),
            Err(_) => Fence::Unknown,
        }
    }

    fn pass(&self, until: &mut Until, wait: bool) -> bool {
        let marks = std::mem::take(&mut until.marks).into_iter();
        let (reached, left): (Vec<_>, Vec<_>) = marks.partition(|mark| self.is_over(mark, wait));
        self.recycle(reached);
        until.marks = left;
        until.copies = until.copies.filter(|ticket| !self.pools.copies.are_over(*ticket, wait));
        until.is_over()
    }
}
