//! The runtime as this command asks it: through the functions that every client has.
//!
//! Rule: nothing is known here that a C program could not ask too. A table that the runtime hands out
//! is made a Rust value by the same `import` that reads a plugin's.

use llaisys_runtime::backend_table::llaisysGetBackendAPI;
use llaisys_runtime::core::abi::LlaisysBackendAPI;
use llaisys_runtime::core::api::{Capabilities, RuntimeApi as _, read_text};
use llaisys_runtime::core::import::Plugin;
use llaisys_runtime::core::{Error, Result, Status, device_type, last_error};
use llaisys_runtime::devices::llaisysDeviceTypeName;
use llaisys_runtime::loading::{LlaisysCandidate, llaisysGetCandidate, llaisysGetCandidateCount};
use std::ffi::{CStr, c_char};
use std::hint::black_box;
use std::ptr;

/// One backend that was looked at.
pub struct Candidate {
    /// `SUCCESS` when it is in use.
    pub status: Status,
    /// The device type it serves; -1 when unknown.
    pub device_type: i32,
    /// Its name; empty when unknown.
    pub name: String,
    /// Its file; empty when it is built in.
    pub path: String,
    /// Its version; empty when unknown.
    pub version: String,
    /// Who made the devices; empty when unknown.
    pub vendor: String,
    /// How it was found, or why it was refused.
    pub reason: String,
}

impl Candidate {
    /// Whether it is in use.
    pub fn is_taken(&self) -> bool {
        self.status == Status::Success
    }
}

/// Every backend that was looked at, in order.
pub fn candidates() -> Vec<Candidate> {
    (0..llaisysGetCandidateCount()).filter_map(candidate).collect()
}

fn candidate(index: i32) -> Option<Candidate> {
    let mut record = LlaisysCandidate {
        struct_size: size_of::<LlaisysCandidate>() as u32,
        status: 0,
        device_type: -1,
        reserved: 0,
        name: ptr::null(),
        path: ptr::null(),
        version: ptr::null(),
        vendor: ptr::null(),
        reason: ptr::null(),
    };
    // SAFETY: the struct is ours and says its size.
    if unsafe { llaisysGetCandidate(index, &mut record) } != Status::Success.code() {
        return None;
    }
    Some(Candidate {
        status: Status::from_code(record.status).unwrap_or(Status::Internal),
        device_type: record.device_type,
        name: text(record.name),
        path: text(record.path),
        version: text(record.version),
        vendor: text(record.vendor),
        reason: text(record.reason),
    })
}

/// The versioned table of a device type, as a Rust value.
///
/// # Errors
/// Why no backend serves it.
pub fn backend(device_type: i32) -> Result<Plugin> {
    let table = llaisysGetBackendAPI(device_type);
    if table.is_null() {
        return Err(failure());
    }
    // SAFETY: a table of the runtime's stays for the life of the process and has its own size.
    unsafe { Plugin::import(table, Capabilities::NONE) }
}

/// The names of a backend's devices, by ordinal.
pub fn device_names(device_type: i32) -> Result<Vec<String>> {
    let backend = backend(device_type)?;
    let name = |ordinal| {
        let properties = backend.get_device_properties(ordinal);
        properties.map_or_else(|_| String::new(), |properties| read_text(&properties.name))
    };
    Ok((0..backend.get_device_count()?).map(name).collect())
}

/// Whether a backend could be called so: a known kind of device, or a candidate.
pub fn is_a_name(name: &str, candidates: &[Candidate]) -> bool {
    candidates.iter().any(|candidate| candidate.name == name)
        || (0..device_type::LIMIT as i32)
            .any(|number| name != "unknown" && device_type_name(number) == name)
}

/// The names of the backends that are in use, for a message.
pub fn names(candidates: &[Candidate]) -> String {
    let names: Vec<&str> = candidates
        .iter()
        .filter(|candidate| candidate.is_taken())
        .map(|candidate| candidate.name.as_str())
        .collect();
    format!("in use: {}", names.join(", "))
}

/// The versioned table of a device type, as a C program has it.
///
/// # Errors
/// Why no backend serves it.
pub fn table(device_type: i32) -> Result<&'static LlaisysBackendAPI> {
    let table = black_box(llaisysGetBackendAPI(device_type));
    // SAFETY: NULL or a table of the runtime's, which stays for the life of the process.
    unsafe { table.as_ref() }.ok_or_else(failure)
}

/// What the last call that failed on this thread left in its slot.
pub fn failure() -> Error {
    last_error::take_error()
        .unwrap_or_else(|| Error::new(Status::Internal, "a call failed and left no reason"))
}

/// The name of a device type; `unknown` when nobody has the number.
pub fn device_type_name(device_type: i32) -> String {
    text(llaisysDeviceTypeName(device_type))
}

/// A text that the runtime keeps for the life of the process.
fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: not NULL; the runtime's texts end with a NUL and stay.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
