//! The command as its users run it: arguments, output, exit codes.
//!
//! The cases over the NVIDIA plugin need the plugin and the fake driver beside the command:
//! `cargo build -p llaisys-backend-nvidia -p llaisys-fake-cuda`.

use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const COMMAND: &str = env!("CARGO_BIN_EXE_llaisys-rt");

/// The command with an environment of its own: no variable of ours, and no driver of this machine.
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(COMMAND);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("LLAISYS_") {
            command.env_remove(name);
        }
    }
    command.env("LLAISYS_CUDA_DRIVER", "/nowhere/libcuda.so.1").args(arguments);
    command
}

fn run(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().expect("the command starts");
    let text = |bytes| String::from_utf8(bytes).expect("the command prints UTF-8");
    (status.code().expect("the command was not killed"), text(stdout), text(stderr))
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("one JSON value")
}

fn beside(name: &str) -> PathBuf {
    let path = Path::new(COMMAND).with_file_name(name);
    let how = "cargo build -p llaisys-backend-nvidia -p llaisys-fake-cuda";
    assert!(path.is_file(), "there is no {}; build it first: {how}", path.display());
    path
}

/// A folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the folder of temporary files can be written");
    folder
}

#[test]
fn the_version_is_that_of_the_package() {
    let (code, out, _) = run(&mut command(&["--version"]));
    assert_eq!((code, out.trim()), (0, concat!("llaisys-rt ", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn bad_arguments_are_said_and_end_with_2() {
    for (arguments, said) in [
        (&["demo", "--mib", "0"][..], "whole number from 1"),
        (&["demo", "--mib", "-1"], "'-1'"),
        (&["demo", "--mib", "many"], "whole number from 1"),
        (&["demo", "--repeat", "0"], "whole number from 1"),
        (&["demo", "--device", "toaster"], "no backend is called `toaster`; in use: cpu"),
        (&["demo", "--clients", "/nowhere"], "No such file"),
        (&["demo", "--library", "/nowhere"], "No such file"),
        (&["devices", "--jsom"], "--jsom"),
        (&["devises"], "devises"),
        (&[], "Usage"),
    ] {
        let (code, out, err) = run(&mut command(arguments));
        assert_eq!(code, 2, "{arguments:?}: {err}");
        assert!(err.contains(said), "{arguments:?}: {err}");
        assert_eq!(out, "", "{arguments:?}");
    }
}

#[test]
fn three_virtual_cpus_are_three_devices_with_memory() {
    let (code, out, _) = run(command(&["devices", "--json"]).env("LLAISYS_CPU_DEVICES", "3"));
    let report = json(&out);
    let devices = report["devices"].as_array().expect("a list");
    assert_eq!((code, devices.len()), (0, 3));
    for (ordinal, device) in devices.iter().enumerate() {
        assert_eq!(device["backend"], "cpu");
        assert_eq!(device["ordinal"], ordinal);
        assert!(device["total_memory"].as_u64() > Some(1 << 20), "{device}");
        assert!(device["free_memory"].as_u64() <= device["total_memory"].as_u64(), "{device}");
    }
}

#[test]
fn a_refused_file_is_listed_with_its_reason_and_harms_nobody() {
    let file = folder("refused").join("libllaisys_backend_empty.so");
    fs::write(&file, "").expect("the file can be written");
    let (code, out, _) = run(command(&["devices", "--json"]).env("LLAISYS_BACKENDS", &file));
    let report = json(&out);
    let backends = report["backends"].as_array().expect("a list");
    assert_eq!((code, backends.len()), (0, 2));
    assert_eq!(backends[1]["taken"], false);
    assert_eq!(backends[1]["status"], "BACKEND_REFUSED");
    assert!(!backends[1]["reason"].as_str().unwrap_or_default().is_empty());
    assert_eq!(report["devices"][0]["backend"], "cpu");
}

#[test]
fn a_report_for_people_keeps_to_80_columns() {
    let (code, out, _) = run(&mut command(&["devices"]));
    assert_eq!(code, 0);
    for line in out.lines() {
        assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
    }
}

#[test]
fn a_plugin_without_a_driver_says_why_it_has_no_device() {
    let plugin = beside("libllaisys_backend_nvidia.so");
    let (code, out, _) = run(command(&["devices", "--json"]).env("LLAISYS_BACKENDS", &plugin));
    let nvidia = json(&out)["backends"][1].clone();
    assert_eq!(code, 0);
    assert_eq!((&nvidia["name"], &nvidia["taken"]), (&"nvidia".into(), &true.into()));
    assert_eq!(nvidia["no_device"]["status"], "DRIVER_UNAVAILABLE");
    let reason = nvidia["no_device"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(reason.contains("/nowhere/libcuda.so.1"), "{reason}");
    let (code, _, err) =
        run(command(&["demo", "--device", "nvidia"]).env("LLAISYS_BACKENDS", &plugin));
    assert_eq!(code, 1, "asked for by name, and not there");
    assert!(err.contains("failed on nvidia: DRIVER_UNAVAILABLE"), "{err}");
}

#[test]
fn the_devices_of_a_driver_are_listed_and_hold_data() {
    let over_the_fake = |arguments: &[&str]| {
        let mut command = command(arguments);
        command
            .env("LLAISYS_BACKENDS", beside("libllaisys_backend_nvidia.so"))
            .env("LLAISYS_CUDA_DRIVER", beside("libcuda.so"))
            .env("FAKE_CUDA_DEVICES", "2");
        run(&mut command)
    };
    let (code, out, err) = over_the_fake(&["devices", "--json"]);
    assert_eq!(code, 0, "{err}");
    let report = json(&out);
    for (index, device) in [(1, &report["devices"][1]), (2, &report["devices"][2])] {
        assert_eq!(
            (&device["backend"], &device["ordinal"]),
            (&"nvidia".into(), &(index - 1).into())
        );
        for known in ["name", "total_memory", "compute_capability", "driver_version", "uuid"] {
            assert!(!device[known].is_null(), "{known}: {device}");
        }
    }
    let (code, out, err) =
        over_the_fake(&["demo", "--device", "nvidia", "--mib", "1", "--repeat", "2", "--json"]);
    assert_eq!(code, 0, "{err}");
    let report = json(&out);
    assert_eq!(report["right"], true);
    assert_eq!(report["rows"].as_array().map(Vec::len), Some(2 * 6));
}

/// The plugin of the headers' test with a device, of which it tells nothing but that it is there.
fn plugin_without_properties() -> PathBuf {
    let folder = folder("without_properties");
    let plugin = folder.join("libllaisys_backend_nothing.so");
    let author = include_str!("../../tests/headers/plugin_author.c");
    let source = folder.join("plugin.c");
    fs::write(&source, author.replace("*count = 0;", "*count = 1;")).expect("a source");
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-I", concat!(env!("CARGO_MANIFEST_DIR"), "/../include"), "-o"])
        .args([&plugin, &source])
        .status()
        .expect("there is a C compiler");
    assert!(status.success(), "cc {}", source.display());
    plugin
}

#[test]
fn a_plugin_that_tells_no_properties_does_not_look_broken() {
    let plugin = plugin_without_properties();
    let (code, out, _) = run(command(&["devices", "--json"]).env("LLAISYS_BACKENDS", &plugin));
    let device = json(&out)["devices"][1].clone();
    assert_eq!((code, &device["backend"]), (0, &"nothing".into()));
    assert!(device["error"].is_null() && device["name"].is_null(), "{device}");
    let (_, out, _) = run(command(&["devices"]).env("LLAISYS_BACKENDS", &plugin));
    let row = out.lines().find(|line| line.contains("nothing:0")).unwrap_or_default();
    assert!(row.contains("(not told)") && row.contains("its backend tells no properties"), "{out}");
    assert!(!out.contains("error"), "{out}");
}

#[test]
fn the_demo_says_in_one_short_line_that_a_backend_has_no_device() {
    let plugin = beside("libllaisys_backend_nvidia.so");
    let (code, _, err) = run(command(&["demo", "--mib", "1", "--repeat", "1"])
        .env("LLAISYS_BACKENDS", &plugin)
        .env("LLAISYS_CUDA_DRIVER", "/nowhere/one.so:/nowhere/two.so"));
    assert_eq!(code, 0, "{err}");
    let said: Vec<&str> = err.lines().filter(|line| line.contains("nvidia")).collect();
    assert_eq!(said.len(), 1, "{err}");
    assert!(said[0].starts_with("not run on nvidia: DRIVER_UNAVAILABLE: no CUDA driver"), "{err}");
    assert!(said[0].contains("llaisys-rt doctor") && !said[0].contains("/nowhere"), "{err}");
}

#[test]
fn the_demo_prints_a_row_for_each_leg_and_kind_of_memory() {
    let (code, out, err) = run(&mut command(&["demo", "--mib", "1", "--repeat", "1"]));
    assert_eq!(code, 0, "{err}");
    assert_eq!(out.matches("│ cpu:0").count(), 6, "{out}");
    assert_eq!(out.matches(" yes ").count(), 6, "{out}");
}

/// A folder of clients that are all this shell script.
fn clients(name: &str, script: &str) -> PathBuf {
    let folder = folder(name);
    for client in ["c/copy_two_streams", "cpp/copy_two_streams", "python/copy_two_streams.py"] {
        let path = folder.join(client);
        fs::create_dir_all(path.parent().expect("it has one")).expect("a folder");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
    }
    folder
}

#[test]
fn a_client_that_fails_lies_or_hangs_is_named_with_the_reason() {
    let line = |leg: &str, memory: &str, right: bool| {
        format!(
            r#"echo '{{"leg":"{leg}","memory":"{memory}","bytes":1,"seconds":1,"gb_per_s":1,"right":{right}}}'"#
        )
    };
    for (name, script, said) in [
        ("fails", "echo no luck >&2; exit 3".to_owned(), "exit status: 3: no luck"),
        ("is_silent", "true".to_owned(), "no result for H2D with pinned memory"),
        ("babbles", "echo hello".to_owned(), "printed `hello`, which is no result"),
        ("is_wrong", line("D2D", "pinned", false), "wrong data after D2D with pinned memory"),
        ("hangs", "exec sleep 60".to_owned(), "ended after 1 s without a result"),
    ] {
        let folder = clients(name, &script);
        let (code, _, err) = run(command(&["demo", "--device", "cpu", "--mib", "1"])
            .args(["--repeat", "1", "--limit", "1", "--library", COMMAND, "--clients"])
            .arg(&folder)
            .env("PYTHON", "/bin/sh"));
        assert_eq!(code, 1, "{name}: {err}");
        for client in ["c", "cpp", "python"] {
            let start = format!("failed on cpu:0 from {client}: ");
            let found = err.lines().find(|line| line.starts_with(&start)).unwrap_or_default();
            assert!(found.contains(said), "{name}, {client}: {err}");
        }
    }
}

/// The lines of `bench dispatch`, and each goal that they are of.
fn compared(command: &mut Command) -> Vec<Value> {
    let (code, out, err) = run(command);
    assert_eq!(code, 0, "{err}");
    let lines: Vec<Value> = out.lines().map(json).collect();
    for line in &lines {
        for number in ["ours", "theirs", "ratio", "p50", "p99"] {
            assert!(line[number].as_f64() > Some(0.0), "{number}: {line}");
        }
        assert_eq!((&line["unit"], &line["runs"]), (&"ns".into(), &3.into()));
        assert!(line["peer"].is_string() && line["device"].is_string(), "{line}");
    }
    lines
}

#[test]
fn a_call_is_measured_on_the_cpu() {
    let bench = ["bench", "dispatch", "--device", "cpu", "--runs", "3"];
    let lines = compared(command(&bench).arg("--json"));
    assert_eq!(lines.len(), 4);
    assert!(lines.iter().all(|line| line["goal"] == "G10" && line["backend"] == "cpu"));
    let (code, out, err) = run(&mut command(&bench));
    assert_eq!((code, out.matches("│ G10").count()), (0, 4), "{out}{err}");
}

#[test]
fn a_trace_from_a_file_is_played_on_what_is_there() {
    let trace = folder("traces").join("small.csv");
    let step = |action, pointer, size, stream| format!("0,0,{action},{pointer},{size},{stream}\n");
    let text = "Thread,Time,Action,Pointer,Size,Stream\n".to_owned()
        + &step("allocate", "0x100", 1 << 20, "0x0")
        + &step("allocate", "0x200", 3 << 20, "0x7f00")
        + &step("free", "0x100", 1 << 20, "0x0")
        + &step("free", "0x200", 3 << 20, "0x7f00");
    fs::write(&trace, text).expect("the folder can be written");
    let trace = trace.to_str().expect("a path in UTF-8");
    let scaled = ["--live-gib", "0.001", "--runs", "3", "--json"];
    let bench = ["bench", "alloc", "--trace", trace];
    for (backend, peers) in
        [("cpu", &["glibc"][..]), ("nvidia", &["cuMemAllocAsync,", "cuMemAlloc,"])]
    {
        let (code, out, err) = run(command(&bench)
            .args(["--device", backend])
            .args(scaled)
            .env("LLAISYS_BACKENDS", beside("libllaisys_backend_nvidia.so"))
            .env("LLAISYS_CUDA_DRIVER", beside("libcuda.so")));
        assert_eq!(code, 0, "{err}");
        let lines: Vec<Value> = out.lines().map(json).collect();
        assert_eq!(lines.len(), 2 * peers.len(), "{out}");
        for (lines, peer) in lines.chunks(2).zip(peers) {
            let said =
                |line: &Value| line["peer"].as_str().is_some_and(|text| text.starts_with(peer));
            assert!(lines.iter().all(said), "{lines:?}");
            assert_eq!((&lines[0]["unit"], &lines[1]["unit"]), (&"x".into(), &"ns".into()));
            let share = lines[0]["ours"].as_f64().expect("a number");
            assert!(share >= 0.99, "{share} of what is live is less than all of it");
            let name = "trace small scaled to 0.001 GiB live, an op";
            assert_eq!(lines[1]["bench"], name);
        }
    }
    let (code, _, err) = run(command(&["bench", "alloc", "--trace"]).arg(COMMAND));
    assert!(code == 2 && err.contains("UTF-8"), "{code}: {err}");
}

#[test]
fn memory_is_measured_on_the_cpu() {
    let bench = ["bench", "alloc", "--runs", "3", "--json"];
    let (code, out, err) = run(&mut command(&bench));
    assert_eq!(code, 0, "{err}");
    let lines: Vec<Value> = out.lines().map(json).collect();
    let goals: Vec<&Value> = lines.iter().map(|line| &line["goal"]).collect();
    assert_eq!(goals, ["G11", "G11", "G3", "G3"]);
    for line in &lines {
        assert!(line["ours"].as_f64() > Some(0.0) && line["ratio"].as_f64() > Some(0.0), "{line}");
        assert!(line["peer"].as_str().is_some_and(|peer| peer.starts_with("glibc ")), "{line}");
    }
    let share = lines[3]["ours"].as_f64();
    assert!(lines[3]["unit"] == "x" && share >= Some(1.0), "less is held than is live: {share:?}");
}

#[test]
fn an_enqueue_is_measured_against_the_driver_that_is_loaded() {
    let bench = ["bench", "dispatch", "--device", "nvidia", "--runs", "3", "--json"];
    let lines = compared(
        command(&bench)
            .env("LLAISYS_BACKENDS", beside("libllaisys_backend_nvidia.so"))
            .env("LLAISYS_CUDA_DRIVER", beside("libcuda.so")),
    );
    let goals: Vec<&Value> = lines.iter().map(|line| &line["goal"]).collect();
    assert_eq!(goals, ["G7", "G7", "G7", "G8"]);
    assert!(lines[0]["peer"].as_str().is_some_and(|peer| peer.starts_with("cuMemcpyHtoDAsync_v2")));
}

#[test]
fn what_cannot_be_measured_is_said() {
    let (code, _, err) = run(&mut command(&["bench", "dispatch", "--goal", "G7", "--json"]));
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("not run on nvidia: "), "{err}");
    let nowhere = ["bench", "dispatch", "--goal", "G10", "--device", "nvidia"];
    let (code, _, err) = run(&mut command(&nowhere));
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("G10 is not measured on `nvidia`"), "{err}");
}

#[test]
fn a_backend_and_a_plugin_are_tested_by_this_command_too() {
    let beside_it = beside("libllaisys_runtime.so");
    let library = beside_it.to_string_lossy();
    let (code, out, err) =
        run(&mut command(&["conform", "cpu", "--library", &library, "--filter", "every_size_is"]));
    assert_eq!(code, 0, "{err}");
    assert!(out.lines().last().is_some_and(|line| line.starts_with("cpu conforms")), "{out}");
    let plugin = beside("libllaisys_backend_nvidia.so");
    let mut conform = command(&["conform", &plugin.to_string_lossy(), "--json", "--mode", "raw"]);
    conform.args(["--filter", "raw_query/", "--filter", "raw_errors/"]);
    conform.env("LLAISYS_CUDA_DRIVER", beside("libcuda.so"));
    let (code, out, err) = run(&mut conform);
    assert_eq!(code, 0, "{err}");
    let report = json(&out);
    assert_eq!((&report["plugin"]["name"], &report["modes"][0]), (&"nvidia".into(), &"raw".into()));
    let passed = report["cases"].as_array().expect("a list").iter();
    assert!(passed.filter(|case| case["outcome"] == "PASS").count() >= 15, "{report:#}");
}

#[test]
fn results_that_cannot_be_written_make_every_command_fail() {
    for arguments in [
        &["devices"][..],
        &["devices", "--json"],
        &["demo", "--device", "cpu", "--mib", "1", "--repeat", "1"],
        &["demo", "--device", "cpu", "--mib", "1", "--repeat", "1", "--json"],
        &["bench", "dispatch", "--device", "cpu", "--runs", "3"],
        &["doctor"],
        &["doctor", "--json"],
        &["conform", "--list"],
        &["conform", "cpu", "--filter", "every_size_is_aligned"],
        &["--help"],
        &["--version"],
    ] {
        let full =
            fs::OpenOptions::new().write(true).open("/dev/full").expect("it is always there");
        let ended = command(arguments).stdout(full).output().expect("the command starts");
        let err = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{arguments:?}: {err}");
        assert!(err.contains("could not be written: No space left"), "{arguments:?}: {err}");
        assert!(!err.contains("panicked"), "{arguments:?}: {err}");
    }
}

#[test]
fn a_reader_that_goes_early_is_no_failure() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let ended = command(&["devices"]).stdout(writer).output().expect("the command starts");
    assert_eq!(ended.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
}
