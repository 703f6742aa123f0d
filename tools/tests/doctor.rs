//! `llaisys-rt doctor` where it asks: over the fake driver, over drivers and plugins that hang or end
//! the process, on this machine as it is.

mod machine;

use machine::{COMMAND, Machine, beside, has_a_driver, list};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

fn fake(name: &str) -> Machine {
    Machine::new(name).over_the_fake_driver()
}

#[test]
fn this_machine_is_looked_at_as_it_is_and_both_reports_agree() {
    let run = |more: &[&str]| {
        let output = Command::new(COMMAND).arg("doctor").args(more).output().expect("it starts");
        (output.status.code(), String::from_utf8(output.stdout).expect("UTF-8"))
    };
    let (code, text) = run(&["--json"]);
    let report: Value = serde_json::from_str(&text).expect("one JSON value");
    let error = list(&report["faults"]).iter().any(|fault| fault["severity"] == "error");
    assert_eq!(code, Some(i32::from(error)), "{report}");
    assert_eq!(report["candidates"][0]["name"], "cpu");
    for field in ["driver", "libraries", "toolkits", "devices", "environment", "machine"] {
        assert!(!report[field].is_null(), "{field}");
    }
    let (same, text) = run(&[]);
    assert_eq!(code, same, "{text}");
    for fault in list(&report["faults"]) {
        assert!(text.contains(fault["code"].as_str().expect("a text")), "{text}");
    }
}

#[test]
fn usage_errors_end_with_2() {
    for arguments in [&["--jsom"][..], &["--limit", "0"], &["--root", "/nowhere"], &["--ask"]] {
        let output = Command::new(COMMAND).arg("doctor").args(arguments).output();
        let output = output.expect("the command starts");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_driver_that_works_is_told_with_what_its_devices_need() {
    let machine = fake("works")
        .toolkit("11.4", "11.4.148")
        .toolkit("12.4", "12.4.127")
        .toolkit("13.1", "13.1.80");
    let report = machine.report();
    assert_eq!(report["driver"]["asked"]["devices"], 2);
    assert_eq!(report["driver"]["cuda"], "13.0");
    let devices = list(&report["devices"]);
    let nvidia = devices.iter().find(|device| device["backend"] == "nvidia").expect("a device");
    assert_eq!(nvidia["meaning"]["first_toolkit"], "11.8");
    assert_eq!(nvidia["meaning"]["sass"][0], "sm_90");
    let toolkits = list(&report["toolkits"]);
    let of = |index: usize| (&toolkits[index]["verdict"], &toolkits[index]["devices"][0]["code"]);
    assert_eq!(of(0), (&"full".into(), &"only_ptx".into()));
    assert_eq!(of(1), (&"full".into(), &"made".into()));
    assert_eq!(of(2), (&"minor_version".into(), &"made".into()));
    let codes = machine.codes();
    assert_eq!(
        codes,
        ["TOOLKIT_NEWER_THAN_DRIVER", "DEVICE_NEWER_THAN_TOOLKIT", "DEVICE_NEWER_THAN_TOOLKIT"]
    );
}

#[test]
fn what_a_driver_answers_instead_is_a_fault_of_its_own() {
    for (answer, code) in [
        ("34", "STUB_ONLY"),
        ("100", "NO_DEVICE"),
        ("802", "SYSTEM_NOT_READY"),
        ("803", "DRIVER_MISMATCH"),
        ("804", "COMPAT_REFUSED"),
        ("805", "MPS_UNREACHABLE"),
        ("999", "INIT_FAILED"),
    ] {
        let machine = fake(&format!("answers_{answer}")).set("FAKE_CUDA_INIT_ERROR", answer);
        assert_eq!(machine.codes(), [code], "cuInit answers {answer}");
    }
    let none = fake("no_device").set("FAKE_CUDA_DEVICES", "0");
    assert_eq!(none.codes(), ["NO_DEVICE"]);
    let hidden = fake("hidden").set("CUDA_VISIBLE_DEVICES", "-1");
    assert_eq!(hidden.codes(), ["HIDDEN_DEVICES"]);
}

#[test]
fn a_driver_that_is_too_old_is_said_once_and_with_both_versions() {
    let machine = fake("old_driver").set("FAKE_CUDA_DRIVER_VERSION", "11010");
    assert_eq!(machine.codes(), ["DRIVER_TOO_OLD"]);
    let what = machine.report()["faults"][0]["what"].clone();
    let what = what.as_str().expect("a text");
    assert!(what.contains("CUDA 11.1") && what.contains("CUDA 11.2"), "{what}");
}

#[test]
fn a_driver_file_that_is_named_and_not_there_is_a_fault() {
    let machine = Machine::new("nowhere")
        .argument("--ask")
        .set("LLAISYS_CUDA_DRIVER", "/nowhere/libcuda.so.1");
    assert_eq!(machine.codes(), ["DRIVER_FILE_UNUSABLE"]);
}

#[test]
fn a_backend_that_is_refused_missing_or_required_is_said() {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("libllaisys_backend_empty.so");
    fs::write(&file, "").expect("the file can be written");
    let refused = Machine::new("refused").argument("--ask").set("LLAISYS_BACKENDS", &file);
    assert_eq!(refused.codes(), ["BACKEND_REFUSED"]);
    // An empty list is a list: nothing is searched, and the driver has devices all the same.
    assert_eq!(fake("missing").set("LLAISYS_BACKENDS", "").codes(), ["BACKEND_MISSING"]);
    let required = fake("required").set("LLAISYS_REQUIRE", "nvidia").set("FAKE_CUDA_DEVICES", "0");
    assert_eq!(required.codes(), ["NO_DEVICE", "REQUIRED_MISSING"]);
    let met = fake("met").set("LLAISYS_REQUIRE", "nvidia,cpu");
    assert_eq!(met.codes(), [] as [&str; 0]);
}

/// A shared library from C.
fn compile(name: &str, source: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (file, library) = (folder.join(format!("{name}.c")), folder.join(format!("{name}.so")));
    fs::write(&file, source).expect("the source can be written");
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-I", concat!(env!("CARGO_MANIFEST_DIR"), "/../include"), "-o"])
        .args([&library, &file])
        .status()
        .expect("there is a C compiler");
    assert!(status.success(), "cc {}", file.display());
    library
}

#[test]
fn a_driver_that_hangs_is_ended_with_all_that_was_started() {
    // A name of this run's own: what another run left behind is not this one's.
    let name = format!("hanging_driver_{}", std::process::id());
    let driver = compile(
        &name,
        "#include <unistd.h>\n\
         int cuInit(unsigned flags) { (void)flags; for (;;) pause(); }\n\
         int cuDriverGetVersion(int *version) { *version = 12040; return 0; }\n\
         int cuDeviceGetCount(int *count) { (void)count; return 3; }\n",
    );
    let machine = Machine::new("hangs")
        .argument("--ask")
        .argument("--limit")
        .argument("1")
        .set("LLAISYS_CUDA_DRIVER", &driver);
    let start = Instant::now();
    let (code, text) = machine.doctor(&["--json"]);
    assert!(start.elapsed() < Duration::from_secs(30), "two questions of a second each");
    let report: Value = serde_json::from_str(&text).expect("one JSON value");
    assert_eq!((code, &report["faults"][0]["code"]), (1, &"DRIVER_HANGS".into()));
    assert_eq!(list(&report["faults"]).len(), 1, "it is said once: {text}");
    assert_eq!(report["driver"]["asked"]["no_answer_within"], 1);
    assert!(!is_mapped_by_anyone(&driver), "a child of the command is still there");
    for file in [driver.with_extension("c"), driver] {
        fs::remove_file(file).expect("it was made above");
    }
}

/// Whether a process that we may look at has a file mapped.
fn is_mapped_by_anyone(file: &std::path::Path) -> bool {
    let name = file.to_str().expect("UTF-8");
    let maps = |entry: fs::DirEntry| fs::read_to_string(entry.path().join("maps")).ok();
    let processes = fs::read_dir("/proc").expect("there is a /proc").flatten();
    processes.filter_map(maps).any(|maps| maps.contains(name))
}

#[test]
fn a_plugin_that_ends_the_process_ends_a_child_and_is_said() {
    let plugin = compile(
        "libllaisys_backend_ends",
        "#include <stdlib.h>\n\
         __attribute__((constructor)) static void end(void) { abort(); }\n\
         const void *llaisysBackendQuery(unsigned major, unsigned minor) {\n\
             return major + minor ? NULL : NULL;\n\
         }\n",
    );
    let machine = Machine::new("ends").argument("--ask").set("LLAISYS_BACKENDS", &plugin);
    assert_eq!(machine.codes(), ["BACKENDS_NOT_ASKED"]);
}

#[test]
fn a_driver_off_the_linkers_path_is_said_with_where_it_is() {
    if has_a_driver() {
        println!("skipped: the dynamic linker of this machine finds a libcuda.so.1");
        return;
    }
    let machine = Machine::new("off_the_path")
        .argument("--ask")
        .module("535.104.05", "NVIDIA H200")
        .nodes(&["nvidia0", "nvidiactl", "nvidia-uvm"], 0o666)
        .libcuda("/usr/local/nvidia/lib64", "535.104.05");
    assert_eq!(machine.codes(), ["INIT_FAILED", "DRIVER_NOT_ON_PATH"]);
}

/// The plugin of the headers' test, with a device of the compute capability 7.0.
fn plugin_of_a_volta() -> PathBuf {
    let author = include_str!("../../tests/headers/plugin_author.c");
    let properties = "static int32_t properties(void *self, int32_t device,\n\
                      LlaisysDeviceProperties *out) {\n\
                      (void)self, (void)device;\n\
                      memcpy(out->name, \"A Volta\", 8);\n\
                      out->compute_capability_major = 7;\n\
                      return LLAISYS_STATUS_SUCCESS;\n}\n\
                      static int32_t memory(void *self, int32_t device,\n\
                      LlaisysMemoryInfo *out) {\n\
                      (void)self, (void)device, (void)out;\n\
                      return LLAISYS_STATUS_NOT_SUPPORTED;\n}\n\
                      static const LlaisysBackendAPI API = {\n\
                      .get_device_properties = properties,\n\
                      .get_memory_info = memory,\n";
    let source = author
        .replace("*count = 0;", "*count = 1;")
        .replace("offsetof(LlaisysBackendAPI, get_device_properties)", "sizeof(LlaisysBackendAPI)")
        .replace("LLAISYS_CAPABILITY_NONE", "LLAISYS_CAPABILITY_DEVICE_INFORMATION")
        .replace("static const LlaisysBackendAPI API = {\n", properties);
    compile("libllaisys_backend_volta", &source)
}

#[test]
fn a_toolkit_that_no_longer_makes_code_for_a_device_is_an_error() {
    let machine = Machine::new("volta")
        .argument("--ask")
        .set("LLAISYS_BACKENDS", plugin_of_a_volta())
        .toolkit("12.9", "12.9.79")
        .toolkit("13.0", "13.0.48");
    let report = machine.report();
    let codes: Vec<&Value> = list(&report["faults"]).iter().map(|fault| &fault["code"]).collect();
    assert_eq!(codes, ["DEVICE_DROPPED_BY_TOOLKIT"]);
    let advice = report["faults"][0]["advice"].as_str().expect("a text");
    assert!(advice.contains("CUDA 9.0 to 12.9"), "{advice}");
}

#[test]
fn the_child_says_who_opened_what() {
    let output = Command::new(COMMAND)
        .args(["doctor", "--ask-driver"])
        .arg(beside("libcuda.so"))
        .env("FAKE_CUDA_DEVICES", "3")
        .output()
        .expect("the command starts");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("one JSON value");
    assert_eq!((&answer["code"], &answer["devices"]), (&0.into(), &3.into()));
    assert_eq!(answer["version"], 13000);
    assert!(answer["file"].as_str().is_some_and(|file| file.ends_with("libcuda.so")), "{answer}");
}
