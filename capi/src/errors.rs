//! The thread's last-error slot as C reads it (contract E2), and the names of statuses.
//!
//! Rule: the texts belong to the core's slot; what C gets is a struct of pointers into it, which
//! stays good as long as they do: until this thread's next failing call.

use llaisys_runtime_core::Status;
use llaisys_runtime_core::error::{Error, Result};
use llaisys_runtime_core::export::{copy_text, guard};
use llaisys_runtime_core::last_error::{self, FailedCall};
use std::cell::UnsafeCell;
use std::ffi::{CStr, CString, c_char};

/// One failed call. Read it with `llaisysGetLastError` or `llaisysPeekLastError`.
///
/// No text is NULL. The struct and its texts belong to the runtime; they are the calling thread's
/// and stay as they are until its next call that fails. Keep them longer by copying them.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LlaisysError {
    /// The end of the last field that the runtime knows, in bytes.
    pub struct_size: u32,
    /// What kind of failure it was: one of `LLAISYS_STATUS_*`.
    pub status: i32,
    /// The native driver's number (a `CUresult`, an `errno`); 0 where no driver was asked.
    pub native_code: i64,
    /// The function that failed, for example `memcpy_async`.
    pub operation: *const c_char,
    /// The native driver's name for its number; empty where no driver was asked.
    pub native_name: *const c_char,
    /// What was asked and what was found, in a sentence.
    pub message: *const c_char,
}

// SAFETY: shared between threads is only `NO_ERROR`, whose pointers name constants.
unsafe impl Sync for LlaisysError {}

impl LlaisysError {
    const fn new(
        status: Status,
        native_code: i64,
        operation: &CStr,
        native_name: &CStr,
        message: &CStr,
    ) -> LlaisysError {
        LlaisysError {
            struct_size: size_of::<LlaisysError>() as u32,
            status: status.code(),
            native_code,
            operation: operation.as_ptr(),
            native_name: native_name.as_ptr(),
            message: message.as_ptr(),
        }
    }
}

/// What is read when nothing failed, so that C need not look at the pointer first.
static NO_ERROR: LlaisysError =
    LlaisysError::new(Status::Success, 0, c"", c"", Status::Success.c_text());

// No destructor, so it can be read while a thread's other storage is torn down.
thread_local! {
    static ERROR: UnsafeCell<LlaisysError> = const { UnsafeCell::new(NO_ERROR) };
}

/// The calling thread's struct, filled from a slot.
fn publish(call: &FailedCall) -> *const LlaisysError {
    let FailedCall { status, operation, native_code, native_name, message } = call;
    ERROR.with(|error| {
        let to = error.get();
        // SAFETY: the struct is this thread's; C only reads it, and not during this call.
        unsafe {
            to.write(LlaisysError::new(*status, *native_code, operation, native_name, message))
        };
        to.cast_const()
    })
}

/// Writes the struct for `call`, which may be absent, and answers its status.
///
/// # Safety
/// - `call` is what this thread's slot gave, and no call of this thread failed since.
/// - `error` is NULL or may be written.
unsafe fn answer(call: Option<*const FailedCall>, error: *mut *const LlaisysError) -> i32 {
    // SAFETY: by the contract above the slot still has it.
    let call = call.map(|call| unsafe { &*call });
    if !error.is_null() {
        let read = call.map_or(&raw const NO_ERROR, publish);
        // SAFETY: not NULL; the caller's to write.
        unsafe { error.write(read) };
    }
    call.map_or(Status::Success, |call| call.status).code()
}

/// Reads the calling thread's first failure since the last reading, and clears the slot.
///
/// Returns its status, or `LLAISYS_STATUS_SUCCESS` (0) when nothing failed. `error` may be NULL;
/// otherwise `*error` becomes a struct that says more, never NULL (when nothing failed its texts
/// say so). A success never clears the slot: after a series of calls, one reading tells whether any
/// of them failed, and which one did first.
///
/// # Safety
/// - `error` is NULL or points to a pointer that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn llaisysGetLastError(error: *mut *const LlaisysError) -> i32 {
    // SAFETY: nothing fails between `take` and the answer; the caller keeps the rest.
    returned(guard("llaisysGetLastError", || Ok(unsafe { answer(last_error::take(), error) })))
}

/// As `llaisysGetLastError`, but leaves the failure in the slot.
///
/// # Safety
/// - `error` is NULL or points to a pointer that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn llaisysPeekLastError(error: *mut *const LlaisysError) -> i32 {
    // SAFETY: nothing fails between `peek` and the answer; the caller keeps the rest.
    returned(guard("llaisysPeekLastError", || Ok(unsafe { answer(last_error::peek(), error) })))
}

/// Copies the calling thread's failure as one line of text, and leaves it in the slot:
/// `memcpy_async: INVALID_VALUE: kind 42 is not one of 0..=3`, with the driver's name and number in
/// brackets at the end where a driver was asked.
///
/// Returns its status, or `LLAISYS_STATUS_SUCCESS` (0) and the empty text when nothing failed.
/// `buffer` gets at most `capacity` bytes, its NUL included, and may be NULL; `*needed` becomes the
/// number of bytes of the whole text, its NUL included, and `needed` may be NULL.
///
/// # Safety
/// - `buffer` is NULL or has `capacity` bytes that may be written; `needed` is NULL or may be
///   written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn llaisysCopyLastError(
    buffer: *mut c_char,
    capacity: u64,
    needed: *mut u64,
) -> i32 {
    // SAFETY: the caller keeps the contract above.
    returned(guard("llaisysCopyLastError", || unsafe { copy_last_error(buffer, capacity, needed) }))
}

/// # Safety
/// - As for `llaisysCopyLastError`.
unsafe fn copy_last_error(buffer: *mut c_char, capacity: u64, needed: *mut u64) -> Result<i32> {
    // SAFETY: no call of this thread fails before the end of this function.
    let call = last_error::peek().map(|call| unsafe { &*call });
    let text = call.map(line).unwrap_or_default();
    // SAFETY: the caller's buffer has the capacity that it gave; `needed` is looked at first.
    unsafe {
        copy_text(&text, buffer, capacity);
        if !needed.is_null() {
            needed.write(text.count_bytes() as u64 + 1);
        }
    }
    Ok(call.map_or(Status::Success, |call| call.status).code())
}

/// A failed call as one line.
fn line(call: &FailedCall) -> CString {
    let error: Error = call.to_error();
    let text = format!("{}: {error}", call.operation.to_string_lossy());
    CString::new(text.replace(['\n', '\r', '\0'], " ")).unwrap_or_default()
}

/// The status that a reading answers: what was read, or why it could not be.
fn returned(read: std::result::Result<i32, Status>) -> i32 {
    read.unwrap_or_else(Status::code)
}

/// The name of a status without its prefix, for example `OUT_OF_MEMORY`; `UNKNOWN` for a number
/// that is none.
///
/// Constant text, never NULL. Never fails.
#[unsafe(no_mangle)]
pub extern "C" fn llaisysStatusName(status: i32) -> *const c_char {
    Status::from_code(status).map_or(c"UNKNOWN", Status::c_name).as_ptr()
}

/// A status in a few words; says so for a number that is none.
///
/// Constant text, never NULL. Never fails.
#[unsafe(no_mangle)]
pub extern "C" fn llaisysStatusText(status: i32) -> *const c_char {
    Status::from_code(status).map_or(c"this number is no status", Status::c_text).as_ptr()
}
