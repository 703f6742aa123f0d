//! Streams: the handle of a stream is its `CUstream`, NULL is the device's legacy stream (contract
//! S2, design "Native handles").
//!
//! Rules: a stream is a blocking one, ordered with the default stream, unless it is asked for
//! otherwise. A stream of somebody else's is taken in when it is of a primary context, the one that
//! everything here runs in; it is let go of and never destroyed.

use crate::call::cu;
use crate::capture;
use crate::device::Device;
use crate::driver::driver;
use crate::errors::{self, NOT_READY};
use cust::sys::{self, CUcontext, CUstream};
use llaisys_runtime_core::api::{HostFunction, Ordinal, PriorityRange, Stream, StreamFlags};
use llaisys_runtime_core::error::{Error, Result};
use llaisys_runtime_core::status::Status;
use std::ffi::{c_int, c_uint, c_void};

/// The stream flags of a blocking stream.
const BLOCKING: u32 = sys::CUstream_flags_enum::CU_STREAM_DEFAULT as u32;

/// The stream flags of a stream that is not ordered with the default stream.
const NON_BLOCKING: u32 = sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;

/// `CU_STREAM_LEGACY`: the default stream, spelled as a handle.
const LEGACY: usize = 1;

/// `CU_STREAM_PER_THREAD`: another default stream in each thread.
const PER_THREAD: usize = 2;

/// The driver's handle of a stream.
#[inline]
pub(crate) fn native(stream: Stream) -> CUstream {
    stream.0.cast()
}

/// Takes in a stream that somebody else has made; the ordinal of its device.
///
/// # Safety
/// - `handle` is a live `CUstream` and stays so until it is let go of.
pub(crate) unsafe fn adopt(handle: *mut c_void) -> Result<Ordinal> {
    let refused = |why: &str| {
        let message = format!("take in the stream {handle:p}: {why}");
        Err(Error::new(Status::InvalidHandle, message))
    };
    match handle as usize {
        0 | LEGACY => return refused("that is the default stream, whose handle here is NULL"),
        PER_THREAD => return refused("that is another stream in each thread; make one instead"),
        _ => {}
    }
    let driver = driver()?;
    let stream: CUstream = handle.cast();
    let asked = || format!("take in the stream {handle:p}");
    let mut context: CUcontext = std::ptr::null_mut();
    // SAFETY: the caller vouches for the stream, and `context` is writable.
    errors::check(unsafe { cu!(cuStreamGetCtx(stream, &mut context)) }, asked)?;
    let Some(device) = driver.device_of(context)? else {
        return refused("it is not of a device's primary context");
    };
    let mut flags: c_uint = 0;
    // SAFETY: as above.
    errors::check(unsafe { cu!(cuStreamGetFlags(stream, &mut flags)) }, asked)?;
    device.streams.adopt(stream, flags & NON_BLOCKING == 0);
    Ok(device.ordinal)
}

impl Device {
    /// Makes a blocking stream.
    pub(crate) fn create_stream(&self) -> Result<Stream> {
        let _entered = self.enter()?;
        // SAFETY: `stream` is writable. (`cust::stream::Stream::new` would strip flags, so it is
        // not used.)
        self.made(true, |stream| unsafe { cu!(cuStreamCreate(stream, BLOCKING)) })
    }

    /// Makes a stream, blocking or not, whose priority is clamped into the device's range.
    pub(crate) fn create_stream_with(&self, flags: StreamFlags, priority: i32) -> Result<Stream> {
        let _entered = self.enter()?;
        let range = self.priorities()?;
        let priority = priority.min(range.least).max(range.greatest);
        let native = if flags.is_blocking() { BLOCKING } else { NON_BLOCKING };
        // SAFETY: `stream` is writable.
        self.made(flags.is_blocking(), |stream| unsafe {
            cu!(cuStreamCreateWithPriority(stream, native, priority))
        })
    }

    /// Lists the stream that `make` makes. The device's context is entered.
    fn made(&self, blocking: bool, make: impl FnOnce(&mut CUstream) -> i32) -> Result<Stream> {
        let mut stream: CUstream = std::ptr::null_mut();
        let code = make(&mut stream);
        errors::check(code, || format!("make a stream on device {}", self.ordinal))?;
        if stream.is_null() {
            return Err(Error::new(
                Status::Internal,
                format!(
                    "make a stream on device {}: the driver answered success and NULL",
                    self.ordinal
                ),
            ));
        }
        self.streams.add(stream, blocking);
        Ok(Stream(stream.cast()))
    }

    /// The priorities that streams can have.
    pub(crate) fn stream_priorities(&self) -> Result<PriorityRange> {
        let _entered = self.enter()?;
        self.priorities()
    }

    /// [`Device::stream_priorities`], with the device's context entered.
    fn priorities(&self) -> Result<PriorityRange> {
        let (mut least, mut greatest): (c_int, c_int) = (0, 0);
        // SAFETY: both are writable; the device's context is entered.
        let code = unsafe { cu!(cuCtxGetStreamPriorityRange(&mut least, &mut greatest)) };
        errors::check(code, || {
            format!("ask for the stream priorities of device {}", self.ordinal)
        })?;
        Ok(PriorityRange { least, greatest })
    }

    /// Destroys a stream, or lets go of one that was adopted; its work completes.
    ///
    /// # Safety
    /// - `stream` came from [`Device::create_stream`] or [`Device::create_stream_with`] of this
    ///   device, or was adopted on it, and is not destroyed.
    pub(crate) unsafe fn destroy_stream(&self, stream: Stream) -> Result<()> {
        if stream.is_default() {
            return Ok(());
        }
        let _entered = self.enter()?;
        if !self.streams.remove(native(stream)) {
            return Ok(());
        }
        // SAFETY: the caller hands over a live stream.
        let code = unsafe { cu!(cuStreamDestroy_v2(native(stream))) };
        if code != errors::SUCCESS {
            // It can still be named. As one that the default stream does not know it is asked for itself.
            self.streams.add(native(stream), false);
        }
        errors::check(code, || self.of_stream("destroy", stream))
    }

    /// Waits for the work of a stream.
    ///
    /// # Safety
    /// - `stream` is NULL or a live stream of this device.
    pub(crate) unsafe fn synchronize_stream(&self, stream: Stream) -> Result<()> {
        let _entered = self.enter()?;
        // SAFETY: the caller vouches for the stream.
        let code = unsafe { cu!(cuStreamSynchronize(native(stream))) };
        errors::check(code, || self.of_stream("wait for", stream))
    }

    /// Whether the work of a stream is done; an error, which spoils nothing, while it is captured.
    ///
    /// # Safety
    /// - `stream` is NULL or a live stream of this device.
    pub(crate) unsafe fn query_stream(&self, stream: Stream) -> Result<bool> {
        let _entered = self.enter()?;
        if capture::forbids_questions(native(stream)) {
            return Err(self.captured(stream));
        }
        // SAFETY: the caller vouches for the stream.
        match unsafe { cu!(cuStreamQuery(native(stream))) } {
            NOT_READY => Ok(false),
            code => errors::check(code, || self.of_stream("query", stream)).map(|()| true),
        }
    }

    /// Waits for the work of the device.
    pub(crate) fn synchronize(&self) -> Result<()> {
        let _entered = self.enter()?;
        // SAFETY: takes nothing; the device's context is entered.
        let code = unsafe { cu!(cuCtxSynchronize()) };
        errors::check(code, || format!("wait for device {}", self.ordinal))
    }

    /// Has a stream call a function in its order.
    ///
    /// # Safety
    /// - `stream` is NULL or a live stream of this device.
    /// - `function` may be called with `data` on another thread at any later time, and does not
    ///   unwind.
    pub(crate) unsafe fn launch_host_function(
        &self,
        stream: Stream,
        function: HostFunction,
        data: *mut c_void,
    ) -> Result<()> {
        let _entered = self.enter()?;
        // SAFETY: the caller vouches for the stream, the function and its data.
        let code = unsafe { cu!(cuLaunchHostFunc(native(stream), Some(function), data)) };
        errors::check(code, || self.of_stream("enqueue a host function on", stream))
    }

    #[cold]
    fn captured(&self, stream: Stream) -> Error {
        let asked = self.of_stream("query", stream);
        let why = "a stream is captured into a graph, and to ask would spoil that";
        Error::new(Status::NotPermitted, format!("{asked}: {why}"))
    }

    /// `asked` a stream of this device, in words.
    #[cold]
    pub(crate) fn of_stream(&self, asked: &str, stream: Stream) -> String {
        if stream.is_default() {
            format!("{asked} the default stream of device {}", self.ordinal)
        } else {
            format!("{asked} stream {:p} of device {}", stream.0, self.ordinal)
        }
    }
}
