//! A device: its streams, and how what is put on one is ordered with the default stream.
//!
//! The default stream is the queue of slot 0 with CUDA's legacy meaning (contract S2): its work is
//! preceded by waits for every blocking stream that has work, and the work of every blocking stream
//! by a wait for it. What was waited for once is not waited for again. Recording an event counts as
//! work in this, though it needs a place in the queue only when it takes the time.
//!
//! Rules: a wait is published under the lock of the ring that it is put in, and points to what was
//! published before, so waits cannot form a circle. On a stream whose device does not use the
//! default stream this costs two loads. Whoever does work at once holds the ring's lock meanwhile, if the work
//! is short, and otherwise claims its number first: so what is enqueued meanwhile runs after it, and a free
//! and whoever waits see it.

use crate::active::Active;
use crate::command::{Command, Record};
use crate::configuration::Configuration;
use crate::events::{self, Events, Snapshot, Timing};
use crate::handle::Handle;
use crate::host_call;
use crate::memory::Memory;
use crate::pool::Pool;
use crate::position::Position;
use crate::queue::Queue;
use crate::ring::Guard;
use crate::runner;
use crate::slots::Slots;
use llaisys_runtime_core::api::{Event, EventFlags, Ordinal, Stream, StreamFlags};
use llaisys_runtime_core::{Error, Result, Status};
use std::sync::atomic::Ordering::Relaxed;

/// One device.
pub struct Device {
    ordinal: Ordinal,
    pool: &'static Pool,
    slots: &'static Slots,
    default: &'static Queue,
    active: Active,
    events: Events,
    queue_capacity: u64,
}

/// The right and duty to do the next piece of a stream's work in the calling thread. What is
/// enqueued behind it runs when this is dropped.
pub struct Claim {
    queue: &'static Queue,
    number: u64,
}

impl Drop for Claim {
    fn drop(&mut self) {
        runner::finish(self.queue, self.number);
    }
}

/// The ring of a queue has no room.
struct Full;

type Held<'a> = Guard<'a, Record>;

impl Device {
    /// A device without streams but the default one.
    pub fn new(
        ordinal: Ordinal,
        pool: &'static Pool,
        memory: &'static Memory,
        with: &Configuration,
    ) -> Device {
        let queue_capacity = with.queue_capacity.max(1) as u64;
        // One more, for the piece that is being run.
        let slots = Slots::new(ordinal, pool, memory, queue_capacity + 1);
        let slots: &'static Slots = Box::leak(Box::new(slots));
        let (default, _) = slots.take(true).expect("there is a first slot");
        let (active, events) = (Active::new(), Events::new());
        Device { ordinal, pool, slots, default, active, events, queue_capacity }
    }

    fn is_default(&self, queue: &'static Queue) -> bool {
        std::ptr::eq(queue, self.default)
    }

    /// The queue of a stream. Any bits are safe to ask about.
    #[inline(always)]
    fn find(&self, stream: Stream) -> Result<&'static Queue> {
        if stream.is_default() {
            return Ok(self.default);
        }
        let handle = Handle::from_stream(stream);
        if handle.is_of(self.ordinal)
            && handle.slot != 0
            && let Some(queue) = self.slots.get(handle.slot)
            && queue.identity.is(handle.generation)
        {
            return Ok(queue);
        }
        Err(self.unknown(stream))
    }

    #[cold]
    fn unknown(&self, stream: Stream) -> Error {
        let device = self.ordinal;
        Error::new(
            Status::InvalidHandle,
            format!("{:p} is not a stream of CPU device {device}, or no longer", stream.0),
        )
    }

    /// The queue of a stream, locked while it is the stream's.
    fn lock(&self, stream: Stream) -> Result<(&'static Queue, Held<'static>)> {
        let queue = self.find(stream)?;
        Ok((queue, self.lock_found(stream, queue)?))
    }

    /// Locks the queue that was found for a stream, while it is the stream's.
    #[inline(always)]
    fn lock_found(&self, stream: Stream, queue: &'static Queue) -> Result<Held<'static>> {
        loop {
            let guard = queue.ring.lock();
            if stream.is_default() {
                return Ok(guard);
            }
            if !queue.identity.is(Handle::from_stream(stream).generation) {
                return Err(self.unknown(stream));
            }
            if !queue.identity.is_blocking() {
                return Ok(guard);
            }
            // Of two threads that enqueue here and on the default stream at one time, one has to come after the
            // other (S2): either that one finds this queue in the list and waits for this lock, or its lock
            // is seen here.
            self.active.note(queue);
            if !self.default.ring.is_locked() {
                return Ok(guard);
            }
            drop(guard);
            self.default.ring.settled_tail();
        }
    }

    /// Makes a stream.
    ///
    /// # Errors
    /// `OUT_OF_MEMORY` when there are `SLOTS` already.
    pub fn create_stream(&self, flags: StreamFlags) -> Result<Stream> {
        let (queue, generation) = self.slots.take(flags.is_blocking())?;
        Ok(Handle::new(self.ordinal, queue.slot, generation).to_stream())
    }

    /// Destroys a stream. Its work completes (S3).
    ///
    /// # Errors
    /// `INVALID_HANDLE` for what is no stream of this device.
    pub fn destroy_stream(&self, stream: Stream) -> Result<()> {
        let (queue, guard) = self.lock(stream)?;
        if !self.is_default(queue) {
            queue.identity.drain();
            drop(guard);
            runner::settle(queue);
        }
        Ok(())
    }

    /// Where the stream is now: all work enqueued so far. The default stream stands for every
    /// stream that is ordered with it.
    ///
    /// # Errors
    /// `INVALID_HANDLE` for what is no stream of this device.
    #[inline]
    pub fn for_each_pending(&self, stream: Stream, mut call: impl FnMut(Position)) -> Result<()> {
        let queue = self.find(stream)?;
        if let Some(position) = Position::pending(queue) {
            call(position);
        }
        if self.is_default(queue) {
            self.active.visit(|queue| {
                if queue.identity.is_blocking()
                    && let Some(position) = Position::pending(queue)
                {
                    call(position);
                }
                true
            });
        }
        Ok(())
    }

    /// Refuses what is no stream of this device.
    ///
    /// # Errors
    /// `INVALID_HANDLE`.
    #[inline]
    pub fn check(&self, stream: Stream) -> Result<()> {
        self.find(stream).map(drop)
    }

    /// Whether the stream has nothing pending; see `for_each_pending`.
    ///
    /// # Errors
    /// `INVALID_HANDLE` for what is no stream of this device.
    #[inline]
    pub fn is_idle(&self, stream: Stream) -> Result<bool> {
        let mut pending = None;
        self.for_each_pending(stream, |position| pending = Some(position))?;
        if let Some(position) = pending {
            self.pool.demand(position);
        }
        Ok(pending.is_none())
    }

    /// Waits for all work that the stream has now; see `for_each_pending`.
    ///
    /// # Errors
    /// `INVALID_HANDLE` for what is no stream of this device; `NOT_PERMITTED` in a host function, where
    /// there is something to wait for.
    #[inline]
    pub fn synchronize(&self, stream: Stream) -> Result<()> {
        let mut first = None;
        let mut others = Vec::new();
        self.for_each_pending(stream, |position| match first {
            None => first = Some(position),
            Some(_) => others.push(position),
        })?;
        if let Some(first) = first {
            host_call::check_may_wait("stream_synchronize")?;
            first.wait();
            others.iter().for_each(Position::wait);
        }
        self.find(stream).inspect(|queue| queue.ring.waited()).ok();
        Ok(())
    }

    /// All work that the next work on the stream would come after, and the stream's queue.
    ///
    /// # Errors
    /// `INVALID_HANDLE` for what is no stream of this device.
    pub fn before_next(&self, stream: Stream) -> Result<(&'static Queue, Vec<Position>)> {
        let queue = self.find(stream)?;
        let mut positions = Vec::new();
        self.for_each_pending(stream, |position| positions.push(position))?;
        if !self.is_default(queue) && queue.identity.is_blocking() {
            positions.extend(Position::pending(self.default));
        }
        Ok((queue, positions))
    }

    /// Every stream that has work, destroyed ones too, and up to where.
    pub fn busy(&self, mut call: impl FnMut(Position)) {
        if let Some(position) = Position::pending(self.default) {
            call(position);
        }
        self.active.visit(|queue| {
            if let Some(position) = Position::pending(queue) {
                call(position);
            }
            true
        });
    }

    /// Puts work on a stream and says where it is. Waits while the queue is full (S6).
    ///
    /// # Errors
    /// `INVALID_HANDLE`; `OUT_OF_MEMORY` without a thread; `NOT_PERMITTED` for a full queue in a
    /// host function. Then nothing was enqueued.
    pub fn enqueue(&self, stream: Stream, command: Command) -> Result<Position> {
        self.pool.be_there()?;
        let mut record = Record(command);
        loop {
            let (queue, mut guard) = self.lock(stream)?;
            self.note(queue);
            if self.put_in_order(queue, &mut guard).is_ok() {
                match guard.push(record, || queue.progress.completed()) {
                    Ok(number) => {
                        drop(guard);
                        queue.call_for_a_worker();
                        return Ok(Position { queue, number });
                    }
                    Err(back) => record = back,
                }
            }
            self.make_room(queue, guard)?;
        }
    }

    /// Something is about to be put on a queue.
    #[inline(always)]
    fn note(&self, queue: &'static Queue) {
        if !self.is_default(queue) {
            self.active.note(queue);
        }
        if let Some(schedule) = &self.pool.schedule {
            schedule.note_call();
        }
    }

    /// Waits until a full queue has room.
    #[cold]
    fn make_room(&self, queue: &'static Queue, guard: Held<'_>) -> Result<()> {
        // A little more than one place, so that a fast caller does not sleep for each.
        let left = self.queue_capacity - (self.queue_capacity / 16).max(1);
        let number = guard.number().saturating_sub(left);
        // Waits may have been put in.
        drop(guard);
        queue.call_for_a_worker();
        host_call::check_may_wait("enqueueing on a stream with a full queue")?;
        Position { queue, number }.wait();
        Ok(())
    }

    /// Makes an event.
    ///
    /// # Errors
    /// `OUT_OF_MEMORY` when a million are alive.
    pub fn create_event(&self, flags: EventFlags) -> Result<Event> {
        let (slot, generation) = self.events.insert(flags)?;
        Ok(Handle::new(self.ordinal, slot, generation).to_event())
    }

    /// Destroys an event, also a pending one.
    ///
    /// # Errors
    /// `INVALID_HANDLE` for what is no event of this device.
    pub fn destroy_event(&self, event: Event) -> Result<()> {
        self.events.remove(self.ordinal, event)
    }

    /// What an event is now.
    ///
    /// # Errors
    /// `INVALID_HANDLE` for what is no event of this device.
    #[inline]
    pub fn event(&self, event: Event) -> Result<Snapshot> {
        self.events.find(self.ordinal, event).map(|(_, snapshot)| snapshot)
    }

    /// Puts an event behind all work that the stream has now, and that its next work would come
    /// after.
    ///
    /// # Errors
    /// `INVALID_HANDLE` for what is no stream or no event of this device; as `enqueue` where the
    /// event needs a place in the queue. Then the event stays as it was.
    #[inline]
    pub fn record_event(&self, event: Event, stream: Stream) -> Result<()> {
        let queue = self.find(stream)?;
        let at = Position::end_of(queue);
        // A point that is passed is that for whoever asks, so it takes no lock to name it.
        let is_passed = !self.is_default(queue)
            && at.is_reached()
            && (!queue.identity.is_blocking() || self.default.is_idle());
        if is_passed && self.events.record_passed(self.ordinal, event, at) {
            return Ok(());
        }
        self.record_in_order(event, stream)
    }

    fn record_in_order(&self, event: Event, stream: Stream) -> Result<()> {
        loop {
            let (queue, mut guard) = self.lock(stream)?;
            let (entry, found) = self.events.find(self.ordinal, event)?;
            let is_timed = found.flags.contains(EventFlags::TIMING);
            let mut timing = Timing::None;
            if !self.may_run_at_once(queue, &guard) {
                self.pool.be_there()?;
                self.note(queue);
                if self.put_in_order(queue, &mut guard).is_err() {
                    self.make_room(queue, guard)?;
                    continue;
                }
                if is_timed {
                    let record = entry.new_mark();
                    let mark = Record(Command::Mark { event: entry, record });
                    if guard.push(mark, || queue.progress.completed()).is_err() {
                        self.make_room(queue, guard)?;
                        continue;
                    }
                    timing = Timing::ByMark(record);
                }
            } else if is_timed {
                timing = Timing::At(events::now());
            }
            // Before it is published, so that the mark finds the record.
            let at = Position { queue, number: guard.number() };
            let recorded = self.events.record(self.ordinal, event, at, timing);
            drop(guard);
            queue.call_if_busy();
            return recorded;
        }
    }

    /// Has later work on the stream wait for a point of any stream of any device (V1).
    ///
    /// # Errors
    /// As `enqueue`.
    pub fn wait_for(&self, stream: Stream, point: Position) -> Result<()> {
        let queue = self.find(stream)?;
        // What is its own work comes before anyway.
        if !std::ptr::eq(queue, point.queue) && !point.is_reached() {
            self.enqueue(stream, Command::Wait(point))?;
        }
        Ok(())
    }

    /// Does short work of the stream at once, when nothing is pending that it would have to wait for;
    /// whether it did. The stream is locked meanwhile, so the work needs no number. `surely`: whether it
    /// matters, so that no guess will do.
    ///
    /// # Errors
    /// `INVALID_HANDLE` for what is no stream of this device.
    #[inline(always)]
    pub fn do_at_once(&self, stream: Stream, surely: bool, work: impl FnOnce()) -> Result<bool> {
        let queue = self.find(stream)?;
        // Without the lock, which whoever enqueues behind pending work takes once anyway.
        if if surely { !queue.is_idle() } else { queue.is_busy() } {
            return Ok(false);
        }
        let guard = self.lock_found(stream, queue)?;
        if !self.may_run_at_once(queue, &guard) {
            return Ok(false);
        }
        self.note(queue);
        work();
        drop(guard);
        Ok(true)
    }

    /// The right to do work on the stream at once, when nothing is pending that it would have to
    /// wait for.
    ///
    /// # Errors
    /// `INVALID_HANDLE` for what is no stream of this device.
    pub fn claim(&self, stream: Stream) -> Result<Option<Claim>> {
        let (queue, mut guard) = self.lock(stream)?;
        if !self.may_run_at_once(queue, &guard) {
            return Ok(None);
        }
        self.note(queue);
        // Whoever has the claim of an idle queue finds nothing to do, and gives it back.
        while !queue.claim.try_claim() {
            std::thread::yield_now();
        }
        Ok(Some(Claim { queue, number: guard.take_number() }))
    }

    /// Whether all that the next work on a locked queue would come after is done.
    #[inline(always)]
    fn may_run_at_once(&self, queue: &'static Queue, guard: &Held<'_>) -> bool {
        if queue.progress.completed() < guard.number() {
            return false;
        }
        if self.is_default(queue) {
            self.active.visit(|queue| !queue.identity.is_blocking())
        } else {
            !queue.identity.is_blocking() || self.default.is_idle()
        }
    }

    /// Puts the waits on a locked queue that its next work must come after.
    #[inline]
    fn put_in_order(
        &self,
        queue: &'static Queue,
        guard: &mut Held<'_>,
    ) -> std::result::Result<(), Full> {
        if self.is_default(queue) {
            return self.put_behind_all(queue, guard);
        }
        if !queue.identity.is_blocking() || self.default.is_idle() {
            return Ok(());
        }
        let position = Position::end_of(self.default);
        if queue.waited_for_default.load(Relaxed) >= position.number {
            return Ok(());
        }
        let wait = Record(Command::Wait(position));
        guard.push(wait, || queue.progress.completed()).map_err(|_| Full)?;
        queue.waited_for_default.store(position.number, Relaxed);
        Ok(())
    }

    fn put_behind_all(
        &self,
        default: &'static Queue,
        guard: &mut Held<'_>,
    ) -> std::result::Result<(), Full> {
        let went_through = self.active.visit(|queue| {
            let Some(position) = Position::pending(queue) else { return true };
            if !queue.identity.is_blocking()
                || queue.waited_by_default.load(Relaxed) >= position.number
            {
                return true;
            }
            let wait = Record(Command::Wait(position));
            if guard.push(wait, || default.progress.completed()).is_err() {
                return false;
            }
            queue.waited_by_default.store(position.number, Relaxed);
            true
        });
        if went_through { Ok(()) } else { Err(Full) }
    }

    /// Before a fork: keeps the locks, in the order in which they may be taken one after another.
    pub fn hold(&self) {
        self.default.ring.hold();
        self.active.hold();
        self.slots.hold();
        self.events.hold();
    }

    /// After a fork: releases them.
    ///
    /// # Safety
    /// - `hold` was called before the fork, on the thread that forked.
    pub unsafe fn release(&self) {
        // SAFETY: by the contract above.
        unsafe {
            self.events.release();
            self.slots.release();
            self.active.release();
            self.default.ring.release();
        }
    }

    /// In the child of a fork, with the locks free again: pending work is the parent's, and there
    /// are no workers.
    pub fn forget_threads(&self) {
        self.active.forget();
        self.slots.forget();
        self.events.forget_writers();
    }
}
