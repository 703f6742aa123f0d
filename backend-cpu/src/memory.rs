//! Where memory comes from and when it goes back: one heap for every device and for pinned memory.
//!
//! Rules: device and managed blocks are aligned to 256 bytes, pinned ones to 64 (contract M2), large
//! ones to a huge page. A freed block goes back to the system, and can come out of any allocator
//! again, only when no work that was pending at its free is left (M4, M6; of a stream-ordered free,
//! no work of its stream: M7); until then it counts as used.

use crate::blocks::{Block, Blocks, Place};
use crate::budget::Budget;
use crate::c_heap;
use crate::deferred::Deferred;
use crate::host_call;
use crate::position::Position;
use crate::queue::Queue;
use crate::registrations::Registrations;
use crate::signal::Signal;
use crate::strict::Strict;
use llaisys_runtime_core::api::{LlaisysMemoryInfo, Ordinal};
use llaisys_runtime_core::{Error, Result, Status};
use std::ffi::c_void;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::thread;

const DEVICE_ALIGNMENT: usize = 256;
const HOST_ALIGNMENT: usize = 64;
/// From this size on memory is aligned to it and asked for in huge pages.
const HUGE_PAGE: usize = 2 << 20;

/// The heap.
pub struct Memory {
    budget: Budget,
    blocks: Blocks,
    deferred: Deferred,
    /// How many threads are giving blocks back. They do not wait for anything meanwhile.
    reaping: AtomicUsize,
    /// How many blocks went back to the system.
    returned: AtomicU64,
    /// That `returned` has changed.
    has_returned: Signal,
    /// The user's own memory that is registered.
    pub registrations: Registrations,
    /// Device memory that the host cannot touch, where that was asked for.
    strict: Option<&'static Strict>,
}

impl Memory {
    /// Nothing allocated.
    pub fn new(limit: Option<u64>, is_strict: bool) -> Memory {
        Memory {
            budget: Budget::new(limit),
            blocks: Blocks::new(),
            deferred: Deferred::new(),
            reaping: AtomicUsize::new(0),
            returned: AtomicU64::new(0),
            has_returned: Signal::new(),
            registrations: Registrations::default(),
            strict: is_strict.then(Strict::begin),
        }
    }

    /// Allocates. When memory is short, freed blocks that still wait for their streams are waited
    /// for (E4).
    ///
    /// # Errors
    /// `OUT_OF_MEMORY` with what was asked and what there is; `NOT_PERMITTED` in a host function
    /// that would have to wait.
    pub fn allocate(&self, device: Ordinal, place: Place, size: usize) -> Result<*mut c_void> {
        self.reap();
        let mut last = false;
        loop {
            let returned = self.returned.load(SeqCst);
            if self.budget.take(place, size) {
                if let Some(pointer) = self.obtain(device, place, size) {
                    self.blocks.insert(Block { address: pointer as usize, size, place, device });
                    return Ok(pointer);
                }
                self.budget.give_back(place, size);
            }
            match self.deferred.bytes(None) {
                bytes @ 1.. if self.budget.fits(place, size, bytes) => {
                    host_call::check_may_wait("allocating what was freed but is still in use")?;
                    // Whichever comes back first: the streams of other blocks may take long.
                    self.has_returned.wait(|| self.returned.load(SeqCst) != returned);
                }
                _ if last => return Err(self.out_of_memory(device, place, size)),
                _ => {
                    // Another thread may be giving blocks back that are on no list any more.
                    while self.reaping.load(SeqCst) != 0 {
                        thread::yield_now();
                    }
                    last = true;
                }
            }
        }
    }

    /// Takes a block out of the table: it is freed, as far as the caller can tell.
    ///
    /// # Errors
    /// `INVALID_VALUE` for what is no block of this place; then nothing changes.
    pub fn take(&self, place: Place, pointer: *mut c_void) -> Result<Block> {
        let block = self.blocks.remove(place, pointer)?;
        if let Some(strict) = self.strict {
            strict.mark_freed(block.address);
        }
        Ok(block)
    }

    /// Gives a block that was taken back to the system once these points are passed, where it was
    /// freed behind a stream, or behind all of them.
    pub fn give_back(&self, block: Block, stream: Option<&'static Queue>, until: Vec<Position>) {
        if until.is_empty() {
            self.to_system(block);
        } else {
            self.deferred.push(block, stream, until);
            self.reap();
        }
    }

    /// Gives back what need not wait any longer. Cheap when nothing waits.
    pub fn reap(&self) {
        if self.deferred.is_empty() {
            return;
        }
        self.reaping.fetch_add(1, SeqCst);
        loop {
            while let Some(blocks) = self.deferred.take_over() {
                blocks.into_iter().for_each(|block| self.to_system(block));
            }
            if !self.deferred.alert() {
                break;
            }
        }
        self.reaping.fetch_sub(1, SeqCst);
    }

    /// All bytes that a place may have.
    pub fn total(&self, place: Place) -> u64 {
        self.budget.total(place)
    }

    /// How much a place has and can still have.
    pub fn information(&self, place: Place) -> LlaisysMemoryInfo {
        LlaisysMemoryInfo::new(self.budget.free(place), self.budget.total(place))
    }

    /// The block that a byte lies in.
    pub fn find(&self, address: usize) -> Option<Block> {
        self.blocks.find(address)
    }

    /// The bytes that are held for a device: used, or freed and still waiting for a stream.
    pub fn held(&self, device: Ordinal) -> u64 {
        self.blocks.bytes(|block| block.is_on(device)) + self.deferred.bytes(Some(device))
    }

    /// Gives everything back that nobody uses: blocks whose streams have passed, and what the C
    /// library keeps for later.
    pub fn trim(&self) {
        self.reap();
        c_heap::trim();
    }

    /// Where the bytes are that an operation uses: in strict mode not at the block's address.
    ///
    /// # Errors
    /// `INVALID_VALUE` for what is not inside a live block, in strict mode.
    #[inline]
    pub fn reach<P: Pointer>(&self, pointer: P, size: usize) -> Result<P> {
        match self.strict {
            None => Ok(pointer),
            Some(strict) => strict.reach(pointer.address(), size).map(P::at),
        }
    }

    /// Whether the host cannot touch device memory.
    #[inline]
    pub fn is_strict(&self) -> bool {
        self.strict.is_some()
    }

    fn obtain(&self, device: Ordinal, place: Place, size: usize) -> Option<*mut c_void> {
        let memory = from_system(place, size)?;
        match (self.strict, place) {
            (Some(strict), Place::Device(_)) => {
                let address = strict.insert(memory as usize, size, device);
                if address.is_none() {
                    // SAFETY: just allocated, and nobody knows it.
                    unsafe { libc::free(memory) };
                }
                address
            }
            _ => Some(memory),
        }
    }

    fn to_system(&self, block: Block) {
        let memory = match (self.strict, block.place) {
            (Some(strict), Place::Device(_)) => strict.remove(block.address).unwrap_or_default(),
            _ => block.address,
        };
        // SAFETY: the memory came from `posix_memalign`, its block left the table exactly once, and
        // nobody uses it any more: no pending work, and its owner freed it.
        unsafe { libc::free(memory as *mut c_void) };
        self.budget.give_back(block.place, block.size);
        self.returned.fetch_add(1, SeqCst);
        self.has_returned.notify();
    }

    #[cold]
    fn out_of_memory(&self, device: Ordinal, place: Place, size: usize) -> Error {
        let (free, total) = (self.budget.free(place), self.budget.total(place));
        let what = match place {
            Place::Device(_) => format!("on CPU device {device}"),
            Place::Managed => format!("of managed memory on CPU device {device}"),
            Place::Host => "of pinned memory".to_owned(),
        };
        Error::new(
            Status::OutOfMemory,
            format!("{size} bytes requested {what}, {free} free of {total}"),
        )
    }

    /// Before a fork: keeps the locks.
    pub fn hold(&self) {
        self.budget.hold();
        self.blocks.hold();
        self.deferred.hold();
        self.registrations.hold();
        if let Some(strict) = self.strict {
            strict.hold();
        }
    }

    /// After a fork: releases them.
    ///
    /// # Safety
    /// - `hold` was called before the fork, on the thread that forked.
    pub unsafe fn release(&self) {
        // SAFETY: by the contract above.
        unsafe {
            self.budget.release();
            self.blocks.release();
            self.deferred.release();
            self.registrations.release();
            if let Some(strict) = self.strict {
                strict.release();
            }
        }
    }

    /// In the child of a fork, after the streams have forgotten their work: nothing is waited for,
    /// and what other threads were about to allocate or free is not counted.
    pub fn forget_threads(&self) {
        self.reaping.store(0, SeqCst);
        self.has_returned.forget_waiters();
        self.reap();
        let is_host = |block: &Block| block.place == Place::Host;
        let device = self.blocks.bytes(|block| !is_host(block));
        self.budget.set_used(device, self.blocks.bytes(is_host));
    }
}

/// A pointer to what an operation reads or writes.
pub trait Pointer {
    /// Its address.
    fn address(&self) -> usize;
    /// The pointer with this address.
    fn at(address: usize) -> Self;
}

impl Pointer for *mut c_void {
    fn address(&self) -> usize {
        *self as usize
    }
    fn at(address: usize) -> Self {
        address as *mut c_void
    }
}

impl Pointer for *const c_void {
    fn address(&self) -> usize {
        *self as usize
    }
    fn at(address: usize) -> Self {
        address as *const c_void
    }
}

fn from_system(place: Place, size: usize) -> Option<*mut c_void> {
    let alignment = match place {
        _ if size >= HUGE_PAGE => HUGE_PAGE,
        Place::Device(_) | Place::Managed => DEVICE_ALIGNMENT,
        Place::Host => HOST_ALIGNMENT,
    };
    let mut pointer = std::ptr::null_mut();
    // SAFETY: the alignment is a power of two and a multiple of a pointer; the result goes to a
    // local, which is read only on success.
    if unsafe { libc::posix_memalign(&mut pointer, alignment, size) } != 0 {
        return None;
    }
    if size >= HUGE_PAGE {
        // Whole huge pages only: the rest of the last one may belong to others. A hint that may fail.
        let whole = size - size % HUGE_PAGE;
        // SAFETY: the range lies inside the block that was just made; the advice keeps its contents.
        unsafe { libc::madvise(pointer, whole, libc::MADV_HUGEPAGE) };
    }
    Some(pointer)
}
