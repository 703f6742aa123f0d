//! A report as JUnit's XML, which CI servers show: a suite for each area, a test case for each case.

use crate::case::{Area, Case};
use crate::outcome::Outcome;
use crate::runner::Report;
use std::fmt::Write;

/// Text for an attribute or an element: markup escaped, and what XML 1.0 cannot hold replaced.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push_str("&#9;"),
            letter if (letter as u32) < 0x20 || matches!(letter as u32, 0xfffe | 0xffff) => {
                out.push('\u{fffd}');
            }
            letter => out.push(letter),
        }
    }
    out
}

/// What stands inside the element of a case: nothing for a pass.
fn inside(report: &Report) -> String {
    let (word, message) = (report.outcome.word(), escaped(&report.message));
    match report.outcome {
        Outcome::Pass => String::new(),
        Outcome::Fail | Outcome::Leak | Outcome::XPass => {
            format!("<failure type=\"{word}\" message=\"{message}\"/>")
        }
        Outcome::Crash | Outcome::Timeout => {
            format!("<error type=\"{word}\" message=\"{message}\"/>")
        }
        Outcome::XFail | Outcome::NotSupported | Outcome::Skip => {
            format!("<skipped message=\"{word}: {message}\"/>")
        }
    }
}

/// The attributes that a suite and the whole have: how many of which, and the seconds they took.
fn counts(reports: &[&Report]) -> String {
    let count = |kind: &[Outcome]| reports.iter().filter(|r| kind.contains(&r.outcome)).count();
    format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3}\"",
        reports.len(),
        count(&[Outcome::Fail, Outcome::Leak, Outcome::XPass]),
        count(&[Outcome::Crash, Outcome::Timeout]),
        count(&[Outcome::XFail, Outcome::NotSupported, Outcome::Skip]),
        reports.iter().map(|report| report.milliseconds / 1000.0).sum::<f64>()
    )
}

/// The whole document; `name` says what was tested.
pub fn document(name: &str, results: &[(Case, Report)]) -> String {
    let all: Vec<&Report> = results.iter().map(|(_, report)| report).collect();
    let mut text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned();
    let name = escaped(name);
    let _ = writeln!(text, "<testsuites name=\"{name}\" {}>", counts(&all));
    for area in Area::ALL {
        let of_area: Vec<&(Case, Report)> =
            results.iter().filter(|(case, _)| case.area == area).collect();
        let reports: Vec<&Report> = of_area.iter().map(|(_, report)| report).collect();
        if reports.is_empty() {
            continue;
        }
        let _ = writeln!(text, "  <testsuite name=\"{}\" {}>", area.word(), counts(&reports));
        for (case, report) in of_area {
            let _ = writeln!(
                text,
                "    <testcase classname=\"{}.{}\" name=\"{} [{}]\" time=\"{:.3}\">{}</testcase>",
                case.mode().word(),
                area.word(),
                case.name,
                escaped(case.clause),
                report.milliseconds / 1000.0,
                inside(report)
            );
        }
        text.push_str("  </testsuite>\n");
    }
    text.push_str("</testsuites>\n");
    text
}
