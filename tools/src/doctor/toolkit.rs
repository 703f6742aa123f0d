//! CUDA toolkits, and whatever else brings a CUDA runtime: wheels, conda, the distribution.
//!
//! Rule: each is judged against the driver by the tables of `compatibility` alone.

use super::capability::{self, Support};
use super::compatibility::{self, Level, Verdict};
use super::library::{Library, RUNTIME};
use super::place::{Origin, Places};
use super::root::Root;
use super::version::Version;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Something that programs for CUDA are built with or bring along.
#[derive(Clone, Debug, Serialize)]
pub struct Toolkit {
    /// `toolkit`, `wheel`, `conda`, `system`, `environment`.
    pub kind: Origin,
    /// Its folder; of a wheel the one that has `nvidia/`.
    pub path: PathBuf,
    pub version: Option<Version>,
    /// `/usr/local/cuda` leads to it.
    pub default: bool,
    /// The oldest driver with which anything of it runs.
    pub driver_minimum: Option<Version>,
    /// The driver with which all of it works.
    pub driver_full: Option<Version>,
    pub verdict: Verdict,
    /// The release of the forward-compatibility libraries in it.
    pub compat: Option<Version>,
    /// Whether it makes code for each device.
    pub devices: Vec<ForDevice>,
}

/// What a toolkit does for a device.
#[derive(Clone, Debug, Serialize)]
pub struct ForDevice {
    /// The device: `nvidia:0`.
    pub device: String,
    pub code: Support,
}

/// All of them, toolkits first.
pub fn find(root: &Root, places: &Places, libraries: &[Library]) -> Vec<Toolkit> {
    let default = root.resolve(Path::new("/usr/local/cuda"));
    let mut toolkits: Vec<Toolkit> = places
        .toolkits()
        .iter()
        .filter_map(|folder| {
            let inside = || libraries.iter().filter(|library| library.path.starts_with(folder));
            let version = told(root, folder)
                .or_else(|| inside().find(|library| library.name == RUNTIME)?.version.clone());
            let compat = inside().find(|library| library.origin == Origin::Compat);
            if version.is_none() && inside().next().is_none() {
                return None;
            }
            let mut toolkit = Toolkit::new(Origin::Toolkit, folder.clone(), version);
            toolkit.default = default.as_ref() == Some(folder);
            toolkit.compat = compat.and_then(|library| library.version.clone());
            Some(toolkit)
        })
        .collect();
    for library in libraries.iter().filter(|library| library.name == RUNTIME) {
        let inside = |toolkit: &Toolkit| library.path.starts_with(&toolkit.path);
        if library.origin == Origin::Stub || toolkits.iter().any(inside) {
            continue;
        }
        let folder = folder_of(library);
        toolkits.push(Toolkit::new(library.origin, folder, library.version.clone()));
    }
    toolkits
}

/// What a toolkit's own file says.
fn told(root: &Root, folder: &Path) -> Option<Version> {
    if let Some(text) = root.read(folder.join("version.json")) {
        let json: serde_json::Value = serde_json::from_str(&text).ok()?;
        return Version::parse(json["cuda"]["version"].as_str()?);
    }
    // `CUDA Version 10.2.89`
    Version::find(&root.read(folder.join("version.txt"))?)
}

fn folder_of(library: &Library) -> PathBuf {
    let mut folders = library.path.ancestors();
    let site = folders.find(|folder| folder.file_name().is_some_and(|name| name == "nvidia"));
    let folder = match (library.origin, site) {
        (Origin::Wheel, Some(site)) => site.parent(),
        (Origin::Conda, _) => library.path.parent().and_then(Path::parent),
        _ => library.path.parent(),
    };
    folder.unwrap_or(&library.path).to_owned()
}

impl Toolkit {
    fn new(kind: Origin, path: PathBuf, version: Option<Version>) -> Toolkit {
        let release = version.as_ref().map(Version::release);
        Toolkit {
            kind,
            path,
            default: false,
            driver_minimum: release.and_then(compatibility::needed),
            driver_full: release.and_then(compatibility::shipped_with),
            verdict: Verdict::Unknown,
            compat: None,
            devices: Vec::new(),
            version,
        }
    }

    /// Judges it against the driver and each device (a name, a compute capability).
    pub fn judge(&mut self, driver: &Level, devices: &[(String, (u32, u32))]) {
        let Some(release) = self.version.as_ref().map(Version::release) else { return };
        self.verdict = compatibility::judge(release, driver);
        self.devices = devices
            .iter()
            .map(|(device, capability)| ForDevice {
                device: device.clone(),
                code: capability::support(*capability, release),
            })
            .collect();
    }

    /// What it is, for a sentence: `CUDA 12.4.1 (toolkit, /usr/local/cuda-12.4)`.
    pub fn describe(&self) -> String {
        let version = self.version.as_ref().map_or("?".to_owned(), Version::to_string);
        format!("CUDA {version} ({}, {})", self.kind.name(), self.path.display())
    }
}

impl Origin {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Origin::System => "system",
            Origin::Environment => "environment",
            Origin::Wsl => "WSL",
            Origin::Toolkit => "toolkit",
            Origin::Compat => "compat",
            Origin::Stub => "stub",
            Origin::Wheel => "wheel",
            Origin::Conda => "conda",
        }
    }
}
