//! What is told about a run: lines and tables for people, one object for programs.
//!
//! Rule: what is for people fits 80 columns; a message that does not is broken into lines.

use crate::case::{Area, Case};
use crate::operations::Operation;
use crate::outcome::Outcome;
use crate::runner::Report;
use serde_json::{Value, json};
use std::fmt::Write;

/// How wide a report for people is.
const WIDTH: usize = 80;

/// Breaks a text into lines of `WIDTH`, each after `indent` blanks; a long word is left whole.
fn broken(text: &str, indent: usize) -> String {
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        for word in paragraph.split_whitespace() {
            if !line.is_empty() && indent + line.chars().count() + 1 + word.chars().count() > WIDTH
            {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    let blanks = " ".repeat(indent);
    lines.iter().map(|line| format!("\n{blanks}{line}")).collect()
}

/// A case as it ends, for people who watch; `ended` of `all` have.
pub fn line(case: &Case, report: &Report, ended: usize, all: usize) -> String {
    let width = all.to_string().len();
    let mut line = format!(
        "[{ended:>width$}/{all}] {:<13} {:>8.1} ms  {}",
        report.outcome.word(),
        report.milliseconds,
        case.title()
    );
    if report.outcome != Outcome::Pass {
        line.push_str(&broken(&report.message, 2 * width + 4));
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

/// The head of an outcome's column.
fn head(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::NotSupported => "not sup.",
        other => other.word(),
    }
}

/// The table per area, then why cases were left out, then what failed. Only outcomes that came have a
/// column.
pub fn table(results: &[(Case, Report)]) -> String {
    let outcomes: Vec<Outcome> = Outcome::ALL
        .into_iter()
        .filter(|outcome| *outcome == Outcome::Pass || count(results, None, Some(*outcome)) > 0)
        .collect();
    let mut text = format!("{:<16} {:>5}", "area", "cases");
    for outcome in &outcomes {
        let _ = write!(text, " {:>7}", head(*outcome));
    }
    let rows = Area::ALL.into_iter().map(Some).chain([None]);
    for area in rows.filter(|area| count(results, *area, None) > 0) {
        let name = area.map_or("all", Area::word);
        let _ = write!(text, "\n{name:<16} {:>5}", count(results, area, None));
        for outcome in &outcomes {
            let width = head(*outcome).len().max(7);
            let _ = write!(text, " {:>width$}", count(results, area, Some(*outcome)));
        }
    }
    text.push_str(&left_out(results));
    let failed = results.iter().filter(|(_, report)| report.outcome.is_failure());
    for (number, (case, report)) in failed.enumerate() {
        if number == 0 {
            text.push_str("\nfailed:");
        }
        let _ = write!(text, "\n  {} {}", report.outcome.word(), case.title());
        text.push_str(&broken(&report.message, 6));
    }
    text
}

/// Why cases were left out: each reason once, with how many cases have it.
fn left_out(results: &[(Case, Report)]) -> String {
    let mut reasons: Vec<(Outcome, &str, Vec<&Case>)> = Vec::new();
    let is_left_out = |outcome: Outcome| outcome != Outcome::Pass && !outcome.is_failure();
    for (case, report) in results.iter().filter(|(_, report)| is_left_out(report.outcome)) {
        let same = |(outcome, reason, _): &&mut (Outcome, &str, Vec<&Case>)| {
            *outcome == report.outcome && *reason == report.message
        };
        match reasons.iter_mut().find(same) {
            Some((.., cases)) => cases.push(case),
            None => reasons.push((report.outcome, &report.message, vec![case])),
        }
    }
    let mut text = if reasons.is_empty() { String::new() } else { "\nleft out:".to_owned() };
    for (outcome, reason, cases) in reasons {
        let which = match cases.as_slice() {
            [one] => one.title(),
            several => format!("{} cases", several.len()),
        };
        let _ = write!(text, "\n  {} {which}", outcome.word());
        text.push_str(&broken(reason, 6));
    }
    text
}

/// The verdict in one line.
pub fn verdict(subject: &Value, results: &[(Case, Report)]) -> String {
    let name = subject["backend"]["name"].as_str().unwrap_or("the backend");
    let counted: Vec<String> = Outcome::ALL
        .into_iter()
        .filter_map(|outcome| match count(results, None, Some(outcome)) {
            0 => None,
            number => Some(format!("{number} {}", outcome.word())),
        })
        .collect();
    let failed = results.iter().filter(|(_, report)| report.outcome.is_failure()).count();
    let verdict = match (failed, count(results, None, Some(Outcome::Pass))) {
        (0, 0) => "shows nothing",
        (0, _) => "conforms",
        _ => "does NOT conform",
    };
    format!("{name} {verdict}: {} cases: {}", results.len(), counted.join(", "))
}

/// The whole run as one object: what was tested, how, and every case.
pub fn object(
    mut subject: Value,
    run: &Value,
    operations: &Value,
    results: &[(Case, Report)],
) -> Value {
    let cases: Vec<Value> = results
        .iter()
        .map(|(case, report)| {
            json!({
                "name": case.name,
                "mode": case.mode().word(),
                "area": case.area.word(),
                "clause": case.clause,
                "outcome": report.outcome.word(),
                "ms": report.milliseconds,
                "runs": report.runs,
                "message": report.message,
            })
        })
        .collect();
    for (field, value) in run.as_object().into_iter().flatten() {
        subject[field] = value.clone();
    }
    subject["operations"] = operations.clone();
    subject["cases"] = cases.into();
    subject
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_broken_between_words_and_keeps_to_the_width() {
        let text = broken(&"a few words ".repeat(30), 6);
        assert!(text.lines().count() > 3);
        assert!(text.lines().all(|line| line.len() <= WIDTH), "{text}");
        assert!(text.lines().skip(1).all(|line| line.starts_with("      a")
            || line.starts_with("      few")
            || line.starts_with("      words")));
    }
}
