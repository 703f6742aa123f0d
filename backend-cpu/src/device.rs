//! A device: its streams, and in which order their work runs.
//!
//! One lock guards all queues of the device; work runs outside it. Order comes from two rules alone:
//! a stream runs its work by number (`stream`), and work that must come after work of another
//! stream has a [`Command::Wait`] before it. Every wait points to work, of this device or another,
//! that was enqueued before the wait was, so waits cannot form a circle.
//!
//! The default stream is the stream of slot 0 with CUDA's legacy meaning (contract S2): its work is
//! preceded by waits for every blocking stream that has work, and the work of every blocking stream
//! by a wait for it. What was waited for once is not waited for again. Recording an event counts as
//! work in this, though it needs a place in the queue only when it takes the time.
//!
//! Rule: whoever must do work at once claims its number first, so that what is enqueued meanwhile
//! runs after it.

use crate::command::Command;
use crate::configuration::Configuration;
use crate::events::{self, Events, FreeEvents, Snapshot, Timing};
use crate::handle::{Handle, SLOTS};
use crate::memory::Memory;
use crate::stream::{Life, Position, Progress, Slot};
use crate::worker;
use llaisys_runtime_core::api::{Event, EventFlags, Ordinal, Stream, StreamFlags};
use llaisys_runtime_core::futex;
use llaisys_runtime_core::lock::{ForkLock, Mutex};
use llaisys_runtime_core::{Error, Result, Status};
use std::ops::DerefMut;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// The slot of the default stream.
const DEFAULT: u32 = 0;

/// One device.
pub struct Device {
    ordinal: Ordinal,
    queue_capacity: u64,
    worker_idle: Duration,
    memory: &'static Memory,
    events: Events,
    state: Mutex<State>,
}

struct State {
    slots: Vec<Slot>,
    vacant: Vec<u32>,
    tokens: u64,
    events: FreeEvents,
}

/// What a worker is to do next.
pub enum Next {
    /// Run this, once all work with lower numbers is done.
    Run {
        /// How far the stream is.
        progress: &'static Progress,
        /// The work's number.
        number: u64,
        /// The work.
        command: Command,
    },
    /// Sleep until the stream's doorbell no longer shows this.
    Sleep {
        /// Whose doorbell.
        progress: &'static Progress,
        /// What it shows now.
        doorbell: u32,
    },
    /// End: there is nothing to do, or this thread is not the slot's worker any more.
    End,
}

/// The right and duty to do the next piece of a stream's work in the calling thread. What is
/// enqueued behind it runs when this is dropped.
pub struct Claim {
    device: &'static Device,
    slot: u32,
    number: u64,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.device.finish_claim(self.slot, self.number);
    }
}

impl Device {
    /// A device without streams but the default one.
    pub fn new(ordinal: Ordinal, memory: &'static Memory, with: &Configuration) -> Device {
        let state = State {
            slots: vec![Slot::new()],
            vacant: Vec::new(),
            tokens: 0,
            events: FreeEvents::default(),
        };
        Device {
            ordinal,
            queue_capacity: with.queue_capacity.max(1) as u64,
            worker_idle: with.worker_idle,
            memory,
            events: Events::new(),
            state: Mutex::new(state),
        }
    }

    /// Its number.
    pub fn ordinal(&self) -> Ordinal {
        self.ordinal
    }

    /// After how long without work a worker ends.
    pub fn worker_idle(&self) -> Duration {
        self.worker_idle
    }

    /// Makes a stream.
    ///
    /// # Errors
    /// `OUT_OF_MEMORY` when there are `SLOTS` already.
    pub fn create_stream(&self, flags: StreamFlags) -> Result<Stream> {
        let mut state = self.state.lock();
        let slot = match state.vacant.pop() {
            Some(slot) => {
                let entry = state.slot(slot);
                entry.life = Life::Live;
                entry.generation = entry.generation.checked_add(1).unwrap_or(1);
                slot
            }
            None => {
                let slot = u32::try_from(state.slots.len()).unwrap_or(SLOTS);
                if slot >= SLOTS {
                    return Err(Error::new(
                        Status::OutOfMemory,
                        format!("CPU device {} has {SLOTS} streams already", self.ordinal),
                    ));
                }
                state.slots.push(Slot::new());
                slot
            }
        };
        let entry = state.slot(slot);
        entry.is_blocking = flags.is_blocking();
        Ok(Handle::new(self.ordinal, slot, entry.generation).to_stream())
    }

    /// Destroys a stream. Its work completes (S3).
    ///
    /// # Errors
    /// `INVALID_HANDLE` for what is no stream of this device.
    pub fn destroy_stream(&self, stream: Stream) -> Result<()> {
        let mut state = self.state.lock();
        let slot = state.resolve(self.ordinal, stream)?;
        if slot == DEFAULT {
            return Ok(());
        }
        state.slot(slot).life = Life::Draining;
        let bell = state.slot(slot).take_bell();
        state.retire(slot);
        drop(state);
        ring(bell);
        Ok(())
    }

    /// Where the stream is now: all work enqueued so far. The default stream stands for every
    /// stream that is ordered with it.
    ///
    /// # Errors
    /// `INVALID_HANDLE` for what is no stream of this device.
    pub fn position(&self, stream: Stream) -> Result<Vec<Position>> {
        let mut state = self.state.lock();
        match state.resolve(self.ordinal, stream)? {
            DEFAULT => Ok(state.busy(|entry| entry.is_blocking)),
            slot => Ok(state.slot(slot).pending().into_iter().collect()),
        }
    }

    /// All work that the next work on the stream would come after, and how far the stream is.
    ///
    /// # Errors
    /// `INVALID_HANDLE` for what is no stream of this device.
    pub fn before_next(&self, stream: Stream) -> Result<(&'static Progress, Vec<Position>)> {
        let mut state = self.state.lock();
        let slot = state.resolve(self.ordinal, stream)?;
        let mut positions = match slot {
            DEFAULT => state.busy(|entry| entry.is_blocking),
            slot => state.slot(slot).pending().into_iter().collect(),
        };
        if slot != DEFAULT && state.slot(slot).is_blocking {
            positions.extend(state.slot(DEFAULT).pending());
        }
        Ok((state.slot(slot).progress, positions))
    }

    /// Every stream that has work, destroyed ones too, and up to where.
    pub fn busy(&self) -> Vec<Position> {
        self.state.lock().busy(|_| true)
    }

    /// Puts work on a stream and says where it is. Waits while the queue is full (S6).
    ///
    /// # Errors
    /// `INVALID_HANDLE`; `OUT_OF_MEMORY` without a thread; `NOT_PERMITTED` for a full queue in a
    /// host function. Then nothing was enqueued.
    pub fn enqueue(&'static self, stream: Stream, command: Command) -> Result<Position> {
        let (mut state, slot) = self.admit(stream)?;
        let entry = state.slot(slot);
        let position = Position { progress: entry.progress, number: entry.push(command) };
        let bell = entry.take_bell();
        drop(state);
        ring(bell);
        Ok(position)
    }

    /// The lock, with everything done that comes before new work on the stream. Whoever gets it
    /// takes the bell and rings it.
    fn admit(
        &'static self,
        stream: Stream,
    ) -> Result<(impl DerefMut<Target = State> + use<>, u32)> {
        loop {
            let mut state = self.state.lock();
            let slot = state.resolve(self.ordinal, stream)?;
            if state.slot(slot).queue.len() as u64 >= self.queue_capacity {
                let progress = state.slot(slot).progress;
                // A little more than one place, so that a fast caller does not sleep for each.
                let left = self.queue_capacity - (self.queue_capacity / 16).max(1);
                let number = progress.enqueued().saturating_sub(left);
                drop(state);
                worker::check_may_wait("enqueueing on a stream with a full queue")?;
                progress.wait(number);
                continue;
            }
            state.serve(slot, self)?;
            state.put_in_order(slot);
            return Ok((state, slot));
        }
    }

    /// Makes an event.
    ///
    /// # Errors
    /// `OUT_OF_MEMORY` when a million are alive.
    pub fn create_event(&self, flags: EventFlags) -> Result<Event> {
        let mut state = self.state.lock();
        let (slot, generation) = self.events.insert(&mut state.events, flags)?;
        Ok(Handle::new(self.ordinal, slot, generation).to_event())
    }

    /// Destroys an event, also a pending one.
    ///
    /// # Errors
    /// `INVALID_HANDLE` for what is no event of this device.
    pub fn destroy_event(&self, event: Event) -> Result<()> {
        self.events.remove(&mut self.state.lock().events, self.ordinal, event)
    }

    /// What an event is now. Takes no lock, unless the event is being changed at this moment.
    ///
    /// # Errors
    /// `INVALID_HANDLE` for what is no event of this device.
    pub fn event(&self, event: Event) -> Result<Snapshot> {
        match self.events.try_find(self.ordinal, event) {
            Some(found) => found,
            None => {
                let found = self.events.find(&mut self.state.lock().events, self.ordinal, event);
                found.map(|(_, snapshot)| snapshot)
            }
        }
    }

    /// Puts an event behind all work that the stream has now, and that its next work would come
    /// after.
    ///
    /// # Errors
    /// `INVALID_HANDLE` for what is no stream or no event of this device; as `enqueue` where the
    /// event needs a place in the queue. Then the event stays as it was.
    pub fn record_event(&'static self, event: Event, stream: Stream) -> Result<()> {
        let mut state = self.state.lock();
        let slot = state.resolve(self.ordinal, stream)?;
        let (entry, found) = self.events.find(&mut state.events, self.ordinal, event)?;
        let is_timed = found.flags.contains(EventFlags::TIMING);
        let is_idle = state.may_run_at_once(slot);
        if is_idle || !is_timed && state.is_in_order(slot) {
            let at = state.slot(slot).newest();
            let timing = if is_timed { Timing::At(events::now()) } else { Timing::None };
            entry.record(&mut state.events, at, timing);
            return Ok(());
        }
        drop(state);

        let (mut state, slot) = self.admit(stream)?;
        let found = self.events.find(&mut state.events, self.ordinal, event);
        let recorded = found.map(|(entry, _)| {
            let timing = if is_timed {
                let record = entry.new_mark(&mut state.events);
                state.slot(slot).push(Command::Mark { event: entry, record });
                Timing::ByMark(record)
            } else {
                Timing::None
            };
            let at = state.slot(slot).newest();
            entry.record(&mut state.events, at, timing);
        });
        let bell = state.slot(slot).take_bell();
        drop(state);
        ring(bell);
        recorded
    }

    /// Has later work on the stream wait for a point of any stream of any device (V1).
    ///
    /// # Errors
    /// As `enqueue`.
    pub fn wait_for(&'static self, stream: Stream, point: Position) -> Result<()> {
        let mut state = self.state.lock();
        let slot = state.resolve(self.ordinal, stream)?;
        let is_own = std::ptr::eq(state.slot(slot).progress, point.progress);
        drop(state);
        // What is its own work comes before anyway.
        if !is_own && !point.is_reached() {
            self.enqueue(stream, Command::Wait(point))?;
        }
        Ok(())
    }

    /// The right to do work on the stream at once, when nothing is pending that it would have to
    /// wait for.
    ///
    /// # Errors
    /// `INVALID_HANDLE` for what is no stream of this device.
    pub fn claim(&'static self, stream: Stream) -> Result<Option<Claim>> {
        let mut state = self.state.lock();
        let slot = state.resolve(self.ordinal, stream)?;
        if !state.may_run_at_once(slot) {
            return Ok(None);
        }
        let number = state.slot(slot).progress.take_number();
        Ok(Some(Claim { device: self, slot, number }))
    }

    /// What a synchronous copy has to wait for, and its place beside the streams: a stream of its own
    /// with this one piece of work, so that a free, the default stream and whoever waits for the device see it.
    ///
    /// # Errors
    /// `OUT_OF_MEMORY` when there are `SLOTS` streams already.
    pub fn claim_apart(&'static self) -> Result<(Vec<Position>, Claim)> {
        let stream = self.create_stream(StreamFlags::BLOCKING)?;
        let mut state = self.state.lock();
        let slot = state.resolve(self.ordinal, stream)?;
        let before = state.busy(|entry| entry.is_blocking);
        let entry = state.slot(slot);
        entry.life = Life::Draining;
        let number = entry.progress.take_number();
        Ok((before, Claim { device: self, slot, number }))
    }

    fn finish_claim(&self, slot: u32, number: u64) {
        let mut state = self.state.lock();
        let progress = state.slot(slot).progress;
        progress.complete(number);
        state.retire(slot);
        drop(state);
        progress.notify();
        self.memory.reap();
    }

    /// For a slot's worker: takes note that work is done, and says what is next.
    pub fn next(&self, slot: u32, token: u64, done: Option<u64>, idle_long: bool) -> Next {
        let mut state = self.state.lock();
        let entry = state.slot(slot);
        if entry.worker != Some(token) {
            // The copy of a worker, in the child of a fork that a host function did.
            return Next::End;
        }
        let progress = entry.progress;
        entry.worker_sleeps = false;
        if let Some(number) = done {
            progress.complete(number);
        }
        let next = match entry.queue.pop_front() {
            Some((number, command)) => Next::Run { progress, number, command },
            None if idle_long || entry.life != Life::Live => {
                entry.worker = None;
                entry.queue = Default::default();
                state.retire(slot);
                Next::End
            }
            None => {
                entry.worker_sleeps = true;
                Next::Sleep { progress, doorbell: progress.doorbell.load(SeqCst) }
            }
        };
        drop(state);
        if done.is_some() {
            progress.notify();
            self.memory.reap();
        }
        next
    }

    /// Before a fork: keeps the lock.
    pub fn hold(&self) {
        self.state.hold();
    }

    /// After a fork: releases it.
    ///
    /// # Safety
    /// - `hold` was called before the fork, on the thread that forked.
    pub unsafe fn release(&self) {
        // SAFETY: by the contract above.
        unsafe { self.state.release() };
    }

    /// In the child of a fork, with the lock free again: pending work is the parent's, and there
    /// are no workers.
    pub fn forget_threads(&self) {
        let mut state = self.state.lock();
        for slot in 0..state.slots.len() as u32 {
            let entry = state.slot(slot);
            entry.queue.clear();
            entry.progress.forget_pending();
            entry.worker = None;
            entry.worker_sleeps = false;
            state.retire(slot);
        }
    }
}

fn ring(bell: Option<&'static Progress>) {
    if let Some(progress) = bell {
        progress.doorbell.fetch_add(1, SeqCst);
        futex::wake(&progress.doorbell, 1);
    }
}

impl State {
    fn slot(&mut self, slot: u32) -> &mut Slot {
        &mut self.slots[slot as usize]
    }

    /// The slot of a stream. Any bits are safe to ask about.
    fn resolve(&self, device: Ordinal, stream: Stream) -> Result<u32> {
        if stream.is_default() {
            return Ok(DEFAULT);
        }
        let handle = Handle::from_stream(stream);
        match self.slots.get(handle.slot as usize) {
            Some(entry)
                if handle.is_of(device)
                    && handle.slot != DEFAULT
                    && entry.life == Life::Live
                    && entry.generation == handle.generation =>
            {
                Ok(handle.slot)
            }
            _ => Err(Error::new(
                Status::InvalidHandle,
                format!("{:p} is not a stream of CPU device {device}, or no longer", stream.0),
            )),
        }
    }

    fn busy(&self, which: impl Fn(&Slot) -> bool) -> Vec<Position> {
        self.slots.iter().filter(|entry| which(entry)).filter_map(Slot::pending).collect()
    }

    fn may_run_at_once(&self, slot: u32) -> bool {
        let idle = |slot: u32| self.slots[slot as usize].progress.is_idle();
        match slot {
            DEFAULT => {
                self.slots.iter().all(|entry| !entry.is_blocking || entry.progress.is_idle())
            }
            slot => idle(slot) && (!self.slots[slot as usize].is_blocking || idle(DEFAULT)),
        }
    }

    /// Whether `put_in_order` has nothing to do.
    fn is_in_order(&self, slot: u32) -> bool {
        let default = &self.slots[DEFAULT as usize];
        match slot {
            DEFAULT => self.slots[1..].iter().all(|entry| entry.must_precede_default().is_none()),
            slot => self.slots[slot as usize].must_follow(default).is_none(),
        }
    }

    /// Puts the waits on a stream that its next work must come after.
    fn put_in_order(&mut self, slot: u32) {
        let (first, others) = self.slots.split_at_mut(1);
        let default = &mut first[0];
        if slot == DEFAULT {
            for entry in others {
                if let Some(position) = entry.must_precede_default() {
                    entry.waited_by_default = position.number;
                    default.push(Command::Wait(position));
                }
            }
        } else {
            let entry = &mut others[slot as usize - 1];
            if let Some(position) = entry.must_follow(default) {
                entry.waited_for_default = position.number;
                entry.push(Command::Wait(position));
            }
        }
    }

    /// Sees to it that the slot has a worker. Under the lock, so that a failure leaves nothing
    /// behind and a fork never sees half a worker; the new thread waits for the lock meanwhile.
    fn serve(&mut self, slot: u32, device: &'static Device) -> Result<()> {
        if self.slot(slot).worker.is_none() {
            let token = self.tokens + 1;
            worker::start(device, slot, token)?;
            self.tokens = token;
            self.slot(slot).worker = Some(token);
        }
        Ok(())
    }

    /// Gives the slot of a destroyed stream free when nothing of the stream is left.
    fn retire(&mut self, slot: u32) {
        let entry = self.slot(slot);
        if entry.life == Life::Draining && entry.worker.is_none() && entry.progress.is_idle() {
            entry.life = Life::Vacant;
            self.vacant.push(slot);
        }
    }
}

impl Slot {
    /// The stream's newest work, while it is not done.
    fn pending(&self) -> Option<Position> {
        let position = self.newest();
        if position.is_reached() { None } else { Some(position) }
    }

    /// The end of everything that was ever enqueued.
    fn newest(&self) -> Position {
        Position { progress: self.progress, number: self.progress.enqueued() }
    }

    /// The stream's work that the default stream's next work must still be made to wait for.
    fn must_precede_default(&self) -> Option<Position> {
        let position = if self.is_blocking { self.pending() } else { None };
        position.filter(|position| self.waited_by_default < position.number)
    }

    /// The default stream's work that the stream's next work must still be made to wait for.
    fn must_follow(&self, default: &Slot) -> Option<Position> {
        let position = if self.is_blocking { default.pending() } else { None };
        position.filter(|position| self.waited_for_default < position.number)
    }

    /// The doorbell to ring, when the worker sleeps.
    fn take_bell(&mut self) -> Option<&'static Progress> {
        std::mem::take(&mut self.worker_sleeps).then_some(self.progress)
    }
}
