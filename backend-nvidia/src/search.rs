//! The search for a driver: each candidate in its order, and why none will do.
//!
//! Rule: a stub or a driver that is too old makes room for the next candidate; a driver that answers
//! anything else is *the* driver, and its answer is the outcome.

use crate::candidates::{self, Tried};
use crate::errors::{self, SUCCESS};
use crate::library::{Library, Started};
use llaisys_runtime_core::error::{Error, Result};
use llaisys_runtime_core::loader;
use llaisys_runtime_core::status::Status;
use std::ffi::{CStr, OsStr, c_void};
use std::path::Path;

/// The oldest driver that works, as `cuDriverGetVersion` counts: CUDA 11.2 (R460) brought memory
/// pools, without which a free stalls the device (contract M4).
const OLDEST: i32 = 11020;

/// A driver that starts and has devices.
pub(crate) struct Found {
    library: Library,
    /// What `cuDriverGetVersion` answers: 1000 × major + 10 × minor.
    pub(crate) version: i32,
    /// How many devices there are; not 0.
    pub(crate) count: i32,
}

impl Found {
    /// The address of one of the driver's entry points.
    pub(crate) fn address(&self, name: &CStr) -> Option<*mut c_void> {
        self.library.address(name)
    }
}

/// The first candidate that is a driver with devices. `start` starts one: in this process, or where
/// it does no harm.
///
/// # Errors
/// Why there is none: what was tried, or what the driver answered.
pub(crate) fn find(start: impl Fn(&Library) -> Started) -> Result<Found> {
    let mut tried = Vec::new();
    let mut too_old = false;
    let mut stub = false;
    for place in candidates::places() {
        match consider(&place, &start) {
            Verdict::Taken(found) => return found,
            Verdict::NoDriver(reason) => tried.push(Tried { place, reason }),
            Verdict::Stub(reason) => {
                stub = true;
                tried.push(Tried { place, reason });
            }
            Verdict::TooOld(reason) => {
                too_old = true;
                tried.push(Tried { place, reason });
            }
        }
    }
    let (status, what) = match (too_old, stub) {
        (true, _) => (Status::DriverTooOld, "the NVIDIA driver is too old"),
        (false, true) => (
            Status::DriverUnavailable,
            "only a stub of the CUDA driver was found: the library that a CUDA toolkit brings to \
             link against, not a driver",
        ),
        (false, false) => (Status::DriverUnavailable, "no CUDA driver library could be opened"),
    };
    Err(Error::new(status, format!("{what}; tried {}", candidates::describe(&tried))))
}

/// What is thought of one candidate.
enum Verdict {
    /// It is the driver; it may have no device, or not start.
    Taken(Result<Found>),
    /// Room for the next one.
    NoDriver(String),
    Stub(String),
    TooOld(String),
}

fn consider(place: &OsStr, start: impl Fn(&Library) -> Started) -> Verdict {
    // What the environment names is looked at as a plugin is, before its code runs (contract P1).
    let path = Path::new(place);
    if candidates::are_explicit()
        && path.exists()
        && let Err(error) = loader::check(path)
    {
        return Verdict::NoDriver(error.message().to_owned());
    }
    let library = match Library::open(place) {
        Ok(library) => library,
        Err(reason) => return Verdict::NoDriver(reason),
    };
    let a_stub = || Verdict::Stub("a stub, CUDA_ERROR_STUB_LIBRARY (34)".into());
    let version = match library.version() {
        Err(errors::STUB_LIBRARY) => return a_stub(),
        Err(_) => 0,
        Ok(version) if version < OLDEST => {
            return Verdict::TooOld(format!(
                "the driver is for CUDA {}; CUDA {} (R460) or later is needed",
                spell(version),
                spell(OLDEST)
            ));
        }
        Ok(version) => version,
    };
    let Started { code, count } = start(&library);
    match code {
        errors::STUB_LIBRARY => a_stub(),
        SUCCESS if count > 0 => Verdict::Taken(Ok(Found { library, version, count })),
        SUCCESS => Verdict::Taken(Err(refused(errors::NO_DEVICE, version, place, &library))),
        code => Verdict::Taken(Err(refused(code, version, place, &library))),
    }
}

/// Why a driver that was found cannot be used, and what can be done about it.
fn refused(code: i32, version: i32, place: &OsStr, library: &Library) -> Error {
    let name = library.error_name(code);
    let what = format!(
        "{} (for CUDA {})",
        library.file().as_deref().unwrap_or(Path::new(place)).display(),
        if version == 0 { "unknown".into() } else { spell(version) }
    );
    let kernel = kernel_module_version().map_or_else(
        || "no NVIDIA kernel module is loaded".to_owned(),
        |version| format!("the kernel module is {version}"),
    );
    let message = match code {
        errors::NO_DEVICE => {
            let visible = std::env::var_os("CUDA_VISIBLE_DEVICES").map_or_else(
                || "CUDA_VISIBLE_DEVICES is not set".to_owned(),
                |value| format!("CUDA_VISIBLE_DEVICES is {value:?}"),
            );
            format!("the driver {what} found no device; {kernel}; {visible}")
        }
        errors::NOT_INITIALIZED => format!(
            "the driver {what} cannot be started: this process was forked after another library \
             had initialised it; start workers with `spawn` or `exec`"
        ),
        errors::SYSTEM_DRIVER_MISMATCH => format!(
            "the driver library {what} does not fit the kernel's driver; {kernel}. Reload the \
             module (or reboot) after an update, or remove the library that does not belong to it"
        ),
        errors::COMPAT_NOT_SUPPORTED_ON_DEVICE => format!(
            "the library {what} is a forward-compatibility one, which this device does not \
             allow; {kernel}. Take its folder (cuda/compat) off LD_LIBRARY_PATH, or name the \
             system's driver in {}",
            candidates::VARIABLE
        ),
        errors::NO_ANSWER => format!(
            "the driver {what}, asked in a child process, ended that or did not answer; {kernel}"
        ),
        _ => format!("the driver {what} could not be initialised; {kernel}"),
    };
    if code == errors::NO_ANSWER {
        return Error::new(Status::DriverUnavailable, message);
    }
    // Whatever else cuInit answers: without it there is no driver to use.
    let status = match code {
        errors::NOT_INITIALIZED => Status::Forked,
        _ => Status::DriverUnavailable,
    };
    Error::new(status, format!("{message}: {name} ({code})")).with_native(code.into(), name)
}

/// `12040` as `12.4`.
fn spell(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// The release of the kernel's driver, for example `580.65.06`.
fn kernel_module_version() -> Option<String> {
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    release_in(&text).map(str::to_owned)
}

/// The first word of the text that is digits with dots between.
fn release_in(text: &str) -> Option<&str> {
    text.split_whitespace()
        .find(|word| word.contains('.') && word.split('.').all(|part| part.parse::<u32>().is_ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_spelled_as_nvidia_does() {
        assert_eq!(spell(11020), "11.2");
        assert_eq!(spell(12040), "12.4");
        assert_eq!(spell(13000), "13.0");
    }

    #[test]
    fn the_kernel_module_tells_its_release_in_both_of_its_spellings() {
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19\nGCC";
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release";
        assert_eq!(release_in(closed), Some("535.104.05"));
        assert_eq!(release_in(open), Some("580.65.06"));
        assert_eq!(release_in("nothing here"), None);
    }
}
