//! From a file to a table: one plugin is checked, opened once and never closed (contract P1–P4).
//!
//! Rule: what can be known without running the file's code is checked first (`trust`: who could have
//! written it; `elf`: what it is and what it exports); after `dlopen` the only function that is called
//! before all checks have passed is the query (`descriptor`: what it answers). Every refusal has its own
//! sentence. `dlopen` itself runs no constructor when a dependency or a symbol is missing.

use crate::abi::{ABI_MAJOR, ABI_MINOR, LlaisysBackendQuery, QUERY_SYMBOL};
use crate::descriptor;
use crate::elf;
use crate::error::{Error, Result};
use crate::import::Plugin;
use crate::sanitizer::Sanitizer;
use crate::status::Status;
use crate::trust::{self, FileIdentity, FileState};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::path::{Path, PathBuf};

pub use crate::descriptor::About;

/// A plugin that was opened and fits.
pub struct Opened {
    /// Its table as a Rust value.
    pub plugin: Plugin,
    /// What it says of itself.
    pub about: About,
}

/// A file that may be opened: checked, and found to be a shared library for this machine.
pub struct Checked {
    /// The real path.
    pub path: PathBuf,
    /// What the path led to when it was checked.
    pub identity: FileIdentity,
    state: FileState,
}

/// Checks that a file is a shared library that may be opened, without running any of its code; for
/// libraries of others that a backend opens itself (a driver).
///
/// # Errors
/// `BACKEND_REFUSED`, with what is wrong with it.
pub fn check(path: &Path) -> Result<Checked> {
    let path = trust::check(path)?;
    let (identity, state) = (FileIdentity::of(&path)?, FileState::of(&path)?);
    elf::Library::open(&path)?;
    Ok(Checked { path, identity, state })
}

/// Checks that a file is a plugin that may be opened, as far as that can be told without running any of
/// its code.
///
/// # Errors
/// `BACKEND_REFUSED`, with what is wrong with it.
pub fn check_plugin(path: &Path) -> Result<Checked> {
    let path = trust::check(path)?;
    let (identity, state) = (FileIdentity::of(&path)?, FileState::of(&path)?);
    let library = elf::Library::open(&path)?;
    library.check_plugin(QUERY_SYMBOL)?.check_beside(Sanitizer::of_this_process())?;
    Ok(Checked { path, identity, state })
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
        return Err(refused("the file was replaced while it was being loaded"));
    }
    if FileState::of(&file.path)? != file.state {
        return Err(refused("the file was changed while it was being loaded"));
    }
    let query = query.map_err(|_| refused(format!("it has no symbol {QUERY_SYMBOL}")))?;
    // SAFETY: a pure query, by the rules for plugins.
    let descriptor = unsafe { query(ABI_MAJOR, ABI_MINOR) };
    if descriptor.is_null() {
        let message =
            format!("it cannot work with ABI {ABI_MAJOR}.{ABI_MINOR} (its query said NULL)");
        return Err(Error::new(Status::AbiMismatch, message));
    }
    // SAFETY: a pure query may be called again.
    if unsafe { query(ABI_MAJOR, ABI_MINOR) } != descriptor {
        return Err(refused("its query is not pure: asked again, it answers another descriptor"));
    }
    // SAFETY: the query's own answer; by the rules for plugins a descriptor is constant and whole.
    let (plugin, about) = unsafe { descriptor::read(query as *const _, descriptor) }?;
    Ok(Opened { plugin, about })
}

fn refused(message: impl Into<String>) -> Error {
    Error::new(Status::BackendRefused, message)
}
