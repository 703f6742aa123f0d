//! Events of clients: the handle of an event is its `CUevent`.
//!
//! Rule: the core asks only what it must (`runtime-core/src/events.rs`): which events were recorded, and
//! which are known to be reached, it remembers itself (contract V1, V2).

use crate::call::cu;
use crate::device::Device;
use crate::errors::{self, NOT_READY};
use crate::streams::native;
use cust::sys::{CUevent, CUevent_flags_enum as Flags};
use llaisys_runtime_core::api::{Event, EventFlags, Stream};
use llaisys_runtime_core::error::{Error, Result};
use llaisys_runtime_core::status::Status;

/// The driver's handle of an event.
#[inline]
fn handle(event: Event) -> CUevent {
    event.0.cast()
}

impl Device {
    /// Makes an event, never recorded yet.
    pub(crate) fn create_event(&self, flags: EventFlags) -> Result<Event> {
        let _entered = self.enter()?;
        let mut native = Flags::CU_EVENT_DEFAULT as u32;
        if !flags.contains(EventFlags::TIMING) {
            native |= Flags::CU_EVENT_DISABLE_TIMING as u32;
        }
        if flags.contains(EventFlags::BLOCKING_WAIT) {
            native |= Flags::CU_EVENT_BLOCKING_SYNC as u32;
        }
        let mut event: CUevent = std::ptr::null_mut();
        // SAFETY: `event` is writable; the device's context is entered.
        let code = unsafe { cu!(cuEventCreate(&mut event, native)) };
        errors::check(code, || format!("make an event on device {}", self.ordinal))?;
        if event.is_null() {
            let message = format!(
                "make an event on device {}: the driver answered success and NULL",
                self.ordinal
            );
            return Err(Error::new(Status::Internal, message));
        }
        Ok(Event(event.cast()))
    }

    /// Destroys an event, also one that is not reached yet.
    ///
    /// # Safety
    /// - `event` came from [`Device::create_event`] of this device and is not destroyed.
    pub(crate) unsafe fn destroy_event(&self, event: Event) -> Result<()> {
        let _entered = self.enter()?;
        // SAFETY: the caller hands over a live event.
        let code = unsafe { cu!(cuEventDestroy_v2(handle(event))) };
        errors::check(code, || self.of_event("destroy", event))
    }

    /// Puts an event behind the work that a stream has now.
    ///
    /// # Safety
    /// - `event` is a live event of this device; `stream` is NULL or a live stream of it.
    pub(crate) unsafe fn record_event(&self, event: Event, stream: Stream) -> Result<()> {
        let _entered = self.enter()?;
        // SAFETY: the caller vouches for both.
        let code = unsafe { cu!(cuEventRecord(handle(event), native(stream))) };
        errors::check(code, || {
            format!("{} {}", self.of_event("record", event), self.of_stream("on", stream))
        })
    }

    /// Has a stream of this device wait for what an event, of whichever device, was recorded behind.
    ///
    /// # Safety
    /// - `event` is live; `stream` is NULL or a live stream of this device.
    pub(crate) unsafe fn wait_in_stream(&self, stream: Stream, event: Event) -> Result<()> {
        let _entered = self.enter()?;
        // SAFETY: the caller vouches for both; 0 is the only flag outside graphs.
        let code = unsafe { cu!(cuStreamWaitEvent(native(stream), handle(event), 0)) };
        errors::check(code, || {
            format!("have {} wait for the event {:p}", self.of_stream("", stream).trim(), event.0)
        })
    }

    /// Whether an event was reached; never recorded counts as reached.
    ///
    /// # Safety
    /// - `event` is a live event of this device.
    pub(crate) unsafe fn query_event(&self, event: Event) -> Result<bool> {
        let _entered = self.enter()?;
        // SAFETY: the caller vouches for the event.
        match unsafe { cu!(cuEventQuery(handle(event))) } {
            NOT_READY => Ok(false),
            code => errors::check(code, || self.of_event("query", event)).map(|()| true),
        }
    }

    /// Waits until an event is reached.
    ///
    /// # Safety
    /// - `event` is a live event of this device.
    pub(crate) unsafe fn synchronize_event(&self, event: Event) -> Result<()> {
        let _entered = self.enter()?;
        // SAFETY: the caller vouches for the event.
        let code = unsafe { cu!(cuEventSynchronize(handle(event))) };
        errors::check(code, || self.of_event("wait for", event))
    }

    /// Nanoseconds from one event to another. The driver tells milliseconds in a `float`: seven
    /// digits, and a step of about half a microsecond at best.
    ///
    /// # Safety
    /// - Both are live events of this device with timing.
    pub(crate) unsafe fn elapsed(&self, start: Event, end: Event) -> Result<i64> {
        let _entered = self.enter()?;
        let mut milliseconds = 0_f32;
        // SAFETY: `milliseconds` is writable, and the caller vouches for both events.
        let code =
            unsafe { cu!(cuEventElapsedTime(&mut milliseconds, handle(start), handle(end))) };
        errors::check(code, || {
            format!("{} to {:p}", self.of_event("tell the time from", start), end.0)
        })?;
        Ok((f64::from(milliseconds) * 1e6).round() as i64)
    }

    /// `asked` an event of this device, in words.
    #[cold]
    fn of_event(&self, asked: &str, event: Event) -> String {
        format!("{asked} the event {:p} of device {}", event.0, self.ordinal)
    }
}
