//! A thread's own free blocks of one device: no lock and no locked instruction to take one or give one.
//!
//! Rules: only its thread touches a cache, and never while anything else runs (a backend, a user's
//! callback), so nobody finds it half changed. What it keeps is bounded in bytes. It is given back when
//! its thread ends; what the thread does after that goes without.

use super::Pool;
use super::block::Block;
use super::lanes;
use super::size_class::{self, COUNT};
use crate::accounting::Shard;
use crate::fences::Stamp;
use crate::record::Record;
use once_cell::sync::OnceCell;
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::{self, NonNull};

/// The pools of a process that have caches; those of further devices go without.
pub const SLOTS: usize = 32;

/// The blocks of a class that are ready for use.
const KEPT_BLOCKS: usize = 256;
/// From so many freed blocks on it is worth while to ask whether they still have to wait: asking takes as
/// long as some dozens of allocations.
const WORTH_BLOCKS: usize = 128;
/// So many times as many may wait while another thread asks.
const MOST: usize = 4;

/// The streams that a thread keeps blocks for.
const LANES: usize = 4;
/// What such a lane holds, in bytes.
const LANE_BYTES: usize = 4 << 20;

/// A thread's own part of a stream's lane.
struct OwnLane {
    key: lanes::Key,
    stacks: [Vec<Block>; COUNT],
    bytes: usize,
}

impl OwnLane {
    fn new(key: lanes::Key) -> Box<OwnLane> {
        Box::new(OwnLane { key, stacks: [const { Vec::new() }; COUNT], bytes: 0 })
    }

    fn drain(&mut self) -> impl Iterator<Item = Block> + '_ {
        self.bytes = 0;
        self.stacks.iter_mut().flat_map(std::mem::take)
    }
}

/// What [`ThreadCache::push_on`] has no room for.
pub enum Excess {
    /// Of the same stream.
    OfStream(Vec<Block>),
    /// Of a stream that the thread has not used for long, and that may be gone.
    OfOther(Vec<Block>),
}

/// A cache.
pub struct ThreadCache {
    /// For each class; any stream may use these at once.
    stacks: [Vec<Block>; COUNT],
    bytes: usize,
    /// Freed while there was work that may use them, since the last stamp.
    waiting: Vec<Block>,
    waiting_bytes: usize,
    /// Freed before the last stamp. Behind no marks yet, like those above.
    stamped: Vec<Block>,
    stamped_bytes: usize,
    stamp: Option<Stamp>,
    /// What this thread freed in the order of a stream, for the streams that it used last; the latest first.
    lanes: [Option<Box<OwnLane>>; LANES],
    /// What this thread has counted for the device's account.
    pub shard: &'static Shard,
    pool: &'static Pool,
}

/// What a thread has of the pools. In one place, so that one look at the thread's storage finds all of it.
struct Own {
    caches: [Cell<*mut ThreadCache>; SLOTS],
    /// The records of the blocks that this thread was handed out last, each where its address says. A free
    /// looks here before it asks the table; what is here may be another block's by now, so it is read as
    /// any record that is found.
    hints: [Cell<Option<&'static Record>>; HINT_COUNT],
    has_ended: Cell<bool>,
}

thread_local! {
    // No destructor, so it stays readable while a thread's other storage is torn down.
    static OWN: Own = const {
        Own {
            caches: [const { Cell::new(ptr::null_mut()) }; SLOTS],
            hints: [const { Cell::new(None) }; HINT_COUNT],
            has_ended: Cell::new(false),
        }
    };
}

const HINT_COUNT: usize = 16;

#[inline(always)]
fn hint_of(address: usize) -> usize {
    let mixed = (address as u64 >> 8).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> (u64::BITS - HINT_COUNT.ilog2())) as usize
}

/// The record that may be that of the block at this address.
#[inline(always)]
pub fn hint(address: usize) -> Option<&'static Record> {
    OWN.with(|own| own.hints[hint_of(address)].get())
}

/// Remembers the record of a block that is handed out here.
#[inline(always)]
pub fn remember(block: Block) {
    OWN.with(|own| own.hints[hint_of(block.base())].set(Some(block.record())));
}

/// Has the caches given back when the thread ends; whether that could be had.
///
/// A key of `pthread` and not a destructor of thread-local storage: glibc registers those under the lock of
/// `dlopen`, so that a thread which allocates for the first time would wait for a library that is being
/// loaded, whose constructor may be waiting for that very thread.
fn watch_end() -> bool {
    static KEY: OnceCell<libc::pthread_key_t> = OnceCell::new();
    let made = KEY.get_or_try_init(|| {
        let mut key = 0;
        // SAFETY: the key is writable, and `give_back` takes whatever value.
        match unsafe { libc::pthread_key_create(&mut key, Some(give_back)) } {
            0 => Ok(key),
            code => Err(code),
        }
    });
    // SAFETY: the key was made above and is never deleted. The value is never followed; one that is not
    // NULL has the destructor called.
    made.is_ok_and(|key| unsafe { libc::pthread_setspecific(*key, NonNull::<c_void>::dangling().as_ptr()) } == 0)
}

/// What `pthread` calls at the end of a thread that has caches.
unsafe extern "C" fn give_back(_: *mut c_void) {
    OWN.with(|own| own.has_ended.set(true));
    for slot in 0..SLOTS {
        let cache = OWN.with(|own| own.caches[slot].replace(ptr::null_mut()));
        if !cache.is_null() {
            // SAFETY: `open` leaked it, and it has just left the only place that led to it.
            let mut cache = unsafe { Box::from_raw(cache) };
            let (ready, waiting) = cache.drain();
            cache.pool.take_back(ready, waiting, cache.shard);
        }
    }
}

/// Runs `body` on this thread's cache, if it has one. `body` calls nothing that could come here again.
#[inline(always)]
pub fn with<T>(slot: usize, body: impl FnOnce(&mut ThreadCache) -> T) -> Option<T> {
    let cache = OWN.with(|own| own.caches.get(slot).map_or(ptr::null_mut(), Cell::get));
    // SAFETY: null, or a cache of this thread that lives until the thread ends; `body` is the only one
    // that touches it now, by the contract above.
    unsafe { cache.as_mut() }.map(body)
}

/// Makes this thread's cache, unless it has one, the thread is ending, or there are too many pools.
#[cold]
pub fn open(slot: usize, pool: &'static Pool) {
    let is_missing = OWN.with(|own| own.caches.get(slot).is_some_and(|it| it.get().is_null()));
    if !is_missing || OWN.with(|own| own.has_ended.get()) || !watch_end() {
        return;
    }
    let cache = Box::new(ThreadCache {
        stacks: [const { Vec::new() }; COUNT],
        bytes: 0,
        waiting: Vec::new(),
        waiting_bytes: 0,
        stamped: Vec::new(),
        stamped_bytes: 0,
        stamp: None,
        lanes: [const { None }; LANES],
        shard: pool.account.open(),
        pool,
    });
    OWN.with(|own| own.caches[slot].set(Box::into_raw(cache)));
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
        self.bytes > self.pool.kept || self.stacks[class].len() > KEPT_BLOCKS
    }

    /// Takes out the oldest half of a class.
    #[cold]
    pub fn spill(&mut self, class: usize) -> Vec<Block> {
        let stack = &mut self.stacks[class];
        let count = stack.len().div_ceil(2);
        self.bytes -= count * size_class::bytes(class);
        stack.drain(..count).collect()
    }

    /// Keeps a block that work may still use; whether there are enough now to be stamped
    /// ([`ThreadCache::take_older`]), with this patience in bytes.
    #[inline(always)]
    pub fn push_waiting(&mut self, block: Block, patience: usize) -> bool {
        self.waiting.push(block);
        self.waiting_bytes += block.bytes();
        self.waiting.len() >= WORTH_BLOCKS / 2 || self.waiting_bytes > patience / 2
    }

    /// Whether it is worth while to ask if all that wait still have to, for who needs a block.
    pub fn is_worth_asking(&self, patience: usize) -> bool {
        self.waiting.len() + self.stamped.len() >= WORTH_BLOCKS
            || self.waiting_bytes + self.stamped_bytes >= patience
    }

    /// Whether too many wait to leave the asking to another thread.
    pub fn has_most(&self, patience: usize) -> bool {
        self.waiting.len() + self.stamped.len() >= MOST * WORTH_BLOCKS
            || self.waiting_bytes + self.stamped_bytes >= MOST * patience
    }

    /// When the older ones were freed, if there are any.
    pub fn stamp(&self) -> Option<Stamp> {
        self.stamp
    }

    /// Takes out the older ones, and has the others be the older ones from this time on.
    pub fn take_older(&mut self, now: Stamp) -> Vec<Block> {
        self.stamp = (!self.waiting.is_empty()).then_some(now);
        self.stamped_bytes = std::mem::take(&mut self.waiting_bytes);
        let older = std::mem::take(&mut self.stamped);
        self.stamped = std::mem::take(&mut self.waiting);
        older
    }

    /// Takes out all that wait.
    pub fn take_waiting(&mut self) -> Vec<Block> {
        self.waiting_bytes = 0;
        self.stamped_bytes = 0;
        self.stamp = None;
        let mut all = std::mem::take(&mut self.stamped);
        all.append(&mut self.waiting);
        all
    }

    /// A block of this class that the stream freed from this thread.
    #[inline(always)]
    pub fn pop_on(&mut self, key: lanes::Key, class: usize) -> Option<Block> {
        let lane = self.lanes.iter_mut().flatten().find(|lane| lane.key == key)?;
        let block = lane.stacks[class].pop()?;
        lane.bytes -= size_class::bytes(class);
        Some(block)
    }

    /// Keeps a block of this class that a stream freed, and answers what there is no room for.
    #[inline(always)]
    pub fn push_on(&mut self, key: lanes::Key, class: usize, block: Block) -> Option<Excess> {
        if let Some(lane) = self.lanes.iter_mut().flatten().find(|lane| lane.key == key) {
            lane.stacks[class].push(block);
            lane.bytes += size_class::bytes(class);
            let is_full = lane.bytes > LANE_BYTES || lane.stacks[class].len() > KEPT_BLOCKS;
            return is_full.then(|| Excess::OfStream(lane.drain().collect()));
        }
        self.begin_lane(key, class, block)
    }

    #[cold]
    fn begin_lane(&mut self, key: lanes::Key, class: usize, block: Block) -> Option<Excess> {
        self.lanes.rotate_right(1);
        let mut lane = OwnLane::new(key);
        lane.stacks[class].push(block);
        lane.bytes = size_class::bytes(class);
        let mut oldest = self.lanes[0].replace(lane)?;
        let blocks: Vec<Block> = oldest.drain().collect();
        (!blocks.is_empty()).then_some(Excess::OfOther(blocks))
    }

    /// Takes out what a stream freed from this thread, for it ends.
    pub fn end_lane(&mut self, key: lanes::Key) -> Vec<Block> {
        let of_key =
            |lane: &&mut Option<Box<OwnLane>>| lane.as_ref().is_some_and(|it| it.key == key);
        let lane = self.lanes.iter_mut().find(of_key).and_then(Option::take);
        lane.map_or_else(Vec::new, |mut lane| lane.drain().collect())
    }

    /// Takes out everything: what is ready, and what waits or belongs to a stream.
    pub fn drain(&mut self) -> (Vec<Block>, Vec<Block>) {
        self.bytes = 0;
        let mut waiting = self.take_waiting();
        for mut lane in self.lanes.iter_mut().filter_map(Option::take) {
            waiting.extend(lane.drain());
        }
        (self.stacks.iter_mut().flat_map(std::mem::take).collect(), waiting)
    }
}
