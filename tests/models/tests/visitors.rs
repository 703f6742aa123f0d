//! Every interleaving of visitors and of those who wait for them.

use llaisys_models::visitors::Visitors;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

/// What is copied inside, and may be used again once nobody is inside who was when it was freed.
struct Story {
    visitors: Visitors,
    turn: Mutex<()>,
    memory: UnsafeCell<u64>,
    is_inside: AtomicU64,
}

// SAFETY: loom finds accesses to `memory` that do not exclude each other; that is what is tested.
unsafe impl Sync for Story {}
// SAFETY: as above.
unsafe impl Send for Story {}

fn story() -> Arc<Story> {
    Arc::new(Story {
        visitors: Visitors::new(),
        turn: Mutex::new(()),
        memory: UnsafeCell::new(0),
        is_inside: AtomicU64::new(0),
    })
}

impl Story {
    /// A copy: `told` says whether others learn that it has begun.
    fn copy(&self, shard: usize, told: bool) {
        let visit = self.visitors.enter(shard);
        if told {
            self.is_inside.store(1, Ordering::Release);
            // SAFETY: the story's own claim.
            self.memory.with_mut(|memory| unsafe { *memory += 1 });
        }
        self.visitors.leave(visit);
    }

    /// Somebody who knows that the copy has begun frees its memory, and uses it again if that may be.
    fn reuse(&self) {
        if self.is_inside.load(Ordering::Acquire) == 0 {
            return;
        }
        let ticket = self.visitors.ticket();
        for _ in 0..2 {
            let turn = self.turn.lock().expect("no panic holds it");
            let is_over = self.visitors.has_passed(ticket);
            drop(turn);
            if is_over {
                // SAFETY: the story's own claim.
                self.memory.with_mut(|memory| unsafe { *memory += 1 });
                return;
            }
        }
    }
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

#[test]
fn memory_is_used_again_only_when_the_copy_that_was_inside_is_over() {
    check(|| {
        let story = story();
        let copier = thread::spawn({
            let story = story.clone();
            move || story.copy(0, true)
        });
        story.reuse();
        copier.join().expect("no panic");
    });
}

/// A copy that sleeps between its look at the epoch and its count, over flips of somebody who waits for others.
#[test]
fn a_copy_that_comes_in_while_the_phases_flip_is_waited_for_all_the_same() {
    check(|| {
        let story = story();
        let copier = thread::spawn({
            let story = story.clone();
            move || story.copy(0, true)
        });
        let other = thread::spawn({
            let story = story.clone();
            move || {
                let turn = story.turn.lock().expect("no panic holds it");
                let ticket = story.visitors.ticket();
                let _two_flips = story.visitors.has_passed(ticket);
                drop(turn);
            }
        });
        story.reuse();
        copier.join().expect("no panic");
        other.join().expect("no panic");
    });
}

#[test]
fn those_who_come_later_are_not_waited_for() {
    check(|| {
        let story = story();
        let ticket = story.visitors.ticket();
        // The first of the two flips needs the phase before to be empty; from then on others go elsewhere.
        assert!(story.visitors.has_passed(ticket));
        let ticket = story.visitors.ticket();
        let first = story.visitors.enter(0);
        assert!(!story.visitors.has_passed(ticket), "it came in before the flip");
        let second = story.visitors.enter(1);
        story.visitors.leave(first);
        assert!(story.visitors.has_passed(ticket), "the second one came after the flip");
        assert!(!story.visitors.are_none());
        story.visitors.leave(second);
        assert!(story.visitors.are_none());
    });
}

/// The way without a flip: nobody is seen inside, so what those did who were is done.
#[test]
fn who_sees_nobody_inside_sees_what_was_done_there() {
    check(|| {
        let story = story();
        let copier = thread::spawn({
            let story = story.clone();
            move || story.copy(1, true)
        });
        if story.is_inside.load(Ordering::Acquire) == 1 && story.visitors.are_none() {
            // SAFETY: the story's own claim.
            story.memory.with_mut(|memory| unsafe { *memory += 1 });
        }
        copier.join().expect("no panic");
    });
}
