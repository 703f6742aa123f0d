//! The C and C++ clients of `tests/clients/`, built as a user builds them and run on the CPU.

mod toolchain;

use std::path::PathBuf;
use std::sync::LazyLock;
use toolchain::Standard;

fn source(name: &str) -> PathBuf {
    toolchain::root().join("tests/clients").join(name)
}

// Each client is built once, whatever tests run it.
static C_CLIENT: LazyLock<PathBuf> = LazyLock::new(|| {
    let object = toolchain::compile(Standard::C99, &source("c/copy_two_streams.c"), &["-O1"]);
    toolchain::link(Standard::C99, &[object], "copy_two_streams_c")
});

static CPP_CLIENT: LazyLock<PathBuf> = LazyLock::new(|| {
    let flags = ["-O1", "-fno-rtti"];
    let object = toolchain::compile(Standard::Cxx17, &source("cpp/copy_two_streams.cpp"), &flags);
    toolchain::link(Standard::Cxx17, &[object], "copy_two_streams_cpp")
});

/// Each leg with each kind of host memory, once, with right data.
fn check_report(client: &str, output: &str) {
    assert_eq!(output.lines().count(), 6, "{output}");
    for memory in ["pinned", "pageable"] {
        for leg in ["H2D", "D2D", "D2H"] {
            let begin = format!(
                "{{\"client\":\"{client}\",\"backend\":\"cpu\",\"device\":0,\"leg\":\"{leg}\",\
                 \"memory\":\"{memory}\",\"bytes\":3145728,\"seconds\":"
            );
            let line = output.lines().find(|line| line.starts_with(&begin));
            let line = line.unwrap_or_else(|| panic!("no {leg} {memory} in {output}"));
            assert!(line.contains("\"gb_per_s\":") && line.ends_with(",\"right\":true}"), "{line}");
        }
    }
}

const ARGUMENTS: [&str; 5] = ["--json", "--mib", "3", "--repeat", "2"];

#[test]
fn the_c_client_copies_on_two_streams() {
    let program = &*C_CLIENT;
    check_report("c", &toolchain::run(program, &ARGUMENTS));
    let text = toolchain::run(program, &["--device", "cpu", "--mib", "1", "--repeat", "1"]);
    assert_eq!(text.matches(" right").count(), 6, "{text}");
}

#[test]
fn the_cpp_client_copies_on_two_streams() {
    let program = &*CPP_CLIENT;
    check_report("c++", &toolchain::run(program, &ARGUMENTS));
    let text = toolchain::run(program, &["--device", "cpu", "--mib", "1", "--repeat", "1"]);
    assert_eq!(text.matches(" right").count(), 6, "{text}");
}

#[test]
fn the_c_client_runs_with_the_static_library() {
    let object = toolchain::compile(Standard::C11, &source("c/copy_two_streams.c"), &[]);
    let program = toolchain::link_static(Standard::C11, &[object], "copy_two_streams_static");
    check_report("c", &toolchain::run(&program, &ARGUMENTS));
}

#[test]
fn a_client_says_why_it_failed() {
    for program in [&*C_CLIENT, &*CPP_CLIENT] {
        let output = toolchain::clean(program).args(["--ordinal", "7"]).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("INVALID_DEVICE") && text.contains("device 7"), "{text}");
        let output = toolchain::clean(program).args(["--mib", "no"]).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).starts_with("usage: "));
    }
}

/// Owners, errors and host functions of `llaisys.hpp`; in two units, so that nothing is defined
/// twice.
#[test]
fn the_cpp_owners_keep_their_promises() {
    let (standard, flags) = (Standard::Cxx17, ["-Wshadow", "-Wconversion", "-fno-rtti"]);
    let objects = [
        toolchain::compile(standard, &source("cpp/owners.cpp"), &flags),
        toolchain::compile_text(standard, "second", "#include \"llaisys.hpp\"\n", &flags),
    ];
    toolchain::run(&toolchain::link(standard, &objects, "owners"), &[]);
}

/// The whole table from C: each group of entries, its promises and its errors. What is skipped is
/// what the table says is unsupported, and the client checks that it says so.
#[test]
fn the_c_client_finds_the_promises_of_the_whole_table_kept() {
    let object = toolchain::compile(Standard::C99, &source("c/extended.c"), &["-O1"]);
    let program = toolchain::link(Standard::C99, &[object], "extended_c");
    let report = toolchain::run(&program, &[]);
    assert!(report.contains("0 failures"), "{report}");
    println!("{report}");
}

/// Events, memory of other kinds, pitched copies, fills, slots and callbacks of `llaisys.hpp`.
#[test]
fn the_cpp_owners_of_the_whole_table_keep_their_promises() {
    let flags = ["-Wshadow", "-Wconversion", "-fno-rtti"];
    let object = toolchain::compile(Standard::Cxx17, &source("cpp/extended.cpp"), &flags);
    toolchain::run(&toolchain::link(Standard::Cxx17, &[object], "extended_cpp"), &[]);
}

/// Lists the devices; loads the backend in its first argument before that, and lists them again when there
/// is a second argument.
const LIST: &str = r#"
#include "llaisys.hpp"
#include <iostream>

static void list() {
    for (const llaisys::Device &device : llaisys::Device::all()) {
        std::cout << device.type << ':' << device.ordinal << ' ';
    }
    std::cout << '\n';
}

int main(int argc, char **argv) {
    if (argc > 2) {
        list();
    }
    llaisys::load_backend(argv[1]);
    list();
}
"#;

#[test]
fn devices_come_by_type_and_ordinal_whatever_was_loaded_first() {
    let object = toolchain::compile_text(Standard::Cxx17, "list", LIST, &["-fno-rtti"]);
    let program = toolchain::link(Standard::Cxx17, &[object], "list_devices");
    let plugin = toolchain::root().join("tests/conformance/plugins/plugin.c");
    let flags = ["-fPIC", "-fvisibility=hidden", "-DNAME=\"alpha\""];
    let object = toolchain::compile(Standard::C11, &plugin, &flags);
    let plugin = toolchain::link_plugin(Standard::C11, &[object], "alpha.so");
    let run = |arguments: &[&str]| {
        let mut command = toolchain::clean(&program);
        command.args([plugin.to_str().expect("a text")]).args(arguments);
        // Nothing but what is loaded by name, so that the lists are known.
        let output = command.env("LLAISYS_BACKENDS", "").env("LLAISYS_CPU_DEVICES", "2").output();
        let output = output.expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("numbers")
    };
    // The plugin's record is the first one here, and the last one there.
    assert_eq!(run(&[]), "0:0 0:1 32:0 32:1 \n");
    assert_eq!(run(&["twice"]), "0:0 0:1 \n0:0 0:1 32:0 32:1 \n");
}
