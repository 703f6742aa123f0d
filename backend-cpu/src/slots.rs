//! The slots of a device's streams: a queue for each, made when it is first needed, never freed.
//!
//! Rule: a slot is looked up by number without a lock, whatever the number; whose it is says its
//! `identity`.

use crate::handle::SLOTS;
use crate::memory::Memory;
use crate::pool::Pool;
use crate::queue::Queue;
use crate::runner;
use llaisys_runtime_core::api::Ordinal;
use llaisys_runtime_core::lock::{ForkLock, Mutex};
use llaisys_runtime_core::{Error, Result, Status};
use std::ptr::null_mut;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Acquire, Release};

/// The slots of a chunk.
const CHUNK: usize = 64;
/// The chunks of a block of chunks.
const BLOCK: usize = 512;
/// The blocks of chunks.
const BLOCKS: usize = SLOTS as usize / CHUNK / BLOCK;

type Block = [AtomicPtr<Queue>; BLOCK];

/// The slots of a device.
pub struct Slots {
    /// The device.
    pub ordinal: Ordinal,
    /// Who runs what is enqueued.
    pub pool: &'static Pool,
    /// What is freed when work is done.
    pub memory: &'static Memory,
    /// How many pieces of work a queue takes that are not done.
    pub queue_limit: u64,
    blocks: Box<[AtomicPtr<Block>; BLOCKS]>,
    free: Mutex<Free>,
}

#[derive(Default)]
struct Free {
    vacant: Vec<u32>,
    /// The first slot that was never used.
    next: u32,
}

impl Slots {
    /// No slots yet.
    pub fn new(
        ordinal: Ordinal,
        pool: &'static Pool,
        memory: &'static Memory,
        queue_limit: u64,
    ) -> Slots {
        let blocks = Box::new([const { AtomicPtr::new(null_mut()) }; BLOCKS]);
        Slots { ordinal, pool, memory, queue_limit, blocks, free: Mutex::new(Free::default()) }
    }

    /// The queue of a slot that was ever used.
    #[inline]
    pub fn get(&self, slot: u32) -> Option<&'static Queue> {
        let chunk = slot as usize / CHUNK;
        let block = self.blocks.get(chunk / BLOCK)?.load(Acquire);
        // SAFETY: null, or a block that was published whole and is never freed.
        let first = unsafe { block.as_ref() }?[chunk % BLOCK].load(Acquire);
        if first.is_null() {
            return None;
        }
        // SAFETY: a chunk of `CHUNK` queues that was published whole and is never freed.
        Some(unsafe { &*first.add(slot as usize % CHUNK) })
    }

    /// A queue for a new stream, and its generation.
    ///
    /// # Errors
    /// `OUT_OF_MEMORY` when there are `SLOTS` already.
    pub fn take(&'static self, is_blocking: bool) -> Result<(&'static Queue, u32)> {
        let mut free = self.free.lock();
        let slot = match free.vacant.pop() {
            Some(slot) => slot,
            None if free.next < SLOTS => {
                self.make_chunk(free.next);
                free.next += 1;
                free.next - 1
            }
            None => {
                let message = format!("CPU device {} has {SLOTS} streams already", self.ordinal);
                return Err(Error::new(Status::OutOfMemory, message));
            }
        };
        let queue = self.get(slot).expect("its chunk was made");
        // Under the lock, so that a fork finds each slot either vacant or given away.
        Ok((queue, queue.identity.give(is_blocking)))
    }

    fn make_chunk(&'static self, slot: u32) {
        if self.get(slot).is_some() {
            return;
        }
        let chunk = slot as usize / CHUNK;
        let block = &self.blocks[chunk / BLOCK];
        if block.load(Acquire).is_null() {
            let new: Box<Block> = Box::new([const { AtomicPtr::new(null_mut()) }; BLOCK]);
            block.store(Box::into_raw(new), Release);
        }
        let first = (chunk * CHUNK) as u32;
        let queues: Box<[Queue]> =
            (0..CHUNK as u32).map(|index| Queue::new(self, first + index)).collect();
        let queues: &'static [Queue] = Box::leak(queues);
        queues.iter().for_each(|queue| queue.link.belongs_to(queue));
        // SAFETY: just made, or before, under the same lock; never freed.
        let block = unsafe { &*block.load(Acquire) };
        block[chunk % BLOCK].store(queues.as_ptr().cast_mut(), Release);
    }

    /// Gives the slot of a destroyed stream free, when nothing of the stream is left. Whoever makes a
    /// queue idle or destroys its stream calls this afterwards; one of them does it.
    pub fn retire(&self, queue: &'static Queue) {
        // Who has the claim instead calls this when it gives it back.
        if !queue.claim.try_claim() {
            return;
        }
        // Not `has_work`, which waits for the ring's lock: whoever holds that may be waiting for the
        // claim, if the slot has a new stream. Nobody enqueues on a queue that is draining.
        let vacated = queue.identity.is_draining() && queue.is_idle() && queue.identity.vacate();
        if vacated {
            // SAFETY: this thread has the claim, and all work is done.
            unsafe { queue.ring.shrink() };
        }
        let is_called_for = !queue.claim.release();
        if vacated {
            self.free.lock().vacant.push(queue.slot);
        } else if is_called_for {
            // Somebody came meanwhile and relied on the claim: the slot may have a new stream by now.
            runner::look_again(queue);
        }
    }

    fn up_to(&self, end: u32) -> impl Iterator<Item = &'static Queue> {
        (0..end).filter_map(|slot| self.get(slot))
    }

    /// Before a fork, the default stream's queue being held already: keeps all locks.
    pub fn hold(&self) {
        self.free.hold();
        // SAFETY: the lock was just taken, so nobody writes.
        let end = unsafe { (*self.free.data_ptr()).next };
        self.up_to(end).skip(1).for_each(|queue| queue.ring.hold());
    }

    /// After a fork: releases them.
    ///
    /// # Safety
    /// - `hold` was called before the fork, on the thread that forked.
    pub unsafe fn release(&self) {
        // SAFETY: held by this thread, so nobody writes.
        let end = unsafe { (*self.free.data_ptr()).next };
        for queue in self.up_to(end).skip(1) {
            // SAFETY: by the contract above.
            unsafe { queue.ring.release() };
        }
        // SAFETY: by the contract above.
        unsafe { self.free.release() };
    }

    /// In the child of a fork, with the locks free again.
    pub fn forget(&self) {
        let mut free = self.free.lock();
        free.vacant.clear();
        for queue in self.up_to(free.next) {
            queue.forget();
            queue.identity.vacate();
            if !queue.identity.is_live() {
                free.vacant.push(queue.slot);
            }
        }
    }
}
