//! What is wrong with libraries and toolkits: too new for the driver, not for the device, hidden by
//! others.
//!
//! Rule: one fault for each thing that somebody can act on, not for each file.

use super::Report;
use super::capability::Support;
use super::compatibility::Verdict;
use super::fault::{Code, Faults};
use super::library::{DRIVER, Library, is_soname};
use super::place::Origin;
use super::toolkit::ForDevice;

/// Finds them.
pub fn find(report: &Report, faults: &mut Faults) {
    toolkits(report, faults);
    devices(report, faults);
    several_drivers(report, faults);
    shadowed_wheels(report, faults);
}

fn toolkits(report: &Report, faults: &mut Faults) {
    let cuda = report.driver.cuda.as_deref().unwrap_or("?");
    for toolkit in &report.toolkits {
        let what = toolkit.describe();
        let full = toolkit
            .driver_full
            .as_ref()
            .map_or("a later driver".to_owned(), |release| format!("driver {release} or later"));
        match toolkit.verdict {
            Verdict::DriverTooOld => {
                let least = toolkit
                    .driver_minimum
                    .as_ref()
                    .map_or("a later driver".to_owned(), |least| format!("driver {least} or later"));
                let compat = toolkit.version.as_ref().map(|version| {
                    let (major, minor) = version.release();
                    format!("cuda-compat-{major}-{minor}")
                });
                faults.error(
                    Code::ToolkitNeedsNewerDriver,
                    format!("{what} needs {least}; the driver is for CUDA {cuda}"),
                    format!(
                        "Update the driver, or build with and install a toolkit for CUDA {cuda} or \
                         older. On data-centre GPUs the package {} works as well.",
                        compat.as_deref().unwrap_or("cuda-compat")
                    ),
                );
            }
            Verdict::MinorVersion => faults.warning(
                Code::ToolkitNewerThanDriver,
                format!("{what} is newer than the driver, which is for CUDA {cuda}"),
                format!(
                    "Minor-version compatibility: what is compiled for the device (SASS) runs; PTX \
                     made by this toolkit does not, and some functions answer that they need a newer \
                     driver. All of it works with {full}."
                ),
            ),
            Verdict::Full | Verdict::Unknown => {}
        }
    }
}

fn devices(report: &Report, faults: &mut Faults) {
    for toolkit in &report.toolkits {
        for ForDevice { device: label, code } in &toolkit.devices {
            let Some(device) = report.devices.iter().find(|device| device.label() == *label) else {
                continue;
            };
            let capability = device.compute_capability.as_deref().unwrap_or("?");
            let toolkits = device.meaning.as_ref().map(|meaning| meaning.toolkits());
            let toolkits = toolkits.unwrap_or_default();
            let what = toolkit.describe();
            match code {
                Support::Dropped => faults.error(
                    Code::DeviceDroppedByToolkit,
                    format!("{what} makes no code for {label} (compute capability {capability})"),
                    format!("Build with {toolkits}; take packages that were built with it."),
                ),
                Support::OnlyPtx => faults.warning(
                    Code::DeviceNewerThanToolkit,
                    format!(
                        "{what} is older than {label} (compute capability {capability}): it makes no \
                         code for it"
                    ),
                    format!(
                        "What has PTX is compiled by the driver when it is first used, which takes \
                         minutes for large libraries; what has none does not run. Use {toolkits}."
                    ),
                ),
                Support::Made | Support::Unknown => {}
            }
        }
    }
}

/// Drivers' libraries of different releases, where the linker or the runtime could take either.
fn several_drivers(report: &Report, faults: &mut Faults) {
    let mut releases: Vec<(&Library, String)> = Vec::new();
    for library in report.libraries.iter().filter(|library| library.name == DRIVER) {
        let Some(version) = &library.version else { continue };
        let apart = matches!(library.origin, Origin::Stub | Origin::Compat | Origin::Wsl);
        if !apart && !releases.iter().any(|(known, _)| known.version.as_ref() == Some(version)) {
            releases.push((library, format!("{version} ({})", library.path.display())));
        }
    }
    if releases.len() > 1 {
        let list: Vec<String> = releases.into_iter().map(|(_, text)| text).collect();
        faults.warning(
            Code::SeveralDrivers,
            format!("there are libraries of {} drivers: {}", list.len(), list.join(", ")),
            "Which one a program gets depends on its search path. Remove those that do not belong to \
             the kernel module.",
        );
    }
}

/// A wheel's library that another one with the same name, and another version, comes before.
fn shadowed_wheels(report: &Report, faults: &mut Faults) {
    for wheel in report.libraries.iter().filter(|library| library.origin == Origin::Wheel) {
        let offers =
            |library: &Library, name: &String| is_soname(name) && library.names.contains(name);
        let other = report.libraries.iter().find(|library| {
            library.first
                && library.origin != Origin::Wheel
                && library.version != wheel.version
                && in_environment(library)
                && wheel.names.iter().any(|name| offers(library, name))
        });
        let (Some(other), Some(theirs)) = (other, &wheel.version) else { continue };
        let version = other.version.as_ref().map_or("?".to_owned(), ToString::to_string);
        faults.warning(
            Code::WheelShadowed,
            format!(
                "LD_LIBRARY_PATH puts {} {version} ({}) before {theirs} of the wheel in {}",
                wheel.name,
                other.path.display(),
                wheel.path.display()
            ),
            "Python packages were built for the wheel's. Take that folder off LD_LIBRARY_PATH; they \
             find their own without it.",
        );
        faults.by("unset LD_LIBRARY_PATH");
    }
}

/// Whether `LD_LIBRARY_PATH` names the folder of a library.
fn in_environment(library: &Library) -> bool {
    let folders = super::place::paths_of("LD_LIBRARY_PATH").len();
    library.linker_order.is_some_and(|order| order < folders)
}
