//! Which blocks of memory are ours.
//!
//! Rule: a pointer is looked up, never followed, so a free of anything at all can be answered. A
//! block leaves the table when it is freed, even while its memory must be kept for pending work.

use llaisys_runtime_core::api::Ordinal;
use llaisys_runtime_core::lock::{ForkLock, Mutex};
use llaisys_runtime_core::{Error, Result, Status};
use std::collections::HashMap;
use std::ffi::c_void;

/// What a block was allocated as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Memory of this device.
    Device(Ordinal),
    /// Pinned host memory, usable with every device.
    Host,
}

impl Place {
    fn named(self) -> String {
        match self {
            Place::Device(ordinal) => format!("memory of CPU device {ordinal}"),
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
}

/// Every block that is allocated and not freed, in parts with a lock each.
pub struct Blocks {
    parts: [Mutex<HashMap<usize, Block>>; PARTS],
}

const PARTS: usize = 64;

impl Blocks {
    /// No blocks.
    pub fn new() -> Blocks {
        Blocks { parts: std::array::from_fn(|_| Mutex::new(HashMap::new())) }
    }

    fn part(&self, address: usize) -> &Mutex<HashMap<usize, Block>> {
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

    /// The bytes of the device blocks and of the host blocks. Only right while nothing changes.
    pub fn bytes(&self) -> (u64, u64) {
        let (mut device, mut host) = (0, 0);
        for part in &self.parts {
            for block in part.lock().values() {
                match block.place {
                    Place::Device(_) => device += block.size as u64,
                    Place::Host => host += block.size as u64,
                }
            }
        }
        (device, host)
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
