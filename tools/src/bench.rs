//! `llaisys-rt bench`: this library against what it is built on.
//!
//! Rule: what was asked for by name and cannot be measured is a failure with its reason; what is
//! only not there is said. What fails on one does not keep the others from being measured.

use crate::comparison::{Comparison, Goal};
use crate::progress::Progress;
use crate::stream::Peer;
use crate::{allocation, copy, dispatch, print, replay, runtime, stream, transfer};
use clap::{Args, Subcommand};
use comfy_table::CellAlignment;
use llaisys_runtime::core::Result as Outcome;
use std::process::ExitCode;

/// The arguments of `bench`.
#[derive(Args)]
pub struct Options {
    #[command(subcommand)]
    what: What,
    /// Only on this backend: cpu or nvidia
    #[arg(long, global = true, value_name = "NAME")]
    device: Option<String>,
    /// Only what belongs to this goal
    #[arg(long, global = true, value_name = "GOAL")]
    goal: Option<Goal>,
    /// How often each side is measured; the median counts
    #[arg(long, global = true, value_name = "N", default_value = "200", value_parser = crate::times)]
    runs: u32,
    /// Print one JSON object a line
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum What {
    /// What a call costs: enqueues and queries against the driver's own, the rest against an empty
    /// function
    Dispatch,
    /// What device memory costs, in time and in bytes
    Alloc(replay::Options),
    /// What a stream of the CPU device costs, against handing work to a thread
    Stream,
    /// Copies: of the CPU device against the C library's memcpy, between a GPU and the host against the
    /// driver's own
    Copy,
}

/// Measures on a device, so many times.
type Measure = dyn Fn(&Target, u32) -> Outcome<Comparison>;

/// One thing that is measured.
struct Case {
    name: &'static str,
    goal: Goal,
    backend: &'static str,
    run: Box<Measure>,
}

impl What {
    /// All that belongs to it, in the order in which it is run.
    fn cases(&self) -> Vec<Case> {
        match self {
            What::Dispatch => dispatch::Case::ALL
                .into_iter()
                .map(|case| Case {
                    name: case.name(),
                    goal: case.goal(),
                    backend: case.backend(),
                    run: Box::new(move |target, runs| case.run(target, runs)),
                })
                .collect(),
            What::Alloc(options) if options.has_traces() => options
                .cases()
                .into_iter()
                .map(|case| Case {
                    name: case.name(),
                    goal: Goal::G3,
                    backend: case.backend(),
                    run: Box::new(move |target, runs| case.run(target, runs)),
                })
                .collect(),
            What::Alloc(_) => allocation::Case::ALL
                .into_iter()
                .map(|case| Case {
                    name: case.name(),
                    goal: case.goal(),
                    backend: "cpu",
                    run: Box::new(move |target, runs| case.run(target, runs)),
                })
                .collect(),
            What::Stream => stream::Case::ALL
                .into_iter()
                .flat_map(|case| [Peer::Condvar, Peer::Channel].map(|peer| (case, peer)))
                .map(|(case, peer)| Case {
                    name: case.name(),
                    goal: case.goal(),
                    backend: "cpu",
                    run: Box::new(move |target, runs| case.run(target, peer, runs)),
                })
                .collect(),
            What::Copy => {
                let on_the_host = copy::Case::ALL.into_iter().map(|case| Case {
                    name: case.name(),
                    goal: Goal::G15,
                    backend: "cpu",
                    run: Box::new(move |target, runs| case.run(target, runs)),
                });
                let to_and_fro = transfer::Case::ALL.into_iter().map(|case| Case {
                    name: case.name(),
                    goal: case.goal(),
                    backend: "nvidia",
                    run: Box::new(move |target, runs| case.run(target, runs)),
                });
                on_the_host.chain(to_and_fro).collect()
            }
        }
    }
}

/// A device to measure on.
pub struct Target {
    /// The backend's name.
    pub backend: String,
    /// The backend's device type.
    pub device_type: i32,
    /// The device.
    pub ordinal: i32,
    /// The device's name.
    pub name: String,
}

impl Target {
    /// The first device of a backend, or why there is none.
    fn first_of(backend: &str) -> Result<Target, String> {
        let candidates = runtime::candidates();
        let mut known = candidates.iter().filter(|candidate| candidate.name == backend);
        let Some(candidate) = known.clone().find(|candidate| candidate.is_taken()) else {
            return Err(match known.next() {
                Some(refused) => format!("{}: {}", refused.path, refused.reason),
                None => "no such backend was found; llaisys-rt devices tells more".to_owned(),
            });
        };
        let device_type = candidate.device_type;
        let names = runtime::device_names(device_type).map_err(|error| error.to_string())?;
        let name = names.into_iter().next().ok_or("it has no device")?;
        Ok(Target { backend: backend.to_owned(), device_type, ordinal: 0, name })
    }
}

/// Measures what was asked for; the exit code says whether all of it came.
pub fn run(options: &Options) -> ExitCode {
    let mut cases = options.what.cases();
    cases.retain(|case| options.goal.is_none_or(|goal| goal == case.goal));
    cases.retain(|case| options.device.as_deref().is_none_or(|name| name == case.backend));
    if cases.is_empty() {
        return nothing_to_measure(options);
    }
    if cfg!(debug_assertions) {
        print::note("this is a debug build: its numbers mean nothing");
    }
    let asked_for = options.device.is_some() || options.goal.is_some();
    let (mut comparisons, mut failed) = (Vec::new(), false);
    let mut jobs = Vec::new();
    for of_backend in cases.chunk_by(|a, b| a.backend == b.backend) {
        let backend = of_backend[0].backend;
        match Target::first_of(backend) {
            Ok(target) => jobs.push((of_backend, target)),
            Err(reason) => {
                print::note(format!("not run on {backend}: {reason}"));
                failed |= asked_for;
            }
        }
    }
    let progress = Progress::new(jobs.iter().map(|(cases, _)| cases.len()).sum());
    for (cases, target) in &jobs {
        for case in *cases {
            progress.step(format!("{} on {}", case.name, target.backend));
            match (case.run)(target, options.runs) {
                Ok(comparison) if options.json => print::json_line(&comparison),
                Ok(comparison) => comparisons.push(comparison),
                Err(error) => {
                    print::note(format!("failed on {}: {}: {error}", target.backend, case.name));
                    failed = true;
                }
            }
        }
    }
    progress.end();
    if !comparisons.is_empty() {
        print_table(&comparisons);
    }
    ExitCode::from(u8::from(failed))
}

fn nothing_to_measure(options: &Options) -> ExitCode {
    let device = options.device.as_deref().unwrap_or_default();
    let what =
        options.goal.map_or_else(|| "nothing is".to_owned(), |goal| format!("{goal} is not"));
    print::note(format!(
        "error: {what} measured on `{device}`: of dispatch, G7 and G8 are on nvidia, G10 is on \
         cpu; of \
          alloc, G3 and G11 are on cpu; of stream, G12, G13 and G14; of copy, G15, and \
          on nvidia G5 and G6\n\n\
         For more information, try '--help'."
    ));
    ExitCode::from(2)
}

fn print_table(comparisons: &[Comparison]) {
    let header = ["goal", "bench", "ours", "theirs", "ratio", "p50", "p99"];
    let mut table = print::table(&header);
    for result in comparisons {
        let digits = if result.unit == "x" { 3 } else { 1 };
        let time = |time: f64| format!("{time:.digits$} {}", result.unit);
        table.add_row([
            result.goal.to_string(),
            format!("{}\n{}, against {}", result.bench, result.backend, result.peer),
            time(result.ours),
            time(result.theirs),
            format!("{:.3}", result.ratio),
            time(result.p50),
            time(result.p99),
        ]);
    }
    for column in 2..7 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    print::line(table);
}
