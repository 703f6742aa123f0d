//! A thread inside a call that is expected to wait, and whether it does.
//!
//! Rule: time decides in one direction only. A call that rightly waits is never taken for one that
//! returned; a call that wrongly returns is seen as long as it does so before the kernel shows its
//! thread asleep, or within the patience below.

use crate::outcome::{Checked, Stop};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long a thread that never sleeps (one that spins while it waits) is watched.
const PATIENCE: Duration = Duration::from_millis(250);
/// How long a thread must have been asleep to be taken for one that waits.
const ASLEEP: Duration = Duration::from_millis(30);

/// A thread inside a call.
pub struct Caller<T> {
    thread: JoinHandle<Checked<T>>,
    id: Arc<AtomicI32>,
    returned: Arc<AtomicBool>,
}

impl<T: Send + 'static> Caller<T> {
    /// Makes the call in a thread of its own.
    pub fn start(call: impl FnOnce() -> Checked<T> + Send + 'static) -> Checked<Caller<T>> {
        let id = Arc::new(AtomicI32::new(0));
        let returned = Arc::new(AtomicBool::new(false));
        let (own_id, own_returned) = (Arc::clone(&id), Arc::clone(&returned));
        let body = move || {
            // SAFETY: takes nothing.
            own_id.store(unsafe { libc::gettid() }, Ordering::SeqCst);
            let result = call();
            own_returned.store(true, Ordering::SeqCst);
            result
        };
        let thread = thread::Builder::new()
            .name("caller".to_owned())
            .spawn(body)
            .map_err(|error| Stop::skip(format!("no thread is to be had: {error}")))?;
        Ok(Caller { thread, id, returned })
    }

    /// Fails when the call returns although it ought to wait.
    pub fn expect_waiting(&self, what: &str) -> Checked {
        self.settle();
        ensure!(!self.has_returned(), "{what}: expected the call to wait, it returned");
        Ok(())
    }

    /// Until the call has returned, or has been asleep for a while; at most as long as patience lasts.
    pub fn settle(&self) {
        let started = Instant::now();
        let mut asleep_since = None;
        while started.elapsed() < PATIENCE && !self.has_returned() {
            if self.is_asleep() {
                let since = *asleep_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= ASLEEP {
                    break;
                }
            } else {
                asleep_since = None;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Whether the call has returned.
    pub fn has_returned(&self) -> bool {
        self.returned.load(Ordering::SeqCst)
    }

    fn is_asleep(&self) -> bool {
        let id = self.id.load(Ordering::SeqCst);
        let Ok(line) = std::fs::read_to_string(format!("/proc/self/task/{id}/stat")) else {
            return false;
        };
        let state = line.rsplit(") ").next().and_then(|rest| rest.chars().next());
        id != 0 && matches!(state, Some('S' | 'D'))
    }

    /// What the call answered, once it has.
    pub fn join(self) -> Checked<T> {
        self.thread.join().unwrap_or_else(|_| Err(Stop::fail("the calling thread panicked")))
    }
}
