//! Many copies of one kind with one call.
//!
//! Rules: the driver's own batch is taken where it has one and takes these copies: not on the default
//! stream, which it refuses, and not from or to pageable memory, whose meaning (contract C3) is that of
//! the single copies. Everything else is one copy after the other, and so is a batch that the driver
//! refused (another device's memory, perhaps): a range that was copied before is copied again, which
//! changes nothing, since no destination is another range's source.
//!
//! The driver wants the addresses in columns, so they are turned on the stack, some at a time.

use crate::copies::Copy;
use crate::device::Device;
use crate::driver::driver;
use crate::errors::{self, SUCCESS};
use crate::newer::{BatchCopy, CopyAttributes};
use crate::streams::native;
use cust::sys::CUdeviceptr;
use llaisys_runtime_core::api::{CopyFlags, LlaisysCopyRange, MemcpyKind, Stream};
use llaisys_runtime_core::error::Result;

/// How many copies are given to the driver at a time.
const AT_A_TIME: usize = 128;

impl Device {
    /// Enqueues copies, which may run in any order among themselves.
    ///
    /// # Safety
    /// - As for `RuntimeApi::memcpy_batch_async`.
    pub(crate) unsafe fn copy_batch(
        &self,
        ranges: &[LlaisysCopyRange],
        kind: MemcpyKind,
        stream: Stream,
        flags: CopyFlags,
    ) -> Result<()> {
        let _entered = self.enter()?;
        let is_plain = flags.without(CopyFlags::AT_ONCE_IF_IDLE) == CopyFlags::NONE
            && kind != MemcpyKind::H2H
            && !stream.is_default();
        let native_batch = driver()?.newer.batch_copy.filter(|_| is_plain);
        for part in ranges.chunks(AT_A_TIME) {
            if let Some(batch_copy) = native_batch {
                // SAFETY: the caller vouches for the ranges and the stream.
                let code = unsafe { enqueue(batch_copy, part, stream) };
                if code == SUCCESS {
                    continue;
                }
                let failure = errors::failure(code, &self.of_batch(part.len(), kind, stream));
                if !errors::is_refusal(&failure) {
                    return Err(failure);
                }
            }
            for &LlaisysCopyRange { dst, src, size } in part {
                let copy = Copy { dst, src, size: size as usize, kind, flags };
                // SAFETY: as above.
                unsafe { self.copy_async(copy, stream) }?;
            }
        }
        Ok(())
    }

    #[cold]
    fn of_batch(&self, count: usize, kind: MemcpyKind, stream: Stream) -> String {
        format!("enqueue a batch of {count} copies {kind:?} {}", self.of_stream("in", stream))
    }
}

/// Gives up to [`AT_A_TIME`] copies to the driver at once; its code.
///
/// # Safety
/// - As for `RuntimeApi::memcpy_async`, for each range; the context of the stream is entered.
unsafe fn enqueue(batch_copy: BatchCopy, part: &[LlaisysCopyRange], stream: Stream) -> i32 {
    let mut dsts = [0 as CUdeviceptr; AT_A_TIME];
    let mut srcs = [0 as CUdeviceptr; AT_A_TIME];
    let mut sizes = [0_usize; AT_A_TIME];
    for (index, range) in part.iter().enumerate() {
        dsts[index] = range.dst as usize as CUdeviceptr;
        srcs[index] = range.src as usize as CUdeviceptr;
        sizes[index] = range.size as usize;
    }
    let mut attributes = CopyAttributes::IN_STREAM_ORDER;
    let (mut first_with_them, mut refused) = (0, 0);
    // SAFETY: the three columns hold `part.len()` copies, the attributes are for all from the first,
    // and everything is read before the call returns; the caller vouches for the copies.
    unsafe {
        batch_copy(
            dsts.as_mut_ptr(),
            srcs.as_mut_ptr(),
            sizes.as_mut_ptr(),
            part.len(),
            &mut attributes,
            &mut first_with_them,
            1,
            &mut refused,
            native(stream),
        )
    }
}
