//! The tables in `docs/conformance.md`: how many cases an area has, and which case killed which mutant.
//!
//! Rule: the page is written by a run, not by hand, and each line that can go out of date is compared.

use crate::list::{MUTANTS, Mutant};
use crate::{Files, support, two_at_a_time};
use llaisys_conformance::case::{Area, Mode};
use llaisys_conformance::{Case, cases};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

const BEGIN: &str = "<!-- made by LLAISYS_WRITE_KILL_TABLE=1; do not edit -->\n";
const END: &str = "<!-- end -->\n";
/// How many cases a line names beside the one that is there for the mutant.
const NAMED: usize = 4;
/// Areas in which a fault of a backend shows, and that do not bring backends of their own.
const AREAS: [&str; 11] = [
    "devices/",
    "errors/",
    "memory/",
    "copies/",
    "streams/",
    "events/",
    "host_functions/",
    "accounting/",
    "capabilities/",
    "concurrency/",
    "raw_",
];

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/conformance.md")
}

/// The page before, in and behind its tables.
fn parts() -> (String, String, String) {
    let page = std::fs::read_to_string(path()).expect("the page is there");
    let (head, rest) = page.split_once(BEGIN).expect("the page has a place for its tables");
    let (tables, tail) = rest.split_once(END).expect("the place for the tables ends");
    (head.to_owned(), tables.to_owned(), tail.to_owned())
}

/// Every mutant once, with the cases that are there for it.
fn mutants() -> Vec<(Mutant, Vec<String>)> {
    let all = cases::all();
    let mut found: Vec<(Mutant, Vec<String>)> = Vec::new();
    for mutant in MUTANTS {
        let killers: Vec<String> =
            all.iter().map(Case::title).filter(|title| title.contains(mutant.killer)).collect();
        assert!(!killers.is_empty(), "{}: no case is called {}", mutant.name, mutant.killer);
        match found.iter_mut().find(|(known, _)| known.name == mutant.name) {
            Some((_, list)) => list.extend(killers),
            None => found.push((*mutant, killers)),
        }
    }
    found
}

/// The table of areas.
fn areas() -> String {
    let all = cases::all();
    let mut text = "| area | mode | cases | of the core profile |\n|---|---|---|---|\n".to_owned();
    let mut line = |name: &str, mode: &str, chosen: Vec<&Case>| {
        let core = chosen.iter().filter(|case| case.is_of_the_core_profile()).count();
        let _ = writeln!(text, "| {name} | {mode} | {} | {core} |", chosen.len());
    };
    for area in Area::ALL {
        let chosen: Vec<&Case> = all.iter().filter(|case| case.area == area).collect();
        let mode = chosen.first().map_or("", |case| case.mode().word());
        line(&format!("`{}`", area.word()), mode, chosen);
    }
    for mode in Mode::ALL {
        let chosen = all.iter().filter(|case| case.mode() == mode).collect();
        line("all", mode.word(), chosen);
    }
    text
}

/// Runs the cases on every mutant and writes the page.
pub fn write(files: &Files) {
    let mutants = mutants();
    let lines = two_at_a_time(&mutants, |(mutant, killers)| {
        let mut suite = files.suite(mutant.example);
        suite.env("LLAISYS_MUTANT", mutant.name).args(["--quick", "--timeout", "10"]);
        for area in AREAS {
            suite.args(["--filter", area]);
        }
        let (report, _) = support::report(suite);
        let dead = support::cases(&report, support::FAILURES);
        eprintln!("{}: killed by {}", mutant.name, dead.len());
        let shown: Vec<String> =
            killers.iter().map(|title| short(title)).filter(|name| dead.contains(name)).collect();
        assert!(!shown.is_empty(), "{} survives {killers:?}", mutant.name);
        let others: Vec<&String> = dead.iter().filter(|name| !shown.contains(name)).collect();
        let mut names: Vec<String> = shown.iter().map(|name| format!("**`{name}`**")).collect();
        names.extend(others.iter().take(NAMED).map(|name| format!("`{name}`")));
        let more = others.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("| `{}` | {} | {}{more} |", mutant.name, mutant.fault, names.join(", "))
    });
    let raw = mutants.iter().filter(|(mutant, _)| mutant.example == "raw_mutant").count();
    let (head, _, tail) = parts();
    let page = format!(
        "{head}{BEGIN}\n### Cases\n\n{}\n### Mutants\n\n{} mutants, {} of the backend and {raw} of the \
         table; all are killed.\n\n| mutant | what is wrong | killed by |\n|---|---|---|\n{}\n\n{END}{tail}",
        areas(),
        mutants.len(),
        mutants.len() - raw,
        lines.join("\n")
    );
    std::fs::write(path(), page).expect("the page can be written");
}

/// Writes the table of areas alone, which needs no run.
pub fn write_areas() {
    let (head, tables, tail) = parts();
    let (before, rest) = tables.split_once("### Cases\n\n").expect("the page counts the cases");
    let (_, mutants) = rest.split_once("\n### Mutants").expect("the page lists the mutants");
    let tables = format!("{before}### Cases\n\n{}\n### Mutants{mutants}", areas());
    std::fs::write(path(), format!("{head}{BEGIN}{tables}{END}{tail}")).expect("it can be written");
}

/// The name of a case in its title.
fn short(title: &str) -> String {
    let name = title.split_once('/').map_or(title, |(_, rest)| rest);
    name.split(' ').next().unwrap_or(name).to_owned()
}

/// Compares the page with the lists.
pub fn check() {
    let (_, tables, _) = parts();
    let how = "write it anew: LLAISYS_WRITE_KILL_TABLE=1 cargo test -p llaisys-conformance --test mutants table";
    assert!(
        tables.contains(&areas()),
        "docs/conformance.md: the cases per area are stale; write them anew: \
         LLAISYS_WRITE_KILL_TABLE=areas cargo test -p llaisys-conformance --test mutants table"
    );
    let rows: Vec<&str> = tables.lines().filter(|line| line.starts_with("| `")).collect();
    let rows: Vec<&str> =
        rows.into_iter().skip_while(|row| !row.contains("count_changes")).collect();
    let mutants = mutants();
    let named = |row: &str| row.split('`').nth(1).unwrap_or_default().to_owned();
    let listed: Vec<String> = rows.iter().map(|row| named(row)).collect();
    let expected: Vec<String> = mutants.iter().map(|(mutant, _)| mutant.name.to_owned()).collect();
    assert_eq!(listed, expected, "docs/conformance.md: the mutants; {how}");
    let names: BTreeSet<&str> = cases::all().iter().map(|case| case.name).collect();
    for (row, (mutant, killers)) in rows.iter().zip(&mutants) {
        assert!(row.contains(mutant.fault), "{}: what is wrong is stale; {how}", mutant.name);
        let bold = |title: &String| row.contains(&format!("**`{}`**", short(title)));
        let there = killers.iter().any(bold);
        assert!(there, "{}: none of {killers:?} is named; {how}", mutant.name);
        let cell = row.rsplit(" | ").next().unwrap_or_default();
        for case in cell.split('`').skip(1).step_by(2) {
            assert!(names.contains(case), "{}: {case} is no case; {how}", mutant.name);
        }
    }
}
