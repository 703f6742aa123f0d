//! What is wrong with variables and limits.
//!
//! Rule: a variable is a fault where it does not do what its value says, or something that few want.

use super::environment;
use super::fault::{Code, Faults};
use super::machine::Machine;
use super::root::Root;
use std::path::Path;

/// Variables that name files or folders of the runtime's. That nothing is there is said where they are
/// used.
const PATHS: &[&str] =
    &["LLAISYS_BACKENDS", "LLAISYS_BACKEND_PATH", "LLAISYS_CUDA_DRIVER", "LLAISYS_RUNTIME_LIBRARY"];

/// Less memory than that is hardly meant.
const LITTLE_MEMORY: u64 = 1 << 30;

/// Finds them.
pub fn find(root: &Root, machine: &Machine, faults: &mut Faults) {
    for (name, meant) in environment::misspelled() {
        faults.warning(
            Code::UnknownVariable,
            format!("nobody reads {name}"),
            format!("Was {meant} meant?"),
        );
    }
    for variable in PATHS {
        relative(variable, faults);
    }
    for variable in ["CUDA_HOME", "CUDA_PATH"] {
        missing(root, variable, faults);
    }
    preload(faults);
    blocking(faults);
    if let Some(bytes) = machine.memory_limit.filter(|bytes| *bytes < LITTLE_MEMORY) {
        faults.warning(
            Code::LowMemoryLimit,
            format!("the control group allows {} of memory", crate::print::bytes(bytes)),
            "Pinned memory and the CPU's device memory count against it. Give the container or \
             service more.",
        );
    }
}

fn relative(variable: &str, faults: &mut Faults) {
    let list = environment::value(variable).unwrap_or_default();
    for path in list.split(':').filter(|path| !path.is_empty() && !path.starts_with('/')) {
        faults.warning(
            Code::PathRelative,
            format!("{variable} names {path:?}, which is not absolute and is not used"),
            "Write it from the root of the file system on.",
        );
    }
}

fn missing(root: &Root, variable: &str, faults: &mut Faults) {
    let path = environment::value(variable).unwrap_or_default();
    if !path.is_empty() && !root.exists(Path::new(&path)) {
        faults.warning(
            Code::PathMissing,
            format!("{variable} is {path}, where nothing is"),
            "Builds look there for a toolkit. Set it to one that is installed, or unset it.",
        );
        faults.by(format!("unset {variable}"));
    }
}

fn preload(faults: &mut Faults) {
    let list = environment::value("LD_PRELOAD").unwrap_or_default();
    let is_cuda =
        |path: &&str| ["libcuda.so", "libcudart.so"].iter().any(|name| path.contains(name));
    if let Some(path) = list.split([':', ' ']).find(is_cuda) {
        faults.warning(
            Code::PreloadedDriver,
            format!("LD_PRELOAD puts {path} into every program"),
            "Every CUDA library gets this one, whatever it was built for. Unset it unless a tool \
             needs it.",
        );
        faults.by("unset LD_PRELOAD");
    }
}

fn blocking(faults: &mut Faults) {
    for variable in ["CUDA_LAUNCH_BLOCKING", "LLAISYS_LAUNCH_BLOCKING"] {
        if environment::value(variable).as_deref() == Some("1") {
            faults.warning(
                Code::LaunchBlocking,
                format!("{variable} is 1: nothing runs beside anything else"),
                "It is for finding out which operation fails. Unset it for speed.",
            );
            faults.by(format!("unset {variable}"));
        }
    }
}
