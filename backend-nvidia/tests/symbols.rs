//! The list of doors equals what `cust_raw` declares (house rule 6).

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

/// The source of `cust_raw`, where cargo has it.
fn cust_raw() -> PathBuf {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline"])
        // Packages for other platforms were perhaps never downloaded.
        .args(["--filter-platform", llaisys_runtime_core::export::TARGET.to_str().expect("ASCII")])
        .arg("--manifest-path")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .output()
        .expect("cargo is there: it runs this test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    let manifest = metadata
        .split("\"manifest_path\":\"")
        .filter_map(|rest| rest.split('"').next())
        .find(|path| path.contains("/cust_raw-"))
        .expect("cust_raw is among the packages");
    PathBuf::from(manifest).with_file_name("src").join("cuda.rs")
}

/// The `cu*` names of a text: what follows `before` at the start of a line.
fn names(text: &str, before: &str) -> BTreeSet<String> {
    let starts = text.lines().filter_map(|line| line.trim_start().strip_prefix(before));
    starts
        .map(|rest| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect())
        .filter(|name: &String| name.starts_with("cu"))
        .collect()
}

#[test]
fn the_doors_are_what_cust_raw_declares() {
    let source = std::fs::read_to_string(cust_raw()).expect("cargo has unpacked cust_raw");
    assert!(!source.contains("link_name"), "a link name is the symbol, not the function's name");
    let declared = names(&source, "pub fn ");
    let doors = names(include_str!("../src/symbols.rs"), "");
    assert!(declared.len() > 300, "{} entry points in cust_raw", declared.len());
    assert_eq!(
        doors,
        declared,
        "the list to paste into src/symbols.rs:\n{}",
        Vec::from_iter(declared.clone()).join("\n")
    );
}
