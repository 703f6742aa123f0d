//! Managed memory: one address for the host and for every device.
//!
//! The rule: it is the process's own memory, so the host reads and writes it at any time, and an operation
//! of a stream does so when the stream comes to it: a wait that is missing is seen. The host's access after
//! the free ends the process.

use crate::arena;
use crate::driver::{Driver, Guard};
use crate::entry::Here;
use crate::errors::{
    Answer, CONTEXT_IS_DESTROYED, INVALID_DEVICE, INVALID_VALUE, NOT_SUPPORTED, OUT_OF_MEMORY,
};
use crate::handles::Handle;
use crate::hints::{CPU, Hint, Hints, Location, NOWHERE, PAGE};
use crate::memory::{Allocation, Block};
use crate::streams;
use crate::work::Work;
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;

/// The memory. Dropping it gives it back.
pub struct ManagedBlock {
    at: usize,
    length: usize,
    hints: Mutex<Hints>,
}

impl ManagedBlock {
    fn new(bytes: usize, most: usize) -> Option<ManagedBlock> {
        let length = bytes.checked_next_multiple_of(PAGE).filter(|length| *length <= most)?;
        let at = arena::reserve(length + PAGE);
        arena::map_garbage(at, length);
        Some(ManagedBlock { at, length, hints: Mutex::new(Hints::none(bytes)) })
    }

    pub fn at(&self) -> usize {
        self.at
    }
}

impl Drop for ManagedBlock {
    fn drop(&mut self) {
        // SAFETY: the range was mapped in `new`, and its last holder is being dropped.
        unsafe { libc::munmap(self.at as *mut libc::c_void, self.length + PAGE) };
    }
}

/// Managed memory may be larger than a device, but not than all devices and the host.
fn most(driver: &Driver) -> usize {
    // SAFETY: sysconf has no preconditions.
    let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
    let host = usize::try_from(pages).unwrap_or(0).saturating_mul(PAGE);
    driver.devices.iter().map(|device| device.arena.sizes().0).fold(host, usize::saturating_add)
}

/// `cuMemAllocManaged`.
pub fn allocate(here: Here, bytes: usize, flags: u32) -> Answer<usize> {
    if bytes == 0 || !matches!(flags, 1 | 2) {
        return Err(INVALID_VALUE);
    }
    if here.driver.settings.no_managed {
        return Err(NOT_SUPPORTED);
    }
    let block = ManagedBlock::new(bytes, most(here.driver)).ok_or(OUT_OF_MEMORY)?;
    let mut world = here.driver.lock();
    let device = world.contexts.get(&here.context).ok_or(CONTEXT_IS_DESTROYED)?.device;
    let number = world.number();
    let allocation = Allocation::of_managed(block, bytes, device, here.context, number);
    let user = allocation.user;
    world.memory.insert(user, Block::Device(Arc::new(allocation)));
    Ok(user)
}

/// A location in the form of `CUmemLocation`.
pub fn location(driver: &Driver, kind: i32, id: i32) -> Answer<Location> {
    match kind {
        1 => driver.device(id).map(|_| Location::Device(id)),
        2 => Ok(Location::Host),
        // The host of the fake has one node.
        3 if id == 0 => Ok(Location::HostNode(0)),
        4 => Ok(Location::HostNode(0)),
        _ => Err(INVALID_VALUE),
    }
}

/// A location in the older form: a device, or -1 for the host.
pub fn older_location(driver: &Driver, ordinal: i32) -> Answer<Location> {
    match ordinal {
        CPU => Ok(Location::Host),
        _ => driver.device(ordinal).map(|_| Location::Device(ordinal)),
    }
}

/// The managed allocation that a range lies in, and the range in it.
fn range(world: &Guard, pointer: usize, bytes: usize) -> Answer<(Arc<Allocation>, Range<usize>)> {
    let end = pointer.checked_add(bytes).filter(|_| bytes > 0).ok_or(INVALID_VALUE)?;
    match world.block_at(pointer) {
        Some((start, Block::Device(allocation))) if end <= start + allocation.bytes => {
            allocation.managed().ok_or(INVALID_VALUE)?;
            Ok((Arc::clone(allocation), pointer - start..end - start))
        }
        _ => Err(INVALID_VALUE),
    }
}

fn change(allocation: &Allocation, range: Range<usize>, how: impl FnMut(&mut Hint)) {
    if let Some(block) = allocation.managed() {
        block.hints.lock().change(range, how);
    }
}

/// `cuMemPrefetchAsync`.
pub fn prefetch(
    driver: &'static Driver,
    pointer: usize,
    bytes: usize,
    location: Location,
    stream: Handle,
) -> Answer {
    let (mut world, key) = streams::find(driver, stream)?;
    let (allocation, range) = range(&world, pointer, bytes)?;
    if driver.settings.no_concurrent_managed {
        return Err(INVALID_DEVICE);
    }
    let place = world.place(pointer, bytes, true)?;
    streams::give(driver, &mut world, key, Work::Move(place), Vec::new())?;
    change(&allocation, range, |hint| hint.prefetched = location);
    Ok(())
}

/// `cuMemAdvise`. The location is given where the advice has one.
pub fn advise(
    here: Here,
    pointer: usize,
    bytes: usize,
    advice: i32,
    location: impl FnOnce(&Driver) -> Answer<Location>,
) -> Answer {
    let world = here.driver.lock();
    let (allocation, range) = range(&world, pointer, bytes)?;
    let place = match advice {
        3 | 5 | 6 => location(here.driver)?,
        1 | 2 | 4 => Location::Nowhere,
        _ => return Err(INVALID_VALUE),
    };
    if here.driver.settings.no_concurrent_managed && matches!(place, Location::Device(_)) {
        return Err(INVALID_DEVICE);
    }
    if advice >= 5 && matches!(place, Location::HostNode(_)) {
        return Err(INVALID_VALUE);
    }
    change(&allocation, range, |hint| match advice {
        1 | 2 => hint.read_mostly = advice == 1,
        3 | 4 => hint.preferred = place,
        5 => drop(hint.accessed_by.insert(place.ordinal())),
        _ => drop(hint.accessed_by.remove(&place.ordinal())),
    });
    Ok(())
}

/// `cuMemRangeGetAttribute`: as many words as there is room for.
pub fn attribute(
    here: Here,
    attribute: i32,
    room: usize,
    pointer: usize,
    bytes: usize,
) -> Answer<Vec<i32>> {
    let world = here.driver.lock();
    let (allocation, range) = range(&world, pointer, bytes)?;
    let hints = allocation.managed().ok_or(INVALID_VALUE)?.hints.lock();
    let agreed = |what: fn(&Hint) -> Location| {
        hints.agreed(range.clone(), what).unwrap_or(Location::Nowhere)
    };
    let (preferred, prefetched) = (agreed(|hint| hint.preferred), agreed(|hint| hint.prefetched));
    let word = match attribute {
        1 => i32::from(hints.of(range).all(|hint| hint.read_mostly)),
        2 => preferred.ordinal(),
        3 => {
            let mut sets = hints.of(range).map(|hint| &hint.accessed_by);
            let first = sets.next().cloned().unwrap_or_default();
            let mut all = sets.fold(first, |all, other| &all & other);
            let mut words: Vec<i32> = (0..room).map_while(|_| all.pop_last()).collect();
            words.reverse();
            words.resize(room, NOWHERE);
            return if room == 0 { Err(INVALID_VALUE) } else { Ok(words) };
        }
        4 => prefetched.ordinal(),
        5 => preferred.kind(),
        6 => preferred.id(),
        7 => prefetched.kind(),
        8 => prefetched.id(),
        _ => return Err(INVALID_VALUE),
    };
    if room == 1 { Ok(vec![word]) } else { Err(INVALID_VALUE) }
}

/// `cuStreamAttachMemAsync`, of a whole allocation: 1 to all, 2 to the host, 4 to the stream.
pub fn attach(
    driver: &'static Driver,
    stream: Handle,
    pointer: usize,
    bytes: usize,
    flags: u32,
) -> Answer {
    let (mut world, key) = streams::find(driver, stream)?;
    let (allocation, within) = range(&world, pointer, bytes.max(1))?;
    let whole = within.start == 0 && matches!(bytes, 0) || bytes == allocation.bytes;
    if !whole || !matches!(flags, 1 | 2 | 4) || (flags == 4 && stream <= 1) {
        return Err(INVALID_VALUE);
    }
    let place = world.place(pointer, allocation.bytes, true)?;
    streams::give(driver, &mut world, key, Work::Move(place), Vec::new()).map(drop)
}
