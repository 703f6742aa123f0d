//! Host memory that is mapped and touched here and pinned by registering it: a tenth of the time that the
//! driver takes to allocate as much, for it pins small pages one after the other, in one thread.
//!
//! Rules: the memory is in huge pages where the system has them, and several threads touch it first. Where the
//! system would have to move other memory about to make huge pages, small ones are taken instead: that takes
//! longer than all else together. What
//! may not be there is not touched: a process that touches more than there is, is killed, while a driver
//! that is asked for it says no. The child of a fork does not have it, as it does not have the driver's own:
//! a page that both had would be copied when the parent writes, and the device would go on with the old one.

use crate::call::cu;
use crate::device::Device;
use crate::errors::{DEINITIALIZED, INVALID_VALUE, SUCCESS};
use cust::sys::{self, CUdevice_attribute_enum as Attribute};
use llaisys_runtime_core::available_memory::available_memory;
use llaisys_runtime_core::{futex, thread};
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::time::{Duration, Instant};

/// From so many bytes on it pays.
pub(crate) const LEAST: usize = 2 << 20;
/// A huge page.
const HUGE: usize = 2 << 20;
const PAGE: usize = 4096;
/// So much is touched by one thread before another is worth its start.
const SHARE: usize = 16 << 20;
/// So many threads touch at most; more do not zero pages faster.
const MOST_THREADS: usize = 8;

/// Pins memory of this size; its address. `None` where it cannot be had so. The device's context is
/// entered.
pub(crate) fn allocate(device: &Device, size: usize) -> Option<*mut c_void> {
    // Where it is 0, a device knows registered memory by another address than the host.
    let same = Attribute::CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM;
    let fits = || (size as u64) < available_memory() / 2;
    if size < LEAST || device.attribute(same).unwrap_or_default() == 0 || !fits() {
        return None;
    }
    let address = map(size)?;
    touch(address, size);
    let pointer = address as *mut c_void;
    let flags = sys::CU_MEMHOSTREGISTER_PORTABLE | sys::CU_MEMHOSTREGISTER_DEVICEMAP;
    // SAFETY: mapped memory of this process, which stays until `free`.
    let code = unsafe { cu!(cuMemHostRegister_v2(pointer, size, flags)) };
    if code != SUCCESS {
        unmap(address, size);
        return None;
    }
    Some(pointer)
}

/// Lets go of pinned memory. May wait for the device.
///
/// # Safety
/// - `pointer` came from [`allocate`] with this size and is not freed; nothing uses it.
pub(crate) unsafe fn free(pointer: *mut c_void, size: usize) {
    // SAFETY: registered by `allocate`.
    let code = unsafe { cu!(cuMemHostUnregister(pointer)) };
    debug_assert!(code != INVALID_VALUE, "{pointer:p} was given back twice");
    // What the driver did not let go of may still be used by a device, so it stays.
    if code == SUCCESS || code == DEINITIALIZED {
        unmap(pointer as usize, size);
    }
}

/// Maps whole pages at a multiple of the size of a huge one; the address.
fn map(size: usize) -> Option<usize> {
    let length = size.checked_next_multiple_of(PAGE)?;
    let whole = length.checked_add(HUGE)?;
    let (prot, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, wherever the kernel has room.
    let mapped = unsafe { libc::mmap(ptr::null_mut(), whole, prot, flags, -1, 0) };
    if mapped == libc::MAP_FAILED {
        return None;
    }
    let (begin, end) = (mapped as usize, mapped as usize + whole);
    let address = begin.next_multiple_of(HUGE);
    for (from, to) in [(begin, address), (address + length, end)] {
        if from < to {
            unmap(from, to - from);
        }
    }
    for advice in [libc::MADV_HUGEPAGE, libc::MADV_DONTFORK] {
        // SAFETY: mapped just now. Where the kernel knows no such advice it goes on without.
        let code = unsafe { libc::madvise(address as *mut c_void, length, advice) };
        if code != 0 && advice == libc::MADV_DONTFORK {
            unmap(address, length);
            return None;
        }
    }
    Some(address)
}

fn unmap(address: usize, size: usize) {
    // SAFETY: pages of a mapping of our own that nobody uses any more.
    let _it_was_mapped =
        unsafe { libc::munmap(address as *mut c_void, size.next_multiple_of(PAGE)) };
}

/// A huge page that takes longer than this is not there, but made: five times what zeroing it takes.
const TOO_LONG: Duration = Duration::from_millis(1);

/// What several threads touch, huge page by huge page.
struct Touch {
    address: usize,
    size: usize,
    next: AtomicUsize,
    /// The rest is to be in small pages.
    is_small: AtomicBool,
    /// Threads that are still at it; whoever waits sleeps on it.
    threads: AtomicU32,
}

impl Touch {
    fn work(&self) {
        loop {
            let begin = self.next.fetch_add(HUGE, Relaxed);
            if begin >= self.size {
                return;
            }
            // The first write brings the huge page, if it is one.
            let since = Instant::now();
            self.write(begin);
            if since.elapsed() > TOO_LONG && !self.is_small.swap(true, Relaxed) {
                let rest = self.size.next_multiple_of(PAGE) - begin;
                let at = (self.address + begin) as *mut c_void;
                // SAFETY: to the end of a mapping of our own; what is there stays.
                let _it_takes_longer = unsafe { libc::madvise(at, rest, libc::MADV_NOHUGEPAGE) };
            }
            (begin..self.size.min(begin + HUGE))
                .step_by(PAGE)
                .for_each(|offset| self.write(offset));
        }
    }

    fn write(&self, offset: usize) {
        // SAFETY: inside a mapping of our own that nobody else knows yet.
        unsafe { ((self.address + offset) as *mut u8).write_volatile(0) };
    }
}

fn touch(address: usize, size: usize) {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let others = (size / SHARE).min(processors.saturating_sub(1)).min(MOST_THREADS - 1);
    let (next, threads) = (AtomicUsize::new(0), AtomicU32::new(0));
    let is_small = AtomicBool::new(false);
    let shared = Arc::new(Touch { address, size, next, is_small, threads });
    for _ in 0..others {
        let touch = Arc::clone(&shared);
        shared.threads.fetch_add(1, Relaxed);
        let started = thread::start("llaisys.touch".to_owned(), move || {
            touch.work();
            if touch.threads.fetch_sub(1, AcqRel) == 1 {
                futex::wake(&touch.threads, 1);
            }
        });
        if started.is_err() {
            shared.threads.fetch_sub(1, Relaxed);
            break;
        }
    }
    shared.work();
    loop {
        match shared.threads.load(Acquire) {
            0 => return,
            left => futex::wait(&shared.threads, left, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mapped_is_aligned_and_every_page_of_it_is_there() {
        for size in [LEAST, LEAST + 1, 3 * SHARE + 5000] {
            let address = map(size).expect("memory");
            assert_eq!(address % HUGE, 0);
            touch(address, size);
            let pages = size.div_ceil(PAGE);
            let mut resident = vec![0_u8; pages];
            // SAFETY: a byte for each page of a mapping.
            let code = unsafe {
                libc::mincore(address as *mut c_void, size, resident.as_mut_ptr().cast())
            };
            assert!(code == 0 && resident.iter().all(|page| page & 1 == 1), "{size} bytes");
            unmap(address, size);
        }
        assert!(map(usize::MAX - PAGE).is_none());
    }
}
