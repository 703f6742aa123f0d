//! Copies between the device and pageable memory that must not wait for the stream (contract C3).
//!
//! Rule: a pageable source has been read when the call returns, also while the device is busy; with a
//! buffer that the caller promises to leave alone, neither direction waits. The driver itself reads a
//! small source at once, waits for its turn with a large one, and always waits for the end into
//! pageable memory. So these go by way of pinned memory. Where that is not to be had, or much of it is
//! under way already, the driver's own way is taken: it waits, and the result is the same.

use crate::addresses;
use crate::call::cu;
use crate::capture::{self, Relaxed};
use crate::device::Device;
use crate::errors::{self, NOT_READY};
use crate::event::Event;
use crate::host_copy;
use crate::marks;
use crate::pinned;
use crate::rows::Rows;
use crate::streams::native;
use cust::sys::CUdeviceptr;
use llaisys_runtime_core::api::{CopyFlags, MemcpyKind, Stream};
use llaisys_runtime_core::error::Result;
use std::ffi::c_void;
use std::sync::Arc;

/// What the driver reads at once, whatever the stream is doing, where it is one range.
const READ_AT_ONCE: usize = 64 << 10;

/// The largest copy that is staged.
const LARGEST: usize = 256 << 20;

/// Stages a copy if the driver would wait with it; `None` when that is not so.
///
/// # Safety
/// - As for `RuntimeApi::memcpy_async`, for each row; the device's context is entered.
pub(crate) unsafe fn copy(device: &Device, copy: Rows, stream: Stream) -> Option<Result<()>> {
    let promised = copy.flags.contains(CopyFlags::HOST_BUFFER_PROMISED);
    let host = match copy.kind {
        MemcpyKind::H2D if promised || copy.flags.contains(CopyFlags::SOURCE_PAGEABLE) => {
            let is_read_at_once = copy.size() <= READ_AT_ONCE && copy.as_line().is_some();
            (!is_read_at_once).then(|| copy.first_read())
        }
        MemcpyKind::D2H if promised => Some(copy.first_written().cast_const()),
        _ => None,
    }?;
    // SAFETY: the caller vouches for the stream.
    if copy.size() > LARGEST || unsafe { !would_wait(host as usize as CUdeviceptr, stream) } {
        return None;
    }
    // Few different sizes, so that a block that comes back fits again.
    let size = copy.size().next_power_of_two();
    if pinned::kept_bytes() + size > pinned::MOST_KEPT {
        return None;
    }
    let block = pinned::allocate(device, size).ok()?;
    // SAFETY: the caller vouches for both sides; the block is ours and large enough.
    Some(unsafe { through(block, device, copy, stream) })
}

/// Whether the driver would wait with a copy from or to this host memory: the stream is busy, or the
/// default stream that it follows, and nobody has pinned the memory. A captured stream does not wait, and is not
/// asked; nor is a capture of another stream spoilt by the question.
///
/// # Safety
/// - `stream` is NULL or a live stream; the device's context is entered.
unsafe fn would_wait(host: CUdeviceptr, stream: Stream) -> bool {
    let _relaxed = Relaxed::enter();
    if capture::forbids_questions(native(stream)) {
        return false;
    }
    // SAFETY: by the contract above.
    let busy =
        unsafe { cu!(cuStreamQuery(native(stream))) == NOT_READY } || !marks::default_is_ready();
    busy && !addresses::is_known(host)
}

/// # Safety
/// - As for [`copy`]; `block` is an unused pinned block of at least `copy.size()` bytes.
unsafe fn through(block: *mut c_void, device: &Device, copy: Rows, stream: Stream) -> Result<()> {
    let (on, to_block) = (native(stream), copy.written_to(block));
    let from_block = copy.read_from(block);
    let asked = || {
        let at = device.of_stream("in", stream);
        format!("copy {} bytes {:?} through pinned memory {at}", copy.size(), copy.kind)
    };
    let enqueued = if copy.kind == MemcpyKind::H2D {
        // SAFETY: by the contract above.
        let code = unsafe {
            to_block.copy_here();
            from_block.enqueue(on)
        };
        errors::check(code, asked)
    } else {
        // SAFETY: by the contract above.
        let code = unsafe { to_block.enqueue(on) };
        errors::check(code, asked).and_then(|()| {
            // SAFETY: the destination is promised, and the block is kept, until the stream has passed.
            unsafe { host_copy::enqueue(device, from_block, stream, false) }
        })
    };
    // Without a mark nobody knows when the stream is done with the block: then it is never reused.
    let mark = Arc::new(Event::record(on)?);
    pinned::keep(block, vec![mark])?;
    enqueued
}
