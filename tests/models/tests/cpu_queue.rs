//! Every interleaving of threads on the queues of the CPU backend: no record is lost or run twice, no
//! work is left that nobody looks after, nobody sleeps or stays blocked for ever.
//!
//! What `queue`, `runner` and `slots` do with the words is repeated here in a few lines, since those files
//! are about commands and threads too.

use llaisys_models::atomic::Cell;
use llaisys_models::claim::Claim;
use llaisys_models::identity::Identity;
use llaisys_models::progress::{Link, Progress};
use llaisys_models::ring::Ring;
use llaisys_models::sleepers::Sleepers;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

/// Two or three preemptions find what is to be found here; all of them would take hours.
fn model(bound: usize, check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(bound);
    builder.max_branches = 20_000;
    builder.check(check);
}

struct Queue {
    ring: Ring<u64>,
    progress: Progress<Queue>,
    claim: Claim,
    identity: Identity,
    link: Link<Queue>,
    sleepers: Sleepers,
    /// The sum of the records that were run, by who had the claim.
    ran: AtomicU64,
    /// Entries in the ready list.
    entries: AtomicU64,
    /// How often the slot became vacant.
    vacated: AtomicU64,
    /// What work touches: loom finds two threads that do at one time.
    memory: Cell<u64>,
}

impl Queue {
    fn leak() -> &'static Queue {
        let queue: &'static Queue = Box::leak(Box::new(Queue {
            ring: Ring::new(4),
            progress: Progress::new(),
            claim: Claim::new(),
            identity: Identity::vacant(),
            link: Link::new(),
            sleepers: Sleepers::new(),
            ran: AtomicU64::new(0),
            entries: AtomicU64::new(0),
            vacated: AtomicU64::new(0),
            memory: Cell::new(0),
        }));
        queue.link.belongs_to(queue);
        queue
    }

    fn push(&self) {
        self.entries.fetch_add(1, Ordering::AcqRel);
    }

    fn enqueue(&self, record: u64) {
        let mut guard = self.ring.lock();
        assert!(guard.push(record, || self.progress.completed()).is_ok(), "there is room");
        drop(guard);
        if !self.claim.is_looked_after() && self.claim.try_queue() {
            self.push();
        }
    }

    /// Work on the memory that all work of the queue is on.
    fn touch(&self) {
        // SAFETY: whoever runs work of the queue is alone; that is what is tested.
        self.memory.with_mut(|memory| unsafe { *memory += 1 });
    }

    /// Enqueues for a stream of this generation, if the slot is still its.
    fn enqueue_for(&self, generation: u32, record: u64) -> bool {
        let mut guard = self.ring.lock();
        if !self.identity.is(generation) {
            return false;
        }
        assert!(guard.push(record, || self.progress.completed()).is_ok(), "there is room");
        drop(guard);
        if !self.claim.is_looked_after() && self.claim.try_queue() {
            self.push();
        }
        true
    }

    /// Does short work in the calling thread, if the slot is still the stream's and nothing is pending.
    fn do_at_once(&self, generation: u32) -> bool {
        let guard = self.ring.lock();
        if !self.identity.is(generation) || self.progress.completed() < guard.number() {
            return false;
        }
        self.touch();
        drop(guard);
        true
    }

    /// Gives the slot to a new stream, if it is vacant; its list of vacant slots is one count.
    fn give_again(&self) -> Option<u32> {
        let take = |vacated: u64| vacated.checked_sub(1);
        self.vacated.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).ok()?;
        assert!(!self.has_work(), "given away with work of the old stream");
        Some(self.identity.give(true))
    }

    fn has_work(&self) -> bool {
        self.ring.settled_tail() > self.progress.completed()
    }

    /// Runs all there is, under the claim; each record but the last completed the cheap way.
    fn run(&self) {
        let mut number = self.progress.completed();
        while number < self.ring.tail() {
            number += 1;
            // SAFETY: this thread has the claim, and the number is new and not above the tail.
            let record = unsafe { self.ring.take(number) };
            let before = self.ran.load(Ordering::Relaxed);
            self.ran.store(before * 10 + record, Ordering::Relaxed);
            self.touch();
            if self.progress.complete(number) {
                self.announce();
            }
        }
        if self.progress.complete_visibly(number) {
            self.announce();
        }
    }

    fn announce(&self) {
        self.progress.serve(|blocked: &'static Queue| {
            if blocked.claim.unblock_to_entry() {
                blocked.push();
            }
        });
        self.sleepers.wake(|number| self.progress.alert_at(number));
    }

    fn let_go(&self) {
        if !self.claim.release() {
            self.look_again();
        }
    }

    fn look_again(&self) {
        if self.has_work() {
            if !self.claim.is_looked_after() && self.claim.try_queue() {
                self.push();
            }
        } else if self.identity.is_draining() {
            self.retire();
        }
    }

    fn retire(&self) {
        if self.claim.try_claim() {
            let is_idle = self.ring.tail() <= self.progress.completed();
            let is_vacated = self.identity.is_draining() && is_idle && self.identity.vacate();
            if is_vacated {
                self.vacated.fetch_add(1, Ordering::AcqRel);
            }
            if !self.claim.release() && !is_vacated {
                self.look_again();
            }
        }
    }

    fn destroy(&self) {
        let guard = self.ring.lock();
        self.identity.drain();
        drop(guard);
        self.look_again();
    }

    /// What a worker does with an entry, if there is one.
    fn work(&self) -> bool {
        let take = |entries: u64| entries.checked_sub(1);
        if self.entries.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).is_err() {
            return false;
        }
        if self.claim.take_entry() {
            self.run();
            self.let_go();
        }
        true
    }

    /// Runs what threads have left, as a worker would that comes later.
    fn drain(&self) {
        while self.work() {}
        assert!(!self.has_work(), "work is left that nobody looks after");
    }
}

#[test]
fn records_of_two_threads_are_run_once_each_while_buffers_are_replaced() {
    model(2, || {
        let queue = Queue::leak();
        let threads = [1, 2].map(|record| thread::spawn(move || queue.enqueue(record)));
        queue.work();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        queue.drain();
        let ran = queue.ran.load(Ordering::Relaxed);
        assert!(ran == 12 || ran == 21, "{ran}");
    });
}

#[test]
fn a_record_that_comes_while_another_thread_lets_go_is_looked_after() {
    model(3, || {
        let queue = Queue::leak();
        queue.enqueue(1);
        let waiter = thread::spawn(move || {
            // A thread that waits has no entry, and claims what it can.
            if queue.claim.try_claim() {
                queue.run();
                queue.let_go();
            }
        });
        queue.enqueue(2);
        queue.work();
        waiter.join().expect("no panic");
        queue.drain();
        assert_eq!(queue.ran.load(Ordering::Relaxed), 12);
    });
}

#[test]
fn an_entry_in_a_workers_hand_is_enough_until_it_is_put_down() {
    model(3, || {
        let queue = Queue::leak();
        assert!(queue.claim.try_claim() && queue.claim.keep());
        let worker = thread::spawn(move || {
            if !queue.claim.drop_entry() {
                queue.look_again();
            }
        });
        queue.enqueue(1);
        worker.join().expect("no panic");
        queue.drain();
    });
}

#[test]
fn a_queue_that_blocks_while_the_other_one_passes_goes_on_once() {
    model(3, || {
        let (first, second) = (Queue::leak(), Queue::leak());
        first.enqueue(1);
        let other = thread::spawn(move || {
            first.work();
        });
        // The second one waits for the first one's record.
        assert!(second.claim.try_claim());
        second.claim.block();
        if first.progress.register(&second.link, 1) {
            first.announce();
        }
        other.join().expect("no panic");
        assert_eq!(first.progress.completed(), 1);
        assert_eq!(second.entries.load(Ordering::Relaxed), 1, "told once");
        assert!(second.claim.take_entry(), "and free to go on");
    });
}

#[test]
fn two_queues_that_block_on_different_numbers_both_go_on() {
    model(2, || {
        let first = Queue::leak();
        first.enqueue(1);
        first.enqueue(2);
        let blocked = [1, 2].map(|number| {
            let queue = Queue::leak();
            assert!(queue.claim.try_claim());
            let thread = thread::spawn(move || {
                queue.claim.block();
                if first.progress.register(&queue.link, number) {
                    first.announce();
                }
            });
            (queue, thread)
        });
        first.work();
        // All first: one thread may be the one that tells the other's queue.
        let queues = blocked.map(|(queue, thread)| {
            thread.join().expect("no panic");
            queue
        });
        for queue in queues {
            assert_eq!(queue.entries.load(Ordering::Relaxed), 1, "told once");
        }
    });
}

#[test]
fn a_thread_that_goes_to_sleep_while_the_number_is_reached_is_woken() {
    model(3, || {
        let queue = Queue::leak();
        queue.enqueue(1);
        let worker = thread::spawn(move || queue.work());
        // Loom finds it when nobody wakes this thread.
        while queue.progress.completed() < 1 {
            queue.sleepers.sleep(1, |number| queue.progress.alert_at(number));
        }
        worker.join().expect("no panic");
    });
}

#[test]
fn who_is_woken_for_another_threads_number_is_woken_for_its_own_too() {
    model(2, || {
        let queue = Queue::leak();
        queue.enqueue(1);
        queue.enqueue(2);
        let sleeper = thread::spawn(move || {
            queue.sleepers.sleep(2, |number| queue.progress.alert_at(number));
        });
        queue.sleepers.sleep(1, |number| queue.progress.alert_at(number) || number == 1);
        queue.work();
        // Asleep it would stay so: nobody comes after this.
        sleeper.join().expect("no panic");
    });
}

#[test]
fn a_stream_that_is_destroyed_while_it_is_busy_runs_all_and_is_vacant_once() {
    model(3, || {
        let queue = Queue::leak();
        queue.identity.give(true);
        queue.enqueue(1);
        let destroyer = thread::spawn(move || queue.destroy());
        queue.work();
        destroyer.join().expect("no panic");
        queue.drain();
        assert_eq!(queue.ran.load(Ordering::Relaxed), 1);
        assert_eq!(queue.vacated.load(Ordering::Relaxed), 1, "vacant once");
    });
}

#[test]
fn short_work_that_is_done_at_once_and_work_of_a_worker_are_never_done_at_one_time() {
    model(3, || {
        let queue = Queue::leak();
        let generation = queue.identity.give(true);
        let enqueuer = thread::spawn(move || {
            assert!(queue.enqueue_for(generation, 1));
            queue.work();
        });
        let did = queue.do_at_once(generation);
        enqueuer.join().expect("no panic");
        queue.drain();
        // SAFETY: nobody else is left.
        let touched = queue.memory.with(|memory| unsafe { *memory });
        assert_eq!(touched, 1 + u64::from(did));
    });
}

#[test]
fn a_slot_that_is_given_away_again_takes_nothing_by_the_old_handle_while_others_hold_it() {
    model(2, || {
        let queue = Queue::leak();
        let old = queue.identity.give(true);
        let holder = thread::spawn(move || {
            let done = queue.do_at_once(old);
            let accepted = queue.enqueue_for(old, 1);
            queue.work();
            assert!(done || !accepted, "refused first, and accepted afterwards");
            accepted
        });
        queue.destroy();
        let new = queue.give_again();
        if let Some(new) = new {
            assert_ne!(new, old);
            assert!(queue.enqueue_for(new, 2), "the new stream takes work");
        }
        let accepted = holder.join().expect("no panic");
        queue.drain();
        assert!(!queue.identity.is(old) && !queue.do_at_once(old));
        // What the old stream took was run, and before anything of the new one.
        let expected = match (accepted, new.is_some()) {
            (true, true) => 12,
            (true, false) => 1,
            (false, true) => 2,
            (false, false) => 0,
        };
        assert_eq!(queue.ran.load(Ordering::Relaxed), expected);
        let vacant = queue.vacated.load(Ordering::Relaxed);
        assert_eq!(
            vacant,
            u64::from(new.is_none()),
            "vacant once for each stream that was destroyed"
        );
    });
}
