//! The seeded schedule (`LLAISYS_CPU_SCHEDULE_SEED`): every legal order comes, by the seed.
//!
//! Rules: one worker runs one piece of work at a time, of a ready queue that the seed chooses, so any
//! order that streams and events allow can come, and the same calls with the same seed give the same
//! one. It runs only while a thread waits, up to the very point that was waited for; so what a
//! program does not wait for has not happened. A query that finds its point not reached counts as a
//! wait. A program that waits for something else (a flag that a host function sets) would wait for
//! ever: when there was no new call for a while and all threads of the process sleep, the
//! worker goes on for it. A thread that is only slow is not asleep. Work that a caller could do at
//! once is queued too.

use crate::position::Position;
use llaisys_runtime_core::lock::{ForkLock, Mutex};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

/// How long a rest is.
const REST: Duration = Duration::from_millis(2);
/// After so many rests without a call the worker goes on even if a thread is awake.
pub const RESTS: u32 = 250;

/// See the module text.
pub struct Schedule {
    random: AtomicU64,
    /// Grows with everything that is enqueued.
    calls: AtomicU64,
    /// Changes when somebody waits.
    pub bell: AtomicU32,
    demands: Mutex<Vec<Position>>,
}

impl Schedule {
    /// The schedule of a seed.
    pub fn new(seed: u64) -> Schedule {
        Schedule {
            // Never 0, where the generator would stay.
            random: AtomicU64::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            calls: AtomicU64::new(0),
            bell: AtomicU32::new(0),
            demands: Mutex::new(Vec::new()),
        }
    }

    /// A number below `end`, which is not 0. For one thread at a time.
    pub fn below(&self, end: u32) -> u32 {
        let mut word = self.random.load(Relaxed);
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        self.random.store(word, Relaxed);
        ((word >> 32) % u64::from(end)) as u32
    }

    /// Something was enqueued.
    pub fn note_call(&self) {
        self.calls.fetch_add(1, Relaxed);
    }

    /// How much was enqueued.
    pub fn calls(&self) -> u64 {
        self.calls.load(Relaxed)
    }

    /// A thread waits for this point.
    pub fn demand(&self, position: Position) {
        let mut demands = self.demands.lock();
        // Whoever asks again and again adds nothing.
        if !demands.contains(&position) {
            demands.push(position);
        }
        drop(demands);
        self.bell.fetch_add(1, Release);
        llaisys_runtime_core::futex::wake(&self.bell, 1);
    }

    /// Whether a thread waits for a point that is not reached.
    pub fn is_demanded(&self) -> bool {
        let mut demands = self.demands.lock();
        demands.retain(|position| !position.is_reached());
        !demands.is_empty()
    }

    /// Sleeps for a while, or until a thread waits; `seen` is what the bell showed before it was
    /// asked whether one does.
    pub fn rest(&self, seen: u32) {
        llaisys_runtime_core::futex::wait(&self.bell, seen, Some(REST));
    }

    /// Whether all other threads of the process sleep, as the kernel tells; also when it does not.
    pub fn do_others_sleep(&self) -> bool {
        // SAFETY: takes nothing.
        let own = unsafe { libc::gettid() }.to_string();
        let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return true };
        let others = threads.flatten().filter(|thread| *thread.file_name() != *own);
        let is_awake = |status: String| {
            // The state follows the name, which is in parentheses and may have some itself.
            status.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R'))
        };
        let mut statuses =
            others.filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok());
        !statuses.any(is_awake)
    }

    /// What the bell shows.
    pub fn seen(&self) -> u32 {
        self.bell.load(Acquire)
    }

    /// Before a fork: keeps the lock.
    pub fn hold(&self) {
        self.demands.hold();
    }

    /// After a fork: releases it.
    ///
    /// # Safety
    /// - `hold` was called before the fork, on the thread that forked.
    pub unsafe fn release(&self) {
        // SAFETY: by the contract above.
        unsafe { self.demands.release() };
    }

    /// In the child of a fork: nobody waits.
    pub fn forget(&self) {
        self.demands.lock().clear();
    }
}
