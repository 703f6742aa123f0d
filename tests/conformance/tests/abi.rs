//! Compiled code of other versions works with the library of today (contract P3, `docs/abi.md`): an older
//! plugin and an older program, built against the first headers that are kept in `tests/abi/first`, and a
//! newer plugin, built against headers that grew at their ends.

mod support;

use llaisys_runtime_core::abi::{ABI_MINOR, LlaisysBackendAPI};
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn library() -> PathBuf {
    let folder = support::artifacts();
    support::file(&folder, "libllaisys_runtime.so", "llaisys-capi")
}

/// A folder that is gone when the test is.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let name = format!("llaisys-abi-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        Scratch(folder)
    }

    /// Compiles with the headers of a folder.
    fn compile(&self, file: &str, include: &Path, source: &Path, options: &[&str]) -> PathBuf {
        let path = self.0.join(file);
        let mut command = Command::new("cc");
        command.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden", "-o"]);
        command.arg(&path).arg("-I").arg(include).arg(source).args(options);
        let output = command.output().expect("cc starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {errors}", source.display());
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// How many bytes the table of a set of headers has.
fn table_size(scratch: &Scratch, include: &Path) -> usize {
    let source = scratch.0.join("size.c");
    let text = "#include <llaisys/backend.h>\n#include <stdio.h>\n\
                int main(void) { printf(\"%zu\", sizeof(LlaisysBackendAPI)); return 0; }\n";
    std::fs::write(&source, text).expect("a temporary file");
    let program = scratch.compile("size", include, &source, &[]);
    let output = Command::new(program).output().expect("the program starts");
    String::from_utf8_lossy(&output.stdout).parse().expect("it prints a number")
}

/// The suite on a plugin, without the cases that compile others.
fn conforms(plugin: &Path, name: &str) {
    let mut suite = support::suite(&library(), name);
    for area in [
        "devices/",
        "errors/",
        "memory/",
        "copies/",
        "streams/",
        "slots/",
        "accounting/",
        "capabilities/",
        "concurrency/",
        "life/",
        "the_plugin_under_test",
    ] {
        suite.args(["--filter", area]);
    }
    suite.arg("--quick").env("LLAISYS_BACKENDS", plugin);
    support::assert_conforms(suite, 150);
}

#[test]
fn a_plugin_that_was_built_with_the_first_headers_conforms() {
    let scratch = Scratch::new("older-plugin");
    let first = root().join("tests/abi/first");
    let (then, now) = (table_size(&scratch, &first), size_of::<LlaisysBackendAPI>());
    assert!(then < now, "the first table has {then} bytes, today's {now}: nothing is shown here");
    let source = first.join("plugin.c");
    conforms(&scratch.compile("first.so", &first, &source, &["-shared", "-fPIC"]), "first");
}

/// Today's headers, grown in every way that is allowed.
fn newer_headers(scratch: &Scratch) -> PathBuf {
    let include = scratch.0.join("newer");
    std::fs::create_dir_all(include.join("llaisys")).expect("a folder");
    for name in ["llaisys.h", "llaisys/backend.h"] {
        let mut text =
            std::fs::read_to_string(root().join("include").join(name)).expect("a header");
        for (before, after) in [
            (
                format!("#define LLAISYS_ABI_MINOR {ABI_MINOR}"),
                format!("#define LLAISYS_ABI_MINOR {}", ABI_MINOR + 1),
            ),
            (
                "} LlaisysBackendAPI;".to_owned(),
                "int32_t (*toast)(void *self_);\nint32_t (*untoast)(void *self_);\n} LlaisysBackendAPI;".to_owned(),
            ),
            (
                "} LlaisysBackendDescriptor;".to_owned(),
                "uint64_t toasts[9];\n} LlaisysBackendDescriptor;".to_owned(),
            ),
            (
                "} LlaisysDeviceProperties;".to_owned(),
                "char crumbs[4096];\n} LlaisysDeviceProperties;".to_owned(),
            ),
            ("} LlaisysMemoryInfo;".to_owned(), "uint64_t crumbs[512];\n} LlaisysMemoryInfo;".to_owned()),
        ] {
            text = text.replace(&before, &after);
        }
        std::fs::write(include.join(name), text).expect("a temporary file");
    }
    include
}

#[test]
fn a_plugin_that_was_built_with_newer_headers_conforms() {
    let scratch = Scratch::new("newer-plugin");
    let include = newer_headers(&scratch);
    let (then, now) = (table_size(&scratch, &include), size_of::<LlaisysBackendAPI>());
    assert_eq!(then, now + 16, "two entries more than today's");
    // Whoever calls one of the new entries ends the process.
    let source = scratch.0.join("newer.c");
    let null = std::fs::read_to_string(root().join("examples/null-backend-c/null.c")).expect("it");
    let entries = ".stream_query = stream_query,";
    assert!(null.contains(entries), "the null backend has no line `{entries}`");
    let null = null.replace(
        entries,
        &format!(
            "{entries}\n.toast = (int32_t (*)(void *))abort, .untoast = (int32_t (*)(void *))abort,"
        ),
    );
    std::fs::write(&source, null.replace("\"null\"", "\"newer\"")).expect("a temporary file");
    let plugin = scratch.compile(
        "newer.so",
        &include,
        &source,
        &["-shared", "-fPIC", "-Wno-cast-function-type"],
    );
    conforms(&plugin, "newer");
}

#[test]
fn a_program_that_was_built_with_the_first_headers_runs() {
    let scratch = Scratch::new("older-program");
    let library = library();
    let folder = library.parent().expect("it is in a folder").display().to_string();
    let program = scratch.compile(
        "program",
        &root().join("tests/abi/first"),
        &root().join("tests/abi/first/program.c"),
        &[&format!("-L{folder}"), "-lllaisys_runtime", &format!("-Wl,-rpath,{folder}")],
    );
    let ended = Command::new(program).env("LLAISYS_BACKENDS", "").output().expect("it starts");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "the older program ended with {}: {said}", ended.status);
}
