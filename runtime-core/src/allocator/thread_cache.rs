//! A thread's own free blocks of one device: no lock and no locked instruction to take one or give one.
//!
//! Rules: only its thread touches a cache, and never while anything else runs (a backend, a user's
//! callback), so nobody finds it half changed. What it keeps is bounded in bytes. It is given back when
//! its thread ends; what the thread does after that goes without.

use super::Pool;
use super::block::Block;
use super::size_class::{self, COUNT};
use crate::accounting::Shard;
use std::cell::Cell;
use std::ptr;

/// The pools of a process that have caches; those of further devices go without.
pub const SLOTS: usize = 32;

/// The bytes of blocks that are ready for use.
const KEPT: usize = 2 << 20;
/// What may wait to be put behind marks, in blocks and in bytes.
const WAITING_BLOCKS: usize = 32;
const WAITING_BYTES: usize = 4 << 20;
/// From here on it is worth while to ask whether they still wait.
const WORTH_BLOCKS: usize = 4;
const WORTH_BYTES: usize = 1 << 20;

/// A cache.
pub struct ThreadCache {
    /// For each class; any stream may use these at once.
    stacks: [Vec<Block>; COUNT],
    bytes: usize,
    /// Freed while there was work that may use them, and behind no marks yet.
    waiting: Vec<Block>,
    waiting_bytes: usize,
    /// What this thread has counted for the device's account.
    pub shard: &'static Shard,
    pool: &'static Pool,
}

thread_local! {
    // No destructor, so these stay readable while a thread's other storage is torn down.
    static CACHES: [Cell<*mut ThreadCache>; SLOTS] =
        const { [const { Cell::new(ptr::null_mut()) }; SLOTS] };
    static HAS_ENDED: Cell<bool> = const { Cell::new(false) };
    static END: End = const { End };
}

/// Gives the caches back when the thread ends.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        HAS_ENDED.set(true);
        for slot in 0..SLOTS {
            let cache = CACHES.with(|caches| caches[slot].replace(ptr::null_mut()));
            if !cache.is_null() {
                // SAFETY: `open` leaked it, and it has just left the only place that led to it.
                let mut cache = unsafe { Box::from_raw(cache) };
                let (ready, waiting) = cache.drain();
                cache.pool.take_back(ready, waiting, cache.shard);
            }
        }
    }
}

/// Runs `body` on this thread's cache, if it has one. `body` calls nothing that could come here again.
#[inline(always)]
pub fn with<T>(slot: usize, body: impl FnOnce(&mut ThreadCache) -> T) -> Option<T> {
    let cache = CACHES.with(|caches| caches.get(slot).map_or(ptr::null_mut(), Cell::get));
    // SAFETY: null, or a cache of this thread that lives until the thread ends; `body` is the only one
    // that touches it now, by the contract above.
    unsafe { cache.as_mut() }.map(body)
}

/// Makes this thread's cache, unless it has one, the thread is ending, or there are too many pools.
#[cold]
pub fn open(slot: usize, pool: &'static Pool) {
    let is_missing = CACHES.with(|caches| caches.get(slot).is_some_and(|it| it.get().is_null()));
    if !is_missing || HAS_ENDED.get() || END.try_with(|_| ()).is_err() {
        return;
    }
    let cache = Box::new(ThreadCache {
        stacks: [const { Vec::new() }; COUNT],
        bytes: 0,
        waiting: Vec::new(),
        waiting_bytes: 0,
        shard: pool.account.open(),
        pool,
    });
    CACHES.with(|caches| caches[slot].set(Box::into_raw(cache)));
}

impl ThreadCache {
    /// A block of this class.
    #[inline(always)]
    pub fn pop(&mut self, class: usize) -> Option<Block> {
        let block = self.stacks[class].pop()?;
        self.bytes -= size_class::bytes(class);
        Some(block)
    }

    /// Keeps a block that any stream may use; whether there are too many now ([`ThreadCache::spill`]).
    #[inline(always)]
    pub fn push(&mut self, class: usize, block: Block) -> bool {
        self.stacks[class].push(block);
        self.bytes += size_class::bytes(class);
        self.bytes > KEPT || self.stacks[class].len() > 2 * size_class::batch(class)
    }

    /// Takes out the oldest half of a class.
    #[cold]
    pub fn spill(&mut self, class: usize) -> Vec<Block> {
        let stack = &mut self.stacks[class];
        let count = stack.len().div_ceil(2);
        self.bytes -= count * size_class::bytes(class);
        stack.drain(..count).collect()
    }

    /// Keeps a block that work may still use; whether there are too many now
    /// ([`ThreadCache::take_waiting`]).
    #[inline(always)]
    pub fn push_waiting(&mut self, block: Block) -> bool {
        self.waiting.push(block);
        self.waiting_bytes += block.bytes();
        self.waiting.len() >= WAITING_BLOCKS || self.waiting_bytes > WAITING_BYTES
    }

    /// Whether it is worth while to ask if they still wait, for who needs a block.
    pub fn is_worth_asking(&self) -> bool {
        self.waiting.len() >= WORTH_BLOCKS || self.waiting_bytes >= WORTH_BYTES
    }

    /// Takes out those that wait.
    pub fn take_waiting(&mut self) -> Vec<Block> {
        self.waiting_bytes = 0;
        std::mem::take(&mut self.waiting)
    }

    /// Takes out everything: what is ready, and what waits.
    pub fn drain(&mut self) -> (Vec<Block>, Vec<Block>) {
        self.bytes = 0;
        (self.stacks.iter_mut().flat_map(std::mem::take).collect(), self.take_waiting())
    }
}
