//! Every interleaving of calls on one stream: destroyed once, by the last user; a handle never reaches
//! the stream that came after it into the slot.

use llaisys_models::stream_state::StreamState;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

/// Up to three preemptions find what is to be found here; all of them would take minutes.
fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

/// A slot as `streams` has it: a handle beside the state, and the native stream behind it.
struct Slot {
    state: StreamState,
    handle: AtomicUsize,
    /// What else is written with the handle: here the same number.
    device: AtomicUsize,
    /// The handle whose native stream exists; 0 when none does.
    native: AtomicUsize,
    /// How many native streams were destroyed.
    destroyed: AtomicUsize,
}

const OLD: usize = 1;
const NEW: usize = 2;

impl Slot {
    fn with_old() -> Arc<Slot> {
        let zero = || AtomicUsize::new(0);
        let slot = Slot {
            state: StreamState::new(),
            handle: zero(),
            device: zero(),
            native: zero(),
            destroyed: zero(),
        };
        slot.put(OLD);
        Arc::new(slot)
    }

    fn put(&self, handle: usize) {
        self.native.store(handle, Ordering::Relaxed);
        self.handle.store(handle, Ordering::Relaxed);
        self.device.store(handle, Ordering::Relaxed);
        self.state.fill();
    }

    /// As `StreamTable::come_in`.
    fn come_in(&self, handle: usize, remove: bool) -> bool {
        while let Some(seen) = self.state.load() {
            if self.handle.load(Ordering::Relaxed) != handle {
                return false;
            }
            let came = if remove { self.state.remove(seen) } else { self.state.enter(seen) };
            if came {
                return true;
            }
        }
        false
    }

    fn leave(&self) {
        if self.state.leave() {
            self.native.store(0, Ordering::Relaxed);
            self.destroyed.fetch_add(1, Ordering::SeqCst);
            self.state.vacate();
        }
    }

    fn use_it(&self, handle: usize) -> bool {
        let came = self.come_in(handle, false);
        if came {
            assert_eq!(self.native.load(Ordering::Relaxed), handle, "another stream, or none");
            self.leave();
        }
        came
    }

    fn destroy(&self, handle: usize) -> bool {
        let came = self.come_in(handle, true);
        if came {
            self.leave();
        }
        came
    }
}

#[test]
fn a_stream_that_two_threads_destroy_and_one_uses_is_destroyed_once_and_never_under_the_user() {
    model(|| {
        let slot = Slot::with_old();
        let destroy = |slot: &Arc<Slot>| {
            let slot = slot.clone();
            thread::spawn(move || slot.destroy(OLD))
        };
        let (first, second) = (destroy(&slot), destroy(&slot));
        slot.use_it(OLD);
        let wins = [first, second].map(|thread| thread.join().expect("no panic"));
        assert_eq!(wins.iter().filter(|won| **won).count(), 1, "destroyed by two callers, or none");
        assert_eq!(slot.destroyed.load(Ordering::SeqCst), 1);
        assert!(!slot.use_it(OLD), "the handle is stale");
    });
}

#[test]
fn a_handle_never_comes_into_the_stream_that_follows_it_in_the_slot() {
    model(|| {
        let slot = Slot::with_old();
        let other = slot.clone();
        let follower = thread::spawn(move || {
            assert!(other.destroy(OLD));
            if other.state.is_vacant() {
                other.put(NEW);
                assert!(other.use_it(NEW));
            }
        });
        slot.use_it(OLD);
        slot.use_it(OLD);
        follower.join().expect("no panic");
        assert!(!slot.use_it(OLD));
    });
}

#[test]
fn what_is_read_of_a_stream_without_coming_in_is_of_that_stream() {
    model(|| {
        let slot = Slot::with_old();
        let other = slot.clone();
        let follower = thread::spawn(move || {
            assert!(other.destroy(OLD));
            assert!(other.state.is_vacant());
            other.put(NEW);
        });
        if let Some(seen) = slot.state.load() {
            let handle = slot.handle.load(Ordering::Relaxed);
            let device = slot.device.load(Ordering::Relaxed);
            if slot.state.is_still(seen) {
                assert_eq!(device, handle, "read across two streams");
            }
        }
        follower.join().expect("no panic");
    });
}

#[test]
fn a_stream_that_could_not_be_destroyed_is_there_again_for_everybody() {
    model(|| {
        let slot = Slot::with_old();
        let other = slot.clone();
        let destroyer = thread::spawn(move || {
            if other.come_in(OLD, true) && other.state.leave() {
                other.state.restore();
            }
        });
        slot.use_it(OLD);
        destroyer.join().expect("no panic");
        // When the user was the last one, it destroyed the stream as it was asked to.
        assert_ne!(slot.use_it(OLD), slot.destroyed.load(Ordering::SeqCst) == 1);
    });
}
