//! What is wrong with the driver: kernel module, device nodes, its library.
//!
//! Rule: what the system shows is judged before what the driver answered, because it says more; an
//! answer is a fault only while nothing explains it.

use super::compatibility::{OLDEST, spell};
use super::fault::{Code, Faults};
use super::library::{DRIVER, Library};
use super::place::Origin;
use super::{Report, environment};

/// Finds them.
pub fn find(report: &Report, faults: &mut Faults) {
    if report.machine.wsl {
        wsl(report, faults);
    } else {
        kernel(report, faults);
    }
    nodes(report, faults);
    library(report, faults);
    versions(report, faults);
    answer(report, faults);
}

fn wsl(report: &Report, faults: &mut Faults) {
    let windows = report.libraries.iter().find(|library| library.origin == Origin::Wsl);
    if windows.is_some() && !report.driver.has_node("dxg") {
        faults.error(
            Code::WslWithoutGpu,
            "Windows' driver library is there, but /dev/dxg is not",
            "Update WSL and the NVIDIA driver of Windows, then start WSL again; WSL 1 has no GPU.",
        );
        faults.by("wsl.exe --update && wsl.exe --shutdown");
    }
    if let (Some(_), Some(linked)) = (windows, report.linked_driver())
        && !matches!(linked.origin, Origin::Wsl | Origin::Stub | Origin::Compat)
    {
        faults.error(
            Code::WslDriverShadowed,
            format!(
                "a Linux driver's library, {}, comes before Windows' own in /usr/lib/wsl/lib",
                linked.path.display()
            ),
            "Under WSL the driver is Windows'. Remove the Linux driver's packages in WSL, or put \
             /usr/lib/wsl/lib first in LD_LIBRARY_PATH.",
        );
        faults.by("export LD_LIBRARY_PATH=/usr/lib/wsl/lib:$LD_LIBRARY_PATH");
    }
}

fn kernel(report: &Report, faults: &mut Faults) {
    let driver = &report.driver;
    let bound_to = |name: &str| {
        let gpus = driver.gpus.iter().filter(|gpu| gpu.bound_to.as_deref() == Some(name));
        gpus.map(|gpu| gpu.pci_address.clone()).collect::<Vec<_>>()
    };
    let nouveau = bound_to("nouveau");
    if !nouveau.is_empty() {
        faults.error(
            Code::Nouveau,
            format!("nouveau, not NVIDIA's driver, has the GPU at {}", nouveau.join(", ")),
            "nouveau knows no CUDA. Install NVIDIA's driver, keep nouveau from loading, reboot.",
        );
        faults.by("echo 'blacklist nouveau' | sudo tee /etc/modprobe.d/no-nouveau.conf");
    }
    let vfio = bound_to("vfio-pci");
    if !vfio.is_empty() {
        faults.error(
            Code::GpuHeldByVfio,
            format!(
                "vfio-pci has the GPU at {}: it is kept for a virtual machine",
                vfio.join(", ")
            ),
            "Use it in that virtual machine, or give it back to NVIDIA's driver.",
        );
    }
    let nobody = driver.kernel_module.is_none() && nouveau.is_empty() && vfio.is_empty();
    if let (true, Some(gpu)) = (nobody && !report.works(), driver.gpus.first()) {
        let advice = if report.machine.container.is_some() {
            "Install NVIDIA's driver on the host (not in the container), or load it there."
        } else {
            "Install NVIDIA's driver from the distribution's packages. When it is installed, its \
             module was not built for this kernel or not loaded (Secure Boot refuses modules that \
             are not signed): dmesg says which."
        };
        faults.error(
            Code::DriverMissing,
            format!(
                "there is an NVIDIA GPU at {}, and NVIDIA's kernel module is not loaded",
                gpu.pci_address
            ),
            advice,
        );
        faults.by("sudo modprobe nvidia");
    }
}

fn nodes(report: &Report, faults: &mut Faults) {
    let driver = &report.driver;
    if report.works() {
        // Whatever lacks was not needed.
    } else if driver.kernel_module.is_some() && !driver.has_gpu_node() {
        if let Some(container) = report.machine.container {
            faults.error(
                Code::ContainerWithoutGpu,
                "the host has an NVIDIA driver, and this container was given no GPU: there is no \
                 /dev/nvidia0",
                match container {
                    "kubernetes" => {
                        "Ask for one in the pod: resources.limits, nvidia.com/gpu: 1. The node needs \
                         NVIDIA's device plugin."
                    }
                    _ => {
                        "Start the container with GPUs; the host needs the NVIDIA Container Toolkit."
                    }
                },
            );
            match container {
                "kubernetes" => {}
                "podman" => faults.by("podman run --device nvidia.com/gpu=all IMAGE"),
                _ => faults.by("docker run --gpus all IMAGE"),
            }
        } else {
            faults.error(
                Code::NoDeviceNodes,
                "NVIDIA's kernel module is loaded, and there is no /dev/nvidia0",
                "Make the device nodes (the driver's own tool does it), and let a service do it at \
                 boot: nvidia-persistenced.",
            );
            faults.by("sudo nvidia-modprobe -u -c 0");
        }
    } else if driver.has_gpu_node() && !driver.has_node("nvidia-uvm") {
        faults.error(
            Code::NoUvmNode,
            "there is no /dev/nvidia-uvm: cuInit answers CUDA_ERROR_UNKNOWN (999) without it",
            "Load the module nvidia-uvm and make its node; in a container, on the host, and start \
             the container again.",
        );
        faults.by("sudo nvidia-modprobe -u -c 0");
    }
    let closed: Vec<String> = driver
        .nodes
        .iter()
        .filter(|node| !node.permitted)
        .map(|node| format!("{} (mode {})", node.path, node.mode.as_deref().unwrap_or("unknown")))
        .collect();
    if !closed.is_empty() {
        faults.error(
            Code::NodeNotPermitted,
            format!("this user may not read and write {}", closed.join(", ")),
            "Put the user into the group that owns the nodes (ls -l /dev/nvidia*; often video or \
             render), and log in again.",
        );
        faults.by("sudo usermod -aG video,render $USER");
    }
    let denied = driver.asked.as_ref().map(|answer| &answer.denied_nodes);
    if let Some(denied) = denied.filter(|denied| !denied.is_empty()) {
        faults.error(
            Code::NodeDeniedByCgroup,
            format!("the control group does not let this process open {}", denied.join(", ")),
            "Start the container with GPUs rather than with the nodes mounted; a service of systemd \
             needs DeviceAllow=char-nvidia* rw; after a `systemctl daemon-reload` start it again.",
        );
        faults.by("docker run --gpus all IMAGE");
    }
}

fn library(report: &Report, faults: &mut Faults) {
    let drivers = || report.libraries.iter().filter(|library| library.name == DRIVER);
    let is_stub = |library: &Library| library.origin == Origin::Stub;
    if let Some(linked) = report.linked_driver().filter(|library| is_stub(library)) {
        let elsewhere = drivers().find(|library| !is_stub(library));
        let else_where = elsewhere.map_or_else(String::new, |library| {
            format!("; the driver's own is {}", library.path.display())
        });
        faults.error(
            Code::StubFirst,
            format!(
                "the dynamic linker takes a stub for libcuda.so.1: {}{else_where}",
                linked.path.display()
            ),
            "A toolkit brings a stub to link against where there is no driver. Take its folder off \
             LD_LIBRARY_PATH and /etc/ld.so.conf.d. (The NVIDIA backend passes over it; other \
             programs end with CUDA_ERROR_STUB_LIBRARY, 34.)",
        );
        faults.by("echo $LD_LIBRARY_PATH | tr : '\\n' | grep stubs");
    }
    let none = !drivers().any(|library| !is_stub(library) && library.origin != Origin::Compat);
    let asked = report.driver.asked.as_ref();
    let opened = asked.is_some_and(|answer| answer.file.is_some());
    let no_module = report.driver.kernel_module.is_none();
    if none && !opened && !no_module && report.driver.has_gpu_node() {
        let capabilities = environment::value("NVIDIA_DRIVER_CAPABILITIES");
        let lacks = capabilities
            .as_ref()
            .filter(|list| !list.split(',').any(|one| matches!(one, "compute" | "all")));
        if let (Some(list), Some(_)) = (lacks, report.machine.container) {
            faults.error(
                Code::NoComputeCapability,
                format!("libcuda was not given to this container: NVIDIA_DRIVER_CAPABILITIES is {list:?}"),
                "The container needs the capability compute.",
            );
            faults.by("docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility IMAGE");
        } else {
            faults.error(
                Code::LibcudaMissing,
                "NVIDIA's kernel module is loaded and its devices are there, and no libcuda.so.1 is",
                "Install the driver's CUDA library of the module's very release (Debian: libcuda1; \
                 Ubuntu: libnvidia-compute-BRANCH; Fedora: nvidia-driver-cuda-libs). When it is \
                 installed elsewhere, name it in LLAISYS_CUDA_DRIVER.",
            );
        }
    }
    off_the_path(report, faults);
    let stub = asked.is_some_and(super::asked::Answer::is_of_a_stub);
    if stub && !report.works() && !faults.has(&[Code::StubFirst]) {
        faults.error(
            Code::StubOnly,
            format!(
                "{} answers CUDA_ERROR_STUB_LIBRARY (34): it is no driver",
                asked.and_then(|answer| answer.file.as_deref()).unwrap_or("libcuda.so.1")
            ),
            "A toolkit brings a stub to link against where there is no driver. Remove it from where \
             programs look, and install NVIDIA's driver.",
        );
    }
}

/// A driver's library that the runtime finds and others do not.
fn off_the_path(report: &Report, faults: &mut Faults) {
    let answer = report.driver.asked.as_ref();
    let not_found = answer.is_some_and(|answer| {
        answer.name == "libcuda.so.1" && answer.file.is_none() && answer.error.is_some()
    });
    let there = report.driver_library().filter(|_| not_found);
    if let Some(library) = there {
        faults.warning(
            Code::DriverNotOnPath,
            format!(
                "the dynamic linker does not find libcuda.so.1, and {} is there",
                library.path.display()
            ),
            "The NVIDIA backend looks there itself; other programs do not. Add the folder to the \
             linker's cache (for good: in a file of /etc/ld.so.conf.d).",
        );
        if let Some(folder) = library.path.parent() {
            faults.by(format!("sudo ldconfig {}", folder.display()));
        }
    }
}

fn versions(report: &Report, faults: &mut Faults) {
    let (Some(used), Some(module)) = (report.driver_library(), &report.driver.kernel_module) else {
        return;
    };
    let Some(release) = &used.version else { return };
    let path = used.path.display();
    if used.origin != Origin::Compat {
        if release != module {
            let advice = if report.machine.container.is_some() {
                "The image brings a driver's library of its own. Remove it from the image: the \
                 container tool mounts the host's."
            } else {
                "After an update of the driver, reboot (or unload and load its modules). Otherwise \
                 remove the library that does not belong to the module."
            };
            faults.error(
                Code::DriverMismatch,
                format!("libcuda is {release} ({path}), the kernel module is {module}: they must be equal"),
                advice,
            );
            if report.machine.container.is_none() {
                faults.by("sudo reboot");
            }
        }
        return;
    }
    let consumer = report.driver.gpus.iter().find_map(|gpu| {
        gpu.model.as_ref().filter(|model| model.contains("GeForce") || model.contains("TITAN"))
    });
    if release < module {
        faults.error(
            Code::CompatOlderThanDriver,
            format!("a forward-compatibility library, {release} ({path}), comes before a newer driver, {module}"),
            "It is for drivers older than itself. Take its folder (cuda/compat) off LD_LIBRARY_PATH \
             and /etc/ld.so.conf.d.",
        );
    } else if let (true, Some(model)) = (release > module, consumer) {
        compat_refused(faults, &format!("{release} ({path})"), model);
    }
}

fn compat_refused(faults: &mut Faults, what: &str, model: &str) {
    faults.error(
        Code::CompatRefused,
        format!("a forward-compatibility library, {what}, over {model}, which does not allow one"),
        "Such libraries are for data-centre GPUs. Take the folder (cuda/compat) off LD_LIBRARY_PATH \
         and update the driver, or name the system's driver in LLAISYS_CUDA_DRIVER.",
    );
}

/// What the driver answered, where nothing above says it.
fn answer(report: &Report, faults: &mut Faults) {
    if let Some(seconds) = report.driver.asked.as_ref().and_then(|a| a.no_answer_within) {
        faults.error(
            Code::DriverHangs,
            format!("the driver did not answer within {seconds} s"),
            "A GPU may have fallen off the bus, or another process holds it: dmesg has lines with \
             `NVRM: Xid`. Without persistence mode a start can take long on many GPUs: try --limit \
             300.",
        );
        faults.by("sudo dmesg | grep -i nvrm");
    }
    if let Some(cuda) = report.level.cuda.filter(|cuda| *cuda < OLDEST) {
        let release = report.driver.kernel_module.as_ref().or(report.driver.library.as_ref());
        let release = release.map_or_else(String::new, |release| format!(" {release}"));
        faults.error(
            Code::DriverTooOld,
            format!(
                "the driver{release} is for CUDA {}; the NVIDIA backend needs CUDA {} (R460) or later",
                spell(cuda),
                spell(OLDEST)
            ),
            "Update NVIDIA's driver, to a branch with long-term support (R580 for example).",
        );
    }
}

/// The backend's word that a forward-compatibility library was refused.
pub fn compat_was_refused(faults: &mut Faults, report: &Report) {
    let used = report.driver_library();
    let what = used.map_or("?".to_owned(), |library| library.path.display().to_string());
    let model = report.driver.gpus.iter().find_map(|gpu| gpu.model.clone());
    compat_refused(faults, &what, model.as_deref().unwrap_or("this GPU"));
}
