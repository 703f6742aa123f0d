//! The backends of `examples/` are built as their pages say and conform.

mod support;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// A folder that is gone when the test is.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let name = format!("llaisys-examples-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        Scratch(folder)
    }

    /// Runs a command line of a page in here, with the repository's `include` and `examples` beside.
    fn run(&self, line: &str) {
        for name in ["include", "examples"] {
            let link = self.0.join(name);
            if !link.exists() {
                std::os::unix::fs::symlink(root().join(name), link).expect("a link");
            }
        }
        let ended = Command::new("bash").args(["-euc", line]).current_dir(&self.0).output();
        let ended = ended.expect("bash starts");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{line}: {said}");
        assert!(said.is_empty(), "{line} is not silent: {said}");
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn library() -> PathBuf {
    let folder = support::artifacts();
    support::file(&folder, "libllaisys_runtime.so", "llaisys-capi")
}

/// The one line in a page that calls the C compiler.
fn cc_line(page: &str) -> String {
    let text = std::fs::read_to_string(root().join(page)).expect("the page");
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("cc ")).collect();
    assert_eq!(lines.len(), 1, "{page} has {} lines that call cc", lines.len());
    lines[0].to_owned()
}

/// Everything but the cases that compile plugins of their own, which say nothing of this one.
fn without_plugins(mut suite: Command) -> Command {
    for area in [
        "devices/",
        "errors/",
        "memory/",
        "copies/",
        "streams/",
        "events/",
        "host_functions/",
        "slots/",
        "accounting/",
        "capabilities/",
        "concurrency/",
        "life/",
        "the_plugin_under_test",
    ] {
        suite.args(["--filter", area]);
    }
    suite
}

/// The cases that were left out are those of operations in this list, or are left out for one of these
/// reasons, each of which the suite's own code has checked.
fn assert_left_out(report: &Value, missing: &[&str], reasons: &[&str]) {
    for case in report["cases"].as_array().expect("a report has cases") {
        let message = case["message"].as_str().unwrap_or_default();
        let right = match case["outcome"].as_str() {
            Some("NOT_SUPPORTED") => {
                missing.iter().any(|name| message.ends_with(&format!(" no {name}")))
            }
            Some("SKIP") => reasons.iter().any(|reason| message.contains(reason)),
            _ => true,
        };
        assert!(right, "left out for no reason that is known here: {case}");
    }
}

#[test]
fn the_null_backend_in_c_conforms() {
    let scratch = Scratch::new("null-c");
    scratch.run(
        "cc -std=c11 -pedantic -Werror -shared -fPIC -fvisibility=hidden -Wall -Wextra -Iinclude \
         -o libllaisys_backend_null.so examples/null-backend-c/null.c",
    );
    null_conforms(&scratch.file("libllaisys_backend_null.so"));
    // The same source is C++ authors' header, too: it compiles there as a unit that includes it.
    scratch.run(
        "printf '#include <llaisys/backend.h>\\nint unit;\\n' >unit.cpp; \
         c++ -std=c++17 -pedantic -Wall -Wextra -Werror -Iinclude -c unit.cpp",
    );
}

#[test]
fn the_null_backend_in_rust_conforms() {
    let scratch = Scratch::new("null-rust");
    let target = Path::new(env!("CARGO_BIN_EXE_llaisys-conformance")).ancestors().nth(2);
    let target = target.expect("the target folder").join("null-backend-rust");
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--offline", "--quiet", "--target-dir"]).arg(&target);
    build.arg("--manifest-path").arg(root().join("examples/null-backend-rust/Cargo.toml"));
    let built = build.stdin(Stdio::null()).output().expect("cargo starts");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let plugin = scratch.file("libllaisys_backend_null.so");
    std::fs::copy(target.join("debug/libllaisys_backend_null.so"), &plugin).expect("it was built");
    null_conforms(&plugin);
}

fn null_conforms(plugin: &Path) {
    let mut suite = without_plugins(support::suite(&library(), "null"));
    suite.arg("--quick").env("LLAISYS_BACKENDS", plugin);
    let report = support::assert_conforms(suite, 150);
    assert_left_out(
        &report,
        &[
            "launch_host_function",
            "create_event",
            "create_stream_with",
            "adopt_stream",
            "malloc_managed",
            "register_host",
            "get_peer_link",
        ],
        &[
            "one device only",
            "device memory is host memory",
            "the backend is a plugin",
            "left out of a quick run",
            "bytes left",
            "of their own",
        ],
    );
}

/// The plugin in a folder of its own, built by the line in its page.
fn remote(scratch: &Scratch) -> PathBuf {
    let line = cc_line("examples/remote-backend/README.md");
    scratch.run(&line.replacen("cc ", "cc -Wall -Wextra -Wno-unused-parameter -Werror ", 1));
    let folder = scratch.file("plugins");
    std::fs::create_dir_all(&folder).expect("a folder");
    let plugin = folder.join("libllaisys_backend_remote.so");
    std::fs::rename(scratch.file("libllaisys_backend_remote.so"), &plugin).expect("it was built");
    plugin
}

#[test]
fn the_remote_backend_conforms_when_it_is_found_in_a_folder() {
    let scratch = Scratch::new("remote-folder");
    let plugin = remote(&scratch);
    let mut suite = without_plugins(support::suite(&library(), "remote"));
    suite.arg("--quick").env("LLAISYS_BACKEND_PATH", plugin.parent().expect("it is in a folder"));
    let report = support::assert_conforms(suite, 280);
    assert_eq!(report["devices"], 2);
    assert_left_out(
        &report,
        &["create_stream_with", "adopt_stream", "malloc_managed", "register_host", "get_peer_link"],
        // A worker frees its stream when it has finished, so the next stream may be elsewhere.
        &[
            "device memory is not host memory",
            "the backend is a plugin",
            "left out of a quick run",
            "did not come back",
        ],
    );
}

#[test]
fn the_remote_backend_conforms_when_it_is_named_by_its_path() {
    let scratch = Scratch::new("remote-path");
    let mut suite = support::suite(&library(), "remote");
    for area in ["copies/", "events/", "life/"] {
        suite.args(["--filter", area]);
    }
    suite.arg("--quick").env("LLAISYS_BACKENDS", remote(&scratch));
    support::assert_conforms(suite, 100);
}

/// The name of a process; empty when there is none.
fn process_name(id: &str) -> String {
    std::fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default().trim().to_owned()
}

#[test]
fn a_server_of_the_remote_backend_may_die_and_none_outlives_its_program() {
    let scratch = Scratch::new("remote-client");
    let (plugin, library) = (remote(&scratch), library());
    let folder = library.parent().expect("the library is in a folder").display().to_string();
    let client = root().join("tests/conformance/tests/remote_client.c");
    scratch.run(&format!(
        "cc -std=gnu11 -Wall -Wextra -Werror -Iinclude -o client {} -L{folder} -lllaisys_runtime \
         -Wl,-rpath,{folder}",
        client.display()
    ));
    let mut command = Command::new(scratch.file("client"));
    command.arg(&plugin).env("LLAISYS_BACKENDS", "");
    let ended = command.output().expect("the client starts");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "the client ended with {}: {said}", ended.status);
    assert!(said.is_empty(), "the client said {said}");
    let server = String::from_utf8_lossy(&ended.stdout).trim().to_owned();
    let started = Instant::now();
    while process_name(&server) == "llaisys-remote" {
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "server {server} outlives its program"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_remote_backend_is_one_file_of_less_than_700_lines() {
    let text = std::fs::read_to_string(root().join("examples/remote-backend/remote.c"));
    let lines = text.expect("the source").lines().count();
    assert!(lines < 700, "{lines} lines");
}

/// Runs the remote backend's threads under a sanitizer: the exit code, and what was said. `None` when the
/// compiler does not have it.
fn under_sanitizer(
    scratch: &Scratch,
    sanitizer: &str,
    define: &str,
) -> Option<(Option<i32>, String)> {
    let program = scratch.file(&format!("threads-{sanitizer}{define}"));
    let mut compile = Command::new("cc");
    compile.arg(format!("-fsanitize={sanitizer}")).args(["-g", "-O1", "-pthread", "-D", define]);
    compile.arg("-I").arg(root().join("include")).arg("-o").arg(&program);
    compile.arg(root().join("tests/conformance/tests/remote_threads.c"));
    compile.arg(root().join("examples/remote-backend/remote.c"));
    if !compile.output().expect("cc starts").status.success() {
        return None;
    }
    // ThreadSanitizer wants the addresses that it was made for.
    let mut run = Command::new("timeout");
    run.args(["120", "setarch", "-R"])
        .arg(&program)
        .env("TSAN_OPTIONS", "exitcode=66")
        .env("ASAN_OPTIONS", "exitcode=66");
    let ended = run.output().expect("timeout starts");
    Some((ended.status.code(), String::from_utf8_lossy(&ended.stderr).into_owned()))
}

#[test]
fn the_remote_backend_has_neither_data_races_nor_memory_errors() {
    let scratch = Scratch::new("sanitizers");
    for (sanitizer, report) in [("thread", "data race"), ("address", "LeakSanitizer")] {
        let Some((code, said)) = under_sanitizer(&scratch, sanitizer, "PLANTED") else {
            eprintln!("left out: cc does not link with -fsanitize={sanitizer}");
            continue;
        };
        let is_in = code == Some(66) && said.contains(report);
        assert!(is_in, "-fsanitize={sanitizer} does not report what was planted: {code:?} {said}");
        let clean = under_sanitizer(&scratch, sanitizer, "AS_IT_IS").expect("cc has the sanitizer");
        assert_eq!(clean, (Some(0), String::new()), "what -fsanitize={sanitizer} says");
    }
}
