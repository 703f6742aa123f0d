//! Copies of pageable sources that must be read before their stream gets to them (contract C3).
//!
//! Rule: all buffers together stay below a bound; beyond it the caller waits instead.

use crate::command::Copy;
use std::ffi::c_void;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// How many bytes are staged and may be.
pub struct Staging {
    limit: usize,
    used: AtomicUsize,
}

impl Staging {
    /// Nothing staged yet.
    pub fn new(limit: usize) -> Staging {
        Staging { limit, used: AtomicUsize::new(0) }
    }

    /// So many bytes of the bound, or `None` where they are not there.
    pub fn reserve(&'static self, size: usize) -> Option<Reserved> {
        let within = |used: usize| used.checked_add(size).filter(|&used| used <= self.limit);
        self.used.fetch_update(Relaxed, Relaxed, within).ok()?;
        Some(Reserved { size, staging: self })
    }

    /// What the sources of these copies are now, one behind the other; `None` where that would go
    /// beyond the bound or there is no memory.
    ///
    /// # Safety
    /// - Each source is readable for its size.
    pub unsafe fn gather(
        &'static self,
        copies: impl Iterator<Item = Copy> + Clone,
    ) -> Option<StagingBuffer> {
        let size = copies.clone().try_fold(0usize, |all, copy| all.checked_add(copy.size))?;
        let reserved = self.reserve(size)?;
        let mut bytes: Vec<u8> = Vec::new();
        bytes.try_reserve_exact(size).ok()?;
        for Copy { src, size, .. } in copies {
            let begin = bytes.len();
            // SAFETY: `size` bytes are readable by the contract above, and the sum of all sizes was
            // reserved; once written they are initialised.
            unsafe {
                let to = bytes.as_mut_ptr().add(begin);
                src.cast::<u8>().copy_to_nonoverlapping(to, size);
                bytes.set_len(begin + size);
            }
        }
        Some(StagingBuffer { bytes, _reserved: reserved })
    }

    /// In the child of a fork: buffers of threads that do not exist here are nobody's.
    pub fn forget(&self) {
        self.used.store(0, Relaxed);
    }
}

/// A part of the bound, given back when this goes.
pub struct Reserved {
    size: usize,
    staging: &'static Staging,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        // Saturating: a child of `fork` may have forgotten this part already.
        let _ = self
            .staging
            .used
            .fetch_update(Relaxed, Relaxed, |used| Some(used.saturating_sub(self.size)));
    }
}

/// What pageable sources were when their copy was asked for.
pub struct StagingBuffer {
    bytes: Vec<u8>,
    _reserved: Reserved,
}

impl StagingBuffer {
    /// Its first byte.
    pub fn as_ptr(&self) -> *const c_void {
        self.bytes.as_ptr().cast()
    }

    /// How many bytes it holds.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
}
