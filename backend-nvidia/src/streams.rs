//! Streams: the handle of a stream is its `CUstream`, NULL is the device's legacy stream (contract
//! S2, design "Native handles").
//!
//! Rule: a stream made here is a blocking one, so it is ordered with the default stream.

use crate::call::cu;
use crate::device::Device;
use crate::errors::{self, NOT_READY};
use cust::sys::{self, CUstream};
use llaisys_runtime_core::api::{HostFunction, Stream};
use llaisys_runtime_core::error::{Error, Result};
use llaisys_runtime_core::status::Status;
use std::ffi::c_void;

/// The stream flags of a blocking stream.
const BLOCKING: u32 = sys::CUstream_flags_enum::CU_STREAM_DEFAULT as u32;

/// The driver's handle of a stream.
#[inline]
pub(crate) fn native(stream: Stream) -> CUstream {
    stream.0.cast()
}

impl Device {
    /// Makes a blocking stream.
    pub(crate) fn create_stream(&self) -> Result<Stream> {
        let _entered = self.enter()?;
        let mut stream: CUstream = std::ptr::null_mut();
        // SAFETY: `stream` is writable. (`cust::stream::Stream::new` would strip flags, so it is
        // not used.)
        let code = unsafe { cu!(cuStreamCreate(&mut stream, BLOCKING)) };
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
        self.streams.add(stream);
        Ok(Stream(stream.cast()))
    }

    /// Destroys a stream; its work completes.
    ///
    /// # Safety
    /// - `stream` came from [`Device::create_stream`] of this device and is not destroyed.
    pub(crate) unsafe fn destroy_stream(&self, stream: Stream) -> Result<()> {
        if stream.is_default() {
            return Ok(());
        }
        let _entered = self.enter()?;
        self.streams.remove(native(stream));
        // SAFETY: the caller hands over a live stream.
        let code = unsafe { cu!(cuStreamDestroy_v2(native(stream))) };
        if code != errors::SUCCESS {
            self.streams.add(native(stream));
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

    /// Whether the work of a stream is done.
    ///
    /// # Safety
    /// - `stream` is NULL or a live stream of this device.
    pub(crate) unsafe fn query_stream(&self, stream: Stream) -> Result<bool> {
        let _entered = self.enter()?;
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
