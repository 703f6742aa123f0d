//! The driver as the system shows it: kernel module, GPUs on the bus, device nodes.
//!
//! Rule: it is read from files; nothing is opened that would wake a GPU.

use super::machine::Machine;
use super::root::Root;
use super::version::Version;
use serde::Serialize;
use std::path::Path;

/// What the system shows of a driver.
#[derive(Clone, Debug, Serialize)]
pub struct Driver {
    /// The release of the kernel module that is loaded.
    pub kernel_module: Option<Version>,
    /// `open` or `proprietary`.
    pub kernel_module_kind: Option<&'static str>,
    /// NVIDIA GPUs on the bus.
    pub gpus: Vec<Gpu>,
    /// `/dev/nvidia…` and, under WSL, `/dev/dxg`.
    pub nodes: Vec<Node>,
    /// The release of the library that the runtime or, without one, the dynamic linker would take.
    pub library: Option<Version>,
    /// The CUDA that the driver is for.
    pub cuda: Option<String>,
    /// What the driver said when it was asked, in a process of its own.
    pub asked: Option<super::asked::Answer>,
}

/// A GPU on the bus.
#[derive(Clone, Debug, Serialize)]
pub struct Gpu {
    pub pci_address: String,
    /// As NVIDIA's module names it.
    pub model: Option<String>,
    /// The kernel's driver that has it: `nvidia`, `nouveau`, `vfio-pci`.
    pub bound_to: Option<String>,
}

/// A device node.
#[derive(Clone, Debug, Serialize)]
pub struct Node {
    pub path: String,
    /// This user may read and write it.
    pub permitted: bool,
    /// Its permissions, as `ls` counts them.
    pub mode: Option<String>,
}

impl Driver {
    /// The driver of a machine.
    pub fn find(root: &Root, machine: &Machine) -> Driver {
        let module = root.read("/proc/driver/nvidia/version");
        let line = module.as_deref().and_then(|text| text.lines().next()).unwrap_or_default();
        let open = line.contains("Open Kernel Module");
        Driver {
            kernel_module: Version::find(line),
            kernel_module_kind: module.as_ref().map(|_| if open { "open" } else { "proprietary" }),
            gpus: gpus(root),
            nodes: nodes(root, machine),
            library: None,
            cuda: None,
            asked: None,
        }
    }

    /// Looks at the nodes again: a driver that starts makes those that lack.
    pub fn look_again(&mut self, root: &Root, machine: &Machine) {
        self.nodes = nodes(root, machine);
    }

    /// Whether there is a sign of an NVIDIA GPU or driver (libraries aside).
    pub fn is_there(&self) -> bool {
        self.kernel_module.is_some() || !self.gpus.is_empty() || !self.nodes.is_empty()
    }

    /// Whether a node has this name.
    pub fn has_node(&self, name: &str) -> bool {
        self.nodes.iter().any(|node| node.path == format!("/dev/{name}"))
    }

    /// Whether a GPU has a node of its own: `/dev/nvidia0`.
    pub fn has_gpu_node(&self) -> bool {
        self.nodes.iter().any(|node| is_gpu_node(&node.path))
    }
}

/// `/dev/nvidia0`.
fn is_gpu_node(path: &str) -> bool {
    path.strip_prefix("/dev/nvidia").is_some_and(|number| number.parse::<u32>().is_ok())
}

fn gpus(root: &Root) -> Vec<Gpu> {
    const BUS: &str = "/sys/bus/pci/devices";
    let read = |address: &str, file: &str| {
        root.read(Path::new(BUS).join(address).join(file)).unwrap_or_default()
    };
    let mut gpus = Vec::new();
    for address in root.list(BUS) {
        // Display controllers: VGA (0x0300) and 3D (0x0302).
        let class = read(&address, "class");
        if read(&address, "vendor").trim() != "0x10de" || !class.starts_with("0x03") {
            continue;
        }
        gpus.push(Gpu {
            model: model(root, &address),
            bound_to: root.link_name(Path::new(BUS).join(&address).join("driver")),
            pci_address: address,
        });
    }
    // Where the bus is not shown (some containers), the module still names what it has.
    for address in root.list("/proc/driver/nvidia/gpus") {
        if !gpus.iter().any(|gpu| gpu.pci_address == address) {
            let model = model(root, &address);
            gpus.push(Gpu { pci_address: address, model, bound_to: Some("nvidia".to_owned()) });
        }
    }
    gpus
}

fn model(root: &Root, address: &str) -> Option<String> {
    let text = root.read(format!("/proc/driver/nvidia/gpus/{address}/information"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Model:"))?;
    Some(line.trim().to_owned())
}

fn nodes(root: &Root, machine: &Machine) -> Vec<Node> {
    let is_one = |name: &str| {
        is_gpu_node(&format!("/dev/{name}"))
            || matches!(name, "nvidiactl" | "nvidia-uvm")
            || (machine.wsl && name == "dxg")
    };
    let node = |name: String| {
        let path = format!("/dev/{name}");
        Node {
            permitted: root.may_read_and_write(Path::new(&path)),
            mode: root.mode(Path::new(&path)).map(|mode| format!("{mode:o}")),
            path,
        }
    };
    root.list("/dev").into_iter().filter(|name| is_one(name)).map(node).collect()
}
