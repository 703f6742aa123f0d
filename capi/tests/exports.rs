//! What the shared library exports and needs.

mod toolchain;

use std::collections::BTreeSet;
use std::process::Command;

fn lines_of(program: &str, arguments: &[&str]) -> Vec<String> {
    let library = toolchain::library_folder().join("libllaisys_runtime.so");
    let output = Command::new(program).args(arguments).arg(&library).output();
    let output = output.unwrap_or_else(|error| panic!("{program} (binutils): {error}"));
    assert!(output.status.success(), "{program} {arguments:?} {}", library.display());
    let text = String::from_utf8(output.stdout).expect("binutils print UTF-8");
    text.lines().map(str::to_owned).collect()
}

/// The functions that the headers declare, but for the one that a plugin defines.
fn declared() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for header in ["llaisys.h", "llaisys/runtime.h", "llaisys/backend.h"] {
        let text = std::fs::read_to_string(toolchain::root().join("include").join(header));
        for line in text.expect("the header is there").lines() {
            let code = !line.starts_with([' ', '/', '*', '#']) && !line.starts_with("typedef");
            if let (true, Some(start)) = (code, line.find("llaisys"))
                && let Some((name, _)) = line[start..].split_once('(')
            {
                names.insert(name.to_owned());
            }
        }
    }
    assert!(names.remove("llaisysBackendQuery"), "a plugin's function is declared for its author");
    names
}

#[test]
fn exactly_the_declared_functions_are_exported() {
    let exported: BTreeSet<String> = lines_of("nm", &["-D", "--defined-only"])
        .iter()
        .filter_map(|line| line.rsplit(' ').next())
        .map(str::to_owned)
        .collect();
    assert_eq!(exported, declared());
}

/// Loading the library must run nothing of ours (`docs/abi.md`, "Loading"): two initialisers of others are
/// all there is.
#[test]
fn the_library_has_no_constructor_of_its_own_and_stays_mapped() {
    let dynamic = lines_of("readelf", &["-d", "-W"]);
    let value = |tag: &str| dynamic.iter().find(|line| line.contains(tag)).cloned();
    assert!(value("(FLAGS_1)").is_some_and(|flags| flags.contains("NODELETE")), "{dynamic:?}");
    let size = value("(INIT_ARRAYSZ)").unwrap_or_default();
    let bytes: usize =
        size.split_whitespace().filter_map(|word| word.parse().ok()).next().unwrap_or_default();
    // `frame_dummy` of the C runtime, and that of Rust's std, which keeps argc and argv.
    assert!(bytes <= 16, "{bytes} bytes of initialisers");
    assert!(value("(NEEDED)").is_some());
    assert!(
        !dynamic.iter().any(|line| line.contains("libcuda")),
        "the driver is opened, not linked"
    );
}
