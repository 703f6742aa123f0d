//! `llaisys-conformance`: the conformance suite as a command of its own. `llaisys-rt conform` is the same.

use clap::Parser;
use llaisys_conformance::command::{self, Fault, Options};
use std::io::{self, Write};
use std::process::ExitCode;

/// Tests a backend of llaisys-runtime against the contract.
///
/// Each case runs in a process of its own, so a crash or a hang is an outcome and the next case goes
/// on. The exit code is 0 when the backend conforms, 1 when it does not, 2 when there is nothing to test.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Arguments {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(text) => {
            // Usage errors go to standard error, --help and --version to standard output.
            let code = if text.use_stderr() { 2 } else { 0 };
            return match text.print().and_then(|()| io::stdout().flush()) {
                Ok(()) => ExitCode::from(code),
                Err(error) => unwritten(&error),
            };
        }
    };
    match command::run(&arguments.options, &[], &mut io::stdout()) {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        Err(Fault::Unwritten(error)) => unwritten(&error),
        Err(fault) => {
            let _ = writeln!(io::stderr(), "llaisys-conformance: {fault}");
            ExitCode::from(2)
        }
    }
}

/// A report that could not be written is a failure; that its reader has gone is said by nothing else.
fn unwritten(error: &io::Error) -> ExitCode {
    if error.kind() != io::ErrorKind::BrokenPipe {
        let _ =
            writeln!(io::stderr(), "llaisys-conformance: the report could not be written: {error}");
    }
    ExitCode::FAILURE
}
