//! The folders in which CUDA's libraries lie, and in which order the dynamic linker goes through its
//! own.
//!
//! Rule: a folder is named once, by its path without links, in the place where it comes first.

use super::root::Root;
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Who put a library where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The system: the driver, or packages of the distribution.
    System,
    /// A folder of the environment (`LD_LIBRARY_PATH`, `LLAISYS_CUDA_DRIVER`).
    Environment,
    /// Windows, for its Subsystem for Linux.
    Wsl,
    /// A CUDA toolkit.
    Toolkit,
    /// A forward-compatibility package: a driver's libraries that are newer than the driver.
    Compat,
    /// Something to link against, not to run.
    Stub,
    /// A wheel that pip installed.
    Wheel,
    /// A conda environment.
    Conda,
}

/// A folder to look in.
#[derive(Clone, Debug)]
pub struct Place {
    /// Without links.
    pub folder: PathBuf,
    pub origin: Origin,
    /// The dynamic linker goes through it, as the so-manieth folder.
    pub order: Option<usize>,
}

/// Where Windows puts its driver's libraries.
pub const WSL_FOLDER: &str = "/usr/lib/wsl/lib";

/// Folders that the dynamic linker goes through when nothing says otherwise.
const LINKER_FOLDERS: &[&str] = &[
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];

/// Folders that hosts of containers and distributions leave out of the linker's configuration (those
/// of `backend-nvidia/src/candidates.rs`).
const WELL_KNOWN: &[&str] = &[
    WSL_FOLDER,
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/run/opengl-driver/lib",
    "/usr/lib/aarch64-linux-gnu/nvidia",
    "/usr/lib/aarch64-linux-gnu/tegra",
];

/// All places, in order: what the linker goes through, then the others.
pub struct Places {
    root_of_toolkits: Vec<PathBuf>,
    pub all: Vec<Place>,
}

impl Places {
    /// The places of a machine.
    pub fn find(root: &Root) -> Places {
        let mut places = Places { root_of_toolkits: toolkits(root), all: Vec::new() };
        for (order, (folder, origin)) in linker(root).into_iter().enumerate() {
            places.add(root, &folder, origin, Some(order));
        }
        for folder in WELL_KNOWN {
            places.add(root, Path::new(folder), Origin::System, None);
        }
        for toolkit in places.root_of_toolkits.clone() {
            places.add_toolkit(root, &toolkit);
        }
        for site in site_packages(root) {
            for name in root.list(site.join("nvidia")) {
                let folder = site.join("nvidia").join(name).join("lib");
                places.add(root, &folder, Origin::Wheel, None);
            }
        }
        for prefix in conda(root) {
            places.add(root, &prefix.join("lib"), Origin::Conda, None);
        }
        places
    }

    /// The folders of toolkits, without links.
    pub fn toolkits(&self) -> &[PathBuf] {
        &self.root_of_toolkits
    }

    fn add_toolkit(&mut self, root: &Root, toolkit: &Path) {
        for folder in ["lib64", "lib"] {
            self.add(root, &toolkit.join(folder), Origin::Toolkit, None);
        }
        for target in root.list(toolkit.join("targets")) {
            let folder = toolkit.join("targets").join(target).join("lib");
            self.add(root, &folder, Origin::Toolkit, None);
            self.add(root, &folder.join("stubs"), Origin::Stub, None);
        }
        self.add(root, &toolkit.join("lib64/stubs"), Origin::Stub, None);
        self.add(root, &toolkit.join("compat"), Origin::Compat, None);
    }

    fn add(&mut self, root: &Root, folder: &Path, origin: Origin, order: Option<usize>) {
        let Some(folder) = root.resolve(folder) else { return };
        if self.all.iter().any(|place| place.folder == folder) {
            return;
        }
        let origin = self.origin_of(&folder, origin);
        self.all.push(Place { folder, origin, order });
    }

    /// What a folder's own path says counts more than how it was come by.
    fn origin_of(&self, folder: &Path, otherwise: Origin) -> Origin {
        let has = |name: &str| folder.components().any(|part| part.as_os_str() == name);
        if has("stubs") {
            Origin::Stub
        } else if has("compat") {
            Origin::Compat
        } else if folder == Path::new(WSL_FOLDER) {
            Origin::Wsl
        } else if has("site-packages") || has("dist-packages") {
            Origin::Wheel
        } else if self.root_of_toolkits.iter().any(|toolkit| folder.starts_with(toolkit)) {
            Origin::Toolkit
        } else {
            otherwise
        }
    }
}

/// What the dynamic linker goes through, in order. Its cache is not read: it holds what these hold.
fn linker(root: &Root) -> Vec<(PathBuf, Origin)> {
    let mut folders: Vec<(PathBuf, Origin)> = paths_of("LD_LIBRARY_PATH")
        .into_iter()
        .map(|folder| (folder, Origin::Environment))
        .collect();
    let mut configured = Vec::new();
    configuration(root, Path::new("/etc/ld.so.conf"), 0, &mut configured);
    let default = LINKER_FOLDERS.iter().map(PathBuf::from);
    folders.extend(configured.into_iter().chain(default).map(|folder| (folder, Origin::System)));
    folders
}

/// The folders of a file of the linker's configuration, and of those that it includes.
fn configuration(root: &Root, file: &Path, depth: u32, into: &mut Vec<PathBuf>) {
    const DEEPEST: u32 = 8;
    if depth > DEEPEST {
        return;
    }
    for line in root.read(file).unwrap_or_default().lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(pattern) = line.strip_prefix("include ") {
            for included in matching(root, pattern.trim()) {
                configuration(root, &included, depth + 1, into);
            }
        } else if line.starts_with('/') {
            into.push(PathBuf::from(line));
        }
    }
}

/// The files that `/etc/ld.so.conf.d/*.conf` means: a `*` in the last part alone.
fn matching(root: &Root, pattern: &str) -> Vec<PathBuf> {
    let path = Path::new("/etc").join(pattern);
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(OsStr::to_str))
    else {
        return Vec::new();
    };
    let Some((before, after)) = name.split_once('*') else { return vec![path] };
    let fits = |name: &String| name.starts_with(before) && name.ends_with(after);
    root.list(folder).into_iter().filter(fits).map(|name| folder.join(name)).collect()
}

/// The absolute paths of a variable that lists some.
pub fn paths_of(variable: &str) -> Vec<PathBuf> {
    let list: OsString = std::env::var_os(variable).unwrap_or_default();
    list.as_bytes()
        .split(|&byte| byte == b':')
        .map(|path| PathBuf::from(OsStr::from_bytes(path)))
        .filter(|path| path.is_absolute())
        .collect()
}

/// Where toolkits are: what the environment names, then where they are installed.
fn toolkits(root: &Root) -> Vec<PathBuf> {
    let named = ["CUDA_HOME", "CUDA_PATH"].into_iter().flat_map(paths_of);
    let mut found: Vec<PathBuf> = named.collect();
    for folder in ["/usr/local", "/opt"] {
        let names = root.list(folder).into_iter();
        found.extend(
            names.filter(|name| name.starts_with("cuda")).map(|name| Path::new(folder).join(name)),
        );
    }
    found.push(PathBuf::from("/usr/lib/cuda"));
    let mut toolkits = Vec::new();
    for folder in found.iter().filter_map(|folder| root.resolve(folder)) {
        if !toolkits.contains(&folder) {
            toolkits.push(folder);
        }
    }
    toolkits
}

/// Where Python finds packages: the environment that is active, the user's, the system's.
pub fn site_packages(root: &Root) -> Vec<PathBuf> {
    let mut folders = paths_of("PYTHONPATH");
    let mut prefixes: Vec<PathBuf> = ["VIRTUAL_ENV", "CONDA_PREFIX"]
        .into_iter()
        .flat_map(paths_of)
        .chain(paths_of("HOME").into_iter().map(|home| home.join(".local")))
        .collect();
    prefixes.extend(["/usr/local", "/usr", "/opt/conda"].map(PathBuf::from));
    for prefix in prefixes {
        for library in root.list(prefix.join("lib")) {
            if library.starts_with("python3") {
                let folder = prefix.join("lib").join(library);
                folders.push(folder.join("site-packages"));
                folders.push(folder.join("dist-packages"));
            }
        }
    }
    let mut resolved = Vec::new();
    for folder in folders.iter().filter_map(|folder| root.resolve(folder)) {
        if !resolved.contains(&folder) {
            resolved.push(folder);
        }
    }
    resolved
}

fn conda(root: &Root) -> Vec<PathBuf> {
    let mut prefixes = paths_of("CONDA_PREFIX");
    prefixes.push(PathBuf::from("/opt/conda"));
    prefixes.retain(|prefix| root.exists(prefix.join("conda-meta")));
    prefixes
}
