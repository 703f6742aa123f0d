//! Backends that are loaded, and the record of every one that was looked at (design, decision 4).
//!
//! Rule: records are the core's and stay for the life of the process, so the texts that C gets are
//! pointers into them.

use crate::backends::REGISTRY;
use llaisys_runtime_core::Status;
use llaisys_runtime_core::candidate::Candidate;
use llaisys_runtime_core::error::{Error, Result};
use llaisys_runtime_core::export::{door, guard};
use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// One backend that was looked at: what it is, and why it is in use or is not.
///
/// You provide the struct and set `struct_size`; no more than that is written. No text is NULL, and
/// all stay for the life of the process.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LlaisysCandidate {
    /// The size of the struct in bytes, set by you.
    pub struct_size: u32,
    /// `LLAISYS_STATUS_SUCCESS` when the backend is in use; otherwise the kind of refusal.
    pub status: i32,
    /// The device type that it serves; -1 when it did not come so far as to tell.
    pub device_type: i32,
    /// Zero.
    pub reserved: i32,
    /// Its name in lower case, for example `nvidia`; empty when unknown.
    pub name: *const c_char,
    /// The file; empty for a backend that is built in.
    pub path: *const c_char,
    /// Its own version; empty when unknown.
    pub version: *const c_char,
    /// Who made the devices; empty when unknown.
    pub vendor: *const c_char,
    /// How it was found, or why it was refused, in a sentence.
    pub reason: *const c_char,
}

impl From<&'static Candidate> for LlaisysCandidate {
    fn from(record: &'static Candidate) -> LlaisysCandidate {
        let Candidate { status, device_type, name, path, version, vendor, reason } = record;
        LlaisysCandidate {
            struct_size: size_of::<LlaisysCandidate>() as u32,
            status: status.code(),
            device_type: *device_type,
            reserved: 0,
            name: name.as_ptr(),
            path: path.as_ptr(),
            version: version.as_ptr(),
            vendor: vendor.as_ptr(),
            reason: reason.as_ptr(),
        }
    }
}

/// Loads a backend from a file of your choice. The backends of the environment and of the library's
/// own folder are found without it, when they are first asked for.
///
/// `path` is a UTF-8 or native path and is not searched for: give an absolute one. Loading the same
/// file again, also through a link, succeeds and changes nothing; a loaded backend stays for the
/// life of the process. `*device_type` becomes the type that it serves; the pointer may be NULL.
///
/// Returns `LLAISYS_STATUS_SUCCESS`, or a status with more in the slot, which names the file, and in
/// the list of candidates:
/// - `BACKEND_REFUSED`: the file is not there, is no shared library for this machine, is not safe
///   to load, or its name or device type is taken; the message says which.
/// - `ABI_MISMATCH`: it was built for another version of `llaisys/backend.h`.
/// - `NOT_PERMITTED`: the caller is a constructor of a backend that is just being loaded.
/// - `INVALID_VALUE`: `path` is NULL.
///
/// # Safety
/// - `path` is NULL or a text that ends with a NUL; `device_type` is NULL or may be written.
/// - The file is a backend that you trust: its code runs in this process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn llaisysLoadBackend(path: *const c_char, device_type: *mut i32) -> i32 {
    // SAFETY: the caller keeps the contract above.
    door("llaisysLoadBackend", || unsafe { load(path, device_type) })
}

/// # Safety
/// - As for `llaisysLoadBackend`.
unsafe fn load(path: *const c_char, device_type: *mut i32) -> Result<()> {
    if path.is_null() {
        return Err(Error::new(Status::InvalidValue, "`path` is NULL"));
    }
    // SAFETY: not NULL, and a text by the contract above.
    let path = unsafe { CStr::from_ptr(path) };
    let backend = REGISTRY.load(Path::new(OsStr::from_bytes(path.to_bytes())))?;
    // SAFETY: NULL is looked at; otherwise the caller's to write.
    if let Some(to) = unsafe { device_type.as_mut() } {
        *to = backend.device_type;
    }
    Ok(())
}

/// The number of backends that were looked at, those that are built in and those that were refused
/// included. The first call looks at all of them. The number only ever grows.
///
/// Never fails.
#[unsafe(no_mangle)]
pub extern "C" fn llaisysGetCandidateCount() -> i32 {
    guard("llaisysGetCandidateCount", || Ok(REGISTRY.candidates().len() as i32)).unwrap_or(0)
}

/// Writes what is known of one backend that was looked at, up to `candidate->struct_size` bytes.
/// The order is that in which they were looked at, and never changes.
///
/// Returns `LLAISYS_STATUS_SUCCESS`, or `INVALID_VALUE` with more in the slot: `index` is not in
/// `0..llaisysGetCandidateCount()`, `candidate` is NULL, or its `struct_size` is not set.
///
/// # Safety
/// - `candidate` is NULL or has as many bytes as its `struct_size` says, which may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn llaisysGetCandidate(index: i32, candidate: *mut LlaisysCandidate) -> i32 {
    // SAFETY: the caller keeps the contract above.
    door("llaisysGetCandidate", || unsafe { write_candidate(index, candidate) })
}

/// # Safety
/// - As for `llaisysGetCandidate`.
unsafe fn write_candidate(index: i32, to: *mut LlaisysCandidate) -> Result<()> {
    let all = REGISTRY.candidates();
    let record = usize::try_from(index).ok().and_then(|index| all.get(index)).ok_or_else(|| {
        let message = format!("candidate {index} was asked for; there are {}", all.len());
        Error::new(Status::InvalidValue, message)
    })?;
    if to.is_null() {
        return Err(Error::new(Status::InvalidValue, "`candidate` is NULL"));
    }
    // SAFETY: not NULL, and the caller's struct begins with its size.
    let size = unsafe { to.cast::<u32>().read() } as usize;
    let skip = size_of::<u32>();
    if size < skip {
        let message = format!("LlaisysCandidate.struct_size is {size}; set it before the call");
        return Err(Error::new(Status::InvalidValue, message));
    }
    let value = LlaisysCandidate::from(*record);
    let length = size.min(size_of::<LlaisysCandidate>()) - skip;
    // SAFETY: both structs have `skip + length` bytes; ours is not the caller's.
    unsafe {
        let from = (&raw const value).cast::<u8>().add(skip);
        from.copy_to_nonoverlapping(to.cast::<u8>().add(skip), length);
    }
    Ok(())
}
