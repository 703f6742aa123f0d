//! The suite is tested by backends that are each wrong in one way (`examples/mutant.rs`,
//! `examples/raw_mutant.rs`): every one is killed, and by the case that is there for it.
//!
//! `LLAISYS_WRITE_KILL_TABLE=1 cargo test -p llaisys-conformance --test mutants table` runs the cases on
//! every mutant, which takes minutes, and writes what killed it into `docs/conformance.md`. With `=areas`
//! only the numbers of cases are written, at once.

mod list;
mod page;
#[path = "../support/mod.rs"]
mod support;

use list::{MUTANTS, Mutant};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The library and the plugins with faults.
struct Files {
    library: PathBuf,
    examples: PathBuf,
}

impl Files {
    fn build() -> Files {
        let folder = support::artifacts();
        let library = support::file(&folder, "libllaisys_runtime.so", "llaisys-capi");
        Files { library, examples: folder.join("examples") }
    }

    /// A run on one of the plugins; without a fault unless `LLAISYS_MUTANT` is set.
    fn suite(&self, example: &str) -> Command {
        let name = format!("lib{example}.so");
        let plugin = support::file(&self.examples, &name, "llaisys-conformance --examples");
        let mut suite = support::suite(&self.library, &plugin.to_string_lossy());
        // A mutant that waits for ever is found by the gate that is closed meanwhile, not by the clock.
        suite.args(["--stall", "0.5"]);
        // The faults are the plugin's own; with pools of the core its free is rarely seen.
        suite.env("LLAISYS_ALLOCATOR", "plain");
        if example == "raw_mutant" {
            // Many of these tables are refused by the library, rightly.
            suite.args(["--mode", "raw"]);
        }
        suite
    }
}

/// Calls `work` for every item, two at a time; the results in the order of the items.
fn two_at_a_time<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { break };
                    let result = work(item);
                    found.lock().expect("no holder panics").push((index, result));
                }
            });
        }
    });
    let mut found = found.into_inner().expect("no holder panics");
    found.sort_by_key(|(index, _)| *index);
    found.into_iter().map(|(_, result)| result).collect()
}

#[test]
fn every_mutant_is_killed_by_the_case_that_is_there_for_it() {
    let files = Files::build();
    let survivors = two_at_a_time(MUTANTS, |mutant: &Mutant| {
        let mut suite = files.suite(mutant.example);
        suite.env("LLAISYS_MUTANT", mutant.name).args(["--filter", mutant.killer]);
        let (report, _) = support::report(suite);
        let killed = !support::cases(&report, support::FAILURES).is_empty();
        let told = || format!("{} ({}: {})", mutant.name, mutant.killer, outcomes(&report));
        (!killed).then(told)
    });
    let survivors: Vec<String> = survivors.into_iter().flatten().collect();
    assert!(survivors.is_empty(), "{} mutants survive: {}", survivors.len(), survivors.join("; "));
}

/// The outcomes of a report in a line.
fn outcomes(report: &serde_json::Value) -> String {
    let cases = report["cases"].as_array().expect("a report has cases");
    cases.iter().filter_map(|case| case["outcome"].as_str()).collect::<Vec<_>>().join(", ")
}

#[test]
fn without_a_fault_the_same_plugins_pass() {
    let files = Files::build();
    for example in ["mutant", "raw_mutant"] {
        let mut suite = files.suite(example);
        for mutant in MUTANTS.iter().filter(|mutant| mutant.example == example) {
            suite.args(["--filter", mutant.killer]);
        }
        support::assert_conforms(suite, 20);
    }
}

#[test]
fn the_published_table_names_every_mutant_and_every_case_that_is_there_for_it() {
    match std::env::var("LLAISYS_WRITE_KILL_TABLE").as_deref() {
        Ok("areas") => page::write_areas(),
        Ok(_) => page::write(&Files::build()),
        Err(_) => {}
    }
    page::check();
}
