//! Where memory is, and a block of it that goes back by itself.

use crate::address::Address;
use crate::context::Context;
use crate::outcome::Checked;
use llaisys_runtime_core::api::MemcpyKind;

/// Where memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// `malloc_device`.
    Device,
    /// `malloc_host`.
    Pinned,
    /// The program's own.
    Pageable,
}

impl Place {
    /// Every place.
    pub const ALL: [Place; 3] = [Place::Device, Place::Pinned, Place::Pageable];

    /// The kind of a copy between two places.
    pub fn kind(from: Place, to: Place) -> MemcpyKind {
        match (from == Place::Device, to == Place::Device) {
            (false, false) => MemcpyKind::H2H,
            (false, true) => MemcpyKind::H2D,
            (true, false) => MemcpyKind::D2H,
            (true, true) => MemcpyKind::D2D,
        }
    }
}

/// A block of memory. It is freed when it goes, unless the case has taken that over.
pub struct Block {
    context: &'static Context,
    place: Place,
    address: Address,
    size: usize,
    own: Vec<u8>,
    kept: bool,
}

impl Block {
    /// Allocates `size` bytes, not 0, on the calling thread's current device.
    pub fn new(context: &'static Context, place: Place, size: usize) -> Checked<Block> {
        let mut own = Vec::new();
        let address = match place {
            Place::Device => context.t.malloc_device(size),
            Place::Pinned => context.t.malloc_host(size),
            Place::Pageable => {
                own = vec![0; size];
                Address::of_mut(&mut own)
            }
        };
        context.clean(&format!("{place:?} memory of {size} bytes"))?;
        ensure!(!address.is_null(), "{place:?} memory of {size} bytes: found NULL and no failure");
        Ok(Block { context, place, address, size, own, kept: false })
    }

    /// Allocates and fills.
    pub fn filled(context: &'static Context, place: Place, bytes: &[u8]) -> Checked<Block> {
        let mut block = Block::new(context, place, bytes.len())?;
        block.write(0, bytes)?;
        Ok(block)
    }

    /// Device memory.
    pub fn device(context: &'static Context, size: usize) -> Checked<Block> {
        Block::new(context, Place::Device, size)
    }

    /// Pinned host memory.
    pub fn pinned(context: &'static Context, size: usize) -> Checked<Block> {
        Block::new(context, Place::Pinned, size)
    }

    /// Where it is.
    pub fn address(&self) -> Address {
        self.address
    }

    /// Which memory it is.
    pub fn place(&self) -> Place {
        self.place
    }

    /// How many bytes it has.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Writes at an offset: directly into host memory, by `memcpy_sync` into device memory.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) -> Checked {
        assert!(offset + bytes.len() <= self.size, "the case stays inside its block");
        let to = self.address.plus(offset);
        if self.place == Place::Device {
            return self.context.copy(to, Address::of(bytes), bytes.len(), MemcpyKind::H2D);
        }
        // SAFETY: host memory of this block, which is alive; the assertion keeps to its end.
        unsafe {
            to.pointer().cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        Ok(())
    }

    /// Reads at an offset: directly from host memory, by `memcpy_sync` from device memory.
    pub fn read(&self, offset: usize, length: usize) -> Checked<Vec<u8>> {
        assert!(offset + length <= self.size, "the case stays inside its block");
        let mut bytes = vec![0; length];
        let from = self.address.plus(offset);
        if self.place == Place::Device {
            self.context.copy(Address::of_mut(&mut bytes), from, length, MemcpyKind::D2H)?;
            return Ok(bytes);
        }
        // By the C library, as one step that the compiler does not look into: a stream that is wrong may
        // be writing there at this moment.
        // SAFETY: host memory of this block, which is alive; the assertion keeps to its end.
        unsafe { libc::memcpy(bytes.as_mut_ptr().cast(), from.pointer(), length) };
        Ok(bytes)
    }

    /// The whole content.
    pub fn content(&self) -> Checked<Vec<u8>> {
        self.read(0, self.size)
    }

    /// Leaves the freeing to the case.
    pub fn keep(mut self) -> Address {
        self.kept = true;
        self.address
    }

    /// Frees it now.
    pub fn free(mut self) -> Checked {
        self.kept = true;
        match self.place {
            Place::Device => self.context.t.free_device(self.address),
            Place::Pinned => self.context.t.free_host(self.address),
            Place::Pageable => self.own = Vec::new(),
        }
        self.context.clean(&format!("freeing {:?} memory", self.place))
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        match self.place {
            Place::Device => self.context.t.free_device(self.address),
            Place::Pinned => self.context.t.free_host(self.address),
            Place::Pageable => {}
        }
    }
}
