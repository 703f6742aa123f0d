//! The allocator of device memory, and of pinned memory where that is another one: pools of blocks over
//! segments that the backend allocated.
//!
//! ```text
//!   malloc_device ──▶ thread cache ──▶ central lists ──▶ heap ──▶ segment of the backend
//!                     (no lock)        (a batch)         (TLSF)   (its own malloc_device)
//!   free_device ────▶ thread cache, if nobody can have work; otherwise it waits there, and goes in
//!                     batches through the quarantine, behind marks
//!   free_async ─────▶ the lane of its stream ──▶ that stream's next malloc_async
//! ```
//!
//! | what | file |
//! |---|---|
//! | in which sizes small blocks come | `size_class` |
//! | a thread's own blocks | `thread_cache` |
//! | blocks for all threads | `central` |
//! | pieces of segments | `heap` |
//! | a block, live or free | `block`, over `record` and `pointers` |
//! | the way back: free, trim | `freeing` |
//! | freed while work may use it (M4) | `quarantine`, behind the ends of `sources` and the `copies` under way |
//! | freed in a stream's order (M7) | `lanes` |
//! | whether a backend has pools at all | `mode` |
//!
//! Rules: no lock is held while the backend runs, and one lock at a time. Blocks above [`LARGEST`] are
//! the backend's own. What is kept beyond what is used is bounded: in a thread by
//! 4 to 16 MiB by the size of the device, as much in what waits (four times while another thread asks), and
//! 4 MiB for each of four streams; 8 MiB in the central lists of a device, 32 MiB in a stream's lane, an
//! eighth of a small block; and segments nobody uses above 64 MiB go back.

pub mod block;
mod central;
pub mod copies;
mod freeing;
mod heap;
mod lanes;
pub mod mode;
pub mod quarantine;
mod size_class;
pub mod sources;
#[cfg(test)]
mod tests;
mod thread_cache;

use crate::accounting::{Account, Shard};
use crate::api::{Ordinal, Stream};
use crate::error::{Error, Result};
use crate::fences::Stamp;
use crate::lock::{ForkLock, Mutex};
use crate::pointers::{self, MemoryKind, Place};
use crate::status::Status;
use block::{Block, LARGE};
use central::Central;
use heap::{Heap, Range};
use lanes::Lanes;
use quarantine::{Fence, Quarantine, Until};
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The largest size that comes from a pool.
pub const LARGEST: usize = 64 << 20;

/// Segments are multiples of this, a huge page.
const SEGMENT: usize = 2 << 20;
/// The largest segment that is asked for beyond what an allocation needs.
const LARGEST_SEGMENT: usize = 256 << 20;
/// A heap grows by this part of what it has, which bounds what a new segment can waste.
const GROWTH: usize = 32;
/// Sizes above all classes are multiples of this.
const PAGE: usize = 4096;
/// The bytes that a heap may keep in segments that nobody uses, or, if that is more, this part of what it has.
const KEPT: usize = 64 << 20;
const KEPT_PART: usize = 16;

/// The same of the heap for small blocks.
const KEPT_SMALL: usize = 4 << 20;

/// The part of a device that a thread keeps ready, and the least and the most of that, in bytes. It lets as
/// much wait before it asks whether that still has to, and of a large pool this part.
const KEPT_OF_DEVICE: u64 = 8192;
const KEPT_BY_THREAD: (usize, usize) = (4 << 20, 16 << 20);
const PATIENCE_PART: usize = 256;

/// What a pool asks of its backend. No lock is held meanwhile.
pub trait Backing {
    /// Allocates a segment.
    ///
    /// # Errors
    /// As for `malloc_device` or `malloc_host`.
    fn reserve(&self, place: Place, size: usize) -> Result<usize>;

    /// Gives a segment back that nobody uses.
    fn release(&self, place: Place, base: usize);

    /// The present time, for [`Backing::are_past`].
    fn stamp(&self) -> Stamp;

    /// Whether a fence that began after a time found everything done: what was freed before is anybody's.
    fn are_past(&self, stamp: Stamp) -> bool;

    /// Whether another thread is finding that out.
    fn are_asked(&self) -> bool;

    /// What stands between what was freed until now and its use.
    fn fence(&self) -> Fence;

    /// What stands on a stream, which is kept alive by the caller.
    fn fence_of(&self, device: Ordinal, stream: Stream) -> Fence;

    /// Takes out what was reached; with `wait`, waits for all. Whether nothing is left.
    fn pass(&self, until: &mut Until, wait: bool) -> bool;
}

/// The memory of one kind on one device.
pub struct Pool {
    slot: usize,
    place: Place,
    account: &'static Account,
    central: Mutex<Central>,
    /// Over the backend's segments.
    large: Mutex<Heap>,
    /// For small blocks, over pieces of the other heap: small ones that live long would keep
    /// large pieces from becoming one.
    small: Mutex<Heap>,
    quarantine: Mutex<Quarantine>,
    /// How many batches wait, and one for blocks that are behind no marks.
    waiting: AtomicUsize,
    /// What a thread keeps ready, in bytes.
    kept: usize,
    /// The bytes that a thread lets wait before it asks whether they still have to.
    patience: AtomicUsize,
    lanes: Lanes,
}

static NEXT_SLOT: AtomicUsize = AtomicUsize::new(0);

impl Pool {
    /// A pool that holds nothing yet, on a device with `total` bytes.
    pub fn new(place: Place, account: &'static Account, total: u64) -> Pool {
        let kept = usize::try_from(total / KEPT_OF_DEVICE).unwrap_or(usize::MAX);
        let kept = kept.clamp(KEPT_BY_THREAD.0, KEPT_BY_THREAD.1);
        Pool {
            slot: NEXT_SLOT.fetch_add(1, Ordering::Relaxed),
            place,
            account,
            central: Mutex::new(Central::new()),
            small: Mutex::new(Heap::new()),
            large: Mutex::new(Heap::new()),
            quarantine: Mutex::new(Quarantine::new()),
            waiting: AtomicUsize::new(0),
            kept,
            patience: AtomicUsize::new(kept),
            lanes: Lanes::new(),
        }
    }

    /// The shortest way: a block of the thread's own, counted in its shard. `None` where there is none, or
    /// where it takes more than that.
    #[inline(always)]
    pub fn take(&self, size: usize) -> Option<*mut c_void> {
        if size.wrapping_sub(1) >= size_class::LARGEST || self.account.has_limit() {
            return None;
        }
        let (pointer, is_full) = thread_cache::with(self.slot, |cache| {
            let block = cache.pop(size_class::of(size))?;
            thread_cache::remember(block);
            Some((block.hand_out(size), cache.shard.allocated(size as u64)))
        })??;
        if is_full {
            self.fold();
        }
        Some(pointer)
    }

    /// The same of a block that this very stream freed from this thread.
    #[inline(always)]
    pub fn take_on(&self, key: lanes::Key, size: usize) -> Option<*mut c_void> {
        if size.wrapping_sub(1) >= size_class::LARGEST || self.account.has_limit() {
            return None;
        }
        let (pointer, is_full) = thread_cache::with(self.slot, |cache| {
            let block = cache.pop_on(key, size_class::of(size))?;
            thread_cache::remember(block);
            let pointer = block.hand_out_on(size, key.0, key.1);
            Some((pointer, cache.shard.allocated(size as u64)))
        })??;
        if is_full {
            self.fold();
        }
        Some(pointer)
    }

    /// A block of `size` bytes, at most [`LARGEST`], which is the caller's to hand out. Nothing is counted.
    ///
    /// # Errors
    /// As for `malloc_device` of the backend.
    pub fn allocate(&'static self, size: usize, backing: &dyn Backing) -> Result<Block> {
        thread_cache::open(self.slot, self);
        if size > size_class::LARGEST {
            self.settle(backing, false);
            return self.allocate_large(size.next_multiple_of(PAGE), backing);
        }
        let class = size_class::of(size);
        if let Some(block) = self.own(class) {
            return Ok(block);
        }
        self.settle(backing, false);
        if let Some(block) = self.own(class) {
            return Ok(block);
        }
        let mut blocks = self.central.lock().take(class);
        if blocks.is_empty() {
            blocks = self.carve(class, backing)?;
        }
        let block = blocks.pop().ok_or_else(no_room)?;
        // The lowest addresses last, so that they are the next.
        blocks.reverse();
        let left = thread_cache::with(self.slot, |cache| {
            for block in blocks.drain(..) {
                cache.push(class, block);
            }
        });
        if left.is_none() {
            self.central.lock().put(blocks);
        }
        Ok(block)
    }

    fn own(&self, class: usize) -> Option<Block> {
        thread_cache::with(self.slot, |cache| cache.pop(class))?
    }

    /// A batch of blocks of a class from the heap.
    fn carve(&self, class: usize, backing: &dyn Backing) -> Result<Vec<Block>> {
        let (bytes, batch) = (size_class::bytes(class), size_class::batch(class));
        if !size_class::is_small(class) {
            let piece = self.piece(bytes, backing)?;
            return Ok(self.enter(&[piece], bytes, class));
        }
        let mut run = self.small.lock().allocate_run(bytes, batch);
        if run.is_empty() {
            let (origin, base) = self.piece(SEGMENT, backing)?;
            let mut small = self.small.lock();
            small.grow(Range { base, size: SEGMENT, origin });
            run = small.allocate_run(bytes, batch);
        }
        Ok(self.enter(&run, bytes, class))
    }

    fn allocate_large(&self, bytes: usize, backing: &dyn Backing) -> Result<Block> {
        let run = [self.piece(bytes, backing)?];
        self.enter(&run, bytes, LARGE).pop().ok_or_else(no_room)
    }

    /// A piece of the backend's memory.
    fn piece(&self, bytes: usize, backing: &dyn Backing) -> Result<(heap::PieceId, usize)> {
        let (found, reserved) = {
            let mut large = self.large.lock();
            (large.allocate(bytes), large.reserved())
        };
        if let Some(piece) = found {
            return Ok(piece);
        }
        let more = (reserved / GROWTH).clamp(SEGMENT, LARGEST_SEGMENT);
        let mut size = bytes.max(more).next_multiple_of(SEGMENT);
        let base = match backing.reserve(self.place, size) {
            Err(error) if error.status() == Status::OutOfMemory && size > bytes => {
                size = bytes;
                backing.reserve(self.place, size)?
            }
            outcome => outcome?,
        };
        // A refused segment is not given back: that would free what is in use.
        pointers::insert_segment(self.place, base, size)?;
        let mut large = self.large.lock();
        large.grow(Range { base, size, origin: 0 });
        self.patience.store(self.kept.max(large.reserved() / PATIENCE_PART), Ordering::Relaxed);
        large.allocate(bytes).ok_or_else(no_room)
    }

    /// Puts pieces into the table of all pointers, as free blocks.
    fn enter(&self, run: &[(heap::PieceId, usize)], bytes: usize, class: usize) -> Vec<Block> {
        let bases = run.iter().map(|(_, base)| *base);
        let records = pointers::insert_pooled(self.place, class, bytes, bases);
        let block =
            |(record, (piece, _)): (_, &(heap::PieceId, usize))| Block::new(record, *piece, bytes);
        records.into_iter().zip(run).map(block).collect()
    }

    /// The bytes that were freed and wait for work.
    pub fn waiting_bytes(&self) -> usize {
        self.quarantine.lock().bytes()
    }

    /// What holds the memory, for people.
    pub fn report(&self) -> String {
        let (waiting, central, lanes) =
            (self.quarantine.lock().bytes(), self.central.lock().bytes(), self.lanes.bytes());
        let of = |heap: &Mutex<Heap>| {
            let heap = heap.lock();
            (heap.reserved(), heap.free_bytes(), heap.largest())
        };
        let (small, large) = (of(&self.small), of(&self.large));
        format!(
            "the pool holds {} bytes: {} free in its heap (the largest piece {}), {} free in its \
             lists, {lanes} kept by streams, {waiting} freed and waiting for work",
            large.0,
            small.1 + large.1,
            small.2.max(large.2),
            central,
        )
    }

    /// The bytes that the pool has from the backend.
    pub fn reserved(&self) -> usize {
        self.large.lock().reserved()
    }

    /// What it gives out.
    pub fn kind(&self) -> MemoryKind {
        self.place.kind
    }

    /// The device's account.
    pub fn account(&self) -> &'static Account {
        self.account
    }

    /// Counts a block that was handed out; no limit is set.
    pub fn count(&self, size: usize) {
        match thread_cache::with(self.slot, |cache| cache.shard.allocated(size as u64)) {
            Some(false) => {}
            Some(true) => self.fold(),
            None => {
                self.account.add(size as u64);
                self.account.allocated();
            }
        }
    }

    /// Counts a block that came back.
    pub fn uncount(&self, size: usize) {
        match thread_cache::with(self.slot, |cache| cache.shard.freed(size as u64)) {
            Some(false) => {}
            Some(true) => self.fold(),
            None => self.account.freed(size as u64),
        }
    }

    #[cold]
    fn fold(&self) {
        let shard = thread_cache::with(self.slot, |cache| cache.shard);
        if let Some(shard) = shard {
            self.account.fold(shard);
        }
    }

    /// Takes in what a thread had that ends.
    fn take_back(&self, ready: Vec<Block>, waiting: Vec<Block>, shard: &'static Shard) {
        self.central.lock().put(ready);
        self.push_unfenced(waiting);
        self.account.close(shard);
    }

    /// Before a fork: keeps the locks. The account's is its owner's to keep.
    pub fn hold(&self) {
        self.central.hold();
        self.small.hold();
        self.large.hold();
        self.quarantine.hold();
        self.lanes.hold();
    }

    /// After a fork: releases them.
    ///
    /// # Safety
    /// - `hold` was called before the fork, on the thread that forked.
    pub unsafe fn release(&self) {
        // SAFETY: by the contract above.
        unsafe {
            self.central.release();
            self.small.release();
            self.large.release();
            self.quarantine.release();
            self.lanes.release();
        }
    }

    /// In the child of a fork, where no work of the parent's is.
    pub fn forget_work(&self) {
        self.quarantine.lock().forget_work();
    }
}

#[cold]
fn no_room() -> Error {
    Error::new(Status::Internal, "a heap that was grown has no room")
}
