//! A private event: marks a place in a stream, to learn later whether the stream has passed it.
//!
//! Rule: an event that the driver cannot tell about any more (a lost device, a driver shutting
//! down) counts as passed; nothing runs there that could still be waited for.

use crate::call::cu;
use crate::errors::{self, NOT_READY};
use cust::sys::{self, CUevent, CUstream};
use llaisys_runtime_core::error::Result;

/// An event without timing, recorded once, destroyed with this value.
pub(crate) struct Event(CUevent);

// SAFETY: a CUevent is a handle that the driver lets every thread use; nothing is read through it
// here.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// Marks the present end of a stream of the context that is current.
    pub(crate) fn record(stream: CUstream) -> Result<Event> {
        let mut event: CUevent = std::ptr::null_mut();
        let flags = sys::CUevent_flags_enum::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: `event` is writable.
        errors::check(unsafe { cu!(cuEventCreate(&mut event, flags)) }, || "make an event".into())?;
        let event = Event(event);
        // SAFETY: the event was just made in the current context, and the stream is one of it.
        errors::check(unsafe { cu!(cuEventRecord(event.0, stream)) }, || "record an event".into())?;
        Ok(event)
    }

    /// Has another stream wait for the mark.
    pub(crate) fn hold_up(&self, stream: CUstream) -> Result<()> {
        // SAFETY: the event lives as long as `self`, and the wait captures what was recorded; the
        // caller's stream is live.
        let code = unsafe { cu!(cuStreamWaitEvent(stream, self.0, 0)) };
        errors::check(code, || "have a stream wait for an event".into())
    }

    /// Waits until the stream has passed the mark.
    pub(crate) fn wait(&self) -> Result<()> {
        // SAFETY: the event lives as long as `self`.
        errors::check(unsafe { cu!(cuEventSynchronize(self.0)) }, || "wait for an event".into())
    }

    /// Whether the stream has passed the mark.
    pub(crate) fn has_passed(&self) -> bool {
        // SAFETY: the event lives as long as `self`.
        unsafe { cu!(cuEventQuery(self.0)) != NOT_READY }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the event lives until here; destroying one that is pending is fine.
        let _nothing_to_do_about_it = unsafe { cu!(cuEventDestroy_v2(self.0)) };
    }
}
