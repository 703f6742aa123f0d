//! The command: its arguments and what it does with them. `llaisys-conformance` and `llaisys-rt conform`
//! are two doors to this.
//!
//! Rules: the report goes to the given writer, what people watch to standard error; a report that cannot
//! be written is a failure. The code is 0 when the backend conforms, 1 when it does not, 2 when there is
//! nothing to test or the arguments are wrong.

use crate::case::{Case, Mode};
use crate::context::{Context, Setup};
use crate::expectations::Expectations;
use crate::footprint::Use;
use crate::program::{self, Bare, Launch};
use crate::runner::{Plan, Report, run_and_tell};
use crate::target::{self, Target};
use crate::{cases, junit, operations, report, subject};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

/// Which cases are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Profile {
    /// The twelve functions and what else every backend has.
    Core,
    /// Everything; what a backend does not claim is verified to be missing.
    Full,
}

/// The arguments.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// A plugin's file, or the name of a backend that the library finds (cpu, nvidia, …).
    #[arg(default_value = "cpu")]
    target: String,
    /// Ask the plugin alone (raw), or the library over it (core); both for a plugin.
    #[arg(long, value_enum)]
    mode: Vec<ModeWord>,
    /// Every case, or those of the twelve functions and what else every backend has.
    #[arg(long, value_enum, default_value = "full")]
    profile: Profile,
    /// The libllaisys_runtime.so to test over [default: the one beside this program].
    #[arg(long)]
    library: Option<PathBuf>,
    /// Only cases whose `area/name [clause]` contains this text; may be given several times.
    #[arg(long)]
    filter: Vec<String>,
    /// Print the cases and run none.
    #[arg(long)]
    list: bool,
    /// Call every operation of the table, print whether what is said of it is true, and run no case.
    #[arg(long)]
    operations: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Also write the report as JUnit's XML.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// What is known to fail: lines `case OUTCOME reason`.
    #[arg(long, value_name = "FILE")]
    expect: Option<PathBuf>,
    /// Run each case so often, each time with data of its own.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    repeat: u16,
    /// The seed of all data: the same seed gives the same report.
    #[arg(long, default_value_t = 0x11a1_5e5e)]
    seed: u64,
    /// Run the I-th of N parts of the cases, 1/N to N/N.
    #[arg(long, value_name = "I/N", value_parser = shard)]
    shard: Option<(usize, usize)>,
    /// Seconds that a case may take.
    #[arg(long, default_value_t = 180.0, value_parser = seconds, overrides_with = "timeout")]
    timeout: f32,
    /// Seconds that every thread of a case may sleep while a gate is closed; longer is a TIMEOUT.
    #[arg(long, default_value_t = 30.0, value_parser = seconds)]
    stall: f32,
    /// Cases that run at the same time (not with --in-process).
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Run every case in this one process, for sanitizers: a hang ends the run, and no leak is looked
    /// for.
    #[arg(long)]
    in_process: bool,
    /// Fewer repetitions, and none of the long cases; for sanitizers.
    #[arg(long)]
    quick: bool,
    /// The folder with llaisys/backend.h, for the plugins that cases compile.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../include"))]
    include: PathBuf,
    /// A backend's name or the number of a device type, as TARGET takes them too.
    #[arg(long, hide = true)]
    device_type: Option<String>,
    // What follows is the suite's own, when it starts itself.
    #[arg(long, hide = true)]
    plugin: Option<PathBuf>,
    #[arg(long, hide = true)]
    allowed: Option<Use>,
    #[arg(long, hide = true)]
    run_case: Option<String>,
    #[arg(long, hide = true)]
    program: Option<String>,
    #[arg(last = true, hide = true)]
    arguments: Vec<String>,
}

/// A mode on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ModeWord {
    Raw,
    Core,
}

fn seconds(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(number) if number > 0.0 && number < 1e6 => Ok(number),
        _ => Err("give a number of seconds above 0".to_owned()),
    }
}

fn shard(text: &str) -> Result<(usize, usize), String> {
    let numbers = text.split_once('/').and_then(|(index, count)| {
        Some((index.parse::<usize>().ok()?, count.parse::<usize>().ok()?))
    });
    match numbers {
        Some((index, count)) if index >= 1 && index <= count => Ok((index, count)),
        _ => Err("give I/N with I from 1 to N".to_owned()),
    }
}

/// Why a run came to no verdict.
#[derive(Debug)]
pub enum Fault {
    /// There is nothing to test, or an argument is wrong.
    Nothing(String),
    /// The report could not be written.
    Unwritten(io::Error),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Nothing(why) => write!(f, "{why}"),
            Fault::Unwritten(error) => write!(f, "the report could not be written: {error}"),
        }
    }
}

impl From<String> for Fault {
    fn from(why: String) -> Fault {
        Fault::Nothing(why)
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        Fault::Unwritten(error)
    }
}

/// A line for people who watch; that nobody does is no failure.
fn note(text: impl fmt::Display) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Runs the command. `front` is what stands before these arguments on the command line: the name of the
/// subcommand, with which the program starts itself again for each case.
///
/// # Errors
/// Why there is no verdict.
pub fn run(options: &Options, front: &[&str], out: &mut dyn Write) -> Result<i32, Fault> {
    if let Some(code) = run_a_part(options, front)? {
        return Ok(code);
    }
    if options.list {
        for case in options.chosen(&Mode::ALL) {
            writeln!(out, "{}", case.title())?;
        }
        out.flush()?;
        return Ok(0);
    }
    let mut setup = options.setup(front)?;
    let mut modes = aim(options, &mut setup)?;
    let mut refused = None;
    let subject = match subject::find(&setup, options.in_process, modes.contains(&Mode::Core)) {
        Ok(subject) => subject,
        // A plugin that the library refuses can still be asked what is wrong with it.
        Err(why) if options.mode.is_empty() && modes.contains(&Mode::Raw) => {
            modes = vec![Mode::Raw];
            refused = Some(why);
            subject::find(&setup, options.in_process, false)?
        }
        Err(why) => return Err(Fault::Nothing(why)),
    };
    let core = modes.contains(&Mode::Core);
    note(subject::line(&subject));
    if let Some(why) = &refused {
        note(format!("the library refuses it, so the plugin is asked alone: {why}"));
    }
    if options.operations {
        return tell_operations(options, &setup, subject, out);
    }
    let cases = options.chosen(&modes);
    if cases.is_empty() {
        return Err(Fault::Nothing("no case fits --mode, --profile, --filter and --shard".into()));
    }
    let words: Vec<&str> = modes.iter().map(|mode| mode.word()).collect();
    note(format!("{} cases, mode {}, seed {}", cases.len(), words.join(" and "), setup.seed));
    let results = results(options, &mut setup, cases)?;
    let text = report::table(&results);
    let mut verdict = report::verdict(&subject, &results);
    if let Some(why) = &refused {
        verdict = format!("{verdict}; the library refuses it, so it does NOT conform: {why}");
    }
    let run = json!({
        "modes": words,
        "profile": format!("{:?}", options.profile).to_lowercase(),
        "seed": setup.seed,
        "repeat": options.repeat,
        "shard": options.shard.map(|(index, count)| format!("{index}/{count}")),
        "refused": refused,
        "verdict": verdict,
    });
    if let Some(path) = &options.junit {
        let name =
            format!("{} {}", subject["backend"]["name"].as_str().unwrap_or("?"), words.join("+"));
        std::fs::write(path, junit::document(&name, &results)).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        })?;
    }
    if options.json {
        note(format!("{text}\n{verdict}"));
        let operations = match core {
            true => operations_of(&setup, options.in_process),
            false => Value::Null,
        };
        writeln!(out, "{:#}", report::object(subject, &run, &operations, &results))?;
    } else {
        writeln!(out, "{text}\n{verdict}")?;
    }
    out.flush()?;
    let failed = results.iter().any(|(_, report)| report.outcome.is_failure());
    Ok(i32::from(failed || refused.is_some()))
}

/// What the suite starts itself for: one case, or one program.
fn run_a_part(options: &Options, front: &[&str]) -> Result<Option<i32>, Fault> {
    if let Some(name) = &options.program {
        let bare = Bare { setup: options.setup(front)?, arguments: options.arguments.clone() };
        return Ok(Some(program::run(&cases::programs(), name, &bare)));
    }
    if let Some(name) = &options.run_case {
        let case = cases::all().into_iter().find(|case| case.name == name);
        let case = case.ok_or_else(|| format!("no case `{name}`"))?;
        return Ok(Some(run_and_tell(&case, &options.setup(front)?)));
    }
    Ok(None)
}

/// Finds the file and the name of what is tested, and the modes in which it can be.
fn aim(options: &Options, setup: &mut Setup) -> Result<Vec<Mode>, Fault> {
    let asked: Vec<Mode> = Mode::ALL
        .into_iter()
        .filter(|mode| options.mode.iter().any(|word| *word as usize == *mode as usize))
        .collect();
    let target = match &options.device_type {
        // An older way to say which backend is meant.
        Some(name) => Target::Backend(name.clone()),
        None => Target::read(&options.target)?,
    };
    match target {
        Target::File(path) => {
            // SAFETY: nobody reads the environment at the same time: this process has one thread yet.
            unsafe { std::env::set_var("LLAISYS_BACKENDS", &path) };
            setup.plugin = Some(path);
            let plugin = subject::find(setup, options.in_process, false)?;
            let name = plugin["plugin"]["name"].as_str().unwrap_or_default();
            setup.device_type = name.to_owned();
        }
        Target::Backend(name) => {
            setup.device_type = name;
            let library = subject::find(setup, options.in_process, true)?;
            let path = library["backend"]["path"].as_str().unwrap_or_default();
            setup.plugin = (!path.is_empty()).then(|| PathBuf::from(path));
        }
    }
    let modes = target::modes(&asked, &setup.device_type, setup.plugin.as_deref())?;
    if modes.contains(&Mode::Core) && !setup.library.is_file() {
        target::library(options.library.as_deref())?;
    }
    Ok(modes)
}

/// Runs the cases and tells about each as it ends.
fn results(
    options: &Options,
    setup: &mut Setup,
    cases: Vec<Case>,
) -> Result<Vec<(Case, Report)>, Fault> {
    let expectations = match &options.expect {
        None => Expectations::default(),
        Some(path) => {
            let place = path.display();
            let text =
                std::fs::read_to_string(path).map_err(|error| format!("{place}: {error}"))?;
            Expectations::read(&text, &cases::all())
                .map_err(|wrong| format!("{place} is not right:\n{wrong}"))?
        }
    };
    let all = cases.len();
    let told = |case: &Case, result: &Report, ended: usize| {
        note(report::line(case, result, ended, all));
    };
    let (jobs, repeat) = (options.jobs, usize::from(options.repeat));
    let reports = if options.in_process {
        Plan { setup, jobs, repeat, expectations: &expectations }.run_here(&cases, told)
    } else {
        let uses = [(Mode::Raw, "tell_use_of_the_plugin"), (Mode::Core, "tell_use_of_the_library")];
        setup.allowed =
            Some(uses.map(|(mode, program)| match cases.iter().any(|case| case.mode() == mode) {
                true => subject::use_of(setup, program),
                false => Use::default(),
            }));
        Plan { setup, jobs, repeat, expectations: &expectations }.run_apart(&cases, told)
    };
    Ok(cases.into_iter().zip(reports).collect())
}

/// Prints the table of operations.
fn tell_operations(
    options: &Options,
    setup: &Setup,
    subject: Value,
    out: &mut dyn Write,
) -> Result<i32, Fault> {
    let table = operations_of(setup, options.in_process);
    let (text, lies) = report::operations_for_people(&table);
    if options.json {
        writeln!(out, "{:#}", report::object(subject, &json!({}), &table, &[]))?;
    } else {
        writeln!(out, "{text}")?;
    }
    out.flush()?;
    Ok(i32::from(lies > 0 || table.as_array().is_none()))
}

/// The table of operations; from a process of its own, unless there is to be only this one. NULL when
/// that process did not come to its end.
fn operations_of(setup: &Setup, here: bool) -> Value {
    if here {
        let context = Context::new(setup.clone(), "the report");
        let table = context.ok().and_then(|context| operations::table(&context).ok());
        return table.map_or(Value::Null, |table| report::operations(&table));
    }
    let ended = Launch::new(setup, "tell_operations").run();
    let text = ended.map(|ended| ended.stdout).unwrap_or_default();
    serde_json::from_str(text.trim()).unwrap_or_default()
}

impl Options {
    /// The cases that are asked for.
    fn chosen(&self, modes: &[Mode]) -> Vec<Case> {
        let asked = |case: &Case| {
            self.mode.is_empty()
                || self.mode.iter().any(|word| *word as usize == case.mode() as usize)
        };
        let wanted = |case: &Case| {
            let title = case.title();
            modes.contains(&case.mode())
                && asked(case)
                && (self.profile == Profile::Full || case.is_of_the_core_profile())
                && (self.filter.is_empty() || self.filter.iter().any(|part| title.contains(part)))
        };
        let cases = cases::all().into_iter().filter(wanted);
        let Some((index, count)) = self.shard else { return cases.collect() };
        cases.skip(index - 1).step_by(count).collect()
    }

    fn setup(&self, front: &[&str]) -> Result<Setup, String> {
        let library = match target::library(self.library.as_deref()) {
            Ok(path) => path,
            // A plugin alone needs no library; who does says so.
            Err(_) if self.library.is_none() => PathBuf::new(),
            Err(_) if self.library.as_ref().is_some_and(|path| path.as_os_str().is_empty()) => {
                PathBuf::new()
            }
            Err(message) => return Err(message),
        };
        Ok(Setup {
            library,
            plugin: self.plugin.clone(),
            device_type: self.device_type.clone().unwrap_or_default(),
            seed: self.seed,
            quick: self.quick,
            timeout: Duration::from_secs_f32(self.timeout),
            stall: Duration::from_secs_f32(self.stall),
            // A folder that is missing is the reason of a skip, not an error.
            include: self.include.canonicalize().unwrap_or_else(|_| self.include.clone()),
            executable: std::env::current_exe().map_err(|error| error.to_string())?,
            front: front.iter().map(|word| (*word).to_owned()).collect(),
            allowed: self.allowed.map(|allowed| [allowed; 2]),
        })
    }
}
