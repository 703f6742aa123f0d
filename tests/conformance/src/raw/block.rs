//! A block of memory of the plugin's own, and a destination in it between sentinels.

use super::Plugin;
use crate::address::Address;
use crate::data;
use crate::extended::Copy;
use crate::gate;
use crate::outcome::Checked;
use crate::place::Place;
use crate::quiet::settle;
use llaisys_runtime_core::api::{CopyFlags, Stream};

/// How many sentinels stand on each side of a destination.
const GUARD: usize = 128;

/// A block of device 0; it is freed when it goes.
pub struct Block {
    plugin: &'static Plugin,
    place: Place,
    address: Address,
    size: usize,
}

impl Block {
    /// Allocates `size` bytes, not 0.
    pub fn new(plugin: &'static Plugin, place: Place, size: usize) -> Checked<Block> {
        let address = match place {
            Place::Device => plugin.x.malloc_device(0, size as u64),
            _ => plugin.x.malloc_host(0, size as u64),
        };
        let address = plugin.ok(address, &format!("{place:?} memory of {size} bytes"))?;
        ensure!(!address.is_null(), "{place:?} memory of {size} bytes: success, and NULL");
        Ok(Block { plugin, place, address, size })
    }

    /// Allocates and fills.
    pub fn filled(plugin: &'static Plugin, place: Place, bytes: &[u8]) -> Checked<Block> {
        let block = Block::new(plugin, place, bytes.len())?;
        block.write(bytes)?;
        Ok(block)
    }

    /// A block that is all sentinels, with room for `size` bytes between [`GUARD`] of them on each side.
    pub fn guarded(plugin: &'static Plugin, place: Place, size: usize) -> Checked<Block> {
        Block::filled(plugin, place, &sentinels(size + 2 * GUARD))
    }

    /// Where it is.
    pub fn address(&self) -> Address {
        self.address
    }

    /// Where the destination between the sentinels is.
    pub fn inside(&self) -> Address {
        self.address.plus(GUARD)
    }

    /// Writes from the beginning.
    pub fn write(&self, bytes: &[u8]) -> Checked {
        assert!(bytes.len() <= self.size, "the case stays inside its block");
        if self.place == Place::Device {
            let kind = Place::kind(Place::Pageable, Place::Device);
            let copy = Copy::new(self.address, Address::of(bytes), bytes.len(), kind);
            let copy = copy.with(CopyFlags::SOURCE_PAGEABLE);
            return self.plugin.ok(self.plugin.x.memcpy_sync(0, copy), "memcpy_sync");
        }
        // SAFETY: host memory of this block, which is alive; the assertion keeps to its end.
        unsafe {
            let to = self.address.pointer().cast::<u8>();
            to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        Ok(())
    }

    /// The whole content.
    pub fn content(&self) -> Checked<Vec<u8>> {
        let mut bytes = vec![0; self.size];
        if self.place == Place::Device {
            let kind = Place::kind(Place::Device, Place::Pageable);
            let copy = Copy::new(Address::of_mut(&mut bytes), self.address, self.size, kind);
            let copy = copy.with(CopyFlags::DESTINATION_PAGEABLE);
            self.plugin.ok(self.plugin.x.memcpy_sync(0, copy), "memcpy_sync")?;
            return Ok(bytes);
        }
        // By the C library, as one step that the compiler does not look into: a stream that is wrong may
        // be writing there at this moment.
        // SAFETY: host memory of this block, which is alive.
        unsafe { libc::memcpy(bytes.as_mut_ptr().cast(), self.address.pointer(), self.size) };
        Ok(bytes)
    }

    /// Fails unless `expected` is inside, `from` bytes in, and all else are sentinels.
    pub fn expect_at(&self, from: usize, expected: &[u8], what: &str) -> Checked {
        if gate::is_any_closed() {
            settle();
        }
        let mut right = sentinels(self.size);
        right[GUARD + from..GUARD + from + expected.len()].copy_from_slice(expected);
        match data::difference(&self.content()?, &right) {
            None => Ok(()),
            Some(difference) => fail!("{what}: {difference} (the destination begins at {GUARD})"),
        }
    }

    /// Fails unless `expected` is inside and all else are sentinels.
    pub fn expect(&self, expected: &[u8], what: &str) -> Checked {
        self.expect_at(0, expected, what)
    }

    /// Leaves it alive for the rest of the process.
    pub fn keep(self) -> Address {
        let address = self.address;
        std::mem::forget(self);
        address
    }

    /// Frees it now, and must succeed.
    pub fn free(self) -> Checked {
        let answer = self.give_back();
        let plugin = self.plugin;
        std::mem::forget(self);
        plugin.ok(answer, "freeing memory")
    }

    fn give_back(&self) -> crate::extended::Answer {
        match self.place {
            Place::Device => self.plugin.x.free_device(0, self.address),
            _ => self.plugin.x.free_host(0, self.address),
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // A case that failed tells that; one that did not has its blocks counted at its end.
        let _ = self.give_back();
    }
}

/// `length` sentinels: each one differs from its neighbours.
fn sentinels(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at as u8).wrapping_mul(31) ^ 0xc5).collect()
}

/// Enqueues a copy of device 0 between two places.
pub fn enqueue(
    plugin: &Plugin,
    (to, to_place): (Address, Place),
    (from, from_place): (Address, Place),
    size: usize,
    stream: Stream,
) -> Checked {
    let mut flags = CopyFlags::NONE;
    if from_place == Place::Pageable {
        flags = flags.with(CopyFlags::SOURCE_PAGEABLE);
    }
    if to_place == Place::Pageable {
        flags = flags.with(CopyFlags::DESTINATION_PAGEABLE);
    }
    let copy = Copy::new(to, from, size, Place::kind(from_place, to_place)).with(flags);
    plugin.ok(plugin.x.memcpy_async(0, copy, stream), "memcpy_async")
}
