//! `llaisys-rt devices`: every backend that was looked at, every device, and why something is
//! missing.
//!
//! Rule: listing a device makes no context on it (contract D4), so what cannot be told without one is
//! said to be unknown.

use crate::print;
use crate::runtime::{self, Candidate};
use llaisys_runtime::core::abi::{ABI_MAJOR, ABI_MINOR};
use llaisys_runtime::core::api::{
    LlaisysDeviceProperties, LlaisysMemoryInfo, RuntimeApi, UNKNOWN_BYTES, read_text,
};
use llaisys_runtime::core::{Error, Status};
use serde::Serialize;
use std::process::ExitCode;

/// What `--json` prints. Fields are added, never renamed.
#[derive(Serialize)]
struct Report {
    version: &'static str,
    abi_version: String,
    backends: Vec<Backend>,
    devices: Vec<Device>,
}

#[derive(Serialize)]
struct Backend {
    /// `None` when the candidate did not come so far as to tell; so `device_type`.
    name: Option<String>,
    device_type: Option<i32>,
    version: Option<String>,
    vendor: Option<String>,
    /// `None` when the backend is built in.
    path: Option<String>,
    taken: bool,
    /// `SUCCESS` or the kind of refusal.
    status: &'static str,
    /// How it was found, or why it was refused.
    reason: String,
    device_count: i32,
    /// Why a backend that is in use has no device.
    no_device: Option<Reason>,
}

#[derive(Serialize)]
struct Device {
    backend: String,
    device_type: i32,
    ordinal: i32,
    name: Option<String>,
    vendor: Option<String>,
    total_memory: Option<u64>,
    /// `None` when it cannot be told without making a context on the device.
    free_memory: Option<u64>,
    processors: Option<u32>,
    compute_capability: Option<String>,
    driver_version: Option<String>,
    uuid: Option<String>,
    pci_address: Option<String>,
    /// What could not be asked, and why.
    error: Option<Reason>,
}

#[derive(Serialize)]
struct Reason {
    status: &'static str,
    message: String,
    native_code: Option<i64>,
    native_name: Option<String>,
}

impl From<Error> for Reason {
    fn from(error: Error) -> Reason {
        Reason {
            status: error.status().name(),
            message: error.message().to_owned(),
            native_code: error.native().map(|native| native.code),
            native_name: error.native().map(|native| native.name.clone()),
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.status, self.message)?;
        match (&self.native_name, self.native_code) {
            (Some(name), Some(code)) => write!(f, " ({name} {code})"),
            _ => Ok(()),
        }
    }
}

/// Prints the report; the exit code says whether there is a device.
pub fn run(json: bool) -> ExitCode {
    let report = Report::ask();
    if json {
        print::json(&report)
    } else {
        report.print()
    }
    ExitCode::from(u8::from(report.devices.is_empty()))
}

impl Report {
    fn ask() -> Report {
        let mut report = Report {
            version: env!("CARGO_PKG_VERSION"),
            abi_version: format!("{ABI_MAJOR}.{ABI_MINOR}"),
            backends: Vec::new(),
            devices: Vec::new(),
        };
        for candidate in runtime::candidates() {
            report.add(candidate);
        }
        report
    }

    fn add(&mut self, candidate: Candidate) {
        let taken = candidate.is_taken();
        let device_type = (candidate.device_type >= 0).then_some(candidate.device_type);
        let mut backend = Backend {
            name: known(candidate.name.clone()),
            device_type,
            version: known(candidate.version),
            vendor: known(candidate.vendor),
            path: known(candidate.path),
            taken,
            status: candidate.status.name(),
            reason: candidate.reason,
            device_count: 0,
            no_device: None,
        };
        if let Some(device_type) = device_type.filter(|_| taken) {
            match devices(device_type, &candidate.name) {
                Ok(mut devices) => {
                    backend.device_count = devices.len() as i32;
                    self.devices.append(&mut devices);
                }
                Err(error) => backend.no_device = Some(error.into()),
            }
        }
        self.backends.push(backend);
    }

    fn print(&self) {
        print::line(format!("llaisys-runtime {}, ABI {}", self.version, self.abi_version));
        let mut backends = print::table(&["backend", "version", "in use", "found and why"]);
        for backend in &self.backends {
            backends.add_row([
                backend.name.as_deref().unwrap_or("?"),
                backend.version.as_deref().unwrap_or("?"),
                if backend.taken { "yes" } else { "no" },
                &backend.about(),
            ]);
        }
        print::line(backends);
        if self.devices.is_empty() {
            print::line("no device");
            return;
        }
        let mut devices = print::table(&["device", "name", "about"]);
        for device in &self.devices {
            devices.add_row([
                format!("{}:{}", device.backend, device.ordinal),
                device.name.clone().unwrap_or_else(|| "(not told)".to_owned()),
                device.about(),
            ]);
        }
        let identifiers = self.devices.iter().filter_map(|device| device.uuid.as_ref());
        if let (Some(column), Some(longest)) =
            (devices.column_mut(2), identifiers.map(|uuid| uuid.len()).max())
        {
            // Whole, so that it can be copied: with its word, a blank, and the cell's two.
            let width = comfy_table::Width::Fixed("UUID".len() as u16 + longest as u16 + 3);
            column.set_constraint(comfy_table::ColumnConstraint::LowerBoundary(width));
        }
        print::line(devices);
    }
}

impl Backend {
    /// How it was found or why it was refused, where, and what came of it; a line each.
    fn about(&self) -> String {
        let mut lines = Vec::new();
        if self.taken {
            lines.push(self.reason.clone());
        } else {
            lines.push(format!("{}: {}", self.status, self.reason));
        }
        lines.extend(self.path.clone());
        lines.push(match (&self.no_device, self.device_count) {
            _ if !self.taken => return lines.join("\n"),
            (Some(reason), _) => format!("no device, {reason}"),
            (None, 0) => "no device".to_owned(),
            (None, 1) => "1 device".to_owned(),
            (None, count) => format!("{count} devices"),
        });
        lines.join("\n")
    }
}

impl Device {
    fn memory(&self) -> Option<String> {
        let total = print::bytes(self.total_memory?);
        Some(match self.free_memory {
            Some(free) => format!("{} free of {total}", print::bytes(free)),
            None => format!("{total} (free: known once in use)"),
        })
    }

    fn about(&self) -> String {
        let mut lines = Vec::new();
        let mut add = |what: &str, value: Option<String>| {
            lines.extend(value.map(|value| format!("{what} {value}")));
        };
        add("memory", self.memory());
        add("processors", self.processors.map(|count| count.to_string()));
        add("compute capability", self.compute_capability.clone());
        add("driver", self.driver_version.clone());
        add("PCI", self.pci_address.clone());
        add("UUID", self.uuid.clone());
        add("error:", self.error.as_ref().map(Reason::to_string));
        if lines.is_empty() {
            lines.push("its backend tells no properties".to_owned());
        }
        lines.join("\n")
    }
}

/// The devices of a backend.
fn devices(device_type: i32, name: &str) -> Result<Vec<Device>, Error> {
    let backend = runtime::backend(device_type)?;
    let count = backend.get_device_count()?;
    Ok((0..count).map(|ordinal| device(&backend, device_type, name, ordinal)).collect())
}

fn device(backend: &impl RuntimeApi, device_type: i32, name: &str, ordinal: i32) -> Device {
    let (properties, error) = match backend.get_device_properties(ordinal) {
        Ok(properties) => (properties, None),
        // A backend need not have them: nothing is wrong with the device.
        Err(error) if error.status() == Status::NotSupported => {
            (LlaisysDeviceProperties::new(), None)
        }
        Err(error) => (LlaisysDeviceProperties::new(), Some(error.into())),
    };
    let memory = backend
        .get_memory_info(ordinal)
        .unwrap_or_else(|_| LlaisysMemoryInfo::new(UNKNOWN_BYTES, properties.total_memory));
    let (major, minor) = (properties.compute_capability_major, properties.compute_capability_minor);
    let driver = properties.driver_version;
    Device {
        backend: name.to_owned(),
        device_type,
        ordinal,
        name: known(read_text(&properties.name)),
        vendor: known(read_text(&properties.vendor)),
        total_memory: Some(memory.total).filter(|bytes| *bytes != 0),
        free_memory: Some(memory.free).filter(|bytes| *bytes != UNKNOWN_BYTES),
        processors: Some(properties.processor_count).filter(|count| *count != 0),
        compute_capability: (major != 0).then(|| format!("{major}.{minor}")),
        driver_version: (driver != 0).then(|| format!("{}.{}", driver / 1000, driver % 1000 / 10)),
        uuid: (properties.uuid != [0; 16]).then(|| uuid(&properties.uuid)),
        pci_address: known(read_text(&properties.pci_address)),
        error,
    }
}

/// A text, unless it is empty.
fn known(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

/// Sixteen bytes as 8-4-4-4-12 hexadecimal digits.
fn uuid(bytes: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::uuid;

    #[test]
    fn a_uuid_has_its_hyphens() {
        let bytes = std::array::from_fn(|index| index as u8);
        assert_eq!(uuid(&bytes), "00010203-0405-0607-0809-0a0b0c0d0e0f");
    }
}
