//! What a failing call left in the thread's slot, read through the C ABI and copied.

use crate::code::Code;
use std::ffi::{CStr, c_char};

/// The C struct as a client's header has it.
#[repr(C)]
pub struct LlaisysError {
    /// The end of the last field.
    pub struct_size: u32,
    /// The status.
    pub status: i32,
    /// The driver's number.
    pub native_code: i64,
    /// The operation.
    pub operation: *const c_char,
    /// The driver's name for its number.
    pub native_name: *const c_char,
    /// The sentence.
    pub message: *const c_char,
}

/// A failure with texts of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The status.
    pub code: Code,
    /// The driver's number.
    pub native_code: i64,
    /// The operation.
    pub operation: String,
    /// The driver's name for its number.
    pub native_name: String,
    /// The sentence.
    pub message: String,
}

impl Failure {
    /// Copies what C points to.
    ///
    /// # Safety
    /// - `error` is what `llaisysGetLastError` or `llaisysPeekLastError` wrote on this thread, and no
    ///   call of this thread failed since.
    pub unsafe fn copy(error: *const LlaisysError) -> Result<Failure, String> {
        // SAFETY: valid by the contract above, unless the runtime broke its promise and wrote NULL.
        let Some(error) = (unsafe { error.as_ref() }) else {
            return Err("the struct is NULL, which it never is".to_owned());
        };
        let text = |name: &str, text: *const c_char| {
            if text.is_null() {
                return Err(format!("`{name}` is NULL, which no text is"));
            }
            // SAFETY: a text of the struct ends with a NUL and lives until the next failing call.
            Ok(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
        };
        Ok(Failure {
            code: Code(error.status),
            native_code: error.native_code,
            operation: text("operation", error.operation)?,
            native_name: text("native_name", error.native_name)?,
            message: text("message", error.message)?,
        })
    }
}
