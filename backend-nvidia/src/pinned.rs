//! Pinned host memory, usable with every device (contract M6).
//!
//! Rules: a free neither waits nor takes memory away from a copy that is still under way. The
//! driver's own free (`cuMemFreeHost`) waits for everything that its context has been given, also for
//! work that came later, so it is called only while the devices are idle. Until then a freed block is
//! kept, with a mark for each stream that had work; once those have passed, an allocation may have it.
//! Large blocks are not the driver's own but ours, registered with it (see `mapping`): what is said of the
//! driver's free holds for letting go of those, too.
//!
//! | a kept block | events pending | events passed, devices busy | events passed, devices idle |
//! |---|---|---|---|
//! | an allocation | leaves it | takes it when it fits | takes it when it fits |
//! | any call here | leaves it | leaves it | gives it back, if much is kept |

use crate::call::cu;
use crate::device::Device;
use crate::errors::{self, OUT_OF_MEMORY, SUCCESS};
use crate::event::Event;
use crate::mapping;
use crate::marks;
use cust::sys;
use llaisys_runtime_core::error::{Error, Result};
use llaisys_runtime_core::status::Status;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::Arc;

/// How much may be kept when nothing asks for it: the next allocations are then quick.
const KEPT_WHEN_IDLE: usize = 64 << 20;

/// How much may be kept while the devices are busy. Beyond it a free waits for them, as the driver's
/// own would, instead of growing without bound.
pub(crate) const MOST_KEPT: usize = 1 << 30;

/// Blocks that are allocated or kept.
static BLOCKS: Mutex<Blocks> = Mutex::new(Blocks { out: BTreeMap::new(), kept: Vec::new() });

struct Blocks {
    /// What is handed out, by its address: a free is not told more.
    out: BTreeMap<usize, Pinned>,
    /// What was freed and is not back with the driver.
    kept: Vec<Kept>,
}

/// What is known of a block.
#[derive(Clone, Copy)]
struct Pinned {
    size: usize,
    /// Mapped here and registered, not the driver's own.
    is_mapped: bool,
}

/// A freed block and what has to pass before anyone else may have it.
struct Kept {
    address: usize,
    pinned: Pinned,
    events: Vec<Arc<Event>>,
}

/// Allocates pinned memory that every device can use.
pub(crate) fn allocate(device: &Device, size: usize) -> Result<*mut c_void> {
    let _entered = device.enter()?;
    if let Some(pointer) = take_kept(size) {
        return Ok(pointer);
    }
    give_back_when_idle();
    let mut pointer: *mut c_void = std::ptr::null_mut();
    let mut is_mapped = false;
    let mut ask = || {
        if let Some(mapped) = mapping::allocate(device, size) {
            (pointer, is_mapped) = (mapped, true);
            return SUCCESS;
        }
        // SAFETY: `pointer` is writable.
        unsafe { cu!(cuMemHostAlloc(&mut pointer, size, sys::CU_MEMHOSTALLOC_PORTABLE)) }
    };
    let mut code = ask();
    if code == OUT_OF_MEMORY && kept_bytes() != 0 {
        // E4: what is kept goes back first, at once if it has passed, else after the devices.
        give_back_what_has_passed();
        code = ask();
        if code == OUT_OF_MEMORY && kept_bytes() != 0 {
            marks::wait_for_all_devices();
            give_back_what_has_passed();
            code = ask();
        }
    }
    errors::check(code, || {
        let why = match code {
            OUT_OF_MEMORY => " (the host's memory, or what may be locked of it, is used up)",
            _ => "",
        };
        format!("allocate {size} bytes of pinned host memory{why}")
    })?;
    BLOCKS.lock().out.insert(pointer as usize, Pinned { size, is_mapped });
    Ok(pointer)
}

/// Frees pinned memory once every device has passed what it was given to do before.
///
/// # Safety
/// - `pointer` came from [`allocate`] and is not freed.
pub(crate) unsafe fn free(device: &Device, pointer: *mut c_void) -> Result<()> {
    let _entered = device.enter()?;
    keep(pointer, marks::of_all_devices()?)?;
    if kept_bytes() > MOST_KEPT {
        give_back_what_has_passed();
    } else {
        give_back_when_idle();
    }
    Ok(())
}

/// Keeps an allocated block until `events` have passed, and then for whoever asks for it.
pub(crate) fn keep(pointer: *mut c_void, events: Vec<Arc<Event>>) -> Result<()> {
    let address = pointer as usize;
    let mut blocks = BLOCKS.lock();
    let Some(pinned) = blocks.out.remove(&address) else {
        return Err(Error::new(
            Status::InvalidValue,
            format!("free pinned host memory at {pointer:p}: this backend did not make it"),
        ));
    };
    blocks.kept.push(Kept { address, pinned, events });
    Ok(())
}

/// How much is kept.
pub(crate) fn kept_bytes() -> usize {
    BLOCKS.lock().kept.iter().map(|kept| kept.pinned.size).sum()
}

/// A kept block that fits without much waste, which no device uses any more.
fn take_kept(size: usize) -> Option<*mut c_void> {
    let mut blocks = BLOCKS.lock();
    let fits = |kept: &Kept| {
        let has = kept.pinned.size;
        size <= has && has / 8 <= size / 7 && kept.has_passed()
    };
    let found = blocks.kept.iter().position(fits)?;
    let Kept { address, pinned, .. } = blocks.kept.swap_remove(found);
    blocks.out.insert(address, pinned);
    Some(address as *mut c_void)
}

/// Gives kept blocks back to the driver if there are many and that does not wait.
fn give_back_when_idle() {
    if kept_bytes() > KEPT_WHEN_IDLE && marks::all_are_idle() {
        give_back_what_has_passed();
    }
}

/// Gives the kept blocks that nobody uses back to the driver. No lock is held while it may wait.
fn give_back_what_has_passed() {
    let blocks: Vec<Kept> = {
        let mut blocks = BLOCKS.lock();
        let all = std::mem::take(&mut blocks.kept).into_iter();
        let (leaving, staying) = all.partition(Kept::has_passed);
        blocks.kept = staying;
        leaving
    };
    for Kept { address, pinned, .. } in blocks {
        let pointer = address as *mut c_void;
        if pinned.is_mapped {
            // SAFETY: the block came from `mapping`, and the record of it was just taken out.
            unsafe { mapping::free(pointer, pinned.size) };
            continue;
        }
        // SAFETY: the block came from cuMemHostAlloc, and the record of it was just taken out.
        let code = unsafe { cu!(cuMemFreeHost(pointer)) };
        // The call that freed it has long succeeded; nobody could do anything about it now.
        debug_assert!(code != errors::INVALID_VALUE, "{pointer:p} was given back twice");
    }
}

impl Kept {
    fn has_passed(&self) -> bool {
        self.events.iter().all(|event| event.has_passed())
    }
}
