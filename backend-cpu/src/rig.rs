//! Queues for unit tests.

use crate::memory::Memory;
use crate::pool::Pool;
use crate::queue::Queue;
use crate::slots::Slots;
use std::time::Duration;

/// A pool of its own.
pub fn pool(limit: u32) -> &'static Pool {
    Box::leak(Box::new(Pool::new("unit".to_owned(), limit, Duration::from_millis(10), None)))
}

/// Some queues of a device that nobody else uses.
pub fn queues(count: usize) -> Vec<&'static Queue> {
    let pool = pool(1);
    let memory = Box::leak(Box::new(Memory::new(None, false)));
    let slots: &'static Slots = Box::leak(Box::new(Slots::new(0, pool, memory, 16)));
    (0..count).map(|_| slots.take(true).expect("room").0).collect()
}
