//! The C and C++ compilers, and the libraries as a client sees them.
//!
//! Rule: what is built here is what a user builds: the headers in `include/`, the library by `-l`.
//! `CC` and `CXX` choose other compilers.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The languages that the headers promise to be valid in.
pub const STANDARDS: [Standard; 3] = [Standard::C99, Standard::C11, Standard::Cxx17];

/// A language that the headers promise to be valid in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standard {
    C99,
    C11,
    Cxx17,
}

impl Standard {
    fn compiler(self) -> Command {
        let (variable, default, flag) = match self {
            Standard::C99 => ("CC", "cc", "-std=c99"),
            Standard::C11 => ("CC", "cc", "-std=c11"),
            Standard::Cxx17 => ("CXX", "c++", "-std=c++17"),
        };
        let name = std::env::var(variable).unwrap_or_else(|_| default.to_owned());
        let mut command = Command::new(name);
        command.arg(flag);
        command
    }

    /// What a source of this language is called.
    pub fn extension(self) -> &'static str {
        if self == Standard::Cxx17 { "cpp" } else { "c" }
    }
}

/// The repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("capi/ is in the repository").to_owned()
}

/// The folder where cargo left `libllaisys_runtime.so` and `.a` of this build.
pub fn library_folder() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a file");
    let folder = test.parent().expect("the file is in a folder").to_owned();
    assert!(folder.join("libllaisys_runtime.so").is_file(), "no library in {}", folder.display());
    folder
}

/// A file of this test's own.
pub fn scratch(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test has a file");
    let stem = test.file_stem().expect("the file has a name").to_owned();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(stem);
    std::fs::create_dir_all(&folder).expect("the scratch folder can be made");
    folder.join(name)
}

fn strict(standard: Standard) -> Command {
    let mut command = standard.compiler();
    command.args(["-Wall", "-Wextra", "-pedantic", "-Werror"]);
    command.arg("-I").arg(root().join("include"));
    command
}

fn succeed(mut command: Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Compiles one source, warnings being errors, and returns the object.
pub fn compile(standard: Standard, source: &Path, flags: &[&str]) -> PathBuf {
    let stem = source.file_stem().and_then(|stem| stem.to_str()).expect("a source has a name");
    let object = scratch(&format!("{stem}-{standard:?}{}.o", flags.join("")));
    let mut command = strict(standard);
    command.args(flags).arg("-c").arg(source).arg("-o").arg(&object);
    succeed(command);
    object
}

/// Writes a source and compiles it.
pub fn compile_text(standard: Standard, name: &str, text: &str, flags: &[&str]) -> PathBuf {
    let source = scratch(&format!("{name}.{}", standard.extension()));
    std::fs::write(&source, text).expect("the scratch folder can be written");
    compile(standard, &source, flags)
}

/// Links objects against the shared library.
pub fn link(standard: Standard, objects: &[PathBuf], name: &str) -> PathBuf {
    let program = scratch(name);
    let folder = library_folder();
    let mut command = standard.compiler();
    command.args(objects).arg("-o").arg(&program);
    command.arg("-L").arg(&folder).arg("-lllaisys_runtime").arg("-pthread");
    command.arg(format!("-Wl,-rpath,{}", folder.display()));
    succeed(command);
    program
}

/// Links objects into a shared library that needs none of ours, as a plugin is.
pub fn link_plugin(standard: Standard, objects: &[PathBuf], name: &str) -> PathBuf {
    let plugin = scratch(name);
    let mut command = standard.compiler();
    command.arg("-shared").args(objects).arg("-Wl,--no-undefined").arg("-o").arg(&plugin);
    succeed(command);
    plugin
}

/// Links objects against the static library.
pub fn link_static(standard: Standard, objects: &[PathBuf], name: &str) -> PathBuf {
    let program = scratch(name);
    let mut command = standard.compiler();
    command.args(objects).arg(library_folder().join("libllaisys_runtime.a"));
    command.arg("-o").arg(&program).args(["-lgcc_s", "-lpthread", "-lm", "-ldl", "-lc"]);
    succeed(command);
    program
}

/// Runs a program of ours with no variable of ours set, and returns what it printed.
pub fn run(program: &Path, arguments: &[&str]) -> String {
    let mut command = clean(program);
    command.args(arguments);
    String::from_utf8(succeed(command).stdout).expect("clients print UTF-8")
}

/// A program of ours with no variable of ours set.
pub fn clean(program: &Path) -> Command {
    let mut command = Command::new(program);
    // Cargo sets it for tests, with a folder in front that may hold the library of an older build.
    command.env_remove("LD_LIBRARY_PATH");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("LLAISYS_") {
            command.env_remove(name);
        }
    }
    command
}
