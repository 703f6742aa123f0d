//! Host memory that the driver knows: page-locked by it, or registered with it.
//!
//! The rule: such memory is copied from and to without the caller waiting, and it ends only when its
//! context has nothing to do any more.

use crate::arena::{FREED, GARBAGE, fill};
use crate::contexts;
use crate::driver::{Driver, World};
use crate::entry::Here;
use crate::errors::{
    Answer, HOST_MEMORY_ALREADY_REGISTERED, HOST_MEMORY_NOT_REGISTERED, INVALID_VALUE,
    OUT_OF_MEMORY,
};
use crate::faults::misuse;
use crate::handles::Handle;
use crate::memory::Block;
use crate::streams;
use std::sync::Arc;

const PAGE: usize = 4096;

/// A range of host memory that the driver knows.
pub struct HostRange {
    pub bytes: usize,
    pub context: Handle,
    pub flags: u32,
    /// The memory, where the driver allocated it; registered memory is the caller's.
    pub block: Option<Arc<HostBlock>>,
}

/// Page-locked memory. Dropping it gives it back.
pub struct HostBlock {
    at: usize,
    bytes: usize,
}

impl Drop for HostBlock {
    fn drop(&mut self) {
        fill(self.at, self.bytes, FREED);
        // SAFETY: the address is from `posix_memalign` in `allocate`, and this is its only owner.
        unsafe { libc::free(self.at as *mut libc::c_void) };
    }
}

/// `cuMemHostAlloc`.
pub fn allocate(here: Here, bytes: usize, flags: u32) -> Answer<usize> {
    if flags & !7 != 0 {
        return Err(INVALID_VALUE);
    }
    if bytes == 0 {
        return Ok(0);
    }
    let mut at = std::ptr::null_mut();
    // SAFETY: the place is a local; the alignment is a power of two and a multiple of a pointer's size.
    let failed = unsafe { libc::posix_memalign(&raw mut at, PAGE, bytes) };
    if failed != 0 {
        return Err(OUT_OF_MEMORY);
    }
    let at = at as usize;
    fill(at, bytes, GARBAGE);
    let block = Some(Arc::new(HostBlock { at, bytes }));
    let range = HostRange { bytes, context: here.context, flags: flags | 2, block };
    here.driver.lock().memory.insert(at, Block::Host(range));
    Ok(at)
}

/// `cuMemFreeHost`.
pub fn free(driver: &'static Driver, pointer: usize) -> Answer {
    end(driver, pointer, true)
}

/// `cuMemHostRegister`.
pub fn register(here: Here, at: usize, bytes: usize, flags: u32) -> Answer {
    let last = at.checked_add(bytes).ok_or(INVALID_VALUE)?;
    if at == 0 || bytes == 0 || flags & !0xf != 0 {
        return Err(INVALID_VALUE);
    }
    let mut world = here.driver.lock();
    if let Some((_, block)) =
        world.memory.range(..last).next_back().filter(|(start, b)| **start + b.bytes() > at)
    {
        let registered = matches!(block, Block::Host(HostRange { block: None, .. }));
        return Err(if registered { HOST_MEMORY_ALREADY_REGISTERED } else { INVALID_VALUE });
    }
    if !is_mapped(at, bytes) {
        return Err(INVALID_VALUE);
    }
    let range = HostRange { bytes, context: here.context, flags: flags | 2, block: None };
    world.memory.insert(at, Block::Host(range));
    Ok(())
}

fn is_mapped(at: usize, bytes: usize) -> bool {
    let start = at / PAGE * PAGE;
    let pages = (at + bytes - start).div_ceil(PAGE);
    let mut resident = vec![0u8; pages];
    // SAFETY: the vector has a byte for each page; the call reads no memory of the range.
    unsafe { libc::mincore(start as *mut libc::c_void, pages * PAGE, resident.as_mut_ptr()) == 0 }
}

/// `cuMemHostUnregister`.
pub fn unregister(driver: &'static Driver, pointer: usize) -> Answer {
    end(driver, pointer, false)
}

fn end(driver: &'static Driver, pointer: usize, allocated: bool) -> Answer {
    let mut world = driver.lock();
    if contexts::current() != 0 {
        contexts::usable(&world, contexts::current())?;
    }
    if pointer == 0 {
        return if allocated { Ok(()) } else { Err(INVALID_VALUE) };
    }
    let context = world.host_range(pointer, allocated)?;
    let points = world.work_of(context);
    streams::wait_for(driver, &mut world, context, &points)?;
    // Another thread may have freed it during the wait.
    world.host_range(pointer, allocated)?;
    let ended = world.memory.remove(&pointer);
    if let Some(Block::Host(HostRange { bytes, block: None, .. })) = ended
        && !is_mapped(pointer, bytes)
    {
        // A device may have written into whatever the process has there now.
        misuse("registered memory, unmapped,", pointer, driver.settings.abort_on_misuse);
    }
    Ok(())
}

impl World {
    /// The context of the range that begins at a pointer and is of this kind.
    fn host_range(&self, pointer: usize, allocated: bool) -> Answer<Handle> {
        match self.memory.get(&pointer) {
            Some(Block::Host(host)) if host.block.is_some() == allocated => Ok(host.context),
            None if !allocated && self.block_at(pointer).is_none() => {
                Err(HOST_MEMORY_NOT_REGISTERED)
            }
            _ => Err(INVALID_VALUE),
        }
    }
}
