//! Which blocks of memory are ours.
//!
//! Rule: a pointer is looked up, never followed, so a free of anything at all can be answered. A
//! block leaves the table when it is freed, even while its memory must be kept for pending work.

use llaisys_runtime_core::api::Ordinal;
use llaisys_runtime_core::lock::{ForkLock, Mutex};
use llaisys_runtime_core::{Error, Result, Status};
use std::collections::BTreeMap;
use std::ffi::c_void;

/// What a block was allocated as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Memory of this device.
    Device(Ordinal),
    /// Managed memory: of a device, for the host and every device.
    Managed,
    /// Pinned host memory, usable with every device.
    Host,
}

impl Place {
    fn named(self) -> String {
        match self {
            Place::Device(ordinal) => format!("memory of CPU device {ordinal}"),
            Place::Managed => "managed memory of the CPU".to_owned(),
            Place::Host => "pinned host memory of the CPU".to_owned(),
        }
    }
}

/// A block of memory.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Its first byte.
    pub address: usize,
    /// Its size as it was asked for.
    pub size: usize,
    /// What it is.
    pub place: Place,
    /// The device that it was allocated for.
    pub device: Ordinal,
}

impl Block {
    /// Whether these bytes lie in it.
    pub fn holds(&self, address: usize, size: usize) -> bool {
        address
            .checked_sub(self.address)
            .and_then(|offset| self.size.checked_sub(offset))
            .is_some_and(|rest| size <= rest)
    }

    /// Whether it counts as memory of a device.
    pub fn is_on(&self, device: Ordinal) -> bool {
        self.place != Place::Host && self.device == device
    }
}

/// Every block that is allocated and not freed, in parts with a lock each.
pub struct Blocks {
    parts: [Mutex<BTreeMap<usize, Block>>; PARTS],
}

const PARTS: usize = 64;

impl Blocks {
    /// No blocks.
    pub fn new() -> Blocks {
        Blocks { parts: std::array::from_fn(|_| Mutex::new(BTreeMap::new())) }
    }

    fn part(&self, address: usize) -> &Mutex<BTreeMap<usize, Block>> {
        // The low bits are equal for all blocks; the top bits of a product depend on all others.
        let mixed = (address as u64 >> 6).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.parts[(mixed >> (u64::BITS - PARTS.ilog2())) as usize]
    }

    /// A block was allocated.
    pub fn insert(&self, block: Block) {
        self.part(block.address).lock().insert(block.address, block);
    }

    /// A block is freed.
    ///
    /// # Errors
    /// `INVALID_VALUE` for what is no block, or not of this place; then nothing changes.
    pub fn remove(&self, place: Place, pointer: *mut c_void) -> Result<Block> {
        let address = pointer as usize;
        let mut part = self.part(address).lock();
        let found = part.get(&address).copied();
        if found.is_some_and(|block| block.place == place) {
            part.remove(&address);
        }
        drop(part);
        match found {
            Some(block) if block.place == place => Ok(block),
            Some(block) => Err(Error::new(
                Status::InvalidValue,
                format!("{pointer:p} is {}, not {}", block.place.named(), place.named()),
            )),
            None => Err(Error::new(
                Status::InvalidValue,
                format!(
                    "{pointer:p} is not the start of a block of {}, or no longer",
                    place.named()
                ),
            )),
        }
    }

    /// The block that a byte lies in. Looks into every part unless the byte is the first of one.
    pub fn find(&self, address: usize) -> Option<Block> {
        if let Some(block) = self.part(address).lock().get(&address) {
            return Some(*block);
        }
        let before = |part: &Mutex<BTreeMap<usize, Block>>| {
            part.lock().range(..=address).next_back().map(|(_, block)| *block)
        };
        self.parts.iter().filter_map(before).find(|block| block.holds(address, 1))
    }

    /// The bytes of these blocks. Only right while nothing changes.
    pub fn bytes(&self, which: impl Fn(&Block) -> bool) -> u64 {
        let bytes = |part: &Mutex<BTreeMap<usize, Block>>| -> u64 {
            let blocks = part.lock();
            blocks.values().filter(|block| which(block)).map(|block| block.size as u64).sum()
        };
        self.parts.iter().map(bytes).sum()
    }

    /// Before a fork: keeps the locks.
    pub fn hold(&self) {
        self.parts.iter().for_each(ForkLock::hold);
    }

    /// After a fork: releases them.
    ///
    /// # Safety
    /// - `hold` was called before the fork, on the thread that forked.
    pub unsafe fn release(&self) {
        for part in &self.parts {
            // SAFETY: by the contract above.
            unsafe { part.release() };
        }
    }
}
