//! From what a plugin's query answers to a table: the descriptor is checked field by field (contract P3).
//!
//! Rule: nothing is read before it is known to be there, and every refusal has its own sentence. A
//! descriptor and its table are constants of the plugin's own file, so a pointer that leads elsewhere
//! (a wild one, the heap) is refused and not followed.

use crate::abi::{
    ABI_MAJOR, ABI_MINOR, DESCRIPTOR_MAGIC, LlaisysBackendAPI, LlaisysBackendDescriptor,
};
use crate::api::Capabilities;
use crate::device_type::{self, DeviceType};
use crate::error::{Error, Result};
use crate::export::TARGET;
use crate::import::Plugin;
use crate::sanitizer::Sanitizer;
use crate::status::Status;
use std::ffi::{CStr, c_char, c_void};
use std::mem::offset_of;

/// The most bytes that are read of a text for people, and of a name with its NUL.
const LONGEST_TEXT: usize = 256;
const LONGEST_NAME: usize = 32;

/// What a plugin says of itself.
#[derive(Clone, Debug)]
pub struct About {
    /// The device type it serves; `None` when it wants to be given one.
    pub device_type: Option<DeviceType>,
    /// Its name in lower case.
    pub name: String,
    /// Who made the devices.
    pub vendor: String,
    /// Its own version.
    pub version: String,
}

/// The start of the file in memory that an address belongs to; 0 for an address of no file.
fn file_of(address: *const c_void) -> usize {
    // SAFETY: plain integers and pointers, for which all zero is a value.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the address is only looked up.
    if unsafe { libc::dladdr(address, &mut found) } == 0 { 0 } else { found.dli_fbase as usize }
}

/// Reads a descriptor and imports its table.
///
/// # Errors
/// `BACKEND_REFUSED` or `ABI_MISMATCH`, with what is wrong with it.
///
/// # Safety
/// - `query` is the function that answered `descriptor`; a descriptor that lies in its file and begins
///   with the magic number is one, of its own `struct_size`, with texts that are NULL or end with a NUL.
pub unsafe fn read(
    query: *const c_void,
    descriptor: *const LlaisysBackendDescriptor,
) -> Result<(Plugin, About)> {
    let file = file_of(query);
    check_place(file, descriptor.cast(), "descriptor")?;
    // SAFETY: it is in the plugin's file, which is mapped for ever, and aligned; the size comes before
    // anything that depends on it.
    let (magic, size) = unsafe { ((*descriptor).magic, (*descriptor).struct_size as usize) };
    if magic != DESCRIPTOR_MAGIC {
        return Err(refused(format!(
            "its descriptor begins with {magic:#018x}, which is no magic"
        )));
    }
    let least = size_of::<LlaisysBackendDescriptor>();
    if size < least {
        return Err(mismatch(format!(
            "its descriptor has {size} bytes; version {ABI_MAJOR}.0 has {least}"
        )));
    }
    // SAFETY: the descriptor has all the fields that we know.
    let descriptor = unsafe { &*descriptor };
    check_versions(descriptor)?;
    // SAFETY: the texts of a descriptor are NULL or end with a NUL.
    let text = |start, limit| unsafe { text(start, limit) };
    check_target(&text(descriptor.target, LONGEST_TEXT).unwrap_or_default())?;
    check_sanitizer(descriptor.sanitizer)?;
    if descriptor.api.is_null() {
        return Err(mismatch("its descriptor names no table".to_owned()));
    }
    check_place(file, descriptor.api.cast(), "table")?;
    let about = About {
        device_type: device_type_of(descriptor.device_type)?,
        name: name_of(text(descriptor.name, LONGEST_NAME))?,
        vendor: text(descriptor.vendor, LONGEST_TEXT).unwrap_or_default(),
        version: text(descriptor.version, LONGEST_TEXT).unwrap_or_default(),
    };
    check_table_head(descriptor.api)?;
    // SAFETY: the table of a descriptor with our major version has the types of ours.
    let plugin = unsafe { Plugin::import(descriptor.api, Capabilities(descriptor.capabilities)) }?;
    Ok((plugin, about))
}

fn check_place(file: usize, address: *const c_void, what: &str) -> Result<()> {
    if !(address as usize).is_multiple_of(align_of::<LlaisysBackendDescriptor>()) {
        return Err(refused(format!("its {what} is at {address:p}, which is not aligned")));
    }
    if file_of(address) != file {
        return Err(refused(format!("its {what} at {address:p} does not lie in its own file")));
    }
    Ok(())
}

fn check_versions(descriptor: &LlaisysBackendDescriptor) -> Result<()> {
    let (major, minor) = (descriptor.abi_major, descriptor.abi_minor);
    if major != ABI_MAJOR {
        return Err(mismatch(format!(
            "it was built for ABI {major}.{minor}, this runtime has {ABI_MAJOR}.{ABI_MINOR}"
        )));
    }
    if descriptor.oldest_host_minor > ABI_MINOR {
        return Err(mismatch(format!(
            "it needs ABI {ABI_MAJOR}.{} or newer, this runtime has {ABI_MAJOR}.{ABI_MINOR}",
            descriptor.oldest_host_minor
        )));
    }
    Ok(())
}

/// Architecture, system and C library, without the vendor that some compilers put in between.
fn comparable(target: &str) -> Vec<&str> {
    let mut parts: Vec<&str> = target.split('-').collect();
    if parts.len() == 4 {
        parts.remove(1);
    }
    parts
}

/// A target that is not told is not judged: the file's header names the architecture anyhow.
fn check_target(target: &str) -> Result<()> {
    let own = TARGET.to_string_lossy();
    if target.is_empty() || comparable(target) == comparable(&own) {
        return Ok(());
    }
    Err(refused(format!("it was built for {target}, this runtime for {own}")))
}

fn check_sanitizer(number: u32) -> Result<()> {
    let known = Sanitizer::from_number(number).ok_or_else(|| {
        refused(format!("its descriptor names sanitizer {number}, which is none"))
    })?;
    known.check_beside(Sanitizer::of_this_process())
}

fn device_type_of(number: DeviceType) -> Result<Option<DeviceType>> {
    match number {
        crate::abi::DEVICE_TYPE_UNASSIGNED => Ok(None),
        known if device_type::is_reserved(known) => Ok(Some(known)),
        other => {
            let message = format!("its device type {other} is neither a known one nor -1");
            Err(refused(message))
        }
    }
}

fn name_of(text: std::result::Result<String, Unended>) -> Result<String> {
    let Ok(name) = text else {
        return Err(refused(format!("its name does not end within {LONGEST_NAME} bytes")));
    };
    let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    if name.is_empty() || !name.chars().all(letter) {
        let message =
            format!("its name `{name}` is not 1 to 31 characters of a-z, 0-9, `-` and `_`");
        return Err(refused(message));
    }
    Ok(name)
}

fn check_table_head(table: *const LlaisysBackendAPI) -> Result<()> {
    // SAFETY: any table begins with its size and its major version, and this one is in the plugin's file.
    let (size, major) = unsafe { ((*table).struct_size as usize, (*table).abi_major) };
    if size >= offset_of!(LlaisysBackendAPI, abi_minor) && major != ABI_MAJOR {
        return Err(mismatch(format!("its table says ABI {major}, its descriptor {ABI_MAJOR}")));
    }
    Ok(())
}

/// A text that has not ended where it must have.
struct Unended;

/// A text of a descriptor, of which no more than `limit` bytes are read. NULL is empty.
///
/// # Safety
/// - `start` is NULL or leads to a NUL or to `limit` bytes.
unsafe fn text(start: *const c_char, limit: usize) -> std::result::Result<String, Unended> {
    if start.is_null() {
        return Ok(String::new());
    }
    // SAFETY: reads up to the NUL, and no further than the limit.
    let length = unsafe { libc::strnlen(start, limit) };
    if length == limit {
        return Err(Unended);
    }
    // SAFETY: a NUL was found.
    Ok(unsafe { CStr::from_ptr(start) }.to_string_lossy().into_owned())
}

fn refused(message: String) -> Error {
    Error::new(Status::BackendRefused, message)
}

fn mismatch(message: String) -> Error {
    Error::new(Status::AbiMismatch, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vendor_in_a_target_is_no_difference_and_a_c_library_is() {
        assert_eq!(comparable("x86_64-pc-linux-gnu"), comparable("x86_64-unknown-linux-gnu"));
        assert_eq!(comparable("x86_64-linux-gnu"), comparable("x86_64-unknown-linux-gnu"));
        assert_ne!(comparable("x86_64-linux-musl"), comparable("x86_64-linux-gnu"));
        assert_ne!(comparable("aarch64-linux-gnu"), comparable("x86_64-linux-gnu"));
        assert!(check_target("").is_ok());
        assert!(check_target("riscv64-unknown-linux-gnu").is_err());
    }
}
