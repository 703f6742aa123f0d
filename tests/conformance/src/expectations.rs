//! What is known to fail, and why: a file that says so, line by line.
//!
//! ```text
//! # a comment
//! many_threads_use_one_event CRASH the vendor's driver 12.1 has this fault
//! ```
//!
//! Rules: an outcome that was expected is XFAIL and no failure; a pass that was not expected is XPASS and
//! is one, so that the line goes when its reason has gone; any other outcome stays what it is. A line that
//! names no case is an error, so that a renamed case does not lose its line unseen.

use crate::case::Case;
use crate::outcome::Outcome;
use crate::runner::Report;
use std::collections::BTreeMap;

/// What may be expected: to pass is what every case is expected to do anyhow.
const EXPECTED: [Outcome; 4] = [Outcome::Fail, Outcome::Crash, Outcome::Timeout, Outcome::Leak];

/// What is expected of some cases.
#[derive(Debug, Default)]
pub struct Expectations(BTreeMap<String, (Outcome, String)>);

impl Expectations {
    /// Reads the text of a file; `cases` are all there are.
    ///
    /// # Errors
    /// Each line that is not right, with its number.
    pub fn read(text: &str, cases: &[Case]) -> Result<Expectations, String> {
        let mut all = BTreeMap::new();
        let mut wrong = Vec::new();
        for (number, line) in text.lines().enumerate().map(|(at, line)| (at + 1, line.trim())) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match expectation(line, cases) {
                Ok((name, expected)) => {
                    if all.insert(name.clone(), expected).is_some() {
                        wrong.push(format!("line {number}: `{name}` is there twice"));
                    }
                }
                Err(message) => wrong.push(format!("line {number}: {message}")),
            }
        }
        if wrong.is_empty() { Ok(Expectations(all)) } else { Err(wrong.join("\n")) }
    }

    /// What a report is in the light of what was expected.
    pub fn apply(&self, case: &Case, report: &mut Report) {
        let Some((expected, reason)) = self.0.get(case.name) else { return };
        if report.outcome == *expected {
            report.outcome = Outcome::XFail;
            report.message = format!("{reason} (expected {}: {})", expected.word(), report.message);
        } else if report.outcome == Outcome::Pass {
            report.outcome = Outcome::XPass;
            report.message = format!("{} was expected ({reason}): it passes", expected.word());
        }
    }
}

/// One line.
fn expectation(line: &str, cases: &[Case]) -> Result<(String, (Outcome, String)), String> {
    let mut words = line.splitn(3, char::is_whitespace).map(str::trim);
    let (Some(name), Some(word), Some(reason)) = (words.next(), words.next(), words.next()) else {
        return Err(format!("`{line}`: give a case, an outcome and a reason"));
    };
    let outcome = Outcome::from_word(word).filter(|outcome| EXPECTED.contains(outcome));
    let Some(outcome) = outcome else {
        let words: Vec<&str> = EXPECTED.iter().map(|outcome| outcome.word()).collect();
        return Err(format!("`{word}` cannot be expected; one of {} can", words.join(", ")));
    };
    if reason.is_empty() {
        return Err(format!("`{name}`: the reason is missing"));
    }
    if !cases.iter().any(|case| case.name == name) {
        return Err(format!("there is no case `{name}`"));
    }
    Ok((name.to_owned(), (outcome, reason.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases;

    const NAME: &str = "every_size_is_aligned";

    fn report(outcome: Outcome) -> Report {
        Report { outcome, message: "as found".to_owned(), milliseconds: 1.0, runs: 1 }
    }

    #[test]
    fn what_was_expected_is_no_failure_and_a_pass_that_was_not_is_one() {
        let all = cases::all();
        let text = format!("# known\n\n{NAME} FAIL the vendor's driver does so\n");
        let expectations = Expectations::read(&text, &all).expect("the text is right");
        let case = all.iter().find(|case| case.name == NAME).expect("it is there");
        for (found, told) in [
            (Outcome::Fail, Outcome::XFail),
            (Outcome::Pass, Outcome::XPass),
            (Outcome::Crash, Outcome::Crash),
            (Outcome::Skip, Outcome::Skip),
        ] {
            let mut report = report(found);
            expectations.apply(case, &mut report);
            assert_eq!(report.outcome, told, "{found:?}");
        }
    }

    #[test]
    fn every_wrong_line_is_said_with_its_number() {
        let text = format!(
            "no_such_case FAIL why\n{NAME} PASS why\n{NAME} FAIL\n{NAME} LEAK a\n{NAME} FAIL b\nx"
        );
        let wrong = Expectations::read(&text, &cases::all()).expect_err("nothing is right");
        for said in [
            "line 1: there is no case `no_such_case`",
            "line 2: `PASS` cannot be expected",
            "line 3: ",
            "line 5: `every_size_is_aligned` is there twice",
            "line 6: `x`: give a case, an outcome and a reason",
        ] {
            assert!(wrong.contains(said), "{said} is not in:\n{wrong}");
        }
    }
}
