//! The CPU backend conforms, as one device and as three. With fewer repetitions and without the long cases:
//! `scripts/test` runs all of it on the release library.

mod support;

use std::collections::BTreeSet;

/// Every clause of the contract: all can be shown without a GPU.
const CLAUSES: [&str; 46] = [
    "D1", "D2", "D3", "D4", "D5", "D6", "D7", "E1", "E2", "E3", "E4", "E5", "E6", "M1", "M2", "M3",
    "M4", "M5", "M6", "M7", "C1", "C2", "C3", "C4", "C5", "S1", "S2", "S3", "S4", "S5", "S6", "S7",
    "S8", "V1", "V2", "V3", "H1", "L1", "L2", "L3", "L4", "P1", "P2", "P3", "P4", "P5",
];

#[test]
fn one_device() {
    let folder = support::artifacts();
    let library = support::file(&folder, "libllaisys_runtime.so", "llaisys-capi");
    let mut suite = support::suite(&library, "cpu");
    suite.arg("--quick");
    support::assert_conforms(suite, 60);
}

/// What allocates and frees; `docs/decisions/0010` says what pools do not see.
#[test]
fn without_pools_where_that_is_asked_for() {
    let folder = support::artifacts();
    let library = support::file(&folder, "libllaisys_runtime.so", "llaisys-capi");
    let mut suite = support::suite(&library, "cpu");
    suite.env("LLAISYS_ALLOCATOR", "plain").arg("--quick");
    for area in ["memory/", "accounting/", "errors/", "life/", "plugin_refusals", "constructor"] {
        suite.args(["--filter", area]);
    }
    support::assert_conforms(suite, 60);
}

#[test]
fn three_virtual_devices_and_every_clause_is_shown() {
    let folder = support::artifacts();
    let library = support::file(&folder, "libllaisys_runtime.so", "llaisys-capi");
    let mut suite = support::suite(&library, "cpu");
    suite.env("LLAISYS_CPU_DEVICES", "3").arg("--quick");
    let report = support::assert_conforms(suite, 200);
    assert_eq!(report["devices"], 3);
    let all = report["cases"].as_array().expect("a report has cases");
    let shown: BTreeSet<&str> = all
        .iter()
        .filter(|case| case["outcome"] == "PASS")
        .filter_map(|case| case["clause"].as_str())
        .collect();
    let missing: Vec<_> = CLAUSES.iter().filter(|clause| !shown.contains(*clause)).collect();
    assert!(missing.is_empty(), "no case that passed shows {missing:?}");
}
