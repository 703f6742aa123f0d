//! The pool: which queues are ready, which workers there are, and who must be woken.
//!
//! All of it is decided under one lock, which is taken where a queue changes hands and never for a
//! single piece of work. Workers are shared by all streams of all devices.
//!
//! | a worker | counts as | becomes |
//! |---|---|---|
//! | looks for a ready queue, or was just woken or started to | `searching` | running, when it takes one; parked, when it has found none for a while |
//! | runs a queue | none of these | searching |
//! | has been inside one host function for a while | `blocked` | running, when the function returns |
//! | sleeps at the bell | `parked` | searching, when it is woken; gone, when it was not for long |
//!
//! Rules: while the ready list has an entry, a worker is searching, or as many are running as may be
//! and the lookout is awake. So an entry is taken by a worker that becomes free; and when all of
//! them are inside host functions that do not return, the lookout counts these as blocked and has
//! others take their places (contract S1). The number of threads is the limit, plus one for each
//! host function that blocks, plus the lookout.

use crate::berth::Berth;
use crate::crew::Crew;
use crate::lookout::Lookout;
use crate::position::Position;
use crate::queue::Queue;
use crate::ready::{Count, Ready};
use crate::schedule::Schedule;
use crate::worker;
use llaisys_runtime_core::Result;
use llaisys_runtime_core::futex;
use llaisys_runtime_core::lock::{ForkLock, Mutex};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

/// See the module text.
pub struct Pool {
    /// The threads' name, without their number.
    pub name: String,
    /// After how long without work a worker ends.
    pub worker_idle: Duration,
    /// How many workers may run at a time.
    limit: u32,
    /// Grows in the child of a fork: what an earlier number belongs to is not there.
    epoch: AtomicU32,
    /// Where parked workers sleep: changes with every wake.
    bell: AtomicU32,
    /// How many entries the ready list has, for who looks without the lock.
    ready: Count,
    /// How many workers there are, for who looks without the lock.
    threads: AtomicU32,
    /// When the last wake was asked for, in nanoseconds; 0 once it was measured.
    woken_at: AtomicU64,
    /// How long a worker looks for work before it parks, in nanoseconds: a few times what a wake
    /// takes, as it was measured.
    patience: AtomicU64,
    lookout: Lookout,
    /// What several cores share.
    pub crew: Crew,
    /// The seeded schedule, where one was asked for.
    pub schedule: Option<Schedule>,
    state: Mutex<State>,
}

struct State {
    ready: Ready,
    threads: u32,
    searching: u32,
    parked: u32,
    blocked: u32,
    /// Wakes that were granted and that no sleeper has taken yet.
    granted: u32,
    lookout_runs: bool,
    lookout_awake: bool,
    number: u32,
    berths: Vec<&'static Berth>,
    free_berths: Vec<&'static Berth>,
}

impl State {
    const fn new() -> State {
        State {
            ready: Ready::new(),
            threads: 0,
            searching: 0,
            parked: 0,
            blocked: 0,
            granted: 0,
            lookout_runs: false,
            lookout_awake: false,
            number: 0,
            berths: Vec::new(),
            free_berths: Vec::new(),
        }
    }

    fn running(&self) -> u32 {
        self.threads.saturating_sub(self.parked + self.blocked)
    }
}

/// What a sleeping worker is to do.
pub enum Woken {
    /// Search.
    Search,
    /// End.
    End,
}

/// The bounds of a worker's patience, in nanoseconds.
const PATIENCE: (u64, u64) = (10_000, 100_000);

impl Pool {
    /// No workers, nothing ready. `limit` workers may run at a time.
    pub fn new(name: String, limit: u32, worker_idle: Duration, seed: Option<u64>) -> Pool {
        Pool {
            name,
            worker_idle,
            limit: if seed.is_some() { 1 } else { limit.max(1) },
            epoch: AtomicU32::new(0),
            bell: AtomicU32::new(0),
            ready: Count::new(),
            threads: AtomicU32::new(0),
            woken_at: AtomicU64::new(0),
            patience: AtomicU64::new(PATIENCE.0 * 4),
            lookout: Lookout::new(),
            crew: Crew::new(),
            schedule: seed.map(Schedule::new),
            state: Mutex::new(State::new()),
        }
    }

    /// Which process this is, counted in forks.
    #[inline]
    pub fn epoch(&self) -> u32 {
        self.epoch.load(Relaxed)
    }

    /// How many workers may run at a time.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Sees to it that there is a worker, before something is enqueued that may need one.
    ///
    /// # Errors
    /// `OUT_OF_MEMORY` when the system gives no thread.
    #[inline]
    pub fn be_there(&'static self) -> Result<()> {
        if self.threads.load(Acquire) != 0 { Ok(()) } else { self.start_first() }
    }

    #[cold]
    fn start_first(&'static self) -> Result<()> {
        let mut state = self.state.lock();
        if state.threads == 0 { self.start(&mut state) } else { Ok(()) }
    }

    /// Puts a queue at the end of the ready list. The caller has its entry.
    #[cold]
    pub fn push(&'static self, queue: &'static Queue) {
        let mut state = self.state.lock();
        state.ready.put(queue, &self.ready);
        let bell = self.provide(&mut state);
        drop(state);
        if bell {
            futex::wake(&self.bell, 1);
        }
    }

    /// Whether the ready list has an entry, as far as can be seen without the lock.
    #[inline]
    pub fn has_ready(&self) -> bool {
        self.ready.is_some()
    }

    /// Keeps the rule of the module text; whether the caller is to ring the bell.
    fn provide(&'static self, state: &mut State) -> bool {
        if state.ready.is_empty() || state.searching > 0 {
            return false;
        }
        if state.running() < self.limit {
            if state.parked > 0 {
                self.grant(state);
                return true;
            }
            if self.start(state).is_ok() {
                return false;
            }
            // Without another thread the workers that there are go on, one after the other.
        }
        if !state.lookout_awake {
            state.lookout_awake = true;
            state.lookout_runs = self.lookout.call(self, state.lookout_runs);
            state.lookout_awake = state.lookout_runs;
        }
        false
    }

    fn start(&'static self, state: &mut State) -> Result<()> {
        let berth = state.free_berths.pop().unwrap_or_else(Berth::leak);
        berth.clear();
        state.number += 1;
        let started = worker::start(self, berth, state.number, self.epoch());
        if let Err(error) = started {
            state.free_berths.push(berth);
            return Err(error);
        }
        state.berths.push(berth);
        state.threads += 1;
        state.searching += 1;
        self.threads.store(state.threads, Release);
        Ok(())
    }

    /// Does a job in parts, with the workers that are free; returns when all parts are done.
    pub fn share(&'static self, parts: usize, part: &(dyn Fn(usize) + Sync)) {
        let helpers = if self.schedule.is_none() { self.limit - 1 } else { 0 };
        self.crew.share(parts, part, || self.call_helpers(helpers.min(parts as u32)));
    }

    fn call_helpers(&'static self, count: u32) {
        if count == 0 {
            return;
        }
        let mut state = self.state.lock();
        let mut bells = 0;
        // Those who search find the job themselves.
        for _ in state.searching..count {
            if state.running() >= self.limit {
                break;
            }
            if state.parked > 0 {
                self.grant(&mut state);
                bells += 1;
            } else if self.start(&mut state).is_err() {
                break;
            }
        }
        drop(state);
        if bells > 0 {
            futex::wake(&self.bell, bells);
        }
    }

    fn grant(&self, state: &mut State) {
        state.parked -= 1;
        state.searching += 1;
        state.granted += 1;
        self.bell.fetch_add(1, Release);
        self.woken_at.store(crate::events::now(), Relaxed);
    }

    /// For a searching worker: an entry of the ready list, with which it runs. `None` when there is
    /// none, or when more workers run than may.
    pub fn take(&'static self, berth: &'static Berth) -> Option<&'static Queue> {
        let mut state = self.state.lock();
        self.unblock(&mut state, berth);
        if state.running() > self.limit {
            return None;
        }
        let queue = state.ready.take(&self.ready, self.schedule.as_ref())?;
        state.searching -= 1;
        let bell = self.provide(&mut state);
        drop(state);
        if bell {
            futex::wake(&self.bell, 1);
        }
        Some(queue)
    }

    /// A running worker searches again.
    pub fn search(&self) {
        self.state.lock().searching += 1;
    }

    /// A searching worker runs a queue that it has in its hand.
    pub fn run(&'static self) {
        let mut state = self.state.lock();
        state.searching -= 1;
        let bell = self.provide(&mut state);
        drop(state);
        if bell {
            futex::wake(&self.bell, 1);
        }
    }

    /// A searching worker has found nothing, or is one too many: sleeps until it is woken.
    pub fn park(&'static self, berth: &'static Berth, epoch: u32) -> Woken {
        let mut state = self.state.lock();
        self.unblock(&mut state, berth);
        if !state.ready.is_empty() && state.running() <= self.limit {
            return Woken::Search;
        }
        state.searching -= 1;
        state.parked += 1;
        let bell = self.provide(&mut state);
        if bell {
            // It may be this very worker that takes it.
            futex::wake(&self.bell, 1);
        }
        let mut limit = self.worker_idle;
        let end = crate::events::now().saturating_add(limit.as_nanos() as u64);
        loop {
            if state.granted > 0 {
                state.granted -= 1;
                drop(state);
                self.measure();
                return Woken::Search;
            }
            if limit.is_zero() {
                state.parked -= 1;
                self.gone(&mut state, berth);
                return Woken::End;
            }
            let bell = self.bell.load(Relaxed);
            drop(state);
            futex::wait(&self.bell, bell, Some(limit));
            if self.epoch() != epoch {
                return Woken::End;
            }
            limit = Duration::from_nanos(end.saturating_sub(crate::events::now()));
            state = self.state.lock();
        }
    }

    fn gone(&self, state: &mut State, berth: &'static Berth) {
        state.threads -= 1;
        state.berths.retain(|other| !std::ptr::eq(*other, berth));
        state.free_berths.push(berth);
        self.threads.store(state.threads, Release);
    }

    /// How long a wake took says how long it pays to look for work instead of sleeping.
    fn measure(&self) {
        let woken_at = self.woken_at.swap(0, Relaxed);
        if woken_at != 0 {
            let took = crate::events::now().saturating_sub(woken_at);
            let before = self.patience.load(Relaxed);
            let patience = (before * 7 + took * 3) / 8;
            self.patience.store(patience.clamp(PATIENCE.0, PATIENCE.1), Relaxed);
        }
    }

    /// How long a worker looks for work before it parks, in nanoseconds.
    pub fn patience(&self) -> u64 {
        self.patience.load(Relaxed)
    }

    /// A worker's host function has returned.
    pub fn leave_host_function(&self, berth: &'static Berth) {
        if berth.leave() {
            self.unblock(&mut self.state.lock(), berth);
        }
    }

    fn unblock(&self, state: &mut State, berth: &'static Berth) {
        if berth.take_blocked() {
            state.blocked -= 1;
        }
    }

    /// For the lookout, once a tick: how many workers are blocked; `None` when it need not go on. Counts
    /// workers as blocked that have been inside the same host function since the last tick, when
    /// entries wait.
    pub fn look_out(&'static self, idle_ticks: u32, patience: u32) -> Option<u32> {
        let mut state = self.state.lock();
        if state.ready.is_empty() {
            state.lookout_awake = idle_ticks < patience;
            return state.lookout_awake.then_some(state.blocked);
        }
        let blocked = state.berths.iter().filter(|berth| berth.is_stuck()).count() as u32;
        state.blocked += blocked;
        let all = state.blocked;
        let bell = self.provide(&mut state);
        drop(state);
        if bell {
            futex::wake(&self.bell, 1);
        }
        Some(all)
    }

    /// For the lookout, which nobody has called for long: whether it ends.
    pub fn dismiss_lookout(&self) -> bool {
        let mut state = self.state.lock();
        if !state.lookout_awake {
            state.lookout_runs = false;
        }
        !state.lookout_awake
    }

    /// Where the lookout sleeps.
    pub fn lookout(&self) -> &Lookout {
        &self.lookout
    }

    /// Whether the lookout was called.
    pub fn is_lookout_needed(&self) -> bool {
        self.state.lock().lookout_awake
    }

    /// Has the seeded schedule go on until a point is reached; nothing without one.
    #[inline]
    pub fn demand(&self, position: Position) {
        if let Some(schedule) = &self.schedule {
            schedule.demand(position);
        }
    }

    /// Before a fork: keeps the locks.
    pub fn hold(&self) {
        self.state.hold();
        if let Some(schedule) = &self.schedule {
            schedule.hold();
        }
    }

    /// After a fork: releases them.
    ///
    /// # Safety
    /// - `hold` was called before the fork, on the thread that forked.
    pub unsafe fn release(&self) {
        // SAFETY: by the contract above.
        unsafe {
            self.state.release();
            if let Some(schedule) = &self.schedule {
                schedule.release();
            }
        }
    }

    /// In the child of a fork, with the locks free again: nothing is ready, there are no workers.
    pub fn forget(&self) {
        let mut state = self.state.lock();
        let mut berths = std::mem::take(&mut state.free_berths);
        berths.append(&mut state.berths);
        *state = State { free_berths: berths, ..State::new() };
        self.ready.forget();
        self.threads.store(0, Release);
        self.epoch.fetch_add(1, Release);
        self.crew.forget();
        if let Some(schedule) = &self.schedule {
            schedule.forget();
        }
    }
}
