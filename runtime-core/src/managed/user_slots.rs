//! Users' values: which device and which stream a value may be kept for.

use super::Managed;
use crate::api::{Ordinal, RuntimeApi, SlotDestructor, Stream};
use crate::error::{Error, Result};
use crate::slots::{self, Slot};
use crate::status::Status;
use std::ffi::c_void;

impl<B: RuntimeApi> Managed<B> {
    pub(super) fn keep_for_thread(
        &self,
        device: Ordinal,
        key: u64,
        value: *mut c_void,
        destructor: Option<SlotDestructor>,
    ) -> Result<()> {
        self.check_device(device)?;
        if slots::set_for_thread((self.device_type, device, key), Slot::new(value, destructor)) {
            Ok(())
        } else {
            Err(Error::new(Status::Shutdown, "this thread is ending; it keeps no more values"))
        }
    }

    pub(super) fn kept_for_thread(&self, device: Ordinal, key: u64) -> Result<*mut c_void> {
        self.check_device(device)?;
        Ok(slots::get_for_thread((self.device_type, device, key)))
    }

    pub(super) fn keep_for_stream(
        &self,
        stream: Stream,
        key: u64,
        value: *mut c_void,
        destructor: Option<SlotDestructor>,
    ) -> Result<()> {
        let entered = self.enter(0, stream)?;
        let Some(held) = &entered.stream else { return Err(no_default_stream()) };
        let serial = held.live().serial;
        // The old value is destroyed outside the lock: its destructor may use the stream's slots.
        drop(self.streams.set_value(serial, key, Slot::new(value, destructor)));
        Ok(())
    }

    pub(super) fn kept_for_stream(&self, stream: Stream, key: u64) -> Result<*mut c_void> {
        let entered = self.enter(0, stream)?;
        let Some(held) = &entered.stream else { return Err(no_default_stream()) };
        let value = self.streams.value(held.live().serial, key).unwrap_or(std::ptr::null_mut());
        Ok(value)
    }
}

fn no_default_stream() -> Error {
    let message =
        "the default stream is never destroyed, so it keeps no values; a thread's slot does";
    Error::new(Status::InvalidHandle, message)
}
