//! One result of the demo: what a client moved on one leg of the way, how fast, and whether it was
//! right.
//!
//! Rule: every client, whatever language it is written in, prints a [`Measured`] as a line of JSON
//! for each leg; who ran it and where is known here and put beside it.

use serde::{Deserialize, Serialize};
use std::fmt;

/// One leg of host → device → device → host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Leg {
    /// Host to device.
    H2D,
    /// Device to device.
    D2D,
    /// Device to host.
    D2H,
}

impl Leg {
    /// The legs in the order of the way.
    pub const ALL: [Leg; 3] = [Leg::H2D, Leg::D2D, Leg::D2H];
}

impl fmt::Display for Leg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What kind of host memory is at the ends of the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Memory {
    /// From `malloc_host`.
    Pinned,
    /// From the program's own allocator.
    Pageable,
}

impl Memory {
    /// Both kinds.
    pub const ALL: [Memory; 2] = [Memory::Pinned, Memory::Pageable];
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Memory::Pinned => "pinned",
            Memory::Pageable => "pageable",
        })
    }
}

/// What a client measured on one leg. Clients print more; this is what is read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// The leg.
    pub leg: Leg,
    /// The kind of host memory.
    pub memory: Memory,
    /// The bytes that were moved in `seconds`.
    pub bytes: u64,
    /// How long that took: the median after a warm-up.
    pub seconds: f64,
    /// `bytes / seconds` in 10^9 bytes a second.
    pub gb_per_s: f64,
    /// Whether every byte was found to be right.
    pub right: bool,
}

/// One result, as `llaisys-rt demo --json` prints it.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The client's language: `rust`, `c`, `cpp`, `python`.
    pub client: &'static str,
    /// The backend's name.
    pub backend: String,
    /// The ordinal of the device.
    pub ordinal: i32,
    /// The name of the device.
    pub device: String,
    /// What was measured.
    #[serde(flatten)]
    pub measured: Measured,
}

/// What is missing from a client's results, or wrong with them; `None` when all are there and right.
pub fn complaint(results: &[Measured]) -> Option<String> {
    let mut complaints = Vec::new();
    for memory in Memory::ALL {
        for leg in Leg::ALL {
            match results.iter().find(|result| result.memory == memory && result.leg == leg) {
                None => complaints.push(format!("no result for {leg} with {memory} memory")),
                Some(result) if !result.right => {
                    complaints.push(format!("wrong data after {leg} with {memory} memory"));
                }
                Some(_) => {}
            }
        }
    }
    if complaints.is_empty() { None } else { Some(complaints.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> Vec<Measured> {
        let result = |memory, leg| {
            let line = format!(
                r#"{{"client":"c","backend":"cpu","device":0,"leg":"{leg}","memory":"{memory}",
                    "bytes":1,"seconds":0.5,"gb_per_s":2e-9,"right":true,"more":1}}"#
            );
            serde_json::from_str(&line).expect("a client's line")
        };
        Memory::ALL.into_iter().flat_map(|m| Leg::ALL.map(|leg| result(m, leg))).collect()
    }

    #[test]
    fn results_that_are_all_there_and_right_are_no_complaint() {
        assert_eq!(complaint(&results()), None);
    }

    #[test]
    fn a_missing_leg_and_wrong_data_are_named() {
        let mut results = results();
        results[4].right = false;
        results.remove(0);
        assert_eq!(
            complaint(&results).as_deref(),
            Some("no result for H2D with pinned memory; wrong data after D2D with pageable memory")
        );
    }
}
