//! The threads that sleep until a queue has passed a number.
//!
//! | word | means | who changes it |
//! |---|---|---|
//! | `at` | the lowest number that somebody sleeps for; `NEVER` when nobody does | who goes to sleep: down. Who wakes them all: to `NEVER` |
//!
//! Who goes to sleep counts as a waiter of the signal, lowers `at`, sets the alert, looks, and sleeps. Who
//! takes an alert away looks at `at` afterwards: it wakes everybody, or sets the alert again. Whoever
//! is woken too early says again what for.

use crate::atomic::{AtomicU64, Ordering};
use crate::signal::Signal;

/// Nobody sleeps.
const NEVER: u64 = u64::MAX;

/// See the module text.
pub struct Sleepers {
    at: AtomicU64,
    signal: Signal,
}

impl Sleepers {
    /// Nobody sleeps.
    pub fn new() -> Sleepers {
        Sleepers { at: AtomicU64::new(NEVER), signal: Signal::new() }
    }

    /// Sleeps until the number is reached, or for no reason. `alert_at` sets the alert and says whether
    /// the number is reached.
    pub fn sleep(&self, number: u64, alert_at: impl FnOnce(u64) -> bool) {
        self.signal.wait_once(|| {
            self.at.fetch_min(number, Ordering::AcqRel);
            alert_at(number)
        });
    }

    /// For who has taken an alert away: wakes those who sleep, when the number of one of them is
    /// reached; sets the alert again otherwise.
    pub fn wake(&self, alert_at: impl Fn(u64) -> bool) {
        loop {
            let number = self.at.load(Ordering::Acquire);
            if number == NEVER || !alert_at(number) {
                return;
            }
            if self.at.swap(NEVER, Ordering::AcqRel) != NEVER {
                self.signal.notify();
            }
        }
    }

    /// In the child of a fork: nobody sleeps.
    pub fn forget(&self) {
        self.at.store(NEVER, Ordering::Release);
        self.signal.forget_waiters();
    }
}
