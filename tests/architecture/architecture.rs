//! The arrows between the crates are those of the design, and no others:
//!
//! ```text
//! tools → capi → backend-cpu → runtime-core ← backend-nvidia → cust
//! tools → conformance → runtime-core
//! ```
//!
//! Python reaches capi at run time, and so does a client; the NVIDIA backend is reached by `dlopen`
//! alone. What is under `tests/` may name everything.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Each crate with the crates of this workspace, or `cust`, that it may name.
const ARROWS: [(&str, &[&str]); 5] = [
    ("llaisys-runtime-core", &[]),
    ("llaisys-backend-cpu", &["llaisys-runtime-core"]),
    ("llaisys-backend-nvidia", &["llaisys-runtime-core", "cust"]),
    ("llaisys-capi", &["llaisys-runtime-core", "llaisys-backend-cpu"]),
    ("llaisys-tools", &["llaisys-capi", "llaisys-conformance"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The packages of the workspace, from cargo itself.
fn packages() -> Vec<Value> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline", "--manifest-path"])
        .arg(root().join("Cargo.toml"))
        .output()
        .expect("cargo starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo metadata: {errors}");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    metadata["packages"].as_array().expect("there are packages").clone()
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

/// Whether a package is one of those under `tests/`.
fn is_test(package: &Value) -> bool {
    text(&package["manifest_path"]).contains("/tests/")
}

#[test]
fn no_crate_names_another_than_the_design_lets_it() {
    let packages = packages();
    let own: BTreeSet<&str> = packages.iter().map(|package| text(&package["name"])).collect();
    let arrows: BTreeMap<&str, &[&str]> = ARROWS.into_iter().collect();
    for package in packages.iter().filter(|package| !is_test(package)) {
        let name = text(&package["name"]);
        let allowed = arrows.get(name);
        let allowed = allowed.unwrap_or_else(|| panic!("{name} is not in the design's picture"));
        for dependency in package["dependencies"].as_array().expect("a list") {
            let other = text(&dependency["name"]);
            let concerned = own.contains(other) || other.starts_with("cust");
            // A crate's own tests may look down as far as they like, and at what is under tests/.
            let test = dependency["kind"] == "dev"
                && packages.iter().any(|one| text(&one["name"]) == other && is_test(one));
            assert!(
                !concerned || test || allowed.contains(&other),
                "{name} → {other} ({}) is no arrow of the design; {name} may name {allowed:?}",
                dependency["kind"]
            );
        }
    }
}

#[test]
fn every_arrow_of_the_picture_is_there() {
    for package in packages() {
        let name = text(&package["name"]).to_owned();
        let Some((_, wanted)) = ARROWS.into_iter().find(|(crate_name, _)| *crate_name == name)
        else {
            continue;
        };
        let list = package["dependencies"].as_array().expect("a list").clone();
        let found: Vec<&str> = list
            .iter()
            .filter(|dependency| dependency["kind"].is_null())
            .map(|dependency| text(&dependency["name"]))
            .collect();
        for other in wanted {
            assert!(found.contains(other), "{name} → {other} is in the picture, and is not there");
        }
    }
}

/// Every Rust source below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
    found
}

fn assert_unnamed(folder: &str, words: &[&str]) {
    for path in sources(&root().join(folder)) {
        let source = std::fs::read_to_string(&path).expect("a source can be read");
        for (number, line) in source.lines().enumerate() {
            for word in words {
                let place = format!("{}:{}", path.display(), number + 1);
                assert!(!line.contains(word), "{place} names `{word}`: {line}");
            }
        }
    }
}

#[test]
fn the_core_names_no_backend() {
    let words = ["llaisys_backend_cpu", "llaisys_backend_nvidia", "llaisys-backend-", "cust::"];
    assert_unnamed("runtime-core/src", &words);
}

#[test]
fn only_the_nvidia_backend_names_cust() {
    for folder in ["runtime-core/src", "backend-cpu/src", "capi/src", "tools/src"] {
        assert_unnamed(folder, &["cust::", "cust_raw", "extern crate cust"]);
    }
    assert_unnamed("capi/src", &["llaisys_backend_nvidia", "llaisys-backend-nvidia"]);
}
