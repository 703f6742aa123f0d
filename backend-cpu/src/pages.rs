//! What the kernel knows of a range of addresses.
//!
//! Rule: any range may be asked about; nothing is read or written.

use std::ffi::c_void;

/// How many pages are asked about with one system call.
const PAGES: usize = 4096;

/// Whether all of the range is mapped memory of this process.
pub fn are_mapped(address: usize, size: usize) -> bool {
    let page = page_size();
    let Some(end) = address.checked_add(size) else { return false };
    let mut resident = [0u8; PAGES];
    let mut from = address - address % page;
    while from < end {
        let length = (end - from).min(PAGES * page);
        // SAFETY: the kernel only looks the range up, and writes a byte for each of the at most
        // `PAGES` pages to a local.
        let answer =
            unsafe { libc::mincore(from as *mut c_void, length, resident.as_mut_ptr().cast()) };
        if answer != 0 {
            return false;
        }
        from += length;
    }
    true
}

/// Tells the kernel that the range will be used soon, so that what was swapped out comes back. A hint
/// that may fail.
///
/// # Safety
/// - The range is memory that its owner may give such hints about.
pub unsafe fn will_need(address: usize, size: usize) {
    let page = page_size();
    let begin = address.next_multiple_of(page);
    let end = (address + size) - (address + size) % page;
    if begin < end {
        // SAFETY: whole pages of the range above; the advice keeps their contents.
        unsafe { libc::madvise(begin as *mut c_void, end - begin, libc::MADV_WILLNEED) };
    }
}

fn page_size() -> usize {
    // SAFETY: `sysconf` takes a number and touches no memory of ours.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_anywhere_in_the_range_is_found() {
        let (page, size) = (page_size(), 3 * page_size());
        // SAFETY: a new mapping at an address of the kernel's choice.
        let mapping = unsafe {
            let (protection, flags) = (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            libc::mmap(std::ptr::null_mut(), size, protection, flags, -1, 0)
        };
        assert_ne!(mapping, libc::MAP_FAILED);
        let address = mapping as usize;
        assert!(are_mapped(address, size) && are_mapped(address + 1, size - 1));
        // SAFETY: a page of the mapping above, which nobody uses.
        unsafe { libc::munmap((address + page) as *mut c_void, page) };
        assert!(!are_mapped(address, size) && !are_mapped(address + page - 1, 2));
        assert!(are_mapped(address, page) && are_mapped(address + 2 * page, page));
        // SAFETY: what is left of the mapping.
        unsafe { libc::munmap(mapping, size) };
        assert!(!are_mapped(8, 8) && !are_mapped(usize::MAX - 8, 8));
    }

    #[test]
    fn a_range_of_more_pages_than_one_call_asks_about() {
        let memory = vec![0u8; (PAGES + 3) * page_size()];
        assert!(are_mapped(memory.as_ptr() as usize, memory.len()));
    }
}
