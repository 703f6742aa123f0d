//! The library of a driver, before it is known whether it will do.
//!
//! Rule: a library that was opened is never closed: its constructors may have left something behind.

use crate::errors::{self, SUCCESS};
use libloading::os::unix::{self, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

/// An opened library that has the entry points by which a driver is known.
pub(crate) struct Library {
    handle: ManuallyDrop<unix::Library>,
    init: unsafe extern "C" fn(c_uint) -> c_int,
    version: unsafe extern "C" fn(*mut c_int) -> c_int,
    count: unsafe extern "C" fn(*mut c_int) -> c_int,
}

/// What a driver answers when it is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Started {
    /// What `cuInit` answered, or the first call that failed after it.
    pub(crate) code: c_int,
    /// How many devices there are.
    pub(crate) count: c_int,
}

impl Library {
    /// Opens what may be a driver's library.
    ///
    /// # Errors
    /// Why it is none, in words.
    pub(crate) fn open(place: &OsStr) -> Result<Library, String> {
        if Path::new(place).is_absolute() && !Path::new(place).exists() {
            return Err("no such file".into());
        }
        // SAFETY: opening runs the library's constructors. The place is one of the driver's own or
        // one that the user named.
        let handle = unsafe { unix::Library::open(Some(place), RTLD_NOW | RTLD_LOCAL) };
        let handle = ManuallyDrop::new(handle.map_err(|error| reason_of(&error))?);
        // SAFETY: the three have had these signatures in every version of the driver.
        let entries = unsafe {
            (
                handle.get(b"cuInit\0"),
                handle.get(b"cuDriverGetVersion\0"),
                handle.get(b"cuDeviceGetCount\0"),
            )
        };
        match entries {
            (Ok(init), Ok(version), Ok(count)) => {
                Ok(Library { init: *init, version: *version, count: *count, handle })
            }
            _ => Err("not a CUDA driver: it has no cuInit or no cuDeviceGetCount".into()),
        }
    }

    /// The address of a symbol.
    pub(crate) fn address(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: only the address is taken; whoever calls it knows the signature.
        let symbol = unsafe { self.handle.get::<*mut c_void>(name.to_bytes_with_nul()) }.ok()?;
        (!symbol.is_null()).then_some(*symbol)
    }

    /// The version, or the code that was answered instead. Initialises nothing.
    pub(crate) fn version(&self) -> Result<i32, c_int> {
        let mut version: c_int = 0;
        // SAFETY: `version` is writable; the entry point needs no cuInit before it.
        let code = unsafe { (self.version)(&mut version) };
        if code == SUCCESS { Ok(version) } else { Err(code) }
    }

    /// The number of devices, if someone has initialised this driver in this process already.
    pub(crate) fn count(&self) -> Started {
        let mut count: c_int = 0;
        // SAFETY: `count` is writable; without an initialisation the answer is an error.
        Started { code: unsafe { (self.count)(&mut count) }, count }
    }

    /// Initialises the driver in this process and counts its devices.
    pub(crate) fn start(&self) -> Started {
        // SAFETY: cuInit may be called from any thread and more than once.
        match unsafe { (self.init)(0) } {
            SUCCESS => self.count(),
            code => Started { code, count: 0 },
        }
    }

    /// The driver's name for a code.
    pub(crate) fn error_name(&self, code: c_int) -> String {
        let ask = self.address(c"cuGetErrorName").map(|address| {
            // SAFETY: the entry point has had this signature in every version.
            unsafe {
                std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int,
                >(address)
            }
        });
        errors::name_by(code, ask)
    }

    /// The file that the dynamic linker really took, links resolved: its name carries the release.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        // SAFETY: an all-zero Dl_info is a valid one: four null pointers.
        let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: `info` is writable; the address is of code in a library that is open.
        let known = unsafe { libc::dladdr(self.init as *const c_void, &mut info) };
        if known == 0 || info.dli_fname.is_null() {
            return None;
        }
        // SAFETY: dladdr succeeded, so the name is a NUL-terminated text owned by the dynamic
        // linker, which keeps it while the library is open.
        let name = unsafe { CStr::from_ptr(info.dli_fname) };
        let path = PathBuf::from(name.to_string_lossy().into_owned());
        Some(path.canonicalize().unwrap_or(path))
    }
}

/// What the dynamic linker said, without libloading's own words around it.
fn reason_of(error: &libloading::Error) -> String {
    match error {
        libloading::Error::DlOpen { desc } => format!("{desc:?}").trim_matches('"').to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_library_is_refused_with_the_linkers_reason() {
        let reason = Library::open(OsStr::new("/proc/self/status")).err().expect("no library");
        assert!(!reason.is_empty() && reason != "no such file", "{reason}");
        let reason = Library::open(OsStr::new("/nowhere/libcuda.so.1")).err().expect("not there");
        assert_eq!(reason, "no such file");
    }
}
