//! Which devices there are.
//!
//! Rule: counting creates no context and never touches a device (contract D1, D4).

use crate::backends::{self, REGISTRY};
use llaisys_runtime_core::Status;
use llaisys_runtime_core::error::Error;
use llaisys_runtime_core::export::{door, guard};
use std::ffi::c_char;

/// Writes the number of devices of a type. Where there is none for a reason that can be mended, the
/// reason is the error: ask this when `get_device_count` answers 0 and you want to know why.
///
/// Returns `LLAISYS_STATUS_SUCCESS` (also for a plain 0, for example when `CUDA_VISIBLE_DEVICES` is
/// empty), or a status with more in the slot; then `*count` stays as it was:
/// - `BACKEND_UNAVAILABLE`, `BACKEND_REFUSED`: no backend serves this type; the message lists what
///   was looked at.
/// - `DRIVER_UNAVAILABLE`, `DRIVER_TOO_OLD`: the message names the driver and the versions.
/// - `INVALID_VALUE`: `count` is NULL.
///
/// # Safety
/// - `count` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn llaisysGetDeviceCount(device_type: i32, count: *mut i32) -> i32 {
    door("llaisysGetDeviceCount", || {
        // SAFETY: NULL is looked at; otherwise the caller's to write.
        let count = unsafe { count.as_mut() }
            .ok_or_else(|| Error::new(Status::InvalidValue, "`count` is NULL"))?;
        *count = backends::get(device_type)?.get_device_count()?;
        Ok(())
    })
}

/// The name of a device type in lower case: `cpu`, `nvidia`, the name that the backend of an
/// assigned number gave itself; `unknown` for a number that nobody has.
///
/// Never NULL, stays for the life of the process. Never fails, and loads no backend.
#[unsafe(no_mangle)]
pub extern "C" fn llaisysDeviceTypeName(device_type: i32) -> *const c_char {
    guard("llaisysDeviceTypeName", || Ok(REGISTRY.name(device_type).unwrap_or(c"unknown").as_ptr()))
        .unwrap_or(c"unknown".as_ptr())
}
