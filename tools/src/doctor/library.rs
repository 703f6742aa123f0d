//! CUDA's libraries: which are where, and in which version.
//!
//! Rule: no library is opened or run to learn its version, and one for another processor is none. The file's name says it, or the wheel that
//! brought it, or a text in the file.

use super::place::{Origin, Place, Places};
use super::root::Root;
use super::version::Version;
use serde::Serialize;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A kind of library.
struct Kind {
    name: &'static str,
    /// The wheel that brings it, as its `dist-info` begins.
    wheel: &'static str,
    /// What stands before the version in a text of the file.
    text: Option<&'static [u8]>,
}

const KINDS: &[Kind] = &[
    Kind { name: DRIVER, wheel: "", text: None },
    Kind { name: RUNTIME, wheel: "nvidia_cuda_runtime", text: None },
    Kind { name: "libnvrtc", wheel: "nvidia_cuda_nvrtc", text: None },
    Kind { name: "libcublas", wheel: "nvidia_cublas", text: None },
    Kind { name: "libcudnn", wheel: "nvidia_cudnn", text: None },
    Kind { name: "libnccl", wheel: "nvidia_nccl", text: Some(b"NCCL version ") },
];

/// The driver's library.
pub const DRIVER: &str = "libcuda";
/// CUDA's runtime: the version of a toolkit.
pub const RUNTIME: &str = "libcudart";

/// A library's file.
#[derive(Clone, Debug, Serialize)]
pub struct Library {
    /// What it is: `libcuda`, `libcudart`, …
    pub name: &'static str,
    pub version: Option<Version>,
    /// How the version is known: `file name`, `wheel`, `text in the file`.
    pub version_from: Option<&'static str>,
    /// The file, without links.
    pub path: PathBuf,
    /// The names by which the folder offers it, for example `libcuda.so.1`.
    pub names: Vec<String>,
    pub origin: Origin,
    /// The folder's place among those that the dynamic linker goes through; `None`: it does not.
    pub linker_order: Option<usize>,
    /// It is what the dynamic linker takes for one of its names.
    pub first: bool,
}

/// All libraries, in the order in which the places are looked at.
pub fn find(root: &Root, places: &Places) -> Vec<Library> {
    let mut libraries: Vec<Library> = Vec::new();
    for place in &places.all {
        look(root, place, &mut libraries);
    }
    for path in super::place::paths_of("LLAISYS_CUDA_DRIVER") {
        name_a_driver(root, &path, &mut libraries);
    }
    mark_first(&mut libraries);
    libraries
}

fn look(root: &Root, place: &Place, libraries: &mut Vec<Library>) {
    for file in root.list(&place.folder) {
        let Some(kind) = kind_of(&file) else { continue };
        let Some(path) = root.resolve(&place.folder.join(&file)) else { continue };
        let known = libraries.iter_mut().find(|library| {
            library.path == path && library.linker_order == place.order && library.name == kind.name
        });
        if let Some(library) = known {
            library.names.push(file);
            continue;
        }
        // The same file by a link from a folder that comes later tells nothing new.
        if libraries.iter().any(|library| library.path == path) {
            continue;
        }
        if is_foreign(root, &path) {
            continue;
        }
        let (version, version_from) = version(root, kind, &path);
        libraries.push(Library {
            name: kind.name,
            version,
            version_from,
            names: vec![file],
            origin: place.origin,
            linker_order: place.order,
            first: false,
            path,
        });
    }
}

/// Whether a file is a library for another processor, or for this one's 32-bit programs.
fn is_foreign(root: &Root, path: &Path) -> bool {
    const CLASS: usize = 4;
    const CLASS_64: u8 = 2;
    const MACHINE: usize = 18;
    const OURS: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    let mut head = [0_u8; 20];
    let read = root.open(path).and_then(|mut file| file.read_exact(&mut head).ok());
    read.is_some()
        && head.starts_with(b"\x7fELF")
        && (head[CLASS] != CLASS_64
            || u16::from_le_bytes([head[MACHINE], head[MACHINE + 1]]) != OURS)
}

/// A driver's file that the environment names, whatever it is called.
fn name_a_driver(root: &Root, path: &Path, libraries: &mut Vec<Library>) {
    let Some(path) = root.resolve(path) else { return };
    if libraries.iter().any(|library| library.path == path) {
        return;
    }
    let (version, version_from) = version(root, &KINDS[0], &path);
    let names = path.file_name().map(|name| name.to_string_lossy().into_owned());
    libraries.push(Library {
        name: DRIVER,
        version,
        version_from,
        names: names.into_iter().collect(),
        origin: Origin::Environment,
        linker_order: None,
        first: false,
        path,
    });
}

/// `libcuda.so`, `libcuda.so.1`, `libcuda.so.535.104.05`: the name, `.so`, numbers.
fn kind_of(file: &str) -> Option<&'static Kind> {
    let (name, rest) = file.split_once(".so")?;
    let numbers = rest.is_empty()
        || rest.strip_prefix('.').is_some_and(|rest| Version::parse(rest).is_some());
    KINDS.iter().find(|kind| kind.name == name && numbers)
}

/// The version of a file and how it is known.
fn version(root: &Root, kind: &Kind, path: &Path) -> (Option<Version>, Option<&'static str>) {
    let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    // `libcudart.so.11.0` is a soname with two numbers; the file behind it has more.
    let by_name = Version::of_file(&file).filter(|_| !file.ends_with("libcudart.so.11.0"));
    if by_name.is_some() {
        return (by_name, Some("file name"));
    }
    if let Some(version) = of_wheel(root, kind, path) {
        return (Some(version), Some("wheel"));
    }
    match kind.text.and_then(|text| in_text(root, path, text)) {
        Some(version) => (Some(version), Some("text in the file")),
        None => (None, None),
    }
}

/// The version of the wheel that brought a file: `…/site-packages/nvidia/X/lib/FILE` has
/// `…/site-packages/nvidia_X_cu12-12.4.127.dist-info`.
fn of_wheel(root: &Root, kind: &Kind, path: &Path) -> Option<Version> {
    if kind.wheel.is_empty() {
        return None;
    }
    let site = path.ancestors().find(|folder| folder.file_name().is_some_and(|n| n == "nvidia"))?;
    root.list(site.parent()?).iter().find_map(|name| {
        let (wheel, version) = name.strip_suffix(".dist-info")?.split_once('-')?;
        let wheel = wheel.replace('-', "_");
        let rest = wheel.strip_prefix(kind.wheel)?;
        (rest.is_empty() || rest.starts_with("_cu")).then(|| Version::parse(version)).flatten()
    })
}

/// The version behind a text of the file, for example `NCCL version 2.21.5+cuda12.4`.
fn in_text(root: &Root, path: &Path, before: &[u8]) -> Option<Version> {
    const STEP: usize = 1 << 20;
    const LONGEST: usize = 64;
    let mut file = root.open(path)?;
    let mut bytes: Vec<u8> = Vec::with_capacity(STEP + LONGEST);
    loop {
        let read = file.by_ref().take(STEP as u64).read_to_end(&mut bytes).ok()?;
        let found = bytes
            .windows(before.len())
            .enumerate()
            .filter(|(_, window)| *window == before)
            .find_map(|(at, _)| number(&bytes[at + before.len()..]));
        if found.is_some() || read == 0 {
            return found;
        }
        bytes.drain(..bytes.len().saturating_sub(LONGEST));
    }
}

fn number(bytes: &[u8]) -> Option<Version> {
    let is_part = |byte: &&u8| byte.is_ascii_digit() || **byte == b'.';
    let text: Vec<u8> = bytes.iter().take(32).take_while(is_part).copied().collect();
    Version::parse(std::str::from_utf8(&text).ok()?).filter(|version| version.release().1 > 0)
}

/// Marks, for each name that programs ask for, what the dynamic linker takes.
fn mark_first(libraries: &mut [Library]) {
    let mut taken: Vec<String> = Vec::new();
    let mut in_order: Vec<&mut Library> =
        libraries.iter_mut().filter(|library| library.linker_order.is_some()).collect();
    in_order.sort_by_key(|library| library.linker_order);
    for library in in_order {
        for name in library.names.iter().filter(|name| is_soname(name)) {
            if !taken.contains(name) {
                taken.push(name.clone());
                library.first = true;
            }
        }
    }
}

/// What programs ask for: `libcudart.so.12`, `libcudart.so.11.0`.
pub fn is_soname(name: &str) -> bool {
    name == "libcudart.so.11.0"
        || name.split_once(".so.").is_some_and(|(_, number)| number.parse::<u32>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_their_whole_name() {
        let kind = |file| kind_of(file).map(|kind| kind.name);
        assert_eq!(kind("libcuda.so.535.104.05"), Some("libcuda"));
        assert_eq!(kind("libcudart.so"), Some("libcudart"));
        assert_eq!(kind("libcublasLt.so.12"), None);
        assert_eq!(kind("libcudnn_ops.so.9"), None);
        assert_eq!(kind("libcuda.so.txt"), None);
        assert_eq!(kind("libcudart_static.a"), None);
    }

    #[test]
    fn a_number_in_a_text_ends_where_it_ends() {
        assert_eq!(number(b"2.21.5+cuda12.4\n").map(|v| v.to_string()).as_deref(), Some("2.21.5"));
        assert!(number(b"%d.%d").is_none());
    }
}
