//! Which files may be loaded into this process, and whether the environment may be believed
//! (contract P1, `docs/decisions/0004`).
//!
//! Rule: checked before `dlopen`, because constructors run there. A file, or a folder above it, that
//! anybody but root or this user could have written is refused.

use crate::error::{Error, Result};
use crate::status::Status;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Whether this process runs with more rights than the user who started it (set-user-id, file
/// capabilities). Then the environment is not believed.
pub fn is_privileged() -> bool {
    // SAFETY: reads the auxiliary vector of this process.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// A variable of the environment, unless the process is privileged.
pub fn variable(name: &str) -> Option<std::ffi::OsString> {
    if is_privileged() { None } else { std::env::var_os(name) }
}

/// A file by what it is rather than by what it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
}

impl FileIdentity {
    /// The file that a path leads to now.
    pub fn of(path: &Path) -> Result<FileIdentity> {
        let metadata = std::fs::metadata(path).map_err(|error| unreadable(path, &error))?;
        Ok(FileIdentity { device: metadata.dev(), inode: metadata.ino() })
    }
}

/// What changes when a file is written to or its owner or mode is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileState {
    size: u64,
    changed: (i64, i64),
}

impl FileState {
    /// The state of the file that a path leads to now.
    pub fn of(path: &Path) -> Result<FileState> {
        let metadata = std::fs::metadata(path).map_err(|error| unreadable(path, &error))?;
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        Ok(FileState { size: metadata.size(), changed })
    }
}

/// The real path of a file that may be loaded.
///
/// # Errors
/// `BACKEND_REFUSED`: the path is relative, leads nowhere, or is not safe.
pub fn check(path: &Path) -> Result<PathBuf> {
    if !path.is_absolute() {
        return Err(refused("a relative path is never loaded; give an absolute one".to_owned()));
    }
    let real = path.canonicalize().map_err(|error| unreadable(path, &error))?;
    // SAFETY: reads this process's user.
    let user = unsafe { libc::geteuid() };
    let privileged = is_privileged();
    for part in real.ancestors() {
        let metadata = std::fs::metadata(part).map_err(|error| unreadable(part, &error))?;
        if part == real && !metadata.is_file() {
            return Err(refused(format!("{} is not a file", part.display())));
        }
        check_part(part, &metadata, user, privileged)?;
    }
    Ok(real)
}

fn check_part(part: &Path, metadata: &Metadata, user: u32, privileged: bool) -> Result<()> {
    const GROUP_MAY_WRITE: u32 = 0o020;
    const OTHERS_MAY_WRITE: u32 = 0o002;
    const STICKY: u32 = 0o1000;
    let (owner, mode) = (metadata.uid(), metadata.mode());
    let what = part.display();
    if owner != 0 && owner != user {
        let message = format!("{what} belongs to user {owner}, neither to root nor to user {user}");
        return Err(refused(message));
    }
    if mode & OTHERS_MAY_WRITE != 0 && !(metadata.is_dir() && mode & STICKY != 0) {
        return Err(refused(format!("everybody may write {what} (mode {:o})", mode & 0o7777)));
    }
    if privileged && mode & GROUP_MAY_WRITE != 0 {
        let message = format!(
            "a group may write {what} (mode {:o}), and this process has raised privileges",
            mode & 0o7777
        );
        return Err(refused(message));
    }
    Ok(())
}

fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    refused(format!("{}: {error}", path.display()))
}

fn refused(message: String) -> Error {
    Error::new(Status::BackendRefused, message)
}
