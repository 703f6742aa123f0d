//! Machines made of files, for `llaisys-rt doctor --root`, and the command as it is run on them.
//!
//! Rule: the environment is empty but for what a case sets, so that nothing of this machine's shows.
#![allow(dead_code, reason = "each test file uses a part")]

use serde_json::Value;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub const COMMAND: &str = env!("CARGO_BIN_EXE_llaisys-rt");

/// Where a distribution has its libraries.
pub const LIB: &str = "/usr/lib/x86_64-linux-gnu";

/// A file beside the command, which another crate builds.
pub fn beside(name: &str) -> PathBuf {
    let path = Path::new(COMMAND).with_file_name(name);
    let how = "cargo build -p llaisys-backend-nvidia -p llaisys-fake-cuda";
    assert!(path.is_file(), "there is no {}; build it first: {how}", path.display());
    path
}

/// A folder that stands for a machine, and the variables that are set there.
pub struct Machine {
    pub root: PathBuf,
    environment: Vec<(String, String)>,
    arguments: Vec<String>,
}

impl Machine {
    /// A machine without anything.
    pub fn new(name: &str) -> Machine {
        let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join("machines")
            .join(env!("CARGO_CRATE_NAME"))
            .join(name);
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(&root).expect("the folder of temporary files can be written");
        let machine = Machine { root, environment: Vec::new(), arguments: Vec::new() };
        machine.file("/proc/sys/kernel/osrelease", "6.1.0-28-amd64\n")
    }

    fn at(&self, path: &str) -> PathBuf {
        let path = self.root.join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().expect("it has one")).expect("a folder");
        path
    }

    pub fn file(self, path: &str, text: &str) -> Machine {
        fs::write(self.at(path), text).expect("a file");
        self
    }

    pub fn link(self, path: &str, to: &str) -> Machine {
        symlink(to, self.at(path)).expect("a link");
        self
    }

    pub fn set(mut self, name: &str, value: impl AsRef<Path>) -> Machine {
        let value = value.as_ref().to_str().expect("UTF-8").to_owned();
        self.environment.push((name.to_owned(), value));
        self
    }

    pub fn argument(mut self, argument: &str) -> Machine {
        self.arguments.push(argument.to_owned());
        self
    }

    /// A library as packages have it: the file with its version, and links to it.
    pub fn library(self, folder: &str, name: &str, soname: &str, version: &str) -> Machine {
        let file = format!("{name}.so.{version}");
        let linked = format!("{name}.so.{soname}");
        self.file(&format!("{folder}/{file}"), "")
            .link(&format!("{folder}/{linked}"), &file)
            .link(&format!("{folder}/{name}.so"), &linked)
    }

    /// The driver's own library.
    pub fn libcuda(self, folder: &str, release: &str) -> Machine {
        self.library(folder, "libcuda", "1", release)
    }

    /// The kernel module of a driver, and a GPU that it has.
    pub fn module(self, release: &str, model: &str) -> Machine {
        let version = format!(
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {release}  Sat Aug 19 01:15:15 UTC\n"
        );
        let information = format!("Model: \t\t {model}\nIRQ:   \t\t 35\nDevice Minor: \t 0\n");
        self.file("/proc/driver/nvidia/version", &version)
            .file("/proc/driver/nvidia/gpus/0000:61:00.0/information", &information)
            .gpu("nvidia")
    }

    /// A GPU on the bus that a driver of the kernel has; none when the name is empty.
    pub fn gpu(self, driver: &str) -> Machine {
        let device = "/sys/bus/pci/devices/0000:61:00.0";
        let machine = self
            .file(&format!("{device}/vendor"), "0x10de\n")
            .file(&format!("{device}/class"), "0x030200\n");
        match driver {
            "" => machine,
            name => machine
                .file(&format!("/sys/bus/pci/drivers/{name}/bind"), "")
                .link(&format!("{device}/driver"), &format!("../../drivers/{name}")),
        }
    }

    /// The device nodes, as files with these permissions.
    pub fn nodes(self, names: &[&str], mode: u32) -> Machine {
        for name in names {
            let path = self.at(&format!("/dev/{name}"));
            fs::write(&path, "").expect("a file");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("permissions");
        }
        self
    }

    /// All that a driver brings, and it fits together.
    pub fn driver(self, release: &str, model: &str) -> Machine {
        self.module(release, model)
            .nodes(&["nvidia0", "nvidiactl", "nvidia-uvm"], 0o666)
            .libcuda(LIB, release)
    }

    /// A toolkit of NVIDIA's packages with its runtime, its stub, and its linker configuration left out.
    pub fn toolkit(self, release: &str, runtime: &str) -> Machine {
        let folder = format!("/usr/local/cuda-{release}");
        let major = release.split('.').next().expect("a major");
        let soname = if major == "11" { "11.0" } else { major };
        let lib = format!("{folder}/targets/x86_64-linux/lib");
        self.file(
            &format!("{folder}/version.json"),
            &format!(r#"{{"cuda": {{"name": "CUDA SDK", "version": "{release}.1"}}}}"#),
        )
        .library(&lib, "libcudart", soname, runtime)
        .file(&format!("{lib}/stubs/libcuda.so"), "")
        .link(&format!("{folder}/lib64"), "targets/x86_64-linux/lib")
    }

    /// A wheel of NVIDIA's: `part` is the folder in `nvidia/`.
    pub fn wheel(self, site: &str, part: &str, wheel: &str, version: &str, file: &str) -> Machine {
        self.file(&format!("{site}/nvidia/{part}/lib/{file}"), "")
            .file(&format!("{site}/{wheel}-{version}.dist-info/METADATA"), "")
    }

    /// Backends and driver of this machine are asked, over the fake driver.
    pub fn over_the_fake_driver(self) -> Machine {
        beside("libllaisys_backend_nvidia.so");
        let driver = beside("libcuda.so");
        self.argument("--ask").set("LLAISYS_CUDA_DRIVER", driver)
    }

    /// Runs the doctor: its exit code and what it prints.
    pub fn doctor(&self, more: &[&str]) -> (i32, String) {
        let mut command = Command::new(COMMAND);
        command.env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.args(["doctor", "--root"]).arg(&self.root).args(&self.arguments).args(more);
        let Output { status, stdout, stderr } = command.output().expect("the command starts");
        let text = String::from_utf8(stdout).expect("the command prints UTF-8");
        let errors = String::from_utf8_lossy(&stderr);
        assert!(!text.is_empty(), "{errors}");
        (status.code().expect("the command was not killed"), text)
    }

    /// The report, after it was checked that the text says the same and keeps its width.
    pub fn report(&self) -> Value {
        let (code, json) = self.doctor(&["--json"]);
        let report: Value = serde_json::from_str(&json).expect("one JSON value");
        let (same, text) = self.doctor(&[]);
        assert_eq!(code, same, "{text}");
        let errors = list(&report["faults"]).iter().any(|fault| fault["severity"] == "error");
        assert_eq!(code, i32::from(errors), "{text}");
        agree(&report, &text);
        report
    }

    /// The codes of the faults, in order.
    pub fn codes(&self) -> Vec<String> {
        list(&self.report()["faults"]).iter().map(|fault| string(&fault["code"])).collect()
    }
}

/// A list of the report.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn string(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

/// Without white space: lines may be broken anywhere.
pub fn squeeze(text: &str) -> String {
    text.split_whitespace().collect()
}

/// The text has what the report has, in its order, and no line is too long.
fn agree(report: &Value, text: &str) {
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
    }
    let heads: Vec<String> = list(&report["faults"])
        .iter()
        .enumerate()
        .map(|(index, fault)| {
            let (severity, code) = (string(&fault["severity"]), string(&fault["code"]));
            format!("{}. {severity} {code}", index + 1)
        })
        .collect();
    let is_head = |line: &&str| {
        line.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok())
    };
    assert_eq!(text.lines().filter(is_head).collect::<Vec<_>>(), heads);
    let squeezed = squeeze(text);
    let says = |value: &Value| {
        let wanted = squeeze(value.as_str().unwrap_or_default());
        assert!(squeezed.contains(&wanted), "{wanted} is not in\n{text}");
    };
    for fault in list(&report["faults"]) {
        says(&fault["advice"]);
        says(&fault["command"]);
    }
    let is_idle_stub = |library: &&Value| library["origin"] == "stub" && library["first"] == false;
    for library in list(&report["libraries"]).iter().filter(|library| !is_idle_stub(library)) {
        says(&library["path"]);
        says(&library["version"]);
    }
    for toolkit in list(&report["toolkits"]) {
        says(&toolkit["path"]);
        says(&toolkit["version"]);
    }
    for candidate in list(&report["candidates"]) {
        says(&candidate["path"]);
        says(&candidate["reason"]);
        says(&candidate["no_device"]["message"]);
    }
    for device in list(&report["devices"]) {
        says(&device["name"]);
        says(&device["meaning"]["ptx"]);
    }
    for variable in list(&report["environment"]) {
        says(&Value::from(format!("{}={}", string(&variable["name"]), string(&variable["value"]))));
    }
    says(&report["driver"]["kernel_module"]);
    says(&report["driver"]["cuda"]);
}

/// Whether this machine has a CUDA driver of its own that a child would find.
pub fn has_a_driver() -> bool {
    let output = Command::new(COMMAND)
        .args(["doctor", "--ask-driver", "libcuda.so.1"])
        .output()
        .expect("the command starts");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("one JSON value");
    answer["error"].is_null()
}
