//! Every interleaving of calls on one event: destroyed once, by the last user; never stale.

use llaisys_models::event_state::{EventState, Refusal};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

/// Up to three preemptions find what is to be found here; all of them would take minutes.
fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

struct Event {
    state: EventState,
    /// How often the native event was destroyed.
    destroyed: AtomicUsize,
    /// Calls that are inside the native event.
    inside: AtomicUsize,
    /// The slot may be given to another event.
    freed: AtomicUsize,
}

impl Event {
    fn new() -> Arc<Event> {
        let zero = || AtomicUsize::new(0);
        Arc::new(Event {
            state: EventState::new(),
            destroyed: zero(),
            inside: zero(),
            freed: zero(),
        })
    }

    fn leave(&self) {
        if self.state.leave() {
            assert_eq!(self.inside.load(Ordering::SeqCst), 0, "destroyed under a call");
            self.destroyed.fetch_add(1, Ordering::SeqCst);
            self.state.free();
            self.freed.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn use_it(&self, generation: u32) -> bool {
        if self.state.enter(generation).is_err() {
            return false;
        }
        self.inside.fetch_add(1, Ordering::SeqCst);
        assert_eq!(self.destroyed.load(Ordering::SeqCst), 0, "used after it was destroyed");
        self.inside.fetch_sub(1, Ordering::SeqCst);
        self.leave();
        true
    }

    fn destroy(&self, generation: u32) -> bool {
        if self.state.remove(generation).is_err() {
            return false;
        }
        self.leave();
        true
    }
}

#[test]
fn an_event_that_two_threads_destroy_and_one_uses_is_destroyed_once_and_never_under_the_user() {
    model(|| {
        let event = Event::new();
        let generation = event.state.fill();
        let spawn = |event: &Arc<Event>| {
            let event = event.clone();
            thread::spawn(move || event.destroy(generation))
        };
        let (first, second) = (spawn(&event), spawn(&event));
        event.use_it(generation);
        let wins = [first, second].map(|thread| thread.join().expect("no panic"));
        assert_eq!(wins.iter().filter(|won| **won).count(), 1, "destroyed by two callers, or none");
        assert_eq!(event.destroyed.load(Ordering::SeqCst), 1);
        assert_eq!(event.state.enter(generation).expect_err("gone"), Refusal::NotAlive);
    });
}

#[test]
fn a_slot_that_comes_back_is_never_reached_by_the_old_handle() {
    model(|| {
        let event = Event::new();
        let old = event.state.fill();
        let destroyer = {
            let event = event.clone();
            // Another event comes into the slot as soon as the old one is gone.
            thread::spawn(move || {
                event.destroy(old);
                if event.freed.load(Ordering::SeqCst) == 1 {
                    Some(event.state.fill())
                } else {
                    None
                }
            })
        };
        if let Ok(found) = event.state.enter(old) {
            assert_eq!(event.destroyed.load(Ordering::SeqCst), 0, "entered after it was destroyed");
            event.state.recorded(found);
            event.leave();
        }
        let new = destroyer.join().expect("no panic");
        assert!(event.state.is_known_reached(old).is_none(), "the old handle is alive");
        if let Some(new) = new {
            assert_ne!(new, old);
            assert_eq!(event.state.is_known_reached(new), Some(true), "a new event is ready");
        }
    });
}

#[test]
fn an_answer_about_one_record_never_makes_a_later_record_ready() {
    model(|| {
        let event = Event::new();
        let generation = event.state.fill();
        event.state.recorded(event.state.look(generation).expect("alive"));
        let first = event.state.enter(generation).expect("alive");
        let recorder = {
            let event = event.clone();
            thread::spawn(move || event.state.recorded(first))
        };
        // The backend says "reached" about the first record, while a second one is being made.
        event.state.reached(first);
        event.leave();
        recorder.join().expect("no panic");
        assert_eq!(event.state.is_known_reached(generation), Some(false), "the second is pending");
    });
}

#[test]
fn who_only_looks_reads_what_is_of_the_event_and_marks_no_event_that_came_into_its_slot() {
    model(|| {
        let event = Event::new();
        let native = Arc::new(AtomicUsize::new(0));
        let put = |event: &Event, native: &AtomicUsize, value| {
            event.state.open();
            native.store(value, Ordering::Relaxed);
            event.state.fill()
        };
        let old = put(&event, &native, 1);
        let destroyer = {
            let (event, native) = (event.clone(), native.clone());
            thread::spawn(move || {
                event.destroy(old);
                put(&event, &native, 2)
            })
        };
        if let Some(found) = event.state.look(old) {
            let read = native.load(Ordering::Relaxed);
            if event.state.is_still(found) {
                assert_eq!(read, 1, "what it read is another event's");
                event.state.recorded(found);
            }
        }
        let new = destroyer.join().expect("no panic");
        assert_eq!(event.state.is_known_reached(new), Some(true), "a new event is ready");
    });
}
