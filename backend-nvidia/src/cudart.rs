//! The CUDA runtime that another library has brought along, PyTorch for example: its version.
//!
//! Rule: it is looked at where it is loaded already, and never loaded: this backend does without it.

use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL};
use std::ffi::c_int;

/// The names it is loaded under.
const NAMES: &[&str] = &["libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"];

/// Its version as 1000 × major + 10 × minor; 0 when none is loaded.
pub(crate) fn version() -> i32 {
    NAMES.iter().find_map(|name| version_of(name)).unwrap_or_default()
}

fn version_of(name: &str) -> Option<i32> {
    let flags = libc::RTLD_NOLOAD | RTLD_LAZY | RTLD_LOCAL;
    // SAFETY: nothing is loaded, so no constructor runs; closing it takes back this reference alone.
    let library = unsafe { Library::open(Some(name), flags) }.ok()?;
    // SAFETY: the function has had this signature in every version.
    let ask = unsafe {
        library.get::<unsafe extern "C" fn(*mut c_int) -> c_int>(b"cudaRuntimeGetVersion\0")
    };
    let mut version: c_int = 0;
    // SAFETY: `version` is writable; the question needs no device.
    let code = unsafe { ask.ok()?(&mut version) };
    (code == 0).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_runtime_in_the_process_the_version_is_0() {
        assert_eq!(version(), 0);
    }
}
