//! A folder of a case's own that goes when the case ends.

use crate::outcome::{Checked, Stop};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A temporary folder that only its owner may write and everybody may read.
pub struct Folder(PathBuf);

impl Folder {
    /// Makes one where the system keeps what is temporary.
    pub fn new(name: &str) -> Checked<Folder> {
        Folder::under(&std::env::temp_dir(), name)
    }

    /// Makes one in a folder that only the superuser may write, as may everything above it.
    pub fn of_the_superuser(name: &str) -> Checked<Folder> {
        let homes = ["/opt", "/srv", "/usr/local", "/var/lib"].map(Path::new);
        let closed = |path: &&Path| {
            path.ancestors().all(|part| {
                std::fs::metadata(part)
                    .is_ok_and(|part| part.uid() == 0 && part.mode() & 0o022 == 0)
            })
        };
        match homes.into_iter().find(closed) {
            Some(home) => Folder::under(home, name),
            None => Err(Stop::skip("no folder that only the superuser may write is to be found")),
        }
    }

    fn under(home: &Path, name: &str) -> Checked<Folder> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let unique = format!("llaisys-{name}-{}-{number}", std::process::id());
        let folder = Folder(home.join(unique));
        // What a killed run of the same process number left behind.
        let _ = std::fs::remove_dir_all(&folder.0);
        let made = std::fs::create_dir_all(&folder.0);
        made.map_err(|error| Stop::skip(format!("{}: {error}", folder.0.display())))?;
        folder.set_mode("", 0o755)?;
        Ok(folder)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Makes a folder in it.
    pub fn folder(&self, name: &str) -> Checked<PathBuf> {
        let path = self.file(name);
        std::fs::create_dir_all(&path).map_err(|error| could_not("make", &path, &error))?;
        self.set_mode(name, 0o755)?;
        Ok(path)
    }

    /// Writes a file in it.
    pub fn write(&self, name: &str, content: &[u8]) -> Checked<PathBuf> {
        let path = self.file(name);
        std::fs::write(&path, content).map_err(|error| could_not("write", &path, &error))?;
        Ok(path)
    }

    /// Copies a file into it, with its mode.
    pub fn copy(&self, from: &Path, name: &str) -> Checked<PathBuf> {
        let path = self.file(name);
        std::fs::copy(from, &path).map_err(|error| could_not("copy to", &path, &error))?;
        Ok(path)
    }

    /// Makes a symbolic link in it.
    pub fn link(&self, to: &Path, name: &str) -> Checked<PathBuf> {
        let path = self.file(name);
        let made = std::os::unix::fs::symlink(to, &path);
        made.map_err(|error| could_not("link", &path, &error))?;
        Ok(path)
    }

    /// Sets who may do what with a file in it, or with the folder itself (the empty name).
    pub fn set_mode(&self, name: &str, mode: u32) -> Checked {
        let path = if name.is_empty() { self.0.clone() } else { self.file(name) };
        let set = std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode));
        set.map_err(|error| could_not("set the mode of", &path, &error))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn could_not(what: &str, path: &Path, error: &std::io::Error) -> Stop {
    Stop::skip(format!("could not {what} {}: {error}", path.display()))
}
