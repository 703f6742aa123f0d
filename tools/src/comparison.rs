//! One result of a measurement: we and a peer, side by side.
//!
//! Rule: the fields are those of every measurement of this project, whoever prints it; a ratio above
//! 1 means that we are better.

use crate::samples::Summary;
use clap::ValueEnum;
use serde::Serialize;
use std::fmt;

/// A goal that is measured, by its number in the project's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
pub enum Goal {
    /// A trace of allocations: time and memory
    #[value(name = "G3", alias = "g3")]
    G3,
    /// A copy from or to pinned memory
    #[value(name = "G5", alias = "g5")]
    G5,
    /// A copy from or to pageable memory
    #[value(name = "G6", alias = "g6")]
    G6,
    /// What we add to a raw enqueue
    #[value(name = "G7", alias = "g7")]
    G7,
    /// The query of a completed event
    #[value(name = "G8", alias = "g8")]
    G8,
    /// A call of the C ABI
    #[value(name = "G10", alias = "g10")]
    G10,
    /// Device memory of the CPU
    #[value(name = "G11", alias = "g11")]
    G11,
    /// Enqueue and synchronize on the CPU
    #[value(name = "G12", alias = "g12")]
    G12,
    /// A pipelined piece of work on the CPU
    #[value(name = "G13", alias = "g13")]
    G13,
    /// A hop between two streams of the CPU
    #[value(name = "G14", alias = "g14")]
    G14,
    /// A copy on the CPU
    #[value(name = "G15", alias = "g15")]
    G15,
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What `bench --json` prints on a line. Fields are added, never renamed.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The goal that it belongs to.
    pub goal: Goal,
    /// What was done.
    pub bench: &'static str,
    /// The backend's name.
    pub backend: String,
    /// The device's name.
    pub device: String,
    /// The unit of all that follows.
    pub unit: &'static str,
    /// Our median.
    pub ours: f64,
    /// The peer's name and version.
    pub peer: String,
    /// The peer's median.
    pub theirs: f64,
    /// How many times better we are: above 1 better, below 1 worse, whatever the unit.
    pub ratio: f64,
    /// Our median of single samples.
    pub p50: f64,
    /// What 99 of 100 of our samples do not exceed.
    pub p99: f64,
    /// How often each side was measured.
    pub runs: u32,
}

impl Comparison {
    /// Times for which less is better, in nanoseconds.
    pub fn of_times(
        goal: Goal,
        bench: &'static str,
        (backend, device): (&str, &str),
        peer: String,
        summary: &Summary,
    ) -> Comparison {
        let Summary { ours, theirs, p50, p99, runs } = *summary;
        Comparison {
            goal,
            bench,
            backend: backend.to_owned(),
            device: device.to_owned(),
            unit: "ns",
            ours,
            peer,
            theirs,
            ratio: theirs / ours,
            p50,
            p99,
            runs,
        }
    }

    /// Rates for which more is better, in 10^9 bytes a second, of a call that moves `bytes`. `p99` is what
    /// 99 of 100 of our samples reach.
    pub fn of_rates(
        goal: Goal,
        bench: &'static str,
        on: (&str, &str),
        peer: String,
        summary: &Summary,
        bytes: usize,
    ) -> Comparison {
        let rate = |nanoseconds: f64| bytes as f64 / nanoseconds;
        let times = Comparison::of_times(goal, bench, on, peer, summary);
        Comparison {
            unit: "GB/s",
            ours: rate(summary.ours),
            theirs: rate(summary.theirs),
            p50: rate(summary.p50),
            p99: rate(summary.p99),
            ..times
        }
    }

    /// Shares of something, of which less is better; measured once, for they do not vary.
    pub fn of_shares(
        goal: Goal,
        bench: &'static str,
        (backend, device): (&str, &str),
        peer: String,
        (ours, theirs): (f64, f64),
    ) -> Comparison {
        Comparison {
            goal,
            bench,
            backend: backend.to_owned(),
            device: device.to_owned(),
            unit: "x",
            ours,
            peer,
            theirs,
            ratio: theirs / ours,
            p50: ours,
            p99: ours,
            runs: 1,
        }
    }
}
