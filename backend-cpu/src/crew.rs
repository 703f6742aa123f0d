//! Work that several cores share: large copies and fills, in parts that whoever is free takes.
//!
//! Rules: the owner of a job does parts itself and waits only for parts that a helper has begun, so
//! a job without helpers is as fast as work that was never shared. Helpers are workers that would
//! be searching for a ready queue otherwise; a queue that becomes ready comes before the next part.
//!
//! A desk has a word for its owner and two for its helpers:
//!
//! | word | means | who changes it |
//! |---|---|---|
//! | `taken` | an owner has the desk | the owner |
//! | `job` | the job that can be helped with; null when there is none | the owner |
//! | `helpers` | so many workers may be using `job` | each of them: up before it reads `job`, down after its last use |
//!
//! An owner takes `job` away and then waits until `helpers` is 0; all four operations are `SeqCst`,
//! so a helper that comes later finds no job.

use std::hint::spin_loop;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize};
use std::thread;

/// How many jobs can be shared at a time; more are done by their owners alone.
const DESKS: usize = 8;

/// See the module text.
pub struct Crew {
    /// How many desks have a job, for who looks whether there is one.
    open: AtomicU32,
    desks: [Desk; DESKS],
}

#[repr(align(128))]
struct Desk {
    taken: AtomicBool,
    job: AtomicPtr<Job>,
    helpers: AtomicU32,
}

impl Desk {
    const fn new() -> Desk {
        Desk {
            taken: AtomicBool::new(false),
            job: AtomicPtr::new(null_mut()),
            helpers: AtomicU32::new(0),
        }
    }
}

/// Parts to be done.
struct Job {
    next: AtomicUsize,
    parts: usize,
    /// Does the part of this number.
    part: *const (dyn Fn(usize) + Sync),
}

impl Job {
    /// Does parts until there is none left, or `stop` says so.
    fn work(&self, stop: impl Fn() -> bool) {
        loop {
            let part = self.next.fetch_add(1, Relaxed);
            if part >= self.parts {
                return;
            }
            // SAFETY: the owner, whose closure it is, waits for all who use the job.
            unsafe { (*self.part)(part) };
            if stop() {
                return;
            }
        }
    }
}

impl Crew {
    /// No jobs.
    pub const fn new() -> Crew {
        Crew { open: AtomicU32::new(0), desks: [const { Desk::new() }; DESKS] }
    }

    /// Whether there is something to help with.
    #[inline]
    pub fn has_job(&self) -> bool {
        self.open.load(Acquire) != 0
    }

    /// Does `parts` parts, with whoever `call` calls; returns when all are done.
    pub fn share(&self, parts: usize, part: &(dyn Fn(usize) + Sync), call: impl FnOnce()) {
        let desk = self.desks.iter().find(|desk| !desk.taken.swap(true, Acquire));
        // SAFETY: the closure outlives the job, which nobody uses when this returns.
        let part: &'static (dyn Fn(usize) + Sync) = unsafe { std::mem::transmute(part) };
        let job = Job { next: AtomicUsize::new(0), parts, part };
        let Some(desk) = desk else { return job.work(|| false) };
        desk.job.store(std::ptr::from_ref(&job).cast_mut(), SeqCst);
        self.open.fetch_add(1, Release);
        call();
        job.work(|| false);
        self.open.fetch_sub(1, Relaxed);
        desk.job.swap(null_mut(), SeqCst);
        let mut looks = 0u32;
        while desk.helpers.load(SeqCst) != 0 {
            looks += 1;
            if looks < 1_000 { spin_loop() } else { thread::yield_now() }
        }
        desk.taken.store(false, Release);
    }

    /// Helps with a job, until there is none left or `stop` says so after a part.
    pub fn help(&self, stop: impl Fn() -> bool) {
        for desk in &self.desks {
            if desk.job.load(Relaxed).is_null() {
                continue;
            }
            desk.helpers.fetch_add(1, SeqCst);
            // SAFETY: null, or a job whose owner waits until this thread no longer counts as a helper.
            if let Some(job) = unsafe { desk.job.load(SeqCst).as_ref() } {
                job.work(&stop);
            }
            desk.helpers.fetch_sub(1, SeqCst);
        }
    }

    /// In the child of a fork: no jobs, no helpers.
    pub fn forget(&self) {
        self.open.store(0, Relaxed);
        for desk in &self.desks {
            desk.job.store(null_mut(), Relaxed);
            desk.helpers.store(0, Relaxed);
            desk.taken.store(false, Relaxed);
        }
    }
}
