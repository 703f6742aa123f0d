//! `llaisys-rt doctor` on machines made of files: each has its faults, by their codes, and no others.

mod machine;

use machine::{LIB, Machine, list};
use serde_json::Value;

const H200: &str = "NVIDIA H200";
const GEFORCE: &str = "NVIDIA GeForce RTX 4090";

#[test]
fn a_machine_with_nothing_of_nvidias_is_well() {
    assert!(Machine::new("nothing").codes().is_empty());
}

#[test]
fn a_driver_and_a_toolkit_that_fit_are_well_and_told() {
    let machine = Machine::new("fits")
        .driver("535.104.05", H200)
        .toolkit("12.2", "12.2.140")
        .link("/usr/local/cuda", "/usr/local/cuda-12.2");
    let report = machine.report();
    assert_eq!(list(&report["faults"]), [] as [Value; 0]);
    let driver = &report["driver"];
    assert_eq!(
        (&driver["kernel_module"], &driver["library"]),
        (&"535.104.05".into(), &"535.104.05".into())
    );
    assert_eq!((&driver["cuda"], &driver["gpus"][0]["model"]), (&"12.2".into(), &H200.into()));
    let toolkit = &report["toolkits"][0];
    assert_eq!((&toolkit["version"], &toolkit["default"]), (&"12.2.1".into(), &true.into()));
    assert_eq!(toolkit["verdict"], "full");
    let runtime = find(&report, "libcudart", "toolkit");
    assert_eq!((&runtime["version"], &runtime["first"]), (&"12.2.140".into(), &false.into()));
}

/// The first library of a name and an origin.
fn find(report: &Value, name: &str, origin: &str) -> Value {
    let libraries = list(&report["libraries"]);
    let found = libraries.iter().find(|one| one["name"] == name && one["origin"] == origin);
    found.unwrap_or_else(|| panic!("no {name} of {origin}: {libraries:?}")).clone()
}

#[test]
fn a_stub_first_on_the_path_is_found_and_the_driver_beside_it_named() {
    let machine = Machine::new("stub_first")
        .driver("550.54.15", H200)
        .toolkit("12.4", "12.4.127")
        .link("/usr/local/cuda-12.4/targets/x86_64-linux/lib/stubs/libcuda.so.1", "libcuda.so")
        .set("LD_LIBRARY_PATH", "/usr/local/cuda-12.4/lib64/stubs");
    let report = machine.report();
    assert_eq!(report["faults"][0]["code"], "STUB_FIRST");
    assert_eq!(list(&report["faults"]).len(), 1);
    let what = report["faults"][0]["what"].as_str().expect("a text");
    assert!(what.contains("/lib/stubs/libcuda.so"), "{what}");
    assert!(what.contains("libcuda.so.550.54.15"), "{what}");
    // The runtime passes over the stub: the driver is judged by its own library.
    assert_eq!(report["driver"]["library"], "550.54.15");
}

#[test]
fn a_library_and_a_module_of_two_releases_do_not_fit() {
    let machine = Machine::new("mismatch")
        .module("535.54.03", H200)
        .nodes(&["nvidia0", "nvidiactl", "nvidia-uvm"], 0o666)
        .libcuda(LIB, "535.104.05");
    assert_eq!(machine.codes(), ["DRIVER_MISMATCH"]);
    let of_the_image = Machine::new("mismatch_in_a_container")
        .file("/.dockerenv", "")
        .module("570.26", H200)
        .nodes(&["nvidia0", "nvidiactl", "nvidia-uvm"], 0o666)
        .libcuda(LIB, "535.104.05");
    let report = of_the_image.report();
    assert_eq!(report["faults"][0]["code"], "DRIVER_MISMATCH");
    let advice = report["faults"][0]["advice"].as_str().expect("a text");
    assert!(advice.contains("image"), "{advice}");
}

/// A forward-compatibility library first on the path, over a driver.
fn with_compat(name: &str, driver: &str, compat: &str, model: &str) -> Vec<String> {
    Machine::new(name)
        .driver(driver, model)
        .libcuda("/usr/local/cuda-12.4/compat", compat)
        .set("LD_LIBRARY_PATH", "/usr/local/cuda-12.4/compat")
        .codes()
}

#[test]
fn a_compat_library_is_for_older_drivers_and_for_gpus_that_allow_it() {
    assert_eq!(with_compat("compat", "470.42.01", "550.54.15", H200), [] as [&str; 0]);
    let older = with_compat("compat_older", "570.26", "550.54.15", H200);
    assert_eq!(older, ["COMPAT_OLDER_THAN_DRIVER"]);
    let refused = with_compat("compat_refused", "470.42.01", "550.54.15", GEFORCE);
    assert_eq!(refused, ["COMPAT_REFUSED"]);
}

#[test]
fn toolkits_side_by_side_are_judged_each() {
    let machine = Machine::new("toolkits")
        .driver("535.104.05", H200)
        .toolkit("11.8", "11.8.89")
        .toolkit("12.4", "12.4.127")
        .toolkit("13.0", "13.0.48");
    let report = machine.report();
    let verdicts: Vec<&Value> =
        list(&report["toolkits"]).iter().map(|toolkit| &toolkit["verdict"]).collect();
    assert_eq!(verdicts, ["full", "minor_version", "driver_too_old"]);
    let codes: Vec<&Value> = list(&report["faults"]).iter().map(|fault| &fault["code"]).collect();
    assert_eq!(codes, ["TOOLKIT_NEEDS_NEWER_DRIVER", "TOOLKIT_NEWER_THAN_DRIVER"]);
    let what = report["faults"][0]["what"].as_str().expect("a text");
    assert!(what.contains("CUDA 13.0.1") && what.contains("driver 580"), "{what}");
}

#[test]
fn a_driver_that_is_older_than_the_backend_takes_is_said_with_both_versions() {
    let report = Machine::new("too_old").driver("418.39", H200).report();
    let fault = &report["faults"][0];
    assert_eq!(fault["code"], "DRIVER_TOO_OLD");
    let what = fault["what"].as_str().expect("a text");
    assert!(what.contains("418.39 is for CUDA 10.1") && what.contains("CUDA 11.2"), "{what}");
}

#[test]
fn a_container_that_was_given_no_gpu_is_told_how() {
    for (name, file, command) in [
        ("docker", "/.dockerenv", Some("docker run --gpus all IMAGE")),
        ("podman", "/run/.containerenv", Some("podman run --device nvidia.com/gpu=all IMAGE")),
        ("kubernetes", "/var/run/secrets/kubernetes.io/serviceaccount/token", None),
    ] {
        let machine = Machine::new(name).file(file, "").module("535.104.05", H200);
        let report = machine.report();
        assert_eq!(report["machine"]["container"], name);
        assert_eq!(report["faults"][0]["code"], "CONTAINER_WITHOUT_GPU");
        assert_eq!(report["faults"][0]["command"].as_str(), command);
        assert_eq!(list(&report["faults"]).len(), 1);
    }
}

#[test]
fn a_container_without_the_capability_compute_has_no_libcuda() {
    let in_a_container = |name: &str| {
        Machine::new(name)
            .file("/.dockerenv", "")
            .module("535.104.05", H200)
            .nodes(&["nvidia0", "nvidiactl", "nvidia-uvm"], 0o666)
    };
    let utility = in_a_container("utility").set("NVIDIA_DRIVER_CAPABILITIES", "utility");
    assert_eq!(utility.codes(), ["NO_COMPUTE_CAPABILITY"]);
    let all = in_a_container("all").set("NVIDIA_DRIVER_CAPABILITIES", "all");
    assert_eq!(all.codes(), ["LIBCUDA_MISSING"]);
}

#[test]
fn device_nodes_that_lack_or_are_shut_are_named() {
    let module =
        |name: &str| Machine::new(name).module("535.104.05", H200).libcuda(LIB, "535.104.05");
    assert_eq!(module("no_nodes").codes(), ["NO_DEVICE_NODES"]);
    let no_uvm = module("no_uvm").nodes(&["nvidia0", "nvidiactl"], 0o666);
    assert_eq!(no_uvm.codes(), ["NO_UVM_NODE"]);
    let shut = module("shut").nodes(&["nvidia0", "nvidiactl", "nvidia-uvm"], 0o660);
    assert_eq!(shut.codes(), ["NODE_NOT_PERMITTED"]);
}

#[test]
fn a_gpu_that_nvidias_module_does_not_have_is_said_with_who_has_it() {
    assert_eq!(Machine::new("nouveau").gpu("nouveau").codes(), ["NOUVEAU"]);
    assert_eq!(Machine::new("vfio").gpu("vfio-pci").codes(), ["GPU_HELD_BY_VFIO"]);
    assert_eq!(Machine::new("no_module").gpu("").codes(), ["DRIVER_MISSING"]);
}

fn wsl(name: &str) -> Machine {
    Machine::new(name)
        .file("/proc/sys/kernel/osrelease", "5.15.153.1-microsoft-standard-WSL2\n")
        .file("/usr/lib/wsl/lib/libcuda.so.1", "")
        .file("/etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n")
        .file("/etc/ld.so.conf.d/ld.wsl.conf", "/usr/lib/wsl/lib\n")
}

#[test]
fn under_wsl_the_driver_is_that_of_windows() {
    assert_eq!(wsl("wsl").nodes(&["dxg"], 0o666).codes(), [] as [&str; 0]);
    assert_eq!(wsl("wsl_without").codes(), ["WSL_WITHOUT_GPU"]);
    let shadowed = wsl("wsl_shadowed")
        .nodes(&["dxg"], 0o666)
        .libcuda("/opt/driver", "535.104.05")
        .set("LD_LIBRARY_PATH", "/opt/driver");
    assert_eq!(shadowed.codes(), ["WSL_DRIVER_SHADOWED"]);
}

const SITE: &str = "/opt/venv/lib/python3.11/site-packages";

fn with_wheels(name: &str) -> Machine {
    Machine::new(name)
        .driver("550.54.15", H200)
        .wheel(SITE, "cuda_runtime", "nvidia_cuda_runtime_cu12", "12.4.127", "libcudart.so.12")
        .wheel(SITE, "cudnn", "nvidia_cudnn_cu12", "9.1.0.70", "libcudnn.so.9")
        .wheel(SITE, "nccl", "nvidia_nccl_cu12", "2.21.5", "libnccl.so.2")
        .set("VIRTUAL_ENV", "/opt/venv")
}

#[test]
fn wheels_tell_their_version_and_one_that_is_hidden_is_said() {
    let report = with_wheels("wheels").report();
    assert_eq!(list(&report["faults"]), [] as [Value; 0]);
    for (name, version) in
        [("libcudart", "12.4.127"), ("libcudnn", "9.1.0.70"), ("libnccl", "2.21.5")]
    {
        let library = find(&report, name, "wheel");
        assert_eq!(
            (&library["version"], &library["version_from"]),
            (&version.into(), &"wheel".into())
        );
    }
    assert_eq!(
        (&report["toolkits"][0]["kind"], &report["toolkits"][0]["path"]),
        (&"wheel".into(), &SITE.into())
    );
    let shadowed = with_wheels("wheels_shadowed")
        .library("/opt/old", "libcudnn", "9", "9.0.0")
        .set("LD_LIBRARY_PATH", "/opt/old");
    assert_eq!(shadowed.codes(), ["WHEEL_SHADOWED"]);
}

#[test]
fn conda_and_a_text_in_a_file_tell_versions_too() {
    let machine = Machine::new("conda")
        .driver("550.54.15", H200)
        .file("/opt/conda/conda-meta/history", "")
        .library("/opt/conda/lib", "libcudart", "12", "12.1.105")
        .file(&format!("{LIB}/libnccl.so.2"), "\0\0NCCL version 2.19.3+cuda12.3\0");
    let report = machine.report();
    assert_eq!(find(&report, "libcudart", "conda")["version"], "12.1.105");
    let nccl = find(&report, "libnccl", "system");
    assert_eq!(
        (&nccl["version"], &nccl["version_from"]),
        (&"2.19.3".into(), &"text in the file".into())
    );
    assert_eq!(report["toolkits"][0]["kind"], "conda");
}

#[test]
fn a_library_for_another_processor_is_none() {
    let head = |class: char, machine: char| {
        format!("\x7fELF{class}\x01\x01{}\x03\0{machine}\0", "\0".repeat(9))
    };
    let machine = Machine::new("foreign")
        .driver("550.54.15", H200)
        .file("/etc/ld.so.conf", "/usr/lib/i386-linux-gnu\n")
        .file("/usr/lib/i386-linux-gnu/libcuda.so.1", &head('\x01', '\x03'))
        .file("/usr/lib/libcuda.so.1", &head('\x02', '\x15'));
    let report = machine.report();
    assert_eq!(list(&report["faults"]), [] as [Value; 0]);
    assert_eq!(list(&report["libraries"]).len(), 1, "{report}");
}

#[test]
fn drivers_side_by_side_are_said_with_where_they_are() {
    let machine = Machine::new("several")
        .driver("550.54.15", H200)
        .libcuda("/usr/local/nvidia/lib64", "535.104.05");
    assert_eq!(machine.codes(), ["SEVERAL_DRIVERS"]);
}

#[test]
fn variables_that_do_not_do_what_they_say_are_named() {
    let machine = Machine::new("variables")
        .set("CUDA_HOME", "/usr/local/cuda-9.9")
        .set("LLAISYS_BACKEND_PATH", "plugins:/opt/plugins")
        .set("LLAISYS_BACKEND", "/opt/x.so")
        .set("LLAISYS_MODEL_CACHE", "/a/strangers")
        .set("CUDA_LAUNCH_BLOCKING", "1")
        .set("LD_PRELOAD", "/opt/shim/libcudart.so.12");
    let codes = [
        "PRELOADED_DRIVER",
        "PATH_MISSING",
        "PATH_RELATIVE",
        "UNKNOWN_VARIABLE",
        "LAUNCH_BLOCKING",
    ];
    assert_eq!(machine.codes(), codes);
    let report = machine.report();
    assert!(report.to_string().contains("Was LLAISYS_BACKENDS meant?"));
    assert!(!report.to_string().contains("MODEL_CACHE"), "it is not ours to judge or to show");
}

#[test]
fn the_least_limit_of_the_control_groups_counts() {
    let machine = Machine::new("limit")
        .file("/proc/self/cgroup", "0::/a/b\n")
        .file("/sys/fs/cgroup/a/memory.max", "536870912\n")
        .file("/sys/fs/cgroup/a/b/memory.max", "max\n")
        .file("/sys/fs/cgroup/a/b/pids.max", "512\n");
    let report = machine.report();
    assert_eq!(report["faults"][0]["code"], "LOW_MEMORY_LIMIT");
    assert_eq!(report["machine"]["memory_limit"], 512 << 20);
    assert_eq!(report["machine"]["task_limit"], 512);
}
