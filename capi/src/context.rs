//! The device that a thread works on (contract D2, D3).
//!
//! Rule: what is current lives in the core's `current`; it changes only after the backend has bound
//! the thread to the new device, so a failure leaves the old one.

use crate::backends;
use crate::types::DeviceTypeNumber;
use llaisys_runtime_core::api::Ordinal;
use llaisys_runtime_core::current;
use llaisys_runtime_core::device_type::DeviceType;
use llaisys_runtime_core::error::Result;
use llaisys_runtime_core::export::door;
use std::ffi::c_int;

/// Makes a device current on the calling thread: for the twelve functions of that device type, for
/// the driver (so that the thread's own kernels run there), and as what `llaisysGetContextRuntime`
/// answers. A thread that never called this is on device 0 of each type.
///
/// Errors, read with `llaisysGetLastError`; whatever was current stays so:
/// - `BACKEND_UNAVAILABLE`: no backend serves `type`.
/// - `INVALID_DEVICE`: `device` is not in `0..get_device_count()`.
/// - `DEVICE_LOST` and what the driver answers.
#[unsafe(no_mangle)]
pub extern "C" fn llaisysSetContextRuntime(r#type: DeviceTypeNumber, device: c_int) {
    door("llaisysSetContextRuntime", || {
        let device_type = r#type.0 as DeviceType;
        set_device(device_type, device)?;
        current::set_context(device_type, device);
        Ok(())
    });
}

/// Binds the thread to the device and remembers it.
pub(crate) fn set_device(device_type: DeviceType, device: Ordinal) -> Result<()> {
    backends::get(device_type)?.set_device(device)?;
    current::set_device(device_type, device);
    Ok(())
}

/// Writes what the calling thread chose last with `llaisysSetContextRuntime` and the device that is
/// current there; the CPU, device 0, if it never chose. Either pointer may be NULL.
///
/// Returns 0. Never fails.
///
/// # Safety
/// - `type` and `device` are NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn llaisysGetContextRuntime(r#type: *mut i32, device: *mut i32) -> i32 {
    door("llaisysGetContextRuntime", || {
        let (current_type, current_device) = current::context();
        // SAFETY: looked at here; the caller's to write.
        unsafe {
            if let Some(to) = r#type.as_mut() {
                *to = current_type;
            }
            if let Some(to) = device.as_mut() {
                *to = current_device;
            }
        }
        Ok(())
    })
}
