//! `llaisys-rt`: the command line of llaisys-runtime.
//!
//! | question | file |
//! |---|---|
//! | which arguments are there? | this one |
//! | which backends and devices are there, and why is one missing? | `devices` |
//! | what is wrong with this machine's CUDA, and what to do? | `doctor` |
//! | does data come through, and how fast? | `demo` |
//! | how is that asked from Rust? | `two_streams` |
//! | how are the clients in other languages run? | `clients` |
//! | what is a result of the demo? | `row` |
//! | what can be measured, and on what? | `bench` |
//! | what does a call cost? | `dispatch` |
//! | what does memory cost? | `allocation`, `trace`, `replay`, `fork` |
//! | what does a stream of the CPU cost, and what is that compared with? | `stream`, `hand_over` |
//! | how fast does the CPU copy? | `copy` |
//! | how is the driver called without us? | `native_driver`, `native_memory` |
//! | how are two things timed fairly? | `samples` |
//! | what is a result of a measurement? | `comparison` |
//! | does a backend keep the contract? | `llaisys_conformance::command`, of `tests/conformance` |
//! | how is the runtime asked? | `runtime`, `twelve` |
//! | how is something printed? | `print`, `progress` |
//!
//! Rules: results go to standard output, progress and reasons to standard error. The exit code is 0
//! when all is well, 1 when something was asked in vain (the reason is said) or when the results could not
//! be written, 2 for bad arguments.

mod allocation;
mod bench;
mod clients;
mod comparison;
mod copy;
mod demo;
mod devices;
mod dispatch;
mod doctor;
mod fork;
mod hand_over;
mod native_driver;
mod native_memory;
mod print;
mod progress;
mod replay;
mod row;
mod runtime;
mod samples;
mod stream;
mod trace;
mod transfer;
mod twelve;
mod two_streams;

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Shows what llaisys-runtime finds on this machine, and that it works.
#[derive(Parser)]
#[command(name = "llaisys-rt", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Lists every backend that was looked at, every device, and why something is missing.
    ///
    /// Ends with 0 when there is at least one device, with 1 otherwise.
    Devices {
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Moves data host → device → device → host on two streams of every device and checks it.
    ///
    /// Each device is used from Rust and, with --clients, from C, C++ and Python; host memory is
    /// pinned and pageable. Ends with 0 when all data was right, with 1 otherwise.
    Demo(demo::Options),
    /// Says what this machine has of CUDA, what is wrong with it, and what to do.
    ///
    /// Libraries, toolkits, driver, devices, backends, variables; then each fault with advice, the worst
    /// first. Drivers are started in a process of their own that is ended when it hangs. Ends with 0
    /// when all that was found can be used (also where nothing of NVIDIA's is), with 1 otherwise.
    Doctor(doctor::Options),
    /// Measures this library against what it is built on, alternating in one run.
    ///
    /// Ends with 0 when all that was asked for was measured, with 1 otherwise. A debug build measures
    /// nothing of worth.
    Bench(bench::Options),
    /// Tests a plugin, or a backend that the library finds, against the contract.
    ///
    /// Each case runs in a process of its own, so a crash or a hang is an outcome and the next case
    /// goes on. Ends with 0 when the backend conforms, with 1 when it does not, with 2 when there is
    /// nothing to test. Explained in docs/conformance.md.
    Conform(Box<llaisys_conformance::command::Options>),
}

fn main() -> ExitCode {
    let command = match Arguments::try_parse() {
        Ok(arguments) => arguments.command,
        Err(text) => {
            // Usage errors go to standard error and end with 2; --help and --version are results.
            let code = if text.use_stderr() { ExitCode::from(2) } else { ExitCode::SUCCESS };
            print::unwritten(text.print());
            return print::end(code);
        }
    };
    let code = match command {
        Command::Devices { json } => devices::run(json),
        Command::Demo(options) => demo::run(&options),
        Command::Doctor(options) => doctor::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Conform(options) => conform(&options),
    };
    print::end(code)
}

/// The conformance suite, of which this is one of two doors.
fn conform(options: &llaisys_conformance::command::Options) -> ExitCode {
    use llaisys_conformance::command::{Fault, run};
    match run(options, &["conform"], &mut std::io::stdout()) {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        Err(Fault::Unwritten(error)) => {
            print::unwritten(Err(error));
            ExitCode::FAILURE
        }
        Err(fault) => {
            print::note(format!("llaisys-rt conform: {fault}"));
            ExitCode::from(2)
        }
    }
}

/// The size of a copy: `--mib`.
fn mib(text: &str) -> Result<u64, String> {
    number(text, 1, 64 * 1024, "MiB")
}

/// How often something is done: `--repeat`.
fn times(text: &str) -> Result<u32, String> {
    number(text, 1, 1000, "times").map(|n| n as u32)
}

fn number(text: &str, least: u64, most: u64, unit: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(n) if (least..=most).contains(&n) => Ok(n),
        _ => Err(format!("give a whole number from {least} to {most} ({unit})")),
    }
}

/// A file that is there.
fn existing(text: &str) -> Result<PathBuf, String> {
    std::fs::canonicalize(text).map_err(|error| error.to_string())
}
