//! Every block of memory that this runtime handed out: whose it is, where it is, how large it is.
//!
//! Rule: one table for the process, because a pointer means the same everywhere (contract D3, M6).
//! A block is put in after the backend allocated it and is claimed (taken out, by exactly one
//! caller) before the backend frees it, so a second free finds nothing (M5).

use crate::api::{Ordinal, Stream};
use crate::device_type::DeviceType;
use crate::error::{Error, Result};
use crate::fork::{self, ForkAware};
use crate::lock::{ForkLock, Mutex};
use crate::status::Status;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// Which function made a block, and so which one frees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// `malloc_device`, freed by `free_device`.
    Device,
    /// `malloc_host`: pinned, freed by `free_host`.
    Host,
    /// `malloc_managed`: one address for host and device, freed by `free_managed`.
    Managed,
    /// The user's own, pinned by `register_host`, let go by `unregister_host`.
    Registered,
}

impl MemoryKind {
    /// What it is called, and what frees it.
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            MemoryKind::Device => ("device memory", "free_device"),
            MemoryKind::Host => ("pinned host memory", "free_host"),
            MemoryKind::Managed => ("managed memory", "free_managed"),
            MemoryKind::Registered => ("registered host memory", "unregister_host"),
        }
    }

    /// Whether a copy may take it for host memory.
    pub fn is_host(self) -> bool {
        !matches!(self, MemoryKind::Device)
    }

    /// Whether a copy may take it for device memory.
    pub fn is_device(self) -> bool {
        matches!(self, MemoryKind::Device | MemoryKind::Managed)
    }
}

/// One allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The first byte.
    pub base: usize,
    /// The size that was asked for, in bytes.
    pub size: usize,
    /// Which function made it.
    pub kind: MemoryKind,
    /// Whose backend made it.
    pub owner: DeviceType,
    /// The device it is on, or for which it was pinned.
    pub device: Ordinal,
    /// Host code may read and write it: all but device memory that is not the host's.
    pub on_host: bool,
    /// The stream whose account it is in, if it was allocated on one, and that stream's serial.
    pub stream: Option<(Stream, u64)>,
}

impl Block {
    /// Whether `size` bytes from `address`, which lies in this block, stay inside it.
    pub fn holds(&self, address: usize, size: usize) -> bool {
        size <= self.size - (address - self.base)
    }
}

/// The blocks by their first byte.
struct PointerTable(Mutex<BTreeMap<usize, Block>>);

static TABLE: PointerTable = PointerTable(Mutex::new(BTreeMap::new()));

impl ForkAware for PointerTable {
    fn prepare(&self) {
        self.0.hold();
    }
    fn parent(&self) {
        // SAFETY: held by `prepare` on this thread.
        unsafe { self.0.release() };
    }
}

/// Has the table carried over forks; called before the first block comes.
pub fn carry_over_forks() {
    static DONE: AtomicBool = AtomicBool::new(false);
    if !DONE.swap(true, Ordering::Relaxed) {
        fork::register(&TABLE);
    }
}

/// Remembers a block that a backend just allocated.
pub fn insert(block: Block) {
    TABLE.0.lock().insert(block.base, block);
}

/// Remembers a block of the user's own memory, unless it lies over one that is known.
///
/// # Errors
/// `INVALID_VALUE` with the block that is in the way.
pub fn insert_foreign(block: Block) -> Result<()> {
    let mut table = TABLE.0.lock();
    let last = block.base + (block.size - 1);
    let before = table.range(..=last).next_back().map(|(_, other)| *other);
    if let Some(other) = before.filter(|other| other.base + (other.size - 1) >= block.base) {
        drop(table);
        let message = format!(
            "{} bytes at {:#x} lie over {} of {} bytes at {:#x}",
            block.size,
            block.base,
            other.kind.words().0,
            other.size,
            other.base
        );
        return Err(Error::new(Status::InvalidValue, message));
    }
    table.insert(block.base, block);
    Ok(())
}

/// The block that holds this address.
pub fn find(address: usize) -> Option<Block> {
    containing(&TABLE.0.lock(), address)
}

/// The blocks that hold these two addresses.
#[inline]
pub fn find_both(first: usize, second: usize) -> (Option<Block>, Option<Block>) {
    let table = TABLE.0.lock();
    (containing(&table, first), containing(&table, second))
}

fn containing(table: &BTreeMap<usize, Block>, address: usize) -> Option<Block> {
    let (_, block) = table.range(..=address).next_back()?;
    (address - block.base < block.size).then_some(*block)
}

/// Takes out the block that begins at `address`, for the one caller who may now free it.
///
/// # Errors
/// `INVALID_VALUE` when no block of `owner` and `kind` begins there; the message tells what the
/// address is instead, and nothing is changed.
pub fn claim(address: usize, kind: MemoryKind, owner: DeviceType) -> Result<Block> {
    let mut table = TABLE.0.lock();
    let found = table.get(&address).copied();
    match found {
        Some(block) if block.kind == kind && block.owner == owner => {
            table.remove(&address);
            Ok(block)
        }
        _ => {
            let found = found.or_else(|| containing(&table, address));
            drop(table);
            Err(refusal(address, kind, owner, found))
        }
    }
}

#[cold]
fn refusal(address: usize, kind: MemoryKind, owner: DeviceType, found: Option<Block>) -> Error {
    let (noun, function) = kind.words();
    let what = match found {
        None => format!(
            "{address:#x} is not {noun} of this runtime (freed before, or allocated elsewhere)"
        ),
        Some(block) if block.base != address => format!(
            "{address:#x} is {} bytes into the block {:#x} of {} bytes; free its first byte",
            address - block.base,
            block.base,
            block.size
        ),
        Some(block) if block.kind != kind => {
            let (noun, right) = block.kind.words();
            format!("{address:#x} is {noun}; it is freed with {right}, not with {function}")
        }
        Some(block) => format!(
            "{address:#x} belongs to device type {}, not to device type {owner}",
            block.owner
        ),
    };
    Error::new(Status::InvalidValue, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The table is the process's: each test uses addresses of its own.
    fn block(base: usize, size: usize) -> Block {
        Block {
            base,
            size,
            kind: MemoryKind::Device,
            owner: 40,
            device: 3,
            on_host: false,
            stream: None,
        }
    }

    #[test]
    fn an_address_inside_a_block_finds_it_and_one_past_its_end_does_not() {
        insert(block(0x1_0000, 100));
        assert_eq!(find(0x1_0000 + 99), Some(block(0x1_0000, 100)));
        assert_eq!(find(0x1_0000 + 100), None);
        assert_eq!(find(0x1_0000 - 1), None);
        assert!(block(0x1_0000, 100).holds(0x1_0000 + 90, 10));
        assert!(!block(0x1_0000, 100).holds(0x1_0000 + 90, 11));
        assert!(!block(0x1_0000, 100).holds(0x1_0000 + 90, usize::MAX));
    }

    #[test]
    fn a_block_is_claimed_once_and_each_refusal_says_what_the_address_is() {
        insert(block(0x2_0000, 64));
        let refused = |address, kind, owner| {
            claim(address, kind, owner).expect_err("refused").message().to_owned()
        };
        assert!(refused(0x2_0010, MemoryKind::Device, 40).contains("16 bytes into"));
        assert!(
            refused(0x2_0000, MemoryKind::Host, 40).contains("free_device, not with free_host")
        );
        assert!(refused(0x2_0000, MemoryKind::Device, 41).contains("belongs to device type 40"));
        assert_eq!(claim(0x2_0000, MemoryKind::Device, 40).expect("whole"), block(0x2_0000, 64));
        assert!(refused(0x2_0000, MemoryKind::Device, 40).contains("freed before"));
    }

    #[test]
    fn memory_that_is_known_is_not_registered_over() {
        insert(block(0x3_0000, 64));
        for (base, size) in [(0x3_0000, 1), (0x2_FFF0, 17), (0x3_003F, 8), (0x2_0000, 0x2_0000)] {
            let over = Block { kind: MemoryKind::Registered, ..block(base, size) };
            assert_eq!(insert_foreign(over).expect_err("over").status(), Status::InvalidValue);
        }
        let beside = Block { kind: MemoryKind::Registered, ..block(0x3_0040, 64) };
        insert_foreign(beside).expect("beside it");
    }
}
