//! A point in a stream: all work up to a number. What an event is, and what a wait waits for.

use crate::queue::Queue;
use crate::runner;

/// See the module text.
#[derive(Clone, Copy)]
pub struct Position {
    /// The stream's queue.
    pub queue: &'static Queue,
    /// The number of the last piece of work before the point.
    pub number: u64,
}

impl Position {
    /// The end of everything that was ever enqueued.
    #[inline]
    pub fn end_of(queue: &'static Queue) -> Position {
        Position { queue, number: queue.ring.tail() }
    }

    /// The same, while it is not reached. What a thread just does at once, under the lock, is waited for:
    /// so the caller holds no lock that one who puts work on this queue may wait for.
    #[inline]
    pub fn pending(queue: &'static Queue) -> Option<Position> {
        let position = Position { queue, number: queue.ring.tail_at_rest() };
        if position.is_reached() { None } else { Some(position) }
    }

    /// Whether the stream has passed.
    #[inline]
    pub fn is_reached(&self) -> bool {
        self.queue.progress.completed() >= self.number
    }

    /// Waits until the stream has passed. Does the work itself where nobody else has begun it, and
    /// is awake for a while before it sleeps.
    pub fn wait(&self) {
        if !self.is_reached() {
            runner::wait(*self, true);
        }
    }

    /// The same, without staying awake.
    pub fn wait_asleep(&self) {
        if !self.is_reached() {
            runner::wait(*self, false);
        }
    }
}

impl PartialEq for Position {
    fn eq(&self, other: &Position) -> bool {
        std::ptr::eq(self.queue, other.queue) && self.number == other.number
    }
}
