//! Host memory of the user's own, pinned afterwards.
//!
//! Rule (contract M6): it is pinned for every device. The driver's undoing waits for the devices, as the
//! caller has promised that no copy uses the memory any more.

use crate::call::cu;
use crate::device::Device;
use crate::errors;
use cust::sys;
use llaisys_runtime_core::error::Result;
use std::ffi::c_void;

/// Pins memory.
///
/// # Safety
/// - The range is mapped memory of this process and stays so until [`unregister`].
pub(crate) unsafe fn register(device: &Device, pointer: *mut c_void, size: usize) -> Result<()> {
    let _entered = device.enter()?;
    // SAFETY: the caller vouches for the range.
    let code =
        unsafe { cu!(cuMemHostRegister_v2(pointer, size, sys::CU_MEMHOSTREGISTER_PORTABLE)) };
    errors::check(code, || format!("pin {size} bytes of host memory at {pointer:p}"))
}

/// Undoes [`register`].
///
/// # Safety
/// - `pointer` was given to [`register`] and is registered; no copy uses it.
pub(crate) unsafe fn unregister(device: &Device, pointer: *mut c_void) -> Result<()> {
    let _entered = device.enter()?;
    // SAFETY: the caller hands over a registration.
    let code = unsafe { cu!(cuMemHostUnregister(pointer)) };
    errors::check(code, || format!("let go of the pinned host memory at {pointer:p}"))
}
