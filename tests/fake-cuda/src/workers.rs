//! The threads that do the work of streams.
//!
//! A stream that can go on is in `World::ready`; a worker takes it, does its operations until one has to
//! wait, and leaves it. The rules: at most one worker is with a stream; an operation that has to wait
//! holds no worker; a host function runs only when no other of its context does, as on the real driver.

use crate::driver::{Driver, World};
use crate::streams::{Operation, StreamKey};
use parking_lot::MutexGuard;
use std::time::Duration;

const MOST_WORKERS: usize = 512;
const IDLE: Duration = Duration::from_secs(2);

/// What is kept of an operation when it is over.
struct Done {
    number: u64,
    fills: bool,
    host_function: bool,
}

impl World {
    /// A stream may be able to go on: has a worker look at it.
    pub fn schedule(&mut self, driver: &'static Driver, key: StreamKey) {
        match self.streams.get_mut(&key) {
            Some(stream) if !stream.scheduled && !stream.queue.is_empty() => {
                stream.scheduled = true
            }
            _ => return,
        }
        self.ready.push_back(key);
        if self.idle_workers < self.ready.len() && self.workers < MOST_WORKERS {
            self.workers += 1;
            let thread =
                std::thread::Builder::new().name("fake-cuda".to_owned()).stack_size(256 << 10);
            if thread.spawn(move || work(driver)).is_err() {
                self.workers -= 1;
            }
        }
        driver.jobs.notify_one();
    }

    /// The next operation of a stream, if it may begin now. Otherwise the stream is left where it will be
    /// found by what it waits for.
    fn next(&mut self, key: StreamKey) -> Option<Operation> {
        let stream = self.streams.get_mut(&key)?;
        let Some(first) = stream.queue.front() else {
            stream.scheduled = false;
            return None;
        };
        let (context, is_host_function) = (stream.context, first.work.is_host_function());
        let after = first.after.clone();
        if let Some((other, _)) = after.into_iter().find(|point| !self.reached(*point)) {
            self.streams
                .get_mut(&other)
                .expect("a point that is not reached is of a stream that is there")
                .waiting
                .push(key);
            self.streams.get_mut(&key)?.scheduled = false;
            return None;
        }
        if is_host_function && let Some(context) = self.contexts.get_mut(&context) {
            if context.in_host_function {
                context.host_queue.push(key);
                self.streams.get_mut(&key)?.scheduled = false;
                return None;
            }
            context.in_host_function = true;
        }
        self.streams.get_mut(&key)?.queue.pop_front()
    }

    /// An operation is over.
    fn over(
        &mut self,
        driver: &'static Driver,
        key: StreamKey,
        done: Done,
        result: Result<(), i32>,
    ) {
        let Some(stream) = self.streams.get_mut(&key) else { return };
        stream.done = done.number;
        stream.filling -= usize::from(done.fills);
        if done.fills && stream.filling == driver.settings.queue_depth * 3 / 4 {
            driver.room.notify_all();
        }
        let context = stream.context;
        let mut next = std::mem::take(&mut stream.waiting);
        if stream.destroyed && stream.done == stream.given {
            self.streams.remove(&key);
        }
        if let Err(code) = result {
            self.break_context(context, code);
        }
        if done.host_function
            && let Some(context) = self.contexts.get_mut(&context)
        {
            context.in_host_function = false;
            next.append(&mut context.host_queue);
        }
        for other in next {
            self.schedule(driver, other);
        }
        driver.progress.notify_all();
    }
}

fn work(driver: &'static Driver) {
    let mut world = driver.lock();
    loop {
        let Some(key) = world.ready.pop_front() else {
            world.idle_workers += 1;
            let late = driver.jobs.wait_for(&mut world, IDLE).timed_out();
            world.idle_workers -= 1;
            if late && world.ready.is_empty() && world.workers > 2 {
                world.workers -= 1;
                return;
            }
            continue;
        };
        while let Some(operation) = world.next(key) {
            let context = world.streams.get(&key).map_or(0, |stream| stream.context);
            let done = Done {
                number: operation.number,
                fills: operation.work.fills_the_queue(),
                host_function: operation.work.is_host_function(),
            };
            let whole =
                world.contexts.get(&context).is_some_and(|context| context.broken.is_none());
            let result = MutexGuard::unlocked(&mut world, || {
                if !driver.settings.latency.is_zero() {
                    std::thread::sleep(driver.settings.latency);
                }
                let result = operation.work.run(whole);
                // What it held goes before it counts as done, so that memory is free when a wait returns.
                drop(operation.work);
                result
            });
            world.over(driver, key, done, result);
        }
    }
}
