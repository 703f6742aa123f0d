//! `libllaisys_runtime.so`, opened as a client opens it: every function by its name.

use crate::code::Code;
use crate::extended::Extended;
use crate::failure::{Failure, LlaisysError};
use crate::twelve::Twelve;
use libloading::os::unix::{Library as Handle, RTLD_LOCAL, RTLD_NOW};
use llaisys_runtime_core::abi::LlaisysBackendAPI;
use std::ffi::{CStr, CString, c_char, c_void};
use std::path::{Path, PathBuf};

/// A candidate as the C ABI tells it.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// `SUCCESS` when it is in use.
    pub code: Code,
    /// The device type, or -1.
    pub device_type: i32,
    /// Its name.
    pub name: String,
    /// Its file; empty when built in.
    pub path: String,
    /// Its version.
    pub version: String,
    /// Why it is in use or not.
    pub reason: String,
}

/// The C struct as a client's header has it.
#[repr(C)]
pub struct LlaisysCandidate {
    /// Set by the caller.
    pub struct_size: u32,
    /// The status.
    pub status: i32,
    /// The device type.
    pub device_type: i32,
    /// Zero.
    pub reserved: i32,
    /// Its name.
    pub name: *const c_char,
    /// Its file.
    pub path: *const c_char,
    /// Its version.
    pub version: *const c_char,
    /// Who made the devices.
    pub vendor: *const c_char,
    /// Why it is in use or not.
    pub reason: *const c_char,
}

/// Declares the functions of the library that this suite calls.
macro_rules! functions {
    ($($field:ident = $name:literal: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// Every function of the library beside the tables.
        #[expect(missing_docs, reason = "each is documented in include/llaisys.h")]
        pub struct Functions {
            $(pub $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Functions {
            fn find(handle: &Handle) -> Result<Functions, String> {
                Ok(Functions {
                    $($field: {
                        // SAFETY: the type is that of the function in the public header.
                        let symbol = unsafe { handle.get($name.as_bytes()) };
                        *symbol.map_err(|error| format!("{}: {error}", $name))?
                    },)*
                })
            }
        }
    };
}

functions! {
    get_runtime_api = "llaisysGetRuntimeAPI": fn(i32) -> *const c_void;
    get_backend_api = "llaisysGetBackendAPI": fn(i32) -> *const LlaisysBackendAPI;
    set_context = "llaisysSetContextRuntime": fn(i32, i32);
    get_context = "llaisysGetContextRuntime": fn(*mut i32, *mut i32) -> i32;
    get_last_error = "llaisysGetLastError": fn(*mut *const LlaisysError) -> i32;
    peek_last_error = "llaisysPeekLastError": fn(*mut *const LlaisysError) -> i32;
    copy_last_error = "llaisysCopyLastError": fn(*mut c_char, u64, *mut u64) -> i32;
    status_name = "llaisysStatusName": fn(i32) -> *const c_char;
    status_text = "llaisysStatusText": fn(i32) -> *const c_char;
    get_version = "llaisysGetVersion": fn() -> *const c_char;
    get_abi_version = "llaisysGetAbiVersion": fn() -> u32;
    load_backend = "llaisysLoadBackend": fn(*const c_char, *mut i32) -> i32;
    get_candidate_count = "llaisysGetCandidateCount": fn() -> i32;
    get_candidate = "llaisysGetCandidate": fn(i32, *mut LlaisysCandidate) -> i32;
    get_device_count = "llaisysGetDeviceCount": fn(i32, *mut i32) -> i32;
    device_type_name = "llaisysDeviceTypeName": fn(i32) -> *const c_char;
}

/// The opened library.
pub struct Library {
    /// The file.
    pub path: PathBuf,
    /// Its functions.
    pub call: Functions,
    handle: Handle,
}

impl Library {
    /// Opens the library. Nothing of it runs before its first function is called.
    ///
    /// # Errors
    /// The system's reason, or the function that is missing.
    pub fn open(path: &Path) -> Result<Library, String> {
        // SAFETY: the library under test; that its code may run here is what the suite is for.
        let handle = unsafe { Handle::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let call = Functions::find(&handle)?;
        Ok(Library { path: path.to_owned(), call, handle })
    }

    /// Closes the library, as a client may that has done with it.
    pub fn close(self) {
        let _ = self.handle.close();
    }

    /// The twelve functions of a device type.
    pub fn twelve(&self, device_type: i32) -> Result<Twelve, String> {
        // SAFETY: takes a number; `take` gets what it returned.
        unsafe { Twelve::take((self.call.get_runtime_api)(device_type)) }
    }

    /// The versioned table of a device type.
    pub fn extended(&self, device_type: i32) -> Result<Extended, String> {
        // SAFETY: takes a number; `take` gets what it returned.
        unsafe { Extended::take((self.call.get_backend_api)(device_type)) }
    }

    /// Reads and clears the calling thread's failure.
    pub fn take_failure(&self) -> Result<Option<Failure>, String> {
        let mut error = std::ptr::null();
        // SAFETY: `error` is ours, and no call fails before the copy is made.
        let (code, failure) = unsafe {
            let code = (self.call.get_last_error)(&mut error);
            (code, Failure::copy(error)?)
        };
        Ok((code != 0).then_some(failure))
    }

    /// Reads the calling thread's failure and leaves it.
    pub fn peek_failure(&self) -> Result<Option<Failure>, String> {
        let mut error = std::ptr::null();
        // SAFETY: as in `take_failure`.
        let (code, failure) = unsafe {
            let code = (self.call.peek_last_error)(&mut error);
            (code, Failure::copy(error)?)
        };
        Ok((code != 0).then_some(failure))
    }

    /// The device type and device that the calling thread chose.
    pub fn context(&self) -> (i32, i32) {
        let (mut device_type, mut device) = (-7, -7);
        // SAFETY: both are ours.
        unsafe { (self.call.get_context)(&mut device_type, &mut device) };
        (device_type, device)
    }

    /// Chooses a device type and a device.
    pub fn set_context(&self, device_type: i32, device: i32) {
        // SAFETY: takes numbers.
        unsafe { (self.call.set_context)(device_type, device) }
    }

    /// The number of devices, or why there is none.
    pub fn device_count(&self, device_type: i32) -> Result<i32, Code> {
        let mut count = -7;
        // SAFETY: `count` is ours.
        Code(unsafe { (self.call.get_device_count)(device_type, &mut count) }).result()?;
        Ok(count)
    }

    /// Loads a backend from a file.
    pub fn load_backend(&self, path: &Path) -> Result<i32, Code> {
        let path = CString::new(path.to_string_lossy().as_bytes()).map_err(|_| Code(-1))?;
        let mut device_type = -7;
        // SAFETY: the path is a text, `device_type` is ours.
        Code(unsafe { (self.call.load_backend)(path.as_ptr(), &mut device_type) }).result()?;
        Ok(device_type)
    }

    /// Every backend that was looked at.
    pub fn candidates(&self) -> Result<Vec<Candidate>, String> {
        // SAFETY: takes nothing.
        let count = unsafe { (self.call.get_candidate_count)() };
        (0..count).map(|index| self.candidate(index)).collect()
    }

    fn candidate(&self, index: i32) -> Result<Candidate, String> {
        let mut found = LlaisysCandidate {
            struct_size: size_of::<LlaisysCandidate>() as u32,
            status: -7,
            device_type: -7,
            reserved: -7,
            name: std::ptr::null(),
            path: std::ptr::null(),
            version: std::ptr::null(),
            vendor: std::ptr::null(),
            reason: std::ptr::null(),
        };
        // SAFETY: the struct is ours and knows its size.
        let code = Code(unsafe { (self.call.get_candidate)(index, &mut found) });
        if code != Code::SUCCESS {
            return Err(format!("llaisysGetCandidate({index}) answers {code:?}"));
        }
        Ok(Candidate {
            code: Code(found.status),
            device_type: found.device_type,
            name: text(found.name)?,
            path: text(found.path)?,
            version: text(found.version)?,
            reason: text(found.reason)?,
        })
    }

    /// The name of a device type.
    pub fn device_type_name(&self, device_type: i32) -> Result<String, String> {
        // SAFETY: takes a number.
        text(unsafe { (self.call.device_type_name)(device_type) })
    }

    /// The name of a status.
    pub fn status_name(&self, code: i32) -> Result<String, String> {
        // SAFETY: takes a number.
        text(unsafe { (self.call.status_name)(code) })
    }

    /// The text of a status.
    pub fn status_text(&self, code: i32) -> Result<String, String> {
        // SAFETY: takes a number.
        text(unsafe { (self.call.status_text)(code) })
    }

    /// The library's version.
    pub fn version(&self) -> Result<String, String> {
        // SAFETY: takes nothing.
        text(unsafe { (self.call.get_version)() })
    }

    /// The device type that a name or a number on the command line means.
    ///
    /// # Errors
    /// That nobody has this name, with the names that there are.
    pub fn device_type(&self, word: &str) -> Result<i32, String> {
        if let Ok(number) = word.parse() {
            return Ok(number);
        }
        let mut names = Vec::new();
        // Loads every backend first, so that assigned numbers have their names.
        self.candidates()?;
        for number in 0..64 {
            let name = self.device_type_name(number)?;
            if name == word {
                return Ok(number);
            }
            if name != "unknown" {
                names.push(name);
            }
        }
        Err(format!("no device type is called `{word}`; there are {}", names.join(", ")))
    }
}

/// A text of the runtime's.
fn text(text: *const c_char) -> Result<String, String> {
    if text.is_null() {
        return Err("a text is NULL, which none ever is".to_owned());
    }
    // SAFETY: texts of the runtime end with a NUL and stay (the callers' are constant or records).
    Ok(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}
