//! The memory of one device.
//!
//! A device has two equally long ranges of addresses. The user's range is never readable: its
//! addresses are the device pointers. The driver's range holds the bytes, at the same offsets, and only
//! where something is allocated. The rule: memory comes in blocks of 2 MiB, as on the real device;
//! what is below 1 MiB shares a block; fresh memory holds `GARBAGE` and never zeros by luck.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// The unit in which a device hands out memory.
pub const BLOCK: usize = 2 << 20;
/// What every allocation is a multiple of.
pub const ALIGNMENT: usize = 512;
/// The byte that fresh memory is full of.
pub const GARBAGE: u8 = 0xcd;
/// The byte that freed memory is full of.
pub const FREED: u8 = 0xdd;

const LARGE_GARBAGE: usize = 64 << 20;

/// The memory of one device.
pub struct Arena {
    user: usize,
    driver: usize,
    capacity: usize,
    state: Mutex<State>,
}

struct State {
    blocks_used: usize,
    /// Runs of free blocks of addresses: first block → length.
    free_runs: BTreeMap<usize, usize>,
    /// Blocks that small allocations share: block → its free ranges (offset → length).
    shared: BTreeMap<usize, BTreeMap<usize, usize>>,
}

/// A piece of device memory. Dropping it gives it back.
pub struct Chunk {
    arena: Arc<Arena>,
    offset: usize,
    length: usize,
}

impl Chunk {
    /// The device pointer.
    pub fn user(&self) -> usize {
        self.arena.user + self.offset
    }

    /// Where its bytes are.
    pub fn driver(&self) -> usize {
        self.arena.driver + self.offset
    }
}

impl Chunk {
    /// What is in a part of it is no more; it is garbage from now on.
    pub fn discard(&self, offset: usize, length: usize) {
        let (start, end) = (self.driver() + offset, self.driver() + offset + length);
        let (inner, inner_end) = (start.next_multiple_of(BLOCK), end / BLOCK * BLOCK);
        if inner >= inner_end {
            return fill(start, length, FREED);
        }
        fill(start, inner - start, FREED);
        map_garbage(inner, inner_end - inner);
        fill(inner_end, end - inner_end, FREED);
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.arena.give_back(self.offset, self.length);
    }
}

impl Arena {
    /// The memory of a device with so many bytes.
    pub fn new(bytes: usize) -> Arc<Arena> {
        let capacity = bytes.div_ceil(BLOCK);
        // Three times the addresses, since a real device pages its memory and does not fragment.
        let blocks = capacity * 3 + 64;
        let free_runs = BTreeMap::from([(0, blocks)]);
        let state = State { blocks_used: 0, free_runs, shared: BTreeMap::new() };
        let (user, driver) = (reserve(blocks * BLOCK), reserve(blocks * BLOCK));
        Arc::new(Arena { user, driver, capacity, state: Mutex::new(state) })
    }

    /// Bytes in all and bytes free, in whole blocks.
    pub fn sizes(&self) -> (usize, usize) {
        (self.capacity * BLOCK, (self.capacity - self.state.lock().blocks_used) * BLOCK)
    }

    /// Takes memory, or nothing when there is not enough.
    pub fn take(self: &Arc<Arena>, bytes: usize) -> Option<Chunk> {
        let length = bytes.checked_next_multiple_of(ALIGNMENT)?;
        let mut state = self.state.lock();
        let offset = if length < BLOCK / 2 {
            self.take_small(&mut state, length)?
        } else {
            let blocks = length.div_ceil(BLOCK);
            self.take_blocks(&mut state, blocks)? * BLOCK
        };
        Some(Chunk { arena: Arc::clone(self), offset, length })
    }

    fn take_small(&self, state: &mut State, length: usize) -> Option<usize> {
        let fit = state.shared.iter().find_map(|(block, ranges)| {
            ranges
                .iter()
                .find(|(_, free)| **free >= length)
                .map(|(offset, free)| (*block, *offset, *free))
        });
        let (block, offset, free) = match fit {
            Some(fit) => fit,
            None => {
                let block = self.take_blocks(state, 1)?;
                state.shared.insert(block, BTreeMap::from([(0, BLOCK)]));
                (block, 0, BLOCK)
            }
        };
        let ranges = state.shared.entry(block).or_default();
        ranges.remove(&offset);
        if free > length {
            ranges.insert(offset + length, free - length);
        }
        fill(self.driver + block * BLOCK + offset, length, GARBAGE);
        Some(block * BLOCK + offset)
    }

    /// Takes blocks and one more of addresses, which stays empty behind them.
    fn take_blocks(&self, state: &mut State, blocks: usize) -> Option<usize> {
        if blocks > self.capacity - state.blocks_used {
            return None;
        }
        let (first, free) =
            state.free_runs.iter().find(|(_, free)| **free > blocks).map(|(f, l)| (*f, *l))?;
        state.free_runs.remove(&first);
        if free > blocks + 1 {
            state.free_runs.insert(first + blocks + 1, free - blocks - 1);
        }
        state.blocks_used += blocks;
        map_garbage(self.driver + first * BLOCK, blocks * BLOCK);
        Some(first)
    }

    fn give_back(&self, offset: usize, length: usize) {
        let mut state = self.state.lock();
        if length >= BLOCK / 2 {
            self.give_back_blocks(&mut state, offset / BLOCK, length.div_ceil(BLOCK));
            return;
        }
        let (block, inner) = (offset / BLOCK, offset % BLOCK);
        fill(self.driver + offset, length, FREED);
        let ranges = state.shared.entry(block).or_default();
        join(ranges, inner, length);
        if ranges.get(&0) == Some(&BLOCK) {
            state.shared.remove(&block);
            self.give_back_blocks(&mut state, block, 1);
        }
    }

    fn give_back_blocks(&self, state: &mut State, first: usize, blocks: usize) {
        unmap(self.driver + first * BLOCK, blocks * BLOCK);
        state.blocks_used -= blocks;
        join(&mut state.free_runs, first, blocks + 1);
    }
}

/// Adds a range to a set of ranges and joins it with its neighbours.
pub fn join(ranges: &mut BTreeMap<usize, usize>, mut start: usize, mut length: usize) {
    if let Some((before, size)) = ranges.range(..start).next_back().map(|(s, l)| (*s, *l))
        && before + size == start
    {
        ranges.remove(&before);
        (start, length) = (before, length + size);
    }
    if let Some(size) = ranges.remove(&(start + length)) {
        length += size;
    }
    ranges.insert(start, length);
}

/// Writes a byte over memory of the driver's own range, or that a call was given to write to.
pub fn fill(address: usize, length: usize, byte: u8) {
    // SAFETY: callers pass a range that is mapped writable by this module, `managed` or `pinned` and that
    // belongs to one allocation, which they hold; or the caller's own, who promises it to the operation.
    unsafe { std::ptr::write_bytes(address as *mut u8, byte, length) };
}

/// Addresses that nobody can read or write, and that cost no memory.
pub fn reserve(bytes: usize) -> usize {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no existing memory.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
    assert!(at != libc::MAP_FAILED, "fake-cuda: {bytes} bytes of addresses cannot be reserved");
    at as usize
}

/// Maps garbage over reserved addresses; a page costs memory once it is written.
pub fn map_garbage(address: usize, bytes: usize) {
    let (file, unit) = garbage(bytes);
    let mut done = 0;
    while done < bytes {
        let part = unit.min(bytes - done);
        let flags = libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE;
        let (at, access) =
            ((address + done) as *mut libc::c_void, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: the range lies in a reservation of an arena's or of managed memory, and no allocation holds it.
        let mapped = unsafe { libc::mmap(at, part, access, flags, file, 0) };
        assert!(mapped != libc::MAP_FAILED, "fake-cuda: device memory cannot be mapped");
        done += part;
    }
}

fn unmap(address: usize, bytes: usize) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    // SAFETY: the range lies in this arena's own reservation and its last holder is being dropped.
    let mapped =
        unsafe { libc::mmap(address as *mut libc::c_void, bytes, libc::PROT_NONE, flags, -1, 0) };
    assert!(mapped != libc::MAP_FAILED, "fake-cuda: device memory cannot be unmapped");
}

/// A file of garbage and its length: a short one, or a long one for large allocations.
fn garbage(bytes: usize) -> (i32, usize) {
    static FILES: [OnceLock<i32>; 2] = [OnceLock::new(), OnceLock::new()];
    let (which, length) = if bytes >= LARGE_GARBAGE { (1, LARGE_GARBAGE) } else { (0, BLOCK) };
    let file = *FILES[which].get_or_init(|| {
        // SAFETY: the name is a C string; the call makes a new file and touches no memory of ours.
        let file = unsafe { libc::memfd_create(c"fake-cuda-garbage".as_ptr(), libc::MFD_CLOEXEC) };
        assert!(file >= 0, "fake-cuda: memfd_create failed");
        let bytes = vec![GARBAGE; BLOCK];
        for _ in 0..length / BLOCK {
            // SAFETY: the buffer is live and of the length that is said.
            let written = unsafe { libc::write(file, bytes.as_ptr().cast(), bytes.len()) };
            assert!(written == BLOCK as isize, "fake-cuda: the garbage file cannot be written");
        }
        file
    });
    (file, length)
}
