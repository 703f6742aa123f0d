//! Copies of pageable sources that must be read before their stream gets to them (contract C3).
//!
//! Rule: all buffers together stay below a bound; beyond it the caller waits instead.

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

    /// A copy of the source, or `None` where it would go beyond the bound or there is no memory.
    ///
    /// # Safety
    /// - `src` is readable for `size` bytes.
    pub unsafe fn copy(&'static self, src: *const c_void, size: usize) -> Option<StagingBuffer> {
        let within = |used: usize| used.checked_add(size).filter(|&used| used <= self.limit);
        self.used.fetch_update(Relaxed, Relaxed, within).ok()?;
        // From here on the buffer gives the bytes back when it goes.
        let mut buffer = StagingBuffer { bytes: Vec::new(), reserved: size, staging: self };
        buffer.bytes.try_reserve_exact(size).ok()?;
        // SAFETY: `size` bytes are readable by the contract above and were just reserved; once
        // written they are initialised.
        unsafe {
            src.cast::<u8>().copy_to_nonoverlapping(buffer.bytes.as_mut_ptr(), size);
            buffer.bytes.set_len(size);
        }
        Some(buffer)
    }

    /// In the child of a fork: buffers of threads that do not exist here are nobody's.
    pub fn forget(&self) {
        self.used.store(0, Relaxed);
    }
}

/// What a pageable source was when the copy was asked for.
pub struct StagingBuffer {
    bytes: Vec<u8>,
    reserved: usize,
    staging: &'static Staging,
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

impl Drop for StagingBuffer {
    fn drop(&mut self) {
        // Saturating: a child of `fork` may have forgotten this buffer already.
        let _ = self
            .staging
            .used
            .fetch_update(Relaxed, Relaxed, |used| Some(used.saturating_sub(self.reserved)));
    }
}
