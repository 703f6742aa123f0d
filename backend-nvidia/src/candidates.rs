//! Where the driver's library may be, in the order in which the places are tried.
//!
//! Rule: an explicit path is a decision, not a hint: with `LLAISYS_CUDA_DRIVER` (one path, or several
//! with `:` between them) nothing else is tried. Under AT_SECURE the environment is ignored. A
//! relative path is never opened.

use llaisys_runtime_core::trust;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The environment variable that names the driver's library.
pub(crate) const VARIABLE: &str = "LLAISYS_CUDA_DRIVER";

/// Names for the dynamic linker's own search, then files.
const PLACES: &[&str] = &[
    // Where the loader's configuration says the driver is; what every other CUDA library opens too.
    "libcuda.so.1",
    "libcuda.so",
    // Windows Subsystem for Linux.
    "/usr/lib/wsl/lib/libcuda.so.1",
    // Folders that container hosts and distributions leave out of the loader's configuration.
    "/usr/local/nvidia/lib64/libcuda.so.1",
    "/run/opengl-driver/lib/libcuda.so.1",
    #[cfg(target_arch = "x86_64")]
    "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
    #[cfg(target_arch = "aarch64")]
    "/usr/lib/aarch64-linux-gnu/libcuda.so.1",
    #[cfg(target_arch = "aarch64")]
    "/usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1",
    #[cfg(target_arch = "aarch64")]
    "/usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1",
    "/usr/lib64/libcuda.so.1",
    "/usr/lib/libcuda.so.1",
];

/// What was found at one place that was tried.
pub(crate) struct Tried {
    /// The name or path as it was given to the dynamic linker.
    pub(crate) place: OsString,
    /// Why it was not taken.
    pub(crate) reason: String,
}

/// The places to try.
pub(crate) fn places() -> Vec<OsString> {
    match explicit() {
        Some(paths) => split(&paths),
        None => PLACES.iter().map(OsString::from).collect(),
    }
}

/// Whether the environment names the places.
pub(crate) fn are_explicit() -> bool {
    explicit().is_some()
}

fn explicit() -> Option<OsString> {
    trust::variable(VARIABLE).filter(|paths| !paths.is_empty())
}

/// The absolute paths of a list; a relative one would mean the working directory.
fn split(paths: &OsString) -> Vec<OsString> {
    paths
        .as_bytes()
        .split(|&byte| byte == b':')
        .map(std::ffi::OsStr::from_bytes)
        .filter(|path| Path::new(path).is_absolute())
        .map(OsString::from)
        .collect()
}

/// All that was tried, for a message: `place (reason), place (reason)`.
pub(crate) fn describe(tried: &[Tried]) -> String {
    if tried.is_empty() {
        return format!("nothing: {VARIABLE} holds no absolute path");
    }
    let lines: Vec<String> = tried
        .iter()
        .map(|tried| format!("{} ({})", Path::new(&tried.place).display(), tried.reason))
        .collect();
    lines.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explicit_list_keeps_its_order_and_drops_what_is_relative_or_empty() {
        let list = OsString::from("/a/libcuda.so.1:libcuda.so.1::./x.so:/b/libcuda.so.1");
        assert_eq!(split(&list), ["/a/libcuda.so.1", "/b/libcuda.so.1"]);
    }
}
