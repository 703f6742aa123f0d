//! What a worker shows of itself: whether it is inside a host function, and for how long.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

/// | word | means | who changes it |
/// |---|---|---|
/// | `calls` | odd while the worker is inside a host function; another number for each | the worker |
/// | `seen` | what `calls` was at the lookout's last tick | the lookout, under the pool's lock |
/// | `blocked` | the pool counts the worker as blocked | under the pool's lock: the lookout sets it, the worker takes it back |
#[repr(align(128))]
pub struct Berth {
    calls: AtomicU64,
    seen: AtomicU64,
    blocked: AtomicBool,
}

impl Berth {
    /// A berth for the life of the process.
    pub fn leak() -> &'static Berth {
        Box::leak(Box::new(Berth {
            calls: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            blocked: AtomicBool::new(false),
        }))
    }

    /// A new worker has it.
    pub fn clear(&self) {
        self.calls.store(0, Relaxed);
        self.seen.store(0, Relaxed);
        self.blocked.store(false, Relaxed);
    }

    /// The worker goes into a host function.
    pub fn enter(&self) {
        self.calls.store(self.calls.load(Relaxed) + 1, Release);
    }

    /// The worker has come out; whether the pool may count it as blocked. What is missed here, it
    /// finds when it next looks for work.
    pub fn leave(&self) -> bool {
        self.calls.store(self.calls.load(Relaxed) + 1, Release);
        self.blocked.load(Acquire)
    }

    /// Under the pool's lock: whether the pool counted the worker as blocked, and no longer does.
    pub fn take_blocked(&self) -> bool {
        self.blocked.load(Relaxed) && self.blocked.swap(false, AcqRel)
    }

    /// Under the pool's lock, once a tick: whether the worker has been inside one host function since
    /// the last tick, and was not counted yet.
    pub fn is_stuck(&self) -> bool {
        let calls = self.calls.load(Acquire);
        let before = self.seen.swap(calls, Relaxed);
        calls % 2 == 1 && before == calls && !self.blocked.swap(true, AcqRel)
    }
}
