//! Fills: a pattern over a range of device memory, in a stream's order.
//!
//! Rules: the driver fills with 1, 2 or 4 bytes. A longer pattern is laid down at the start of the
//! range, each of its words as a column (which the driver does, too), and then copied from there to
//! behind itself, twice as much each time: full speed after the start, and no limit on a column's height
//! is met. Whatever the driver refuses because the memory is another device's makes a detour there.

use crate::addresses::owner;
use crate::call::cu;
use crate::device::Device;
use crate::errors::{self, INVALID_VALUE, SUCCESS};
use crate::streams::native;
use crate::two_devices;
use cust::sys::{CUdeviceptr, CUstream};
use llaisys_runtime_core::api::{Pattern, Stream};
use llaisys_runtime_core::error::{Error, Result};
use std::ffi::c_void;

/// How much of a range gets a long pattern by columns.
const START: usize = 64 << 10;

impl Device {
    /// Enqueues a fill.
    ///
    /// # Safety
    /// - As for `RuntimeApi::memset_async`.
    #[inline]
    pub(crate) unsafe fn fill(
        &self,
        dst: *mut c_void,
        pattern: Pattern,
        size: usize,
        stream: Stream,
    ) -> Result<()> {
        if pattern.bytes().len() <= 4 && !stream.is_default() {
            // As for a copy: a stream has its context.
            // SAFETY: the caller vouches for the range and the stream.
            let code = unsafe { enqueue(dst, pattern.bytes(), size, native(stream)) };
            if code == SUCCESS {
                return Ok(());
            }
            if !errors::wants_context(code) {
                return Err(self.fill_refused(code, dst, pattern, size, stream));
            }
        }
        // SAFETY: as above.
        unsafe { self.enter_and_fill(dst, pattern, size, stream) }
    }

    /// Enqueues a fill of any device's memory on any stream.
    ///
    /// # Safety
    /// - As for `RuntimeApi::memset_async`.
    #[cold]
    unsafe fn enter_and_fill(
        &self,
        dst: *mut c_void,
        pattern: Pattern,
        size: usize,
        stream: Stream,
    ) -> Result<()> {
        let _entered = self.enter()?;
        // SAFETY: the caller vouches for the range and the stream.
        let code = unsafe { enqueue(dst, pattern.bytes(), size, native(stream)) };
        if code == INVALID_VALUE {
            // SAFETY: as above; the stream is one of the owner's.
            let work = |owner: &Device, there| unsafe { owner.fill(dst, pattern, size, there) };
            let owner = owner(dst as usize as CUdeviceptr);
            let filled = owner.and_then(|owner| two_devices::detour(self, owner, stream, work));
            if let Some(filled) = filled {
                return filled;
            }
        }
        if code == SUCCESS {
            Ok(())
        } else {
            Err(self.fill_refused(code, dst, pattern, size, stream))
        }
    }

    #[cold]
    fn fill_refused(
        &self,
        code: i32,
        dst: *mut c_void,
        pattern: Pattern,
        size: usize,
        stream: Stream,
    ) -> Error {
        let (bytes, at) = (pattern.bytes().len(), self.of_stream("in", stream));
        errors::failure(
            code,
            &format!("fill {size} bytes at {dst:p} with a pattern of {bytes} {at}"),
        )
    }
}

/// # Safety
/// - As for `RuntimeApi::memset_async`; `on` is a live stream, or NULL when a context is entered.
unsafe fn enqueue(dst: *mut c_void, pattern: &[u8], size: usize, on: CUstream) -> i32 {
    let to = dst as usize as CUdeviceptr;
    // SAFETY: the caller vouches for the range, which is a multiple of the pattern, and the stream.
    unsafe {
        match *pattern {
            [a] => cu!(cuMemsetD8Async(to, a, size, on)),
            [a, b] => cu!(cuMemsetD16Async(to, u16::from_ne_bytes([a, b]), size / 2, on)),
            [a, b, c, d] => {
                cu!(cuMemsetD32Async(to, u32::from_ne_bytes([a, b, c, d]), size / 4, on))
            }
            _ => repeat(to, pattern, size, on),
        }
    }
}

/// Fills with a pattern of several words of four bytes.
///
/// # Safety
/// - As for [`enqueue`].
unsafe fn repeat(to: CUdeviceptr, pattern: &[u8], size: usize, on: CUstream) -> i32 {
    let start = size.min(START);
    for (index, word) in pattern.chunks_exact(4).enumerate() {
        let value = u32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
        let (column, rows) = (to + 4 * index as u64, start / pattern.len());
        // SAFETY: the last word of the last row ends inside the range.
        let code = unsafe { cu!(cuMemsetD2D32Async(column, pattern.len(), value, 1, rows, on)) };
        if code != SUCCESS {
            return code;
        }
    }
    let mut done = start;
    while done < size {
        let more = done.min(size - done);
        // SAFETY: the first `more` bytes are filled, and there is room behind them.
        let code = unsafe { cu!(cuMemcpyDtoDAsync_v2(to + done as u64, to, more, on)) };
        if code != SUCCESS {
            return code;
        }
        done += more;
    }
    SUCCESS
}
