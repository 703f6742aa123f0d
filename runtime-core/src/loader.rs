//! From a file to a table: one plugin is checked, opened once and never closed (contract P1–P4).
//!
//! Rule: what can be known without running the file's code is checked first; after `dlopen` the only
//! function that is called before all checks have passed is the query. Every refusal has its own
//! sentence.

use crate::abi::{
    ABI_MAJOR, ABI_MINOR, DESCRIPTOR_MAGIC, LlaisysBackendAPI, LlaisysBackendDescriptor,
    LlaisysBackendQuery, QUERY_SYMBOL,
};
use crate::api::Capabilities;
use crate::device_type::{self, DeviceType};
use crate::error::{Error, Result};
use crate::import::{Plugin, descriptor_text};
use crate::status::Status;
use crate::trust::{self, FileIdentity};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::fs::File;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A plugin that was opened and fits.
pub struct Opened {
    /// Its table as a Rust value.
    pub plugin: Plugin,
    /// What it says of itself.
    pub about: About,
}

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

/// A file that may be opened: checked, and found to be a shared library for this machine.
pub struct Checked {
    /// The real path.
    pub path: PathBuf,
    /// What the path led to when it was checked.
    pub identity: FileIdentity,
}

/// Checks a file without running any of its code.
///
/// # Errors
/// `BACKEND_REFUSED`, with what is wrong with it.
pub fn check(path: &Path) -> Result<Checked> {
    let path = trust::check(path)?;
    let identity = FileIdentity::of(&path)?;
    check_elf(&path)?;
    Ok(Checked { path, identity })
}

/// Opens a checked file and its table.
///
/// # Errors
/// `BACKEND_REFUSED` or `ABI_MISMATCH`, with what is wrong with it. The file stays mapped.
pub fn open(file: &Checked) -> Result<Opened> {
    // SAFETY: the file passed `check`. Its constructors run here; that they keep to the rules for
    // plugins is what trusting the file means.
    let library = unsafe { Library::open(Some(&file.path), RTLD_NOW | RTLD_LOCAL) }
        .map_err(|error| refused(format!("the system cannot load it: {error}")))?;
    let query = {
        // SAFETY: by the rules for plugins, the symbol has this type.
        unsafe { library.get::<LlaisysBackendQuery>(QUERY_SYMBOL.as_bytes()) }.map(|symbol| *symbol)
    };
    // Never unloaded, also when refused: its threads and thread-local destructors may be alive.
    std::mem::forget(library);
    if FileIdentity::of(&file.path)? != file.identity {
        return Err(refused("the file was replaced while it was being loaded".to_owned()));
    }
    let query = query.map_err(|_| refused(format!("it has no symbol {QUERY_SYMBOL}")))?;
    // SAFETY: a pure query, by the rules for plugins.
    let descriptor = unsafe { query(ABI_MAJOR, ABI_MINOR) };
    if descriptor.is_null() {
        let message =
            format!("it cannot work with ABI {ABI_MAJOR}.{ABI_MINOR} (its query said NULL)");
        return Err(mismatch(message));
    }
    // SAFETY: a non-null descriptor is constant and begins with the fields that `read` checks first.
    unsafe { read(descriptor) }
}

/// Reads a descriptor and imports its table.
///
/// # Safety
/// - `descriptor` points to at least a magic number and, when that is right, to a descriptor of its
///   own `struct_size` with valid texts and table.
unsafe fn read(descriptor: *const LlaisysBackendDescriptor) -> Result<Opened> {
    // SAFETY: by the contract above; the size comes before anything that depends on it.
    let (magic, size) = unsafe { ((*descriptor).magic, (*descriptor).struct_size as usize) };
    if magic != DESCRIPTOR_MAGIC {
        return Err(refused(format!(
            "its descriptor begins with {magic:#018x}, which is no magic"
        )));
    }
    if size < size_of::<LlaisysBackendDescriptor>() {
        return Err(mismatch(format!(
            "its descriptor has {size} bytes; version {ABI_MAJOR}.0 has {}",
            size_of::<LlaisysBackendDescriptor>()
        )));
    }
    // SAFETY: the descriptor has all the fields that we know.
    let descriptor = unsafe { &*descriptor };
    if descriptor.abi_major != ABI_MAJOR {
        return Err(mismatch(format!(
            "it was built for ABI {}.{}, this runtime has {ABI_MAJOR}.{ABI_MINOR}",
            descriptor.abi_major, descriptor.abi_minor
        )));
    }
    if descriptor.oldest_host_minor > ABI_MINOR {
        return Err(mismatch(format!(
            "it needs ABI {ABI_MAJOR}.{} or newer, this runtime has {ABI_MAJOR}.{ABI_MINOR}",
            descriptor.oldest_host_minor
        )));
    }
    if descriptor.api.is_null() {
        return Err(mismatch("its descriptor names no table".to_owned()));
    }
    let device_type = match descriptor.device_type {
        crate::abi::DEVICE_TYPE_UNASSIGNED => None,
        known if device_type::is_reserved(known) => Some(known),
        other => {
            let message = format!("its device type {other} is neither a known one nor -1");
            return Err(refused(message));
        }
    };
    // SAFETY: the texts of a descriptor are NULL or NUL-terminated.
    let (name, vendor, version) = unsafe {
        (
            descriptor_text(descriptor.name),
            descriptor_text(descriptor.vendor),
            descriptor_text(descriptor.version),
        )
    };
    if !is_name(&name) {
        let message =
            format!("its name `{name}` is not 1 to 31 characters of a-z, 0-9, `-` and `_`");
        return Err(refused(message));
    }
    check_table_head(descriptor.api)?;
    // SAFETY: the table of a descriptor with our major version has the types of ours.
    let plugin = unsafe { Plugin::import(descriptor.api, Capabilities(descriptor.capabilities)) }?;
    Ok(Opened { plugin, about: About { device_type, name, vendor, version } })
}

fn check_table_head(table: *const LlaisysBackendAPI) -> Result<()> {
    // SAFETY: any table begins with its size and its major version.
    let (size, major) = unsafe { ((*table).struct_size as usize, (*table).abi_major) };
    if size >= offset_of!(LlaisysBackendAPI, abi_minor) && major != ABI_MAJOR {
        return Err(mismatch(format!("its table says ABI {major}, its descriptor {ABI_MAJOR}")));
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    (1..=31).contains(&name.len()) && name.chars().all(letter)
}

/// Looks at the headers of a file: is it a 64-bit shared library for this machine, and all there?
fn check_elf(path: &Path) -> Result<()> {
    const MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    const SHARED: u16 = 3;
    let unreadable = |error| refused(format!("{}: {error}", path.display()));
    let file = File::open(path).map_err(unreadable)?;
    let mut head = [0u8; 64];
    let read = file.read_at(&mut head, 0).map_err(unreadable)?;
    if read == 0 {
        return Err(refused("the file is empty".to_owned()));
    }
    if read < head.len() || head[..4] != *b"\x7fELF" {
        return Err(refused("it is not a shared library (no ELF header)".to_owned()));
    }
    let word = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
    if head[4] != 2 || head[5] != 1 || word(18) != MACHINE {
        let message = format!(
            "it is for another architecture (ELF class {}, machine {}; this process is {MACHINE})",
            head[4],
            word(18)
        );
        return Err(refused(message));
    }
    if word(16) != SHARED {
        return Err(refused(format!("it is not a shared library (ELF type {})", word(16))));
    }
    check_segments(&file, number(&head[32..40]), word(54), word(56))
}

/// Whether every segment that the system would map lies in the file: one past its end would be a
/// SIGBUS in `dlopen` (a copy that was interrupted, a disk that was full).
fn check_segments(file: &File, table: u64, entry_size: u16, count: u16) -> Result<()> {
    const LOAD: u64 = 1;
    let cut = || refused("the file is cut off: it ends before its last segment does".to_owned());
    let length = file.metadata().map_err(|error| refused(error.to_string()))?.len();
    for index in 0..u64::from(count) {
        let mut segment = [0u8; 56];
        let at = table.checked_add(index * u64::from(entry_size)).ok_or_else(cut)?;
        file.read_exact_at(&mut segment, at).map_err(|_| cut())?;
        let end = number(&segment[8..16]).checked_add(number(&segment[32..40]));
        if number(&segment[..4]) == LOAD && end.is_none_or(|end| end > length) {
            return Err(cut());
        }
    }
    Ok(())
}

/// A little-endian number of up to eight bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

fn refused(message: String) -> Error {
    Error::new(Status::BackendRefused, message)
}

fn mismatch(message: String) -> Error {
    Error::new(Status::AbiMismatch, message)
}
