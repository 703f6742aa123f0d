//! A thread inside a call that is expected to wait, and whether it does.
//!
//! Rule: load does not decide. The call is taken for one that waits when it has been made and the whole
//! process has come to rest (see `quiet`): a call that wrongly returns has then returned.

use crate::outcome::{Checked, Stop};
use crate::quiet::Watch;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long the process must have been at rest: a device may work while every thread sleeps.
const REST: Duration = Duration::from_millis(30);
/// When to stop looking, on a machine that lets nobody run.
const LIMIT: Duration = Duration::from_secs(30);

/// A thread inside a call.
pub struct Caller<T> {
    thread: JoinHandle<Checked<T>>,
    begun: Arc<AtomicBool>,
    returned: Arc<AtomicBool>,
}

impl<T: Send + 'static> Caller<T> {
    /// Makes the call in a thread of its own.
    pub fn start(call: impl FnOnce() -> Checked<T> + Send + 'static) -> Checked<Caller<T>> {
        let begun = Arc::new(AtomicBool::new(false));
        let returned = Arc::new(AtomicBool::new(false));
        let (own_begun, own_returned) = (Arc::clone(&begun), Arc::clone(&returned));
        let body = move || {
            own_begun.store(true, Ordering::SeqCst);
            let result = call();
            own_returned.store(true, Ordering::SeqCst);
            result
        };
        let thread = thread::Builder::new()
            .name("caller".to_owned())
            .spawn(body)
            .map_err(|error| Stop::skip(format!("no thread is to be had: {error}")))?;
        Ok(Caller { thread, begun, returned })
    }

    /// Fails when the call returns although it ought to wait.
    pub fn expect_waiting(&self, what: &str) -> Checked {
        self.settle();
        ensure!(!self.has_returned(), "{what}: expected the call to wait, it returned");
        Ok(())
    }

    /// Until the call has returned, or has been made and the process has come to rest.
    pub fn settle(&self) {
        let started = Instant::now();
        let mut watch = Watch::default();
        let mut resting_since = None;
        while started.elapsed() < LIMIT && !self.has_returned() {
            if self.begun.load(Ordering::SeqCst) && watch.is_quiet() {
                let since = *resting_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= REST {
                    break;
                }
            } else {
                resting_since = None;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Whether the call has returned.
    pub fn has_returned(&self) -> bool {
        self.returned.load(Ordering::SeqCst)
    }

    /// What the call answered, once it has.
    pub fn join(self) -> Checked<T> {
        self.thread.join().unwrap_or_else(|_| Err(Stop::fail("the calling thread panicked")))
    }
}
