//! The way of a block back: to its thread, behind marks, to the central lists, to the heap, to the backend.
//!
//! Rule (contract M4): a block becomes ready for anybody only where it is known that nothing can be
//! pending that uses it; everywhere else it goes through the quarantine.

use super::block::{Block, Claimed, LARGE};
use super::heap::{self, Range};
use super::quarantine::{Batch, Fence};
use super::thread_cache::{Excess, ThreadCache};
use super::{Backing, KEPT, KEPT_PART, KEPT_SMALL, Pool, lanes, size_class, thread_cache};
use crate::pointers;
use std::sync::atomic::Ordering;

/// What a free leaves to be done.
enum Next {
    Nothing,
    /// The thread has too many blocks of a class.
    Spill,
    /// Enough blocks wait to be stamped.
    Stamp,
    /// The block goes to the heap.
    Return,
}

impl Pool {
    /// Takes a freed block in. `is_at_rest`: nothing can be pending that uses it.
    #[inline(always)]
    pub fn free(&'static self, freed: Claimed, is_at_rest: bool, backing: &dyn Backing) {
        let Claimed { block, size, class, .. } = freed;
        let patience = self.patience.load(Ordering::Relaxed);
        let done = thread_cache::with(self.slot, |cache| {
            let is_full = cache.shard.freed(size as u64);
            let next = if !is_at_rest {
                if cache.push_waiting(block, patience) { Next::Stamp } else { Next::Nothing }
            } else if class == LARGE {
                Next::Return
            } else if cache.push(class, block) {
                Next::Spill
            } else {
                Next::Nothing
            };
            (next, is_full)
        });
        match done {
            Some((Next::Nothing, false)) => {}
            Some((next, is_full)) => self.after_free(next, is_full, block, backing),
            None => self.free_without_cache(freed, is_at_rest, backing),
        }
    }

    #[cold]
    fn after_free(&'static self, next: Next, is_full: bool, block: Block, backing: &dyn Backing) {
        if is_full {
            self.fold();
        }
        match next {
            Next::Nothing => {}
            Next::Stamp => self.stamp(backing),
            Next::Return => self.put_heap(vec![block], backing),
            Next::Spill => {
                let class = block.class();
                let spilt = thread_cache::with(self.slot, |cache| cache.spill(class));
                self.put_central(spilt.unwrap_or_default(), backing);
            }
        }
    }

    /// A thread that has not allocated yet, or one that ends.
    #[cold]
    fn free_without_cache(&'static self, freed: Claimed, is_at_rest: bool, backing: &dyn Backing) {
        thread_cache::open(self.slot, self);
        if thread_cache::with(self.slot, |_| ()).is_some() {
            return self.free(freed, is_at_rest, backing);
        }
        self.account.freed(freed.size as u64);
        if is_at_rest {
            self.put_ready(vec![freed.block], backing);
        } else {
            self.push_unfenced(vec![freed.block]);
            self.settle(backing, true);
        }
    }

    /// Takes in a block that was freed in the order of a stream, which the caller keeps alive, and which is
    /// done with it behind what it has now. The caller has counted it.
    pub fn free_on(&'static self, block: Block, key: lanes::Key, backing: &dyn Backing) {
        thread_cache::open(self.slot, self);
        let class = block.class();
        let own = thread_cache::with(self.slot, |cache| {
            if class == LARGE { None } else { Some(cache.push_on(key, class, block)) }
        });
        let excess = match own.flatten() {
            Some(None) => return,
            Some(Some(Excess::OfOther(blocks))) => return self.push_unfenced(blocks),
            Some(Some(Excess::OfStream(blocks))) => blocks,
            None => vec![block],
        };
        let older = self.lanes.put(key, excess);
        if older.is_empty() {
            return;
        }
        match backing.fence_of(self.place.device, key.0) {
            Fence::Over => self.put_ready(older, backing),
            Fence::Until(until) => self.push(Batch { blocks: older, until }),
            Fence::Unknown => self.push_unfenced(older),
        }
    }

    /// A block that this very stream freed.
    pub fn take_of(&self, key: lanes::Key, size: usize) -> Option<Block> {
        let own = |cache: &mut ThreadCache| cache.pop_on(key, size_class::of(size));
        let own = (size <= size_class::LARGEST).then(|| thread_cache::with(self.slot, own));
        own.flatten().flatten().or_else(|| self.lanes.take(key, size))
    }

    /// A stream ends: what it freed waits for its end. What it freed from other threads waits in these, where
    /// nobody finds it (S3), until they need the room, end or trim.
    pub fn end_lane(&self, key: lanes::Key) {
        let mut blocks = self.lanes.end(key);
        let own = thread_cache::with(self.slot, |cache| cache.end_lane(key));
        blocks.extend(own.unwrap_or_default());
        self.push_unfenced(blocks);
    }

    pub(super) fn push(&self, batch: Batch) {
        self.quarantine.lock().push(batch);
        self.waiting.fetch_add(1, Ordering::Release);
    }

    pub(super) fn push_unfenced(&self, blocks: Vec<Block>) {
        if !blocks.is_empty() {
            self.quarantine.lock().put_unfenced(blocks);
            self.waiting.fetch_add(1, Ordering::Release);
        }
    }

    /// Enough of the thread's blocks wait. The older ones are anybody's if a fence has passed since they were
    /// stamped, whoever asked for it; otherwise all are put behind marks.
    #[cold]
    fn stamp(&'static self, backing: &dyn Backing) {
        let stamp = thread_cache::with(self.slot, |cache| cache.stamp()).flatten();
        if stamp.is_some_and(|stamp| !backing.are_past(stamp)) {
            if !self.leaves_it_to_others(backing) {
                self.settle(backing, true);
            }
            return;
        }
        let now = backing.stamp();
        let older = thread_cache::with(self.slot, |cache| cache.take_older(now));
        self.put_ready(older.unwrap_or_default(), backing);
    }

    /// Whether another thread is asking just now, and this one can let its blocks wait meanwhile.
    fn leaves_it_to_others(&self, backing: &dyn Backing) -> bool {
        let patience = self.patience.load(Ordering::Relaxed);
        let has_most = |cache: &mut ThreadCache| cache.has_most(patience);
        backing.are_asked() && thread_cache::with(self.slot, has_most) == Some(false)
    }

    /// Finds out which freed blocks need not wait any longer, and puts the thread's own behind marks when
    /// there are enough of them, or when it `must`.
    #[cold]
    pub(super) fn settle(&'static self, backing: &dyn Backing, must: bool) {
        let patience = self.patience.load(Ordering::Relaxed);
        let stamp = thread_cache::with(self.slot, |cache| cache.stamp()).flatten();
        if !must && stamp.is_some_and(|stamp| backing.are_past(stamp)) {
            return self.stamp(backing);
        }
        let is_left = !must && self.leaves_it_to_others(backing);
        let own = thread_cache::with(self.slot, |cache| {
            let is_due = must || cache.is_worth_asking(patience) && !is_left;
            if is_due { cache.take_waiting() } else { Vec::new() }
        });
        let mut blocks = own.unwrap_or_default();
        if self.waiting.load(Ordering::Acquire) != 0 {
            blocks.extend(self.quarantine.lock().take_unfenced());
            self.collect(backing, false);
        }
        if blocks.is_empty() {
            return;
        }
        match backing.fence() {
            Fence::Over => self.put_ready(blocks, backing),
            Fence::Until(until) => self.push(Batch { blocks, until }),
            Fence::Unknown => self.push_unfenced(blocks),
        }
    }

    /// Takes in the batches whose marks were reached, from the oldest on; with `wait`, waits for the first
    /// one. Whether there was one.
    pub(super) fn collect(&'static self, backing: &dyn Backing, wait: bool) -> bool {
        let mut found = false;
        loop {
            let popped = self.quarantine.lock().pop();
            let Some(mut batch) = popped else {
                let quarantine = self.quarantine.lock();
                if quarantine.is_empty() {
                    self.waiting.store(0, Ordering::Release);
                }
                return found;
            };
            if !backing.pass(&mut batch.until, wait && !found) {
                self.quarantine.lock().put_back(batch);
                self.waiting.fetch_add(1, Ordering::Release);
                return found;
            }
            found = true;
            self.put_ready(batch.blocks, backing);
        }
    }

    /// Takes in blocks that any stream may use: into the thread's cache, while there is room, or the
    /// central lists; large ones into the heap.
    fn put_ready(&self, blocks: Vec<Block>, backing: &dyn Backing) {
        let (large, mut small): (Vec<_>, Vec<_>) =
            blocks.into_iter().partition(|block| block.class() == LARGE);
        thread_cache::with(self.slot, |cache| {
            while let Some(block) = small.pop() {
                if cache.push(block.class(), block) {
                    small.extend(cache.spill(block.class()));
                    break;
                }
            }
        });
        self.put_central(small, backing);
        self.put_heap(large, backing);
    }

    pub(super) fn put_central(&self, blocks: Vec<Block>, backing: &dyn Backing) {
        if blocks.is_empty() {
            return;
        }
        let mut central = self.central.lock();
        central.put(blocks);
        let above = central.overflow();
        drop(central);
        self.put_heap(above, backing);
    }

    /// Gives blocks back to the heap, and segments that nobody uses to the backend when there are many.
    fn put_heap(&self, blocks: Vec<Block>, backing: &dyn Backing) {
        if blocks.is_empty() {
            return;
        }
        // What a record says goes with it.
        let freed = blocks.iter().map(|block| (size_class::is_small(block.class()), block.piece()));
        let freed: Vec<(bool, heap::PieceId)> = freed.collect();
        pointers::remove_pooled(blocks.iter().map(|block| (block.record(), block.bytes())));
        let of = |is_small| {
            freed.iter().filter(move |(small, _)| *small == is_small).map(|(_, piece)| *piece)
        };
        let mut unused = Vec::new();
        if of(true).next().is_some() {
            let mut heap = self.small.lock();
            of(true).for_each(|piece| heap.release(piece));
            unused = heap.shrink(KEPT_SMALL);
        }
        if of(false).next().is_none() && unused.is_empty() {
            return;
        }
        let mut heap = self.large.lock();
        let origins = unused.iter().map(|segment| segment.origin);
        of(false).chain(origins).for_each(|piece| heap.release(piece));
        let kept = KEPT.max(heap.reserved() / KEPT_PART);
        let unused = heap.shrink(kept);
        drop(heap);
        self.give_back(unused, backing);
    }

    fn give_back(&self, segments: Vec<Range>, backing: &dyn Backing) {
        for segment in segments {
            pointers::remove_segment(segment.base);
            backing.release(self.place, segment.base);
        }
    }

    /// Gives up what is cached and unused until at most `keep` bytes are: the thread's own, the central lists,
    /// what need not wait any longer, what streams keep for themselves.
    pub fn trim(&'static self, keep: usize, backing: &dyn Backing) {
        let own = thread_cache::with(self.slot, |cache| cache.drain());
        let (mut ready, waiting) = own.unwrap_or_default();
        self.push_unfenced(waiting);
        self.push_unfenced(self.lanes.drain());
        self.settle(backing, true);
        // What settled went to the thread's cache again.
        let settled = thread_cache::with(self.slot, |cache| cache.drain().0);
        ready.extend(settled.unwrap_or_default());
        ready.extend(self.central.lock().drain());
        self.put_heap(ready, backing);
        let (segments, small) = {
            let mut small = self.small.lock();
            (small.shrink(0), small.free_bytes())
        };
        let mut large = self.large.lock();
        segments.iter().for_each(|segment| large.release(segment.origin));
        let excess = (small + large.free_bytes()).saturating_sub(keep);
        let kept = large.unused_bytes().saturating_sub(excess);
        let unused = large.shrink(kept);
        drop(large);
        self.give_back(unused, backing);
    }

    /// Waits until some freed memory need not wait any longer, and trims; false when none waits.
    pub fn wait(&'static self, backing: &dyn Backing) -> bool {
        let found = self.collect(backing, true);
        if found {
            self.trim(0, backing);
        }
        found
    }
}
