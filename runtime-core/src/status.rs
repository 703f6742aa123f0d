//! What came of a call: one small integer that means the same on both sides of the C ABI.
//!
//! Rule: the numbers are frozen. A new status is appended and gets a name and a text; the test below
//! fails when either is missing.

use std::ffi::CStr;

/// The result of a call as the C ABI carries it (`int32_t`).
///
/// 0 is success; every other value is a distinct kind of failure that a caller can act on.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// The call did what was asked.
    Success = 0,
    /// An argument is outside what the operation accepts: a size, a pointer, a copy kind, a range.
    InvalidValue = 1,
    /// A stream (or other handle) that does not exist, or no longer.
    InvalidHandle = 2,
    /// A device ordinal outside `0..count`.
    InvalidDevice = 3,
    /// The device or the host has not enough memory; a smaller request may work.
    OutOfMemory = 4,
    /// The backend does not have this operation.
    NotSupported = 5,
    /// The work asked about has not finished.
    NotReady = 6,
    /// The operation is not allowed here: a blocking call inside a host function, for example.
    NotPermitted = 7,
    /// The device failed for good; it stays failed for the life of the process.
    DeviceLost = 8,
    /// The device's driver is not there, is a stub, or found no device.
    DriverUnavailable = 9,
    /// The driver is older than what this backend needs.
    DriverTooOld = 10,
    /// No backend serves this device type.
    BackendUnavailable = 11,
    /// A backend file was found and refused; the message says why.
    BackendRefused = 12,
    /// The two sides of an ABI do not fit: major version, or a struct with an unknown non-zero tail.
    AbiMismatch = 13,
    /// The process was forked after the driver had been initialised.
    Forked = 14,
    /// The runtime or the driver is already shutting down.
    Shutdown = 15,
    /// The driver reported a failure that has no closer name here; see the native code.
    DriverError = 16,
    /// A fault inside the runtime or a backend: a panic that was contained, a broken promise.
    Internal = 17,
    /// An event was never recorded, so nothing can be measured from or to it.
    NotRecorded = 18,
    /// An event was made without timing.
    TimingDisabled = 19,
}

impl Status {
    /// Every status, in numeric order.
    pub const ALL: [Status; 20] = [
        Status::Success,
        Status::InvalidValue,
        Status::InvalidHandle,
        Status::InvalidDevice,
        Status::OutOfMemory,
        Status::NotSupported,
        Status::NotReady,
        Status::NotPermitted,
        Status::DeviceLost,
        Status::DriverUnavailable,
        Status::DriverTooOld,
        Status::BackendUnavailable,
        Status::BackendRefused,
        Status::AbiMismatch,
        Status::Forked,
        Status::Shutdown,
        Status::DriverError,
        Status::Internal,
        Status::NotRecorded,
        Status::TimingDisabled,
    ];

    /// The status with this number, or `None` for a number that is not one.
    pub fn from_code(code: i32) -> Option<Status> {
        usize::try_from(code).ok().and_then(|index| Self::ALL.get(index)).copied()
    }

    /// The number that crosses the C ABI.
    pub const fn code(self) -> i32 {
        self as i32
    }

    /// The name without its prefix, as the contract writes it: `OUT_OF_MEMORY`.
    pub fn name(self) -> &'static str {
        self.c_name().to_str().unwrap_or_default()
    }

    /// One sentence for people.
    pub fn text(self) -> &'static str {
        self.c_text().to_str().unwrap_or_default()
    }

    /// [`Status::name`] for C.
    pub const fn c_name(self) -> &'static CStr {
        self.entry().0
    }

    /// [`Status::text`] for C.
    pub const fn c_text(self) -> &'static CStr {
        self.entry().1
    }

    const fn entry(self) -> (&'static CStr, &'static CStr) {
        match self {
            Status::Success => (c"SUCCESS", c"the call succeeded"),
            Status::InvalidValue => (c"INVALID_VALUE", c"an argument is not acceptable"),
            Status::InvalidHandle => (c"INVALID_HANDLE", c"the handle does not exist or no longer"),
            Status::InvalidDevice => (c"INVALID_DEVICE", c"there is no device with this ordinal"),
            Status::OutOfMemory => (c"OUT_OF_MEMORY", c"not enough memory for the request"),
            Status::NotSupported => (c"NOT_SUPPORTED", c"the backend does not have this operation"),
            Status::NotReady => (c"NOT_READY", c"the work has not finished yet"),
            Status::NotPermitted => (c"NOT_PERMITTED", c"the operation is not allowed here"),
            Status::DeviceLost => {
                (c"DEVICE_LOST", c"the device failed and cannot be used any more")
            }
            Status::DriverUnavailable => {
                (c"DRIVER_UNAVAILABLE", c"the device's driver is not available")
            }
            Status::DriverTooOld => {
                (c"DRIVER_TOO_OLD", c"the device's driver is older than what is needed")
            }
            Status::BackendUnavailable => {
                (c"BACKEND_UNAVAILABLE", c"no backend serves this device type")
            }
            Status::BackendRefused => (c"BACKEND_REFUSED", c"the backend file was refused"),
            Status::AbiMismatch => (c"ABI_MISMATCH", c"the two sides of the ABI do not fit"),
            Status::Forked => {
                (c"FORKED", c"the process was forked after the driver was initialised")
            }
            Status::Shutdown => (c"SHUTDOWN", c"the runtime is shutting down"),
            Status::DriverError => (c"DRIVER_ERROR", c"the driver reported a failure"),
            Status::Internal => (c"INTERNAL", c"a fault inside the runtime or a backend"),
            Status::NotRecorded => (c"NOT_RECORDED", c"the event was never recorded"),
            Status::TimingDisabled => (c"TIMING_DISABLED", c"the event was made without timing"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_status_has_its_own_number_name_and_text() {
        let mut names = HashSet::new();
        let mut texts = HashSet::new();
        for (index, status) in Status::ALL.into_iter().enumerate() {
            assert_eq!(status.code() as usize, index);
            assert_eq!(Status::from_code(index as i32), Some(status));
            assert!(names.insert(status.name()), "{status:?}");
            assert!(texts.insert(status.text()), "{status:?}");
            assert!(!status.name().is_empty() && !status.text().is_empty());
        }
    }

    #[test]
    fn a_number_that_is_no_status_is_none() {
        for code in [-1, Status::ALL.len() as i32, i32::MAX, i32::MIN] {
            assert_eq!(Status::from_code(code), None);
        }
    }
}
