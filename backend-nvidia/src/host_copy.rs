//! A copy between two places of host memory in a stream's order.
//!
//! Rules: where the copy has to be done at return, the calling thread waits for its turn and copies
//! itself; otherwise a host function of the stream does it. The turn is an event's: a wait for the
//! stream alone would not wait for earlier work of the default stream when the stream has none of
//! its own. The calling thread uses no host function, because the driver runs those of one context
//! one after the other, so that one stream's would wait for another's.

use crate::device::Device;
use crate::event::Event;
use crate::rows::Rows;
use crate::streams::native;
use llaisys_runtime_core::api::Stream;
use llaisys_runtime_core::error::{Error, Result};
use llaisys_runtime_core::status::Status;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Waits until it is the copy's turn, and copies.
///
/// # Safety
/// - Both sides are valid until this returns and do not overlap.
/// - `stream` is NULL or a live stream of the device whose context is entered.
pub(crate) unsafe fn wait_and_copy(copy: Rows, stream: Stream) -> Result<()> {
    Event::record(native(stream))?.wait()?;
    // SAFETY: by the contract above.
    unsafe { copy.copy_here() };
    Ok(())
}

/// So much of pageable sources is held for streams that are not there yet. Beyond it the calling thread
/// waits for its turn, as it does when the driver's own queue is full (contract S6).
const MOST_HELD: usize = 256 << 20;

/// The bytes that are held.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// What a stream is to do. A box that the stream's host function owns: run and dropped there, once.
struct Job {
    copy: Rows,
    /// The source as it was when the copy was asked for, where it may change before its turn.
    source: Option<HeldBytes>,
}

/// Bytes that count as held for as long as they are.
struct HeldBytes(Vec<u8>);

impl HeldBytes {
    fn new(bytes: Vec<u8>) -> HeldBytes {
        HELD.fetch_add(bytes.len(), Ordering::Relaxed);
        HeldBytes(bytes)
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        HELD.fetch_sub(self.0.len(), Ordering::Relaxed);
    }
}

/// Enqueues a copy from host memory to host memory.
///
/// # Safety
/// - The source is readable now and, unless `read_now`, until the stream has passed; the destination
///   is writable until then.
/// - The two sides do not overlap, and `stream` is NULL or a live stream of `device`.
pub(crate) unsafe fn enqueue(
    device: &Device,
    copy: Rows,
    stream: Stream,
    read_now: bool,
) -> Result<()> {
    let source = if read_now {
        if HELD.load(Ordering::Relaxed) + copy.size() > MOST_HELD {
            // SAFETY: both sides are valid until this returns.
            return unsafe { wait_and_copy(copy, stream) };
        }
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

/// The bytes of the source, without what lies between its rows.
///
/// # Safety
/// - The source is readable.
unsafe fn read(copy: Rows) -> Result<HeldBytes> {
    let mut bytes: Vec<u8> = Vec::new();
    let size = copy.size();
    bytes.try_reserve_exact(size).map_err(|_| {
        Error::new(
            Status::OutOfMemory,
            format!("hold {size} bytes of a pageable source until its turn comes"),
        )
    })?;
    // SAFETY: the source is readable by the contract above; the capacity was just reserved.
    unsafe {
        copy.written_to(bytes.as_mut_ptr().cast()).copy_here();
        bytes.set_len(size);
    }
    Ok(HeldBytes::new(bytes))
}

/// The host function: does one job.
unsafe extern "C" fn run(job: *mut c_void) {
    // SAFETY: `job` is the box that `enqueue` gave away, and the stream calls this once.
    let job = unsafe { Box::from_raw(job.cast::<Job>()) };
    let copy = match &job.source {
        Some(HeldBytes(bytes)) => job.copy.read_from(bytes.as_ptr().cast()),
        None => job.copy,
    };
    // SAFETY: by `enqueue`'s contract both sides are valid until the stream has passed, and do not
    // overlap.
    unsafe { copy.copy_here() };
}
