//! A worker: a thread that runs ready queues, of any stream of any device.
//!
//! Rules: a worker that has run a queue keeps its entry in its hand and looks at it for a while, so
//! what comes on a busy stream needs neither the pool nor a wake. It looks now and then and
//! not all the time: each look takes the cache line from who enqueues, and leaves
//! a thread that waits the time to do short work itself. Queues that are ready come first.

use crate::berth::Berth;
use crate::events::now;
use crate::pool::{Pool, Woken};
use crate::queue::Queue;
use crate::runner::{self, After};
use crate::schedule::{RESTS, Schedule};
use llaisys_runtime_core::{Result, thread};
use std::hint::spin_loop;

/// How long a worker waits between two looks, in pauses of the processor.
const PAUSES: u32 = 24;
/// How often it looks before it looks at the clock.
const LOOKS: u32 = 8;

/// Starts a worker, which counts as searching.
///
/// # Errors
/// `OUT_OF_MEMORY` when the system gives no more threads.
pub fn start(pool: &'static Pool, berth: &'static Berth, number: u32, epoch: u32) -> Result<()> {
    thread::start(format!("{}.{number}", pool.name), move || match &pool.schedule {
        None => run(pool, berth, epoch),
        Some(schedule) => run_scheduled(pool, schedule, berth, epoch),
    })
}

fn run(pool: &'static Pool, berth: &'static Berth, epoch: u32) {
    let mut hand = None;
    loop {
        match find(pool, berth, &mut hand) {
            Some(queue) => {
                match runner::work(queue, berth) {
                    After::Forked => return,
                    After::Nothing => {}
                    After::Keep(queue) => hand = Some(queue),
                }
                pool.search();
            }
            None => {
                if let Some(queue) = hand.take() {
                    runner::put_down(queue);
                }
                match pool.park(berth, epoch) {
                    Woken::Search => {}
                    Woken::End => return,
                }
            }
        }
    }
}

/// A queue whose entry the worker has, and which it does not search any more.
fn find(
    pool: &'static Pool,
    berth: &'static Berth,
    hand: &mut Option<&'static Queue>,
) -> Option<&'static Queue> {
    let end = now() + pool.patience();
    loop {
        for _ in 0..LOOKS {
            if pool.has_ready() {
                if let Some(queue) = hand.take() {
                    runner::put_down(queue);
                }
                match pool.take(berth) {
                    // There are too many workers.
                    None if pool.has_ready() => return None,
                    // Another one took it.
                    None => {}
                    found => return found,
                }
            }
            if let Some(queue) = hand.take_if(|queue| !queue.is_idle() && queue.claim.is_free()) {
                pool.run();
                return Some(queue);
            }
            if pool.crew.has_job() {
                let has_work = |queue: &Queue| !queue.is_idle() && queue.claim.is_free();
                pool.crew.help(|| pool.has_ready() || hand.is_some_and(has_work));
            }
            for _ in 0..PAUSES {
                spin_loop();
            }
        }
        if now() > end {
            return None;
        }
        // Others may have work for this processor.
        std::thread::yield_now();
    }
}

fn run_scheduled(
    pool: &'static Pool,
    schedule: &'static Schedule,
    berth: &'static Berth,
    epoch: u32,
) {
    // What was enqueued when the worker went on without anybody who waits.
    let mut goes_on_at = None;
    let mut rests = 0;
    loop {
        if pool.has_ready() {
            let (seen, calls) = (schedule.seen(), schedule.calls());
            if !schedule.is_demanded() && goes_on_at != Some(calls) {
                schedule.rest(seen);
                if pool.epoch() != epoch {
                    return;
                }
                if schedule.seen() == seen && schedule.calls() == calls {
                    rests += 1;
                    if rests >= RESTS || schedule.do_others_sleep() && schedule.calls() == calls {
                        goes_on_at = Some(calls);
                    }
                } else {
                    rests = 0;
                }
                continue;
            }
            if let Some(queue) = pool.take(berth) {
                if let After::Forked = runner::work(queue, berth) {
                    return;
                }
                pool.search();
                continue;
            }
        }
        match pool.park(berth, epoch) {
            Woken::Search => {}
            Woken::End => return,
        }
    }
}
