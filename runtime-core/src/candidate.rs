//! The record of one backend that was looked at: what it is, and why it was taken or refused.
//!
//! Rule: every candidate leaves one, in the order in which they were looked at, and records are never
//! changed or freed; C code may hold their texts for the life of the process (design, decision 4). A file
//! that is refused again for the same reason leaves no second one.

use crate::device_type::DeviceType;
use crate::error::Error;
use crate::status::Status;
use std::ffi::CString;
use std::path::Path;

/// One backend that was looked at.
#[derive(Debug, PartialEq, Eq)]
pub struct Candidate {
    /// `SUCCESS` when it was taken; otherwise the kind of refusal.
    pub status: Status,
    /// The device type it serves; -1 when it did not come so far as to tell.
    pub device_type: DeviceType,
    /// Its name, for example `nvidia`; empty when it did not come so far as to tell.
    pub name: CString,
    /// The file; empty for a backend that is built in.
    pub path: CString,
    /// Its own version; empty when unknown.
    pub version: CString,
    /// Who made the devices; empty when unknown.
    pub vendor: CString,
    /// Why it was refused, or how it was found.
    pub reason: CString,
}

impl Candidate {
    /// A record of a file that was refused before it could tell what it is.
    pub fn refused(path: &Path, error: &Error) -> Candidate {
        Candidate {
            status: error.status(),
            device_type: -1,
            name: CString::default(),
            path: text(&path.to_string_lossy()),
            version: CString::default(),
            vendor: CString::default(),
            reason: text(error.message()),
        }
    }
}

/// `value` for C, cut at a NUL.
pub fn text(value: &str) -> CString {
    let end = value.find('\0').unwrap_or(value.len());
    CString::new(&value[..end]).expect("the text was cut before its first NUL")
}
