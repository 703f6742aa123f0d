//! Which version this library is.
//!
//! Rule: the one version number is in the workspace's `Cargo.toml`, and the ABI's is in the core.

use llaisys_runtime_core::abi::{ABI_MAJOR, ABI_MINOR};
use llaisys_runtime_core::c_version;
use std::ffi::{CStr, c_char};

const VERSION: &CStr = c_version!();

/// The version of the library that is loaded, as `LLAISYS_RUNTIME_VERSION` is that of the header.
///
/// Constant text. Never fails.
#[unsafe(no_mangle)]
pub extern "C" fn llaisysGetVersion() -> *const c_char {
    VERSION.as_ptr()
}

/// The version of the library's ABI: `major << 16 | minor`. Compare the major version with
/// `LLAISYS_ABI_MAJOR`; a library with a higher minor version serves older clients.
///
/// Never fails.
#[unsafe(no_mangle)]
pub extern "C" fn llaisysGetAbiVersion() -> u32 {
    ABI_MAJOR << 16 | ABI_MINOR
}
