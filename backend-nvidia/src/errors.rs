//! From the driver's code to a [`Status`] and a sentence.
//!
//! Rule: a code keeps its number and its name all the way up; the status is only what a caller can
//! act on. A code that says "the context is broken for good" becomes `DEVICE_LOST`, and nothing
//! else does, because the core latches it.

use cust::sys;
use llaisys_runtime_core::error::{Error, Result};
use llaisys_runtime_core::status::Status;
use std::ffi::{CStr, c_char};

/// `CUDA_SUCCESS`.
pub(crate) const SUCCESS: i32 = 0;
/// `CUDA_ERROR_INVALID_VALUE`.
pub(crate) const INVALID_VALUE: i32 = 1;
/// `CUDA_ERROR_OUT_OF_MEMORY`.
pub(crate) const OUT_OF_MEMORY: i32 = 2;
/// `CUDA_ERROR_NOT_INITIALIZED`.
pub(crate) const NOT_INITIALIZED: i32 = 3;
/// `CUDA_ERROR_DEINITIALIZED`: the driver is shutting down with the process.
pub(crate) const DEINITIALIZED: i32 = 4;
/// `CUDA_ERROR_STUB_LIBRARY`: the toolkit's library to link against, not a driver.
pub(crate) const STUB_LIBRARY: i32 = 34;
/// `CUDA_ERROR_NO_DEVICE`.
pub(crate) const NO_DEVICE: i32 = 100;
/// `CUDA_ERROR_INVALID_DEVICE`.
pub(crate) const INVALID_DEVICE: i32 = 101;
/// `CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND`.
pub(crate) const SYMBOL_NOT_FOUND: i32 = 302;
/// No code of CUDA's: the driver, asked in a child (see `probe`), ended it or never came back.
pub(crate) const NO_ANSWER: i32 = -1;
/// `CUDA_ERROR_NOT_READY`.
pub(crate) const NOT_READY: i32 = 600;
/// `CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED`.
pub(crate) const PEER_ACCESS_ALREADY_ENABLED: i32 = 704;
/// `CUDA_ERROR_SYSTEM_DRIVER_MISMATCH`: the library and the kernel module are of different
/// versions.
pub(crate) const SYSTEM_DRIVER_MISMATCH: i32 = 803;
/// `CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE`: a forward-compatibility library over a device that
/// may not use one.
pub(crate) const COMPAT_NOT_SUPPORTED_ON_DEVICE: i32 = 804;

/// Whether a call that entered no context may work in the context of its device: an older driver wants
/// that one current, and another device's memory makes a detour there.
pub(crate) fn wants_context(code: i32) -> bool {
    // Invalid context, invalid handle: the stream's context is not the current one.
    matches!(code, INVALID_VALUE | 201 | 400)
}

/// What a caller can do about a code.
pub(crate) fn status(code: i32) -> Status {
    match code {
        0 => Status::Success,
        // 712, 713: host memory registered twice, or not at all.
        INVALID_VALUE | 712 | 713 => Status::InvalidValue,
        OUT_OF_MEMORY => Status::OutOfMemory,
        DEINITIALIZED => Status::Shutdown,
        // Not initialised, stub, no device, no licence; the system or MPS is not (yet) up.
        NOT_INITIALIZED | STUB_LIBRARY | NO_DEVICE | 102 | 802..=809 => Status::DriverUnavailable,
        INVALID_DEVICE => Status::InvalidDevice,
        // No peer path; the driver lacks the entry point; the device lacks the operation.
        217 | SYMBOL_NOT_FOUND | 801 => Status::NotSupported,
        400 => Status::InvalidHandle,
        NOT_READY => Status::NotReady,
        // 800 and everything that a stream under capture forbids.
        800 | 900..=908 => Status::NotPermitted,
        // Uncorrectable memory and link errors; a contained one still ends this process's use of
        // the device; kernels that faulted, hung, asserted or jumped astray; a context that is
        // gone; an MPS server that threw us out.
        214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 810 => Status::DeviceLost,
        _ => Status::DriverError,
    }
}

/// The driver's name for a code, for example `CUDA_ERROR_ILLEGAL_ADDRESS`.
pub(crate) fn name(code: i32) -> String {
    let door: unsafe extern "C" fn(_, _) -> _ = sys::cuGetErrorName;
    // SAFETY: the two types differ in the code alone, a C int on both sides (see `call`): the
    // declared Rust enum lacks the codes of later drivers.
    let door = unsafe {
        std::mem::transmute::<
            unsafe extern "C" fn(sys::CUresult, *mut *const c_char) -> sys::CUresult,
            unsafe extern "C" fn(i32, *mut *const c_char) -> i32,
        >(door)
    };
    name_by(code, Some(door))
}

/// [`name`], as a driver tells it whose doors are not open.
pub(crate) fn name_by(
    code: i32,
    ask: Option<unsafe extern "C" fn(i32, *mut *const c_char) -> i32>,
) -> String {
    let mut text: *const c_char = std::ptr::null();
    // SAFETY: `text` is writable; where no driver stands behind it, the answer is an error.
    let answer = ask.map(|ask| unsafe { ask(code, &mut text) });
    if answer == Some(SUCCESS) && !text.is_null() {
        // SAFETY: on success the driver hands out a constant, NUL-terminated text.
        return unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    }
    well_known_name(code).map_or_else(|| format!("CUDA_ERROR_{code}"), str::to_owned)
}

/// Names of the codes that are met before a driver is open, or after it is gone.
fn well_known_name(code: i32) -> Option<&'static str> {
    Some(match code {
        1 => "CUDA_ERROR_INVALID_VALUE",
        2 => "CUDA_ERROR_OUT_OF_MEMORY",
        3 => "CUDA_ERROR_NOT_INITIALIZED",
        4 => "CUDA_ERROR_DEINITIALIZED",
        34 => "CUDA_ERROR_STUB_LIBRARY",
        46 => "CUDA_ERROR_DEVICE_UNAVAILABLE",
        100 => "CUDA_ERROR_NO_DEVICE",
        101 => "CUDA_ERROR_INVALID_DEVICE",
        102 => "CUDA_ERROR_DEVICE_NOT_LICENSED",
        302 => "CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND",
        304 => "CUDA_ERROR_OPERATING_SYSTEM",
        802 => "CUDA_ERROR_SYSTEM_NOT_READY",
        803 => "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        804 => "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
        805 => "CUDA_ERROR_MPS_CONNECTION_FAILED",
        999 => "CUDA_ERROR_UNKNOWN",
        _ => return None,
    })
}

/// The failure that a code is: `asked` says what the driver was asked to do, in words.
#[cold]
pub(crate) fn failure(code: i32, asked: &str) -> Error {
    let name = name(code);
    Error::new(status(code), format!("{asked}: the driver answered {name} ({code})"))
        .with_native(code.into(), name)
}

/// Whether the driver would not do what was asked, as opposed to having tried and failed.
pub(crate) fn is_refusal(error: &Error) -> bool {
    matches!(error.status(), Status::InvalidValue | Status::NotSupported)
}

/// Success, or the failure with what was asked. `asked` is put into words on failure only.
#[inline]
pub(crate) fn check(code: i32, asked: impl FnOnce() -> String) -> Result<()> {
    if code == SUCCESS { Ok(()) } else { Err(failure(code, &asked())) }
}

/// What came of a free or a destroy: while the driver shuts down with the process there is nothing
/// left to free, and that is success.
#[inline]
pub(crate) fn released(result: Result<()>) -> Result<()> {
    match result {
        Err(error) if error.status() == Status::Shutdown => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_that_break_the_context_are_device_lost_and_no_others() {
        let lost: Vec<i32> = (0..1000).filter(|&code| status(code) == Status::DeviceLost).collect();
        assert_eq!(lost, [214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 810]);
    }

    #[test]
    fn a_code_that_no_header_knows_is_a_driver_error_with_its_number() {
        let error = failure(31337, "set the device");
        assert_eq!(error.status(), Status::DriverError);
        assert_eq!(error.native().map(|native| native.code), Some(31337));
        assert!(error.message().contains("31337"), "{}", error.message());
    }

    #[test]
    fn a_free_while_the_driver_shuts_down_succeeds() {
        let answer = |code| check(code, || "free".into());
        assert!(released(answer(DEINITIALIZED)).is_ok());
        assert!(released(answer(700)).is_err());
        let error = answer(DEINITIALIZED).expect_err("anything else is told");
        assert_eq!(error.status(), Status::Shutdown);
    }
}
