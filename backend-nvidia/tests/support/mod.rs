//! What the tests of the plugin file share: the file, its table, a child process per story, a
//! driver written on the spot.
//!
//! Rule: the plugin is met as the core meets it, through the file and its one symbol. A driver is
//! opened once per process, so each story about drivers runs in a child of its own.

#![allow(dead_code, unused_imports, unused_macros, reason = "each test file uses its part")]

pub mod extended;
pub mod on_device;

use libloading::os::unix::Library;
use llaisys_runtime_core::abi::{LlaisysBackendAPI, LlaisysBackendDescriptor, LlaisysBackendQuery};
use std::ffi::{c_char, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The environment variable that tells a child which story it is.
const STORY: &str = "LLAISYS_TEST_STORY";

/// The environment variable that names a plugin file to test instead of the one that cargo builds.
const PLUGIN: &str = "LLAISYS_TEST_PLUGIN";

/// The plugin file. Cargo builds no cdylib for the tests of its own package, so it is asked to.
pub fn plugin_file() -> PathBuf {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    FILE.get_or_init(|| std::env::var_os(PLUGIN).map_or_else(build, PathBuf::from)).clone()
}

/// Builds the plugin where this test was built, with its profile.
fn build() -> PathBuf {
    cargo_build("llaisys-backend-nvidia").join("libllaisys_backend_nvidia.so")
}

/// Has cargo build the library of a package of the workspace; the folder where it then lies.
fn cargo_build(package: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let profile = test.parent().and_then(Path::parent).expect("a test lies in PROFILE/deps");
    let target = profile.parent().expect("a profile lies in the target folder");
    let release = profile.ends_with("release");
    let output = Command::new(env!("CARGO"))
        .args(["build", "--offline", "--lib", "--package", package, "--target-dir"])
        .arg(target)
        .args(release.then_some("--release"))
        // There `.cargo/config.toml` applies.
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo is there: it runs this test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    profile.to_owned()
}

/// The driver for tests that need a device: the one that `LLAISYS_TEST_DRIVER` names (empty: the
/// machine's own), otherwise the fake one of `tests/fake-cuda`.
pub fn driver_with_devices() -> String {
    std::env::var("LLAISYS_TEST_DRIVER").unwrap_or_else(|_| {
        let file = cargo_build("llaisys-fake-cuda").join("libcuda.so");
        file.to_str().expect("the path is UTF-8").to_owned()
    })
}

/// The plugin, opened.
pub struct Plugin {
    /// What it says of itself.
    pub descriptor: &'static LlaisysBackendDescriptor,
    /// Its table.
    pub api: &'static LlaisysBackendAPI,
}

/// A failure as the table tells it.
#[derive(Debug)]
pub struct Failure {
    pub status: i32,
    pub native_code: i64,
    pub native_name: String,
    pub message: String,
}

impl Plugin {
    /// Opens the plugin file and asks it for its descriptor.
    pub fn open() -> Plugin {
        // SAFETY: the plugin's constructors do nothing.
        let library = unsafe { Library::new(plugin_file()) }.expect("the plugin opens everywhere");
        // SAFETY: the symbol has this type (`abi`).
        let query: LlaisysBackendQuery =
            *unsafe { library.get(b"llaisysBackendQuery\0") }.expect("the plugin has its symbol");
        std::mem::forget(library);
        // SAFETY: a pure query; the descriptor and the table are constants of a file that stays
        // open.
        unsafe {
            let descriptor = query(1, 0).as_ref().expect("the ABI's major version fits");
            Plugin { descriptor, api: &*descriptor.api }
        }
    }

    /// The number of devices, or why there are none.
    pub fn device_count(&self) -> Result<i32, Failure> {
        let mut count = -7;
        // SAFETY: `count` is writable.
        let status = unsafe { (self.api.get_device_count)(self.api.self_, &mut count) };
        self.result(status).map(|()| count)
    }

    /// Starts the driver in this process; the number of devices, or why there are none.
    pub fn initialize(&self) -> Result<i32, Failure> {
        let mut count = -7;
        // SAFETY: `count` is writable.
        let status = unsafe { (self.api.initialize)(self.api.self_, &mut count) };
        self.result(status).map(|()| count)
    }

    /// What a status of the table stands for.
    pub fn result(&self, status: i32) -> Result<(), Failure> {
        if status == 0 {
            return Ok(());
        }
        let (mut native_code, mut name, mut message) =
            (0_i64, [0 as c_char; 128], [0 as c_char; 8192]);
        // SAFETY: the buffers have the capacities given.
        let recorded = unsafe {
            (self.api.get_last_error)(
                self.api.self_,
                &mut native_code,
                name.as_mut_ptr(),
                name.len() as u64,
                message.as_mut_ptr(),
                message.len() as u64,
            )
        };
        assert_eq!(recorded, status, "the slot holds the failure that was just answered");
        let read = llaisys_runtime_core::api::read_text;
        Err(Failure { status, native_code, native_name: read(&name), message: read(&message) })
    }

    /// Frees device memory.
    pub fn free_device(&self, pointer: usize) -> Result<(), Failure> {
        // SAFETY: the stories call this where nothing is read through the pointer.
        let status = unsafe { (self.api.free_device)(self.api.self_, 0, pointer as *mut c_void) };
        self.result(status)
    }
}

/// Runs `story` in a child process of this test with the given environment; the test fails when the
/// child does.
pub fn in_a_child(test: &str, environment: &[(&str, &str)], story: impl FnOnce()) {
    if std::env::var(STORY).is_ok_and(|name| name == test) {
        return story();
    }
    let output = Command::new(std::env::current_exe().expect("a test has a path"))
        .args([test, "--exact", "--nocapture", "--test-threads=1", "--include-ignored"])
        // Cargo puts its own folders there, and the fake driver is a `libcuda.so` in one of them.
        .env_remove("LD_LIBRARY_PATH")
        .env(STORY, test)
        .env(PLUGIN, plugin_file())
        .envs(environment.iter().copied())
        .output()
        .expect("a test can be started");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{test}: {}\n{said}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    print!("{said}");
}

/// A shared library from a few lines of C, as a driver that answers what the story needs. The path.
pub fn driver_from(name: &str, source: &str) -> String {
    library_from(name, name, source)
}

/// A shared library from a few lines of C, which the dynamic linker knows by `soname` once it is loaded.
/// The path.
pub fn library_from(name: &str, soname: &str, source: &str) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = folder.join(format!("{name}-{}.so", std::process::id()));
    let text = folder.join(format!("{name}-{}.c", std::process::id()));
    std::fs::write(&text, source).expect("the folder for tests is writable");
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", &format!("-Wl,-soname,{soname}"), "-o"])
        .args([&file, &text])
        .status()
        .expect("cc is there: cargo links with it");
    assert!(status.success(), "{source}");
    file.to_str().expect("the path is UTF-8").to_owned()
}

/// A driver whose `cuInit` answers `code` and that is of `version` (0: the version is refused with
/// the same code).
pub fn driver_that_answers(name: &str, code: i32, version: i32) -> String {
    driver_from(
        name,
        &format!(
            "int cuInit(unsigned flags) {{ return {code}; }}\n\
             int cuDeviceGetCount(int *count) {{ return 3; }}\n\
             int cuDriverGetVersion(int *version) {{ if ({version} == 0) return {code}; *version = {version}; return 0; }}\n"
        ),
    )
}
