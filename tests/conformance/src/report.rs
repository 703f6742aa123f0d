//! What is told about a run: a table for people, an object for programs.

use crate::case::{Area, Case};
use crate::context::Context;
use crate::library::Candidate;
use crate::operations::Operation;
use crate::outcome::Outcome;
use crate::runner::Report;
use llaisys_runtime_core::api::read_text;
use serde_json::{Value, json};
use std::fmt::Write;

/// A case as it ends, for people who watch.
pub fn line(case: &Case, report: &Report) -> String {
    let mut line = format!(
        "{:<13} {:>8.1} ms  {}/{} [{}]",
        report.outcome.word(),
        report.milliseconds,
        case.area.word(),
        case.name,
        case.clause
    );
    if report.outcome != Outcome::Pass {
        let _ =
            write!(line, "\n              {}", report.message.replace('\n', "\n              "));
    }
    line
}

fn count(results: &[(Case, Report)], area: Option<Area>, outcome: Option<Outcome>) -> usize {
    results
        .iter()
        .filter(|(case, report)| {
            area.is_none_or(|area| case.area == area)
                && outcome.is_none_or(|outcome| report.outcome == outcome)
        })
        .count()
}

/// The table per area, then why cases were left out, then what failed.
pub fn table(results: &[(Case, Report)]) -> String {
    let mut text = format!("{:<16} {:>6}", "area", "cases");
    for outcome in Outcome::ALL {
        let _ = write!(text, " {:>13}", outcome.word());
    }
    let rows = Area::ALL.into_iter().map(Some).chain([None]);
    for area in rows.filter(|area| count(results, *area, None) > 0) {
        let name = area.map_or("all", Area::word);
        let _ = write!(text, "\n{name:<16} {:>6}", count(results, area, None));
        for outcome in Outcome::ALL {
            let _ = write!(text, " {:>13}", count(results, area, Some(outcome)));
        }
    }
    for (title, wanted) in [("left out", false), ("failed", true)] {
        let chosen = results.iter().filter(|(_, report)| {
            report.outcome != Outcome::Pass && report.outcome.is_failure() == wanted
        });
        for (number, (case, report)) in chosen.enumerate() {
            if number == 0 {
                let _ = write!(text, "\n{title}:");
            }
            let Report { outcome, message, .. } = report;
            let _ = write!(text, "\n  {} {} [{}]", outcome.word(), case.name, case.clause);
            let _ = write!(text, ": {message}");
        }
    }
    text
}

/// What is tested, in a line.
pub fn subject(context: &Context) -> String {
    let Candidate { name, path, version, .. } = &context.candidate;
    let from = if path.is_empty() { "built in" } else { path };
    format!("{name} {version} ({from}), {} device(s)", context.count)
}

/// The whole run as one object.
pub fn object(context: &Context, operations: &Value, results: &[(Case, Report)]) -> Value {
    let properties = context.x.get_device_properties(0).ok();
    let device = properties.as_ref().map(|p| read_text(&p.name)).unwrap_or_default();
    let cases: Vec<Value> = results
        .iter()
        .map(|(case, report)| {
            json!({
                "name": case.name,
                "area": case.area.word(),
                "clause": case.clause,
                "outcome": report.outcome.word(),
                "ms": report.milliseconds,
                "message": report.message,
            })
        })
        .collect();
    json!({
        "library": context.library.path,
        "version": context.library.version().unwrap_or_default(),
        "device_type": context.device_type,
        "backend": {
            "name": context.candidate.name,
            "path": context.candidate.path,
            "version": context.candidate.version,
            "capabilities": context.capabilities.0,
        },
        "device": device,
        "devices": context.count,
        "driver": properties.map_or(0, |properties| properties.driver_version),
        "seed": context.setup.seed,
        "operations": operations,
        "cases": cases,
    })
}

/// The table of operations as one list.
pub fn operations(table: &[Operation]) -> Value {
    let object = |operation: &Operation| {
        json!({
            "name": operation.name,
            "support": operation.support,
            "verified": operation.verified,
            "answer": operation.answer,
        })
    };
    table.iter().map(object).collect()
}

/// The list of operations, for people, and how many are not as it is said.
pub fn operations_for_people(operations: &Value) -> (String, usize) {
    let mut text = format!("{:<30} {:<12} verified", "operation", "support");
    let all = operations.as_array().map(Vec::as_slice).unwrap_or_default();
    let word =
        |operation: &Value, field: &str| operation[field].as_str().unwrap_or_default().to_owned();
    let mut lies = 0;
    for operation in all {
        let is_true = operation["verified"] == true;
        lies += usize::from(!is_true);
        let told =
            if is_true { "yes".to_owned() } else { format!("NO: {}", word(operation, "answer")) };
        let (name, support) = (word(operation, "name"), word(operation, "support"));
        let _ = write!(text, "\n{name:<30} {support:<12} {told}");
    }
    let _ = write!(text, "\n{} operations, {lies} lies", all.len());
    (text, lies)
}
