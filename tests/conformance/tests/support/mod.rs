//! Where the libraries are that the suite is run against, and running it.
//!
//! They are built here, by the cargo that runs the tests and into the same folder, so that no test runs
//! against yesterday's library. `LLAISYS_CONFORMANCE_ARTIFACTS=FOLDER` names a folder with finished ones
//! instead (a release, another compiler's).

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The folder with the libraries, the driver on host memory and, in `examples`, the mutants.
///
/// All are built by the first test of a program that asks, and by no later one: cargo takes a library away for a
/// moment when it puts a new one there, and another test's suite would not find it.
pub fn artifacts() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(build).clone()
}

fn build() -> PathBuf {
    if let Some(folder) = std::env::var_os("LLAISYS_CONFORMANCE_ARTIFACTS") {
        return PathBuf::from(folder);
    }
    let binary = Path::new(env!("CARGO_BIN_EXE_llaisys-conformance"));
    let folder = binary.parent().expect("a program is in a folder").to_owned();
    let target = folder.parent().expect("the folder of a profile is in the target folder");
    let libraries =
        ["-p", "llaisys-capi", "-p", "llaisys-backend-nvidia", "-p", "llaisys-fake-cuda"];
    for what in [&libraries[..], &["-p", "llaisys-conformance", "--examples"]] {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.arg("build").arg("--target-dir").arg(target);
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
        command.arg("--manifest-path").arg(manifest);
        if folder.ends_with("release") {
            command.arg("--release");
        }
        command.args(what);
        let built = command.stdin(Stdio::null()).output().expect("cargo starts");
        let errors = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "{command:?} failed: {errors}");
    }
    folder
}

/// A file that must be there.
pub fn file(folder: &Path, name: &str, package: &str) -> PathBuf {
    let path = folder.join(name);
    let hint = format!("build it with: cargo build --package {package}");
    assert!(path.is_file(), "{} is not there; {hint}", path.display());
    path
}

/// A run of the suite that is about to start.
pub fn suite(library: &Path, target: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_llaisys-conformance"));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("LLAISYS_") || name.starts_with("FAKE_CUDA_") {
            command.env_remove(name);
        }
    }
    // Cargo puts the target folder there, where a driver on host memory lies beside the libraries.
    command.env_remove("LD_LIBRARY_PATH").env_remove("CUDA_VISIBLE_DEVICES");
    // A million operations on a busy machine take their time; what hangs is found by its closed gate.
    command.args(["--timeout", "900"]);
    command.arg(target).arg("--library").arg(library).args(["--json", "--jobs", "2"]);
    command
}

/// The report of a run, with what it said to people beside it.
pub fn report(mut command: Command) -> (Value, String) {
    let output = command.stdin(Stdio::null()).output().expect("the suite starts");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let report = serde_json::from_slice(&output.stdout);
    (report.unwrap_or_else(|error| panic!("no report ({error}): {told}")), told)
}

/// The outcomes that are failures.
pub const FAILURES: &[&str] = &["FAIL", "CRASH", "TIMEOUT", "LEAK", "XPASS"];

/// The names of the cases with these outcomes.
pub fn cases(report: &Value, outcomes: &[&str]) -> Vec<String> {
    let all = report["cases"].as_array().expect("a report has cases");
    let wanted = all.iter().filter(|case| outcomes.iter().any(|one| case["outcome"] == *one));
    wanted.map(|case| case["name"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Fails unless no case failed and at least so many passed.
pub fn assert_conforms(command: Command, at_least: usize) -> Value {
    let (report, told) = report(command);
    let failed = cases(&report, FAILURES);
    let end = told.find("\nfailed:").map_or("", |at| &told[at..]);
    assert!(failed.is_empty(), "{} cases failed:{end}", failed.len());
    let passed = cases(&report, &["PASS"]).len();
    assert!(passed >= at_least, "expected at least {at_least} cases to pass, {passed} did: {told}");
    report
}
