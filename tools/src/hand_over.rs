//! The peers of `bench stream` that need nothing installed: work handed to a thread.

use crate::stream::system;
use crossbeam_channel::Sender;
use llaisys_runtime::core::Result;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// A thread that does work in order, and can be waited for.
pub trait HandOver {
    /// Its name and version.
    fn name(&self) -> String;
    /// Hands over an empty piece of work.
    fn push(&self);
    /// Waits until all work is done.
    fn wait(&self);

    /// One piece, waited for.
    fn round_trip(&self) -> i32 {
        self.push();
        self.wait();
        0
    }

    /// Many pieces, waited for once.
    fn pipelined(&self, count: u32) -> i32 {
        (0..count).for_each(|_| self.push());
        self.wait();
        0
    }

    /// What a hop is by hand: each piece waits for the one before, of whichever queue.
    fn hops(&self, count: u32) -> i32 {
        self.pipelined(count)
    }
}

type Work = Box<dyn FnOnce() + Send>;

/// A queue under a lock, with a condition variable on each side.
pub struct CondvarQueue {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
    done: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Option<Work>>,
    pending: u64,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CondvarQueue {
    /// Starts the thread.
    ///
    /// # Errors
    /// When there is none to be had.
    pub fn start() -> Result<CondvarQueue> {
        let shared = Arc::<Shared>::default();
        let own = shared.clone();
        let thread = thread::Builder::new()
            .spawn(move || {
                loop {
                    let mut state = own.lock();
                    while state.queue.is_empty() {
                        state = own.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                    }
                    let Some(Some(work)) = state.queue.pop_front() else { return };
                    drop(state);
                    work();
                    let mut state = own.lock();
                    state.pending -= 1;
                    if state.pending == 0 {
                        own.done.notify_all();
                    }
                }
            })
            .map_err(|error| system("a thread for the queue", &error))?;
        Ok(CondvarQueue { shared, thread: Some(thread) })
    }

    fn put(&self, work: Option<Work>) {
        let mut state = self.shared.lock();
        state.pending += u64::from(work.is_some());
        state.queue.push_back(work);
        drop(state);
        self.shared.work.notify_one();
    }
}

impl HandOver for CondvarQueue {
    fn name(&self) -> String {
        "Mutex, Condvar and one thread (Rust's standard library)".to_owned()
    }

    fn push(&self) {
        self.put(Some(Box::new(|| ())));
    }

    fn wait(&self) {
        let mut state = self.shared.lock();
        while state.pending != 0 {
            state = self.shared.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for CondvarQueue {
    fn drop(&mut self) {
        self.put(None);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Crossbeam's bounded channel, and a thread that is unparked when all is done.
pub struct Channel {
    sender: Option<Sender<Work>>,
    done: Arc<AtomicU64>,
    pushed: AtomicU64,
    thread: Option<JoinHandle<()>>,
}

/// How much the channel holds.
const CAPACITY: usize = 65_536;

impl Channel {
    /// Starts the thread.
    ///
    /// # Errors
    /// When there is none to be had.
    pub fn start() -> Result<Channel> {
        let (sender, receiver) = crossbeam_channel::bounded::<Work>(CAPACITY);
        let done = Arc::new(AtomicU64::new(0));
        let (own, waiter) = (done.clone(), thread::current());
        let thread = thread::Builder::new()
            .spawn(move || {
                for work in receiver {
                    work();
                    own.fetch_add(1, Ordering::Release);
                    waiter.unpark();
                }
            })
            .map_err(|error| system("a thread for the channel", &error))?;
        Ok(Channel { sender: Some(sender), done, pushed: AtomicU64::new(0), thread: Some(thread) })
    }
}

impl HandOver for Channel {
    fn name(&self) -> String {
        "crossbeam-channel 0.5 and one thread".to_owned()
    }

    fn push(&self) {
        self.pushed.fetch_add(1, Ordering::Relaxed);
        if let Some(sender) = &self.sender {
            // It fails only without a receiver, which lives as long as the sender.
            let _ = sender.send(Box::new(|| ()));
        }
    }

    fn wait(&self) {
        while self.done.load(Ordering::Acquire) < self.pushed.load(Ordering::Relaxed) {
            thread::park();
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
