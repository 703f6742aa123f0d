//! The variables of the environment that matter, and what each does here.
//!
//! Rule: only variables of these lists are shown, because others may hold secrets. The runtime's own are
//! those of `docs/environment.md`; a test compares.

use serde::Serialize;

/// A variable that is set.
#[derive(Clone, Debug, Serialize)]
pub struct Variable {
    pub name: &'static str,
    pub value: String,
    /// What it does here.
    pub meaning: &'static str,
}

/// The runtime's own.
const OURS: &[(&str, &str)] = &[
    ("LLAISYS_BACKENDS", "exactly these plugins are loaded; nothing is searched"),
    ("LLAISYS_BACKEND_PATH", "folders searched for plugins before the library's own"),
    ("LLAISYS_REQUIRE", "every call fails when one of these backends has no device"),
    ("LLAISYS_CUDA_DRIVER", "exactly these driver libraries are tried, in this order"),
    ("LLAISYS_ALLOCATOR", "pooled or plain: device memory from pools, or from the backend"),
    ("LLAISYS_LAUNCH_BLOCKING", "1: every operation is complete when it returns (slow)"),
    ("LLAISYS_STAGING", "on, off or force: pageable memory is copied by several threads"),
    ("LLAISYS_CPU_DEVICES", "how many devices the CPU backend has"),
    ("LLAISYS_CPU_MEMORY_LIMIT", "limit of the CPU's device memory"),
    ("LLAISYS_CPU_THREADS", "how many workers run the CPU's streams"),
    ("LLAISYS_CPU_STRICT", "1: the host cannot touch the CPU's device memory"),
    ("LLAISYS_CPU_SCHEDULE_SEED", "an order for what is not ordered, to find missing waits"),
    ("LLAISYS_RUNTIME_LIBRARY", "the library that the Python package loads"),
    ("LLAISYS_HEADERS", "read by the build alone"),
];

/// Those of CUDA, its container tools, Python and the dynamic linker.
const THEIRS: &[(&str, &str)] = &[
    ("CUDA_VISIBLE_DEVICES", "which GPUs the driver shows, and in which order"),
    ("CUDA_DEVICE_ORDER", "how the driver numbers GPUs: FASTEST_FIRST or PCI_BUS_ID"),
    ("CUDA_LAUNCH_BLOCKING", "1: the driver waits for every kernel launch (slow)"),
    ("CUDA_HOME", "a toolkit, for builds; the runtime does not read it"),
    ("CUDA_PATH", "a toolkit, for builds; the runtime does not read it"),
    ("CUDA_MODULE_LOADING", "LAZY or EAGER: when the driver loads kernels"),
    ("CUDA_CACHE_DISABLE", "1: kernels compiled from PTX are not kept"),
    ("CUDA_CACHE_PATH", "where kernels compiled from PTX are kept"),
    ("CUDA_FORCE_PTX_JIT", "1: the driver compiles every kernel from its PTX"),
    ("CUDA_DISABLE_PTX_JIT", "1: the driver compiles no PTX"),
    ("CUDA_MPS_PIPE_DIRECTORY", "where the MPS server is looked for"),
    ("CUDA_DEVICE_MAX_CONNECTIONS", "how many hardware queues streams share"),
    ("CUDA_MANAGED_FORCE_DEVICE_ALLOC", "1: managed memory lies on a device"),
    ("NVIDIA_VISIBLE_DEVICES", "which GPUs the container tool gives a container"),
    ("NVIDIA_DRIVER_CAPABILITIES", "which driver libraries it gives; compute is needed"),
    ("NVIDIA_DISABLE_REQUIRE", "1: it does not check what CUDA an image requires"),
    ("NCCL_DEBUG", "how much NCCL says"),
    ("LD_LIBRARY_PATH", "folders the dynamic linker goes through first"),
    ("LD_PRELOAD", "libraries loaded into every program before all others"),
    ("CONDA_PREFIX", "the conda environment that is active"),
    ("VIRTUAL_ENV", "the Python environment that is active"),
    ("PYTHONPATH", "folders where Python looks for packages first"),
];

/// The variables that are set, in the order of the lists.
pub fn set() -> Vec<Variable> {
    let known = OURS.iter().chain(THEIRS);
    known
        .filter_map(|&(name, meaning)| {
            let value = std::env::var_os(name)?.to_string_lossy().into_owned();
            Some(Variable { name, value, meaning })
        })
        .collect()
}

/// Variables that look like ours and are none, each with the one that was likely meant.
pub fn misspelled() -> Vec<(String, &'static str)> {
    let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    let mut found: Vec<(String, &'static str)> = names
        .filter(|name| name.starts_with("LLAISYS_"))
        .filter_map(|name| meant(&name).map(|meant| (name, meant)))
        .collect();
    found.sort();
    found
}

/// The variable that is almost spelled like this. Programs that use the runtime have variables of
/// their own with the same beginning: those are not ours to judge.
fn meant(name: &str) -> Option<&'static str> {
    if OURS.iter().any(|(known, _)| *known == name) {
        return None;
    }
    let distance = |known: &str| strsim::damerau_levenshtein(known, name);
    OURS.iter().map(|(known, _)| *known).find(|known| distance(known) <= 2)
}

/// The value of a switch or a list; `None` when it is not set.
pub fn value(name: &str) -> Option<String> {
    Some(std::env::var_os(name)?.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtimes_own_variables_are_those_of_the_page() {
        let page = include_str!("../../../docs/environment.md");
        let of_the_page: Vec<&str> = page
            .lines()
            .filter_map(|line| line.strip_prefix("| `LLAISYS_"))
            .filter_map(|line| line.split_once('`'))
            .map(|(name, _)| name)
            .collect();
        let mut ours: Vec<&str> =
            OURS.iter().filter_map(|(name, _)| name.strip_prefix("LLAISYS_")).collect();
        for name in &of_the_page {
            assert!(ours.contains(name), "docs/environment.md has LLAISYS_{name}");
        }
        ours.retain(|name| !of_the_page.contains(name));
        assert!(ours.is_empty(), "docs/environment.md lacks {ours:?}");
    }

    #[test]
    fn a_slip_is_found_and_a_strangers_variable_is_left_alone() {
        assert_eq!(meant("LLAISYS_BACKEND"), Some("LLAISYS_BACKENDS"));
        assert_eq!(meant("LLAISYS_CUDA_DRIVRE"), Some("LLAISYS_CUDA_DRIVER"));
        assert_eq!(meant("LLAISYS_BACKENDS"), None);
        assert_eq!(meant("LLAISYS_MODEL_CACHE"), None);
    }
}
