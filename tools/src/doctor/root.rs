//! The file system that is looked at: this machine's, or a folder that stands for one (`--root`).
//!
//! Rule: with a folder nothing outside it is looked at, also not by an absolute link in it, and nothing
//! in it is run. Its files are seen as by a stranger: what others may not read and write is not
//! permitted, whoever runs this (a test may be root).

use std::ffi::{CString, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

/// More links than that are a ring.
const MOST_LINKS: u32 = 40;

/// Where `/` is.
pub struct Root {
    folder: Option<PathBuf>,
}

impl Root {
    /// This machine, or a folder.
    pub fn new(folder: Option<PathBuf>) -> Root {
        Root { folder }
    }

    /// Whether it is a folder that stands for a machine.
    pub fn is_a_folder(&self) -> bool {
        self.folder.is_some()
    }

    /// Where a path that has no more links in it lies on this machine.
    fn outside(&self, path: &Path) -> PathBuf {
        match &self.folder {
            Some(folder) => folder.join(path.strip_prefix("/").unwrap_or(path)),
            None => path.to_owned(),
        }
    }

    /// A path without links, as seen from the root; `None` when nothing is there.
    pub fn resolve(&self, path: &Path) -> Option<PathBuf> {
        if self.folder.is_none() {
            return fs::canonicalize(path).ok();
        }
        let mut links = 0;
        let resolved = self.follow(Path::new("/"), path, &mut links)?;
        fs::symlink_metadata(self.outside(&resolved)).ok()?;
        Some(resolved)
    }

    fn follow(&self, from: &Path, path: &Path, links: &mut u32) -> Option<PathBuf> {
        let mut at = from.to_owned();
        for part in path.components() {
            match part {
                Component::RootDir => at = PathBuf::from("/"),
                Component::ParentDir => drop(at.pop()),
                Component::Normal(name) => {
                    let next = at.join(name);
                    match fs::read_link(self.outside(&next)) {
                        Ok(target) => {
                            *links += 1;
                            if *links > MOST_LINKS {
                                return None;
                            }
                            at = self.follow(&at, &target, links)?;
                        }
                        Err(_) => at = next,
                    }
                }
                Component::CurDir | Component::Prefix(_) => {}
            }
        }
        Some(at)
    }

    /// Whether something is there.
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.resolve(path.as_ref()).is_some()
    }

    /// The text of a file.
    pub fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        let path = self.resolve(path.as_ref())?;
        let bytes = fs::read(self.outside(&path)).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Opens a file for reading.
    pub fn open(&self, path: &Path) -> Option<fs::File> {
        fs::File::open(self.outside(&self.resolve(path)?)).ok()
    }

    /// The last part of what a link points to.
    pub fn link_name(&self, path: impl AsRef<Path>) -> Option<String> {
        let target = fs::read_link(self.outside(path.as_ref())).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    }

    /// The names in a folder, in order; none when it cannot be read.
    pub fn list(&self, folder: impl AsRef<Path>) -> Vec<String> {
        let Some(folder) = self.resolve(folder.as_ref()) else { return Vec::new() };
        let Ok(entries) = fs::read_dir(self.outside(&folder)) else { return Vec::new() };
        let name = |name: OsString| name.to_string_lossy().into_owned();
        let mut names: Vec<String> =
            entries.flatten().map(|entry| name(entry.file_name())).collect();
        names.sort();
        names
    }

    /// Whether this user may read and write a file.
    pub fn may_read_and_write(&self, path: &Path) -> bool {
        let path = self.outside(path);
        if self.folder.is_some() {
            return fs::metadata(path)
                .is_ok_and(|metadata| metadata.permissions().mode() & 0o006 == 0o006);
        }
        let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
        // SAFETY: the path is NUL-terminated and lives through the call, which keeps nothing.
        unsafe { libc::access(path.as_ptr(), libc::R_OK | libc::W_OK) == 0 }
    }

    /// The permissions of a file, as `ls` counts them: 0o666.
    pub fn mode(&self, path: &Path) -> Option<u32> {
        Some(fs::metadata(self.outside(path)).ok()?.permissions().mode() & 0o7777)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn an_absolute_link_stays_inside_and_a_ring_leads_nowhere() {
        let folder = std::env::temp_dir().join(format!("llaisys-root-{}", std::process::id()));
        let lib = folder.join("usr/lib");
        fs::create_dir_all(&lib).expect("a folder of temporary files");
        fs::write(lib.join("libx.so.1.2"), "text").expect("a file");
        symlink("/usr/lib/libx.so.1.2", lib.join("libx.so.1")).expect("a link");
        symlink("usr/lib", folder.join("lib")).expect("a link");
        symlink("ring", folder.join("ring")).expect("a link");
        symlink("/etc/passwd", folder.join("passwd")).expect("a link");
        let root = Root::new(Some(folder.clone()));
        let found = root.resolve(Path::new("/lib/libx.so.1"));
        assert_eq!(found, Some(PathBuf::from("/usr/lib/libx.so.1.2")));
        assert_eq!(root.read("/lib/../lib/libx.so.1").as_deref(), Some("text"));
        assert!(!root.exists("/ring"));
        assert!(!root.exists("/passwd"), "the folder has no /etc/passwd");
        assert_eq!(root.list("/lib"), ["libx.so.1", "libx.so.1.2"]);
        fs::remove_dir_all(folder).expect("it was made above");
    }
}
