//! The lookout: a thread that notices when every worker is inside a host function that does not
//! return while other queues are ready (contract S1).
//!
//! Rule: it is awake only while entries wait and no worker could be called, and it ends when nobody
//! has needed it for a while.

use crate::pool::Pool;
use llaisys_runtime_core::{futex, thread};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

/// How often it looks. A host function that takes longer is one that blocks.
const TICK: Duration = Duration::from_millis(1);
/// For so many workers that are blocked a tick is one longer: functions that only wait for each
/// other (for Python's lock, say) must not make hundreds of threads.
const CALM: u32 = 4;
/// How many ticks without an entry it stays awake.
const IDLE_TICKS: u32 = 20;

/// Where the lookout sleeps.
pub struct Lookout {
    /// Changes with every call.
    bell: AtomicU32,
}

struct Start {
    pool: &'static Pool,
    epoch: u32,
}

impl Lookout {
    /// Not started.
    pub const fn new() -> Lookout {
        Lookout { bell: AtomicU32::new(0) }
    }

    /// Wakes the lookout, or starts it; whether it runs. Under the pool's lock.
    pub fn call(&'static self, pool: &'static Pool, runs: bool) -> bool {
        self.bell.fetch_add(1, Release);
        if runs {
            futex::wake(&self.bell, 1);
            return true;
        }
        let start = Start { pool, epoch: pool.epoch() };
        thread::start(format!("{}.watch", pool.name), move || run(start)).is_ok()
    }
}

fn run(Start { pool, epoch }: Start) {
    let bell = &pool.lookout().bell;
    loop {
        let (mut idle_ticks, mut tick) = (0, TICK);
        loop {
            let seen = bell.load(Acquire);
            futex::wait(bell, seen, Some(tick));
            if pool.epoch() != epoch {
                return;
            }
            idle_ticks = if pool.has_ready() { 0 } else { idle_ticks + 1 };
            match pool.look_out(idle_ticks, IDLE_TICKS) {
                Some(blocked) => tick = TICK * (1 + blocked / CALM),
                None => break,
            }
        }
        let seen = bell.load(Acquire);
        if !pool.is_lookout_needed() {
            futex::wait(bell, seen, Some(pool.worker_idle));
        }
        if pool.epoch() != epoch || pool.dismiss_lookout() {
            return;
        }
    }
}
