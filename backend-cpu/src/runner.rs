//! Running a queue's work: by a worker, or by a thread that waits for it.
//!
//! Rules: who has the queue's claim runs its work, number by number. Work that waits for another
//! queue is not waited for: the queue is left *blocked*, and who gets the other one so far sees to
//! it that it goes on. Host functions run on workers only, because a user's function may
//! care which thread it is on; everything else may run in a thread that waits for it, which
//! saves waking one. Before anything that takes long, all that is done is completed visibly
//! (`progress`).

use crate::berth::Berth;
use crate::command::Command;
use crate::pool::Pool;
use crate::position::Position;
use crate::queue::Queue;
use std::hint::spin_loop;

/// After so many pieces of work a worker lets another ready queue go on.
const BUDGET: u32 = 256;
/// How many queues a worker follows from one to the next before it takes a ready one.
const HOPS: u32 = 64;
/// How often a thread that waits awake looks before it looks at the clock.
const LOOKS: u32 = 64;

/// Why running a queue ended. The claim is still held, but after `Forked`.
enum End {
    /// The limit is reached, or all is done.
    Done,
    /// Another queue is to have its turn.
    Spent,
    /// What is next waits for this.
    Blocked(Position),
    /// What is next is a host function, and this is no worker.
    HostFunction,
    /// This thread is the copy of a worker, in the child of a fork that a host function did.
    Forked,
}

/// What a worker does with a queue that it ran.
pub enum After {
    /// It has no work, and its entry is the worker's.
    Keep(&'static Queue),
    /// Nothing.
    Nothing,
    /// The worker is not there: see [`End::Forked`].
    Forked,
}

struct Runner {
    /// The worker's; `None` for a thread that waits.
    berth: Option<&'static Berth>,
    /// A queue that may be gone on with when it is found to be no longer blocked; a worker goes on
    /// with any.
    wanted: Option<&'static Queue>,
    /// The one that was found, with its claim.
    next: Option<&'static Queue>,
}

impl Runner {
    /// Runs work up to `limit`. The caller has the claim.
    fn run(&mut self, queue: &'static Queue, limit: u64, mut budget: u32) -> End {
        let pool = queue.slots.pool;
        let mut number = queue.progress.completed();
        // The tail as it was last seen: each look takes the cache line from who enqueues.
        let mut tail = 0;
        // Whether all that is done was completed visibly.
        let mut told = true;
        let end = loop {
            if number >= limit {
                break End::Done;
            }
            if number >= tail {
                tail = queue.ring.tail();
                if number >= tail {
                    break End::Done;
                }
            }
            if budget == 0 {
                if self.next.is_some() || pool.has_ready() || pool.schedule.is_some() {
                    break End::Spent;
                }
                budget = BUDGET;
            }
            budget -= 1;
            // SAFETY: this thread has the claim; the number is not completed, and not above the tail.
            let (blocked, is_long, is_call) = unsafe {
                queue.ring.look_at(number + 1, |record| match &record.0 {
                    Command::Wait(position) if !position.is_reached() => {
                        (Some(*position), false, false)
                    }
                    Command::HostFunction { .. } => (None, true, true),
                    command => (None, command.is_long(), false),
                })
            };
            if let Some(position) = blocked {
                break End::Blocked(position);
            }
            if is_call && self.berth.is_none() {
                break End::HostFunction;
            }
            if is_long {
                if !told {
                    self.tell(queue, number);
                }
                self.hand_on(pool);
            }
            // SAFETY: as above; it is completed next, so it is taken once.
            let command = unsafe { queue.ring.take(number + 1) }.0;
            match (self.berth, is_call) {
                (Some(berth), true) => {
                    let epoch = pool.epoch();
                    berth.enter();
                    // SAFETY: the trait makes the caller promise that function and data hold.
                    unsafe { command.run(pool) };
                    if pool.epoch() != epoch {
                        return End::Forked;
                    }
                    pool.leave_host_function(berth);
                }
                // SAFETY: the trait makes the caller promise that the pointers hold until the
                // stream has passed; it passes here.
                _ => unsafe { command.run(pool) },
            }
            number += 1;
            told = false;
            if queue.progress.complete(number) {
                self.announce(queue);
            }
        };
        if !told {
            self.tell(queue, number);
        }
        end
    }

    fn tell(&mut self, queue: &'static Queue, number: u64) {
        if queue.progress.complete_visibly(number) {
            self.announce(queue);
        }
    }

    fn announce(&mut self, queue: &'static Queue) {
        announce(queue, |blocked| {
            let any = self.berth.is_some() && blocked.slots.pool.schedule.is_none();
            let adopt = self.next.is_none()
                && (any || self.wanted.is_some_and(|wanted| std::ptr::eq(wanted, blocked)));
            if adopt {
                self.next = Some(blocked);
            }
            adopt
        });
    }

    /// Gives the queue that it would go on with to another worker.
    fn hand_on(&mut self, pool: &'static Pool) {
        if let Some(next) = self.next.take()
            && next.claim.keep()
        {
            pool.push(next);
        }
    }

    /// Leaves a queue blocked. Whoever completes the position has it go on.
    fn block(&mut self, queue: &'static Queue, on: Position) {
        queue.claim.block();
        if on.queue.progress.register(&queue.link, on.number) {
            // Reached meanwhile, and whoever completed it may not have seen.
            self.announce(on.queue);
        }
    }
}

/// Tells everybody who wants to know how far a queue is. `adopt` says which of the queues that are
/// no longer blocked the caller takes the claim of.
fn announce(queue: &'static Queue, mut adopt: impl FnMut(&'static Queue) -> bool) {
    queue.progress.serve(|blocked: &'static Queue| {
        if adopt(blocked) {
            blocked.claim.unblock();
        } else if blocked.claim.unblock_to_entry() {
            blocked.slots.pool.push(blocked);
        }
    });
    queue.wake_sleepers();
    queue.slots.memory.reap();
}

/// Ends the caller's claim on a queue.
fn let_go(queue: &'static Queue) {
    if !queue.claim.release() {
        look_again(queue);
    }
}

/// For who has looked after a queue and no longer does: sees to what came meanwhile.
pub(crate) fn look_again(queue: &'static Queue) {
    if queue.has_work() {
        queue.call_for_a_worker();
    } else if queue.identity.is_draining() {
        queue.slots.retire(queue);
    }
}

/// For who has the entry of a queue and does not want to keep it.
pub fn put_down(queue: &'static Queue) {
    if !queue.claim.drop_entry() {
        look_again(queue);
    }
}

/// After a stream was destroyed: its slot is vacant as soon as it is idle.
pub fn settle(queue: &'static Queue) {
    look_again(queue);
}

/// Work that its caller did itself, under a claim and a number, is done.
pub fn finish(queue: &'static Queue, number: u64) {
    if queue.progress.complete_visibly(number) {
        announce(queue, |_| false);
    }
    let_go(queue);
}

/// Runs a queue, whose entry the worker had, and those that become ready by it.
pub fn work(queue: &'static Queue, berth: &'static Berth) -> After {
    if !queue.claim.take_entry() {
        return After::Nothing;
    }
    let pool = queue.slots.pool;
    let is_scheduled = pool.schedule.is_some();
    let mut runner = Runner { berth: Some(berth), wanted: None, next: None };
    let (mut queue, mut hops) = (queue, 0);
    loop {
        let mut kept = None;
        match runner.run(queue, u64::MAX, if is_scheduled { 1 } else { BUDGET }) {
            End::Forked => return After::Forked,
            End::Done if queue.identity.is_draining() || is_scheduled => let_go(queue),
            End::Done => {
                if queue.claim.keep() {
                    kept = Some(queue);
                }
            }
            End::Spent | End::HostFunction => {
                if queue.claim.keep() {
                    pool.push(queue);
                }
            }
            End::Blocked(on) => {
                runner.block(queue, on);
                if runner.next.is_none() && !is_scheduled && on.queue.claim.try_claim() {
                    runner.next = Some(on.queue);
                }
            }
        }
        hops += 1;
        if hops >= HOPS {
            runner.hand_on(pool);
        }
        match (runner.next.take(), kept) {
            (Some(next), kept) => {
                if let Some(kept) = kept {
                    put_down(kept);
                }
                queue = next;
            }
            (None, Some(kept)) => return After::Keep(kept),
            (None, None) => return After::Nothing,
        }
    }
}

/// Waits until a point is reached, and does what is to be done for it where nobody else does.
pub fn wait(target: Position, awake: bool) {
    let pool = target.queue.slots.pool;
    if pool.schedule.is_some() {
        pool.demand(target);
        while !target.is_reached() {
            target.queue.sleep(target.number);
        }
        return;
    }
    // What `at` is done for, the target first.
    let mut path: Vec<Position> = Vec::new();
    let (mut at, mut has_claim) = (target, false);
    loop {
        if !has_claim && at.is_reached() {
            match path.pop() {
                Some(before) => at = before,
                None => return,
            }
            continue;
        }
        if !has_claim && !at.queue.claim.try_claim() {
            rest(pool, target, awake);
            continue;
        }
        has_claim = false;
        let queue = at.queue;
        let wanted = path.last().map(|position| position.queue);
        let mut runner = Runner { berth: None, wanted, next: None };
        match runner.run(queue, at.number, u32::MAX) {
            End::Blocked(on) => {
                runner.hand_on(pool);
                runner.wanted = Some(queue);
                runner.block(queue, on);
                if runner.next.take().is_some() {
                    has_claim = true;
                } else {
                    path.push(at);
                    at = on;
                }
            }
            End::HostFunction => {
                runner.hand_on(pool);
                if queue.claim.keep() {
                    pool.push(queue);
                }
                rest(pool, target, awake);
            }
            End::Done | End::Spent | End::Forked => {
                let_go(queue);
                if runner.next.take().is_some() {
                    // The claim of what this was done for.
                    match path.pop() {
                        Some(before) => (at, has_claim) = (before, true),
                        None => return,
                    }
                }
            }
        }
    }
}

/// Waits for a while; awake at first, which saves the time of a wake.
fn rest(pool: &'static Pool, target: Position, awake: bool) {
    let end = if awake { crate::events::now() + pool.patience() } else { 0 };
    while awake && crate::events::now() < end {
        if pool.crew.has_job() {
            pool.crew.help(|| target.is_reached() || target.queue.claim.is_free());
        }
        for _ in 0..LOOKS {
            if target.is_reached() {
                return;
            }
            spin_loop();
        }
        if target.queue.claim.is_free() {
            return;
        }
        // The worker may be waiting for this very processor.
        std::thread::yield_now();
    }
    target.queue.sleep(target.number);
}
