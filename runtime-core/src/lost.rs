//! Devices that failed for good (contract E5).
//!
//! Rule: the first `DEVICE_LOST` of a device is kept, and every later call on it fails at once with
//! that cause. While all devices are well this is one relaxed load per call.

use crate::api::Ordinal;
use crate::error::{Error, Result};
use crate::fork::ForkAware;
use crate::lock::{ForkLock, Mutex};
use crate::status::Status;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// The failed devices of a backend with their first cause.
pub struct LostDevices {
    any: AtomicBool,
    causes: Mutex<BTreeMap<Ordinal, Error>>,
}

impl LostDevices {
    /// All devices are well.
    pub const fn new() -> LostDevices {
        LostDevices { any: AtomicBool::new(false), causes: Mutex::new(BTreeMap::new()) }
    }

    /// Refuses a call on a device that failed before.
    ///
    /// # Errors
    /// The first cause.
    #[inline]
    pub fn check(&self, device: Ordinal) -> Result<()> {
        if self.any.load(Ordering::Relaxed) { self.check_slowly(device) } else { Ok(()) }
    }

    #[cold]
    fn check_slowly(&self, device: Ordinal) -> Result<()> {
        match self.causes.lock().get(&device) {
            None => Ok(()),
            Some(cause) => Err(cause.clone()),
        }
    }

    /// Passes a failure on, and remembers it when it is the device's end.
    #[cold]
    pub fn note(&self, device: Ordinal, error: Error) -> Error {
        if error.status() == Status::DeviceLost {
            self.causes.lock().entry(device).or_insert_with(|| error.clone());
            self.any.store(true, Ordering::Relaxed);
        }
        error
    }
}

impl Default for LostDevices {
    fn default() -> Self {
        Self::new()
    }
}

impl ForkAware for LostDevices {
    fn prepare(&self) {
        self.causes.hold();
    }
    fn parent(&self) {
        // SAFETY: held by `prepare` on this thread.
        unsafe { self.causes.release() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cause_stays_and_other_devices_go_on() {
        let lost = LostDevices::new();
        lost.note(0, Error::new(Status::OutOfMemory, "not the end"));
        assert!(lost.check(0).is_ok());
        lost.note(0, Error::new(Status::DeviceLost, "first"));
        lost.note(0, Error::new(Status::DeviceLost, "second"));
        assert_eq!(lost.check(0).expect_err("lost").message(), "first");
        assert!(lost.check(1).is_ok());
    }
}
