//! `llaisys-conformance`: runs the conformance suite against a `libllaisys_runtime.so`.

use clap::Parser;
use llaisys_conformance::program::{self, Bare, Launch};
use llaisys_conformance::{Case, Context, Setup, cases, operations, report, runner};
use serde_json::Value;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Runs the conformance suite of llaisys-runtime against a library, through its public C ABI.
///
/// Each case runs in a process of its own, so a crash or a hang is an outcome and the next case goes
/// on. The exit code is 0 when no case failed, 1 when one did, 2 when there is nothing to test.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The libllaisys_runtime.so to test.
    #[arg(long, required_unless_present = "list")]
    library: Option<PathBuf>,
    /// The device type to test: a name (cpu, nvidia, …) or a number.
    #[arg(long, default_value = "cpu")]
    device_type: String,
    /// Only cases whose area/name [clause] contains this text; may be given several times.
    #[arg(long)]
    filter: Vec<String>,
    /// Print the cases and run none.
    #[arg(long)]
    list: bool,
    /// Call every operation of the table, print what is said of it and whether that is true, and run no
    /// case; the exit code is 1 when something is not.
    #[arg(long)]
    operations: bool,
    /// Print one JSON object on stdout.
    #[arg(long)]
    json: bool,
    /// The seed of all data.
    #[arg(long, default_value_t = 0x11a1_5e5e)]
    seed: u64,
    /// Seconds that a case may take.
    #[arg(long, default_value_t = 180.0)]
    timeout: f32,
    /// Seconds that every thread of a case may sleep while a gate is closed; longer is a TIMEOUT.
    #[arg(long, default_value_t = 30.0)]
    stall: f32,
    /// Cases that run at the same time (not with --in-process).
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Run every case in this one process, for sanitizers; a hang ends the run.
    #[arg(long)]
    in_process: bool,
    /// Fewer repetitions, and none of the long cases; for sanitizers.
    #[arg(long)]
    quick: bool,
    /// The folder with llaisys/backend.h, for the plugins that cases compile.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../include"))]
    include: PathBuf,
    /// Run one case and print its result line (the suite starts itself so).
    #[arg(long, hide = true)]
    run_case: Option<String>,
    /// Run one program of the suite (the suite starts itself so).
    #[arg(long, hide = true)]
    program: Option<String>,
    /// The program's arguments.
    #[arg(last = true, hide = true)]
    arguments: Vec<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.list {
        for case in chosen(&arguments) {
            println!("{}", title(&case));
        }
        return ExitCode::SUCCESS;
    }
    match run(&arguments) {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        Err(message) => {
            eprintln!("llaisys-conformance: {message}");
            ExitCode::from(2)
        }
    }
}

fn title(case: &Case) -> String {
    format!("{}/{} [{}]", case.area.word(), case.name, case.clause)
}

fn chosen(arguments: &Arguments) -> Vec<Case> {
    let wanted = |case: &Case| {
        let title = title(case);
        arguments.filter.is_empty() || arguments.filter.iter().any(|part| title.contains(part))
    };
    cases::all().into_iter().filter(wanted).collect()
}

fn setup(arguments: &Arguments) -> Result<Setup, String> {
    let absolute = |path: &PathBuf| {
        path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))
    };
    Ok(Setup {
        library: absolute(arguments.library.as_ref().ok_or("--library is missing")?)?,
        device_type: arguments.device_type.clone(),
        seed: arguments.seed,
        quick: arguments.quick,
        timeout: Duration::from_secs_f32(arguments.timeout),
        stall: Duration::from_secs_f32(arguments.stall),
        // A folder that is missing is the reason of a skip, not an error.
        include: absolute(&arguments.include).unwrap_or_else(|_| arguments.include.clone()),
        executable: std::env::current_exe().map_err(|error| error.to_string())?,
    })
}

fn run(arguments: &Arguments) -> Result<i32, String> {
    let setup = setup(arguments)?;
    if let Some(name) = &arguments.program {
        let bare = Bare { setup, arguments: arguments.arguments.clone() };
        return Ok(program::run(&cases::programs(), name, &bare));
    }
    if let Some(name) = &arguments.run_case {
        let case = cases::all().into_iter().find(|case| case.name == name);
        return Ok(runner::run_and_tell(&case.ok_or(format!("no case `{name}`"))?, &setup));
    }
    if arguments.operations {
        return tell_operations(arguments, setup);
    }
    let cases = chosen(arguments);
    if cases.is_empty() {
        return Err("no case fits --filter".to_owned());
    }
    // Says early, and once, why there is nothing to test.
    describe(&setup, cases.len(), arguments.in_process)?;
    let told = |case: &Case, report: &runner::Report| eprintln!("{}", report::line(case, report));
    let reports = if arguments.in_process {
        runner::run_all_here(&cases, &setup, told)
    } else {
        runner::run_all_apart(&cases, &setup, arguments.jobs, told)
    };
    let results: Vec<_> = cases.into_iter().zip(reports).collect();
    eprintln!("{}", report::table(&results));
    if arguments.json {
        let context = Context::new(setup, "the report")?;
        let operations = operations_of(&context, arguments.in_process);
        println!("{:#}", report::object(&context, &operations, &results));
    }
    let failed = results.iter().any(|(_, report)| report.outcome.is_failure());
    Ok(i32::from(failed))
}

/// Prints the table of operations.
fn tell_operations(arguments: &Arguments, setup: Setup) -> Result<i32, String> {
    let context = Context::new(setup, "the report")?;
    let table = operations_of(&context, arguments.in_process);
    let (text, lies) = report::operations_for_people(&table);
    eprintln!("{}", report::subject(&context));
    if arguments.json {
        println!("{:#}", report::object(&context, &table, &[]));
    } else {
        println!("{text}");
    }
    Ok(i32::from(lies > 0 || table.as_array().is_none()))
}

/// The table of operations; from a process of its own, unless there is to be only this one. NULL when
/// that process did not come to its end.
fn operations_of(context: &Context, here: bool) -> Value {
    if here {
        let table = operations::table(context);
        return table.map_or(Value::Null, |table| report::operations(&table));
    }
    let ended = Launch::new(&context.setup, "tell_operations").run();
    let text = ended.map(|ended| ended.stdout).unwrap_or_default();
    serde_json::from_str(text.trim()).unwrap_or_default()
}

/// Says what is tested; in a process of its own, unless there is to be only this one.
fn describe(setup: &Setup, cases: usize, here: bool) -> Result<(), String> {
    eprintln!("{cases} cases, seed {}", setup.seed);
    if here {
        eprintln!("{}", report::subject(&Context::new(setup.clone(), "the report")?));
        return Ok(());
    }
    let ended = Launch::new(setup, "tell_what_is_tested").run().map_err(|stop| stop.message)?;
    match ended.code {
        Some(0) => {
            eprint!("{}", ended.stdout);
            Ok(())
        }
        Some(_) => Err(ended.stderr.trim().to_owned()),
        None => Err(ended.story()),
    }
}
