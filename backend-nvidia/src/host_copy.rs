//! A copy between two places of host memory in a stream's order.
//!
//! Rules: where the copy has to be done at return, the calling thread waits for its turn and copies
//! itself; otherwise a host function of the stream does it. The turn is an event's: a wait for the
//! stream alone would not wait for earlier work of the default stream when the stream has none of
//! its own. The calling thread uses no host function, because the driver runs those of one context
//! one after the other, so that one stream's would wait for another's.

use crate::copies::Copy;
use crate::device::Device;
use crate::event::Event;
use crate::streams::native;
use llaisys_runtime_core::api::Stream;
use llaisys_runtime_core::error::{Error, Result};
use llaisys_runtime_core::status::Status;
use std::ffi::c_void;

/// Waits until it is the copy's turn, and copies.
///
/// # Safety
/// - Both ranges are valid until this returns and do not overlap.
/// - `stream` is NULL or a live stream of the device whose context is entered.
pub(crate) unsafe fn wait_and_copy(copy: Copy, stream: Stream) -> Result<()> {
    Event::record(native(stream))?.wait()?;
    // SAFETY: by the contract above.
    unsafe { copy.src.cast::<u8>().copy_to_nonoverlapping(copy.dst.cast(), copy.size) };
    Ok(())
}

/// What a stream is to do. A box that the stream's host function owns: run and dropped there, once.
struct Job {
    copy: Copy,
    /// The source as it was when the copy was asked for, where it may change before its turn.
    source: Option<Vec<u8>>,
}

/// Enqueues a copy from host memory to host memory.
///
/// # Safety
/// - `copy.src` is readable now and, unless `read_now`, until the stream has passed; `copy.dst` is
///   writable until then.
/// - The two ranges do not overlap, and `stream` is NULL or a live stream of `device`.
pub(crate) unsafe fn enqueue(
    device: &Device,
    copy: Copy,
    stream: Stream,
    read_now: bool,
) -> Result<()> {
    let source = if read_now {
        // SAFETY: the caller says that the source is readable now.
        Some(unsafe { read(copy) }?)
    } else {
        None
    };
    let job = Box::into_raw(Box::new(Job { copy, source }));
    // SAFETY: `run` takes a job's address and does not unwind.
    let launched = unsafe { device.launch_host_function(stream, run, job.cast()) };
    if launched.is_err() {
        // SAFETY: the driver did not take the job, so it is still this function's.
        drop(unsafe { Box::from_raw(job) });
    }
    launched
}

/// The bytes of the source.
///
/// # Safety
/// - `copy.src` is readable for `copy.size` bytes.
unsafe fn read(copy: Copy) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(copy.size).map_err(|_| {
        Error::new(
            Status::OutOfMemory,
            format!("hold {} bytes of a pageable source until its turn comes", copy.size),
        )
    })?;
    // SAFETY: the source is readable by the contract above; the capacity was just reserved.
    unsafe {
        copy.src.cast::<u8>().copy_to_nonoverlapping(bytes.as_mut_ptr(), copy.size);
        bytes.set_len(copy.size);
    }
    Ok(bytes)
}

/// The host function: does one job.
unsafe extern "C" fn run(job: *mut c_void) {
    // SAFETY: `job` is the box that `enqueue` gave away, and the stream calls this once.
    let job = unsafe { Box::from_raw(job.cast::<Job>()) };
    let from = job.source.as_ref().map_or(job.copy.src.cast::<u8>(), |bytes| bytes.as_ptr());
    // SAFETY: by `enqueue`'s contract both ranges are valid until the stream has passed, and do not
    // overlap.
    unsafe { from.copy_to_nonoverlapping(job.copy.dst.cast(), job.copy.size) };
}
