//! Runs cases: each in a process of its own, or all in this one.
//!
//! A case has a thread of its own, so that its error slot and its current device are fresh, and a
//! watchdog. Its process tells what came of it in one line on stdout; a process that ends without
//! that line has crashed.

use crate::case::{Body, Case, Mode};
use crate::context::{Context, Setup};
use crate::expectations::Expectations;
use crate::footprint::{Footprint, Held};
use crate::forever::forever;
use crate::gate;
use crate::needs::Need;
use crate::outcome::{Checked, Outcome, Stop};
use crate::program;
use crate::quiet;
use crate::raw::Plugin;
use llaisys_runtime_core::api::Capabilities;
use serde_json::{Value, json};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// What came of a case.
#[derive(Clone, Debug)]
pub struct Report {
    /// The outcome.
    pub outcome: Outcome,
    /// What was expected and found, or the reason of a skip; empty for a pass.
    pub message: String,
    /// How long it took; the longest of several runs.
    pub milliseconds: f64,
    /// How often it was run.
    pub runs: usize,
}

impl Report {
    fn new(outcome: Outcome, message: impl Into<String>, milliseconds: f64) -> Report {
        Report { outcome, message: message.into(), milliseconds, runs: 1 }
    }
}

/// What a process of one case begins its result line with.
const RESULT: &str = "llaisys-conformance-result ";
/// How much longer than the case its process may live: starting, and the watchdog's own word.
const GRACE: Duration = Duration::from_secs(15);

/// How often the watchdog looks whether the case still moves.
const GLANCE: Duration = Duration::from_millis(50);
/// The processor time that a process in which every thread sleeps may use nevertheless.
const AWAKE: Duration = Duration::from_millis(20);

/// Runs the body of a case on this thread.
fn attempt(case: &Case, setup: &Setup) -> Checked {
    match case.body {
        Body::Core(needs, run) => {
            let context = Context::new(setup.clone(), case.name).map_err(Stop::fail)?;
            // Cases start threads that may outlive them when they fail.
            let context = forever(context);
            for need in needs {
                need.check(context)?;
            }
            let before = setup.allowed.map(|_| Footprint::now(context.blocks()));
            run(context)?;
            context.clean("a failure that nobody asked for was left in the slot")?;
            leaves_nothing(before, setup, Mode::Core, || context.blocks())
        }
        Body::Raw(needs, run) => {
            let plugin = Plugin::open(setup.clone(), case.name).map_err(Stop::fail)?;
            let plugin = forever(plugin);
            let is_missing = |need: &&Capabilities| !plugin.capabilities.contains(**need);
            let missing: Vec<&Capabilities> = needs.iter().filter(is_missing).collect();
            missing.iter().try_for_each(|need| plugin.expect_missing(**need))?;
            if let Some(need) = missing.first() {
                let name = need.name();
                return Err(Stop::not_supported(format!("the plugin does not claim {name}")));
            }
            let before = setup.allowed.map(|_| Footprint::now(plugin.held(false)));
            run(plugin)?;
            leaves_nothing(before, setup, Mode::Raw, || plugin.held(true))
        }
    }
}

/// The last look at a case that passed, in a process of its own.
fn leaves_nothing(
    before: Option<Footprint>,
    setup: &Setup,
    mode: Mode,
    blocks: impl FnOnce() -> Vec<Held>,
) -> Checked {
    match (before, setup.allowed) {
        (Some(before), Some(allowed)) => before.expect_nothing_more(blocks, allowed[mode as usize]),
        _ => Ok(()),
    }
}

/// Waits for the case's result; the second part says that the watchdog has seen that none will come.
fn await_result(
    receive: &mpsc::Receiver<Checked>,
    setup: &Setup,
) -> (Result<Checked, RecvTimeoutError>, bool) {
    let started = Instant::now();
    let mut asleep: Option<(Instant, Duration)> = None;
    while let Some(left) = setup.timeout.checked_sub(started.elapsed()) {
        match receive.recv_timeout(left.min(GLANCE)) {
            Err(RecvTimeoutError::Timeout) => {}
            result => return (result, false),
        }
        let (since, used) = asleep.take().unwrap_or((Instant::now(), quiet::used_by_all()));
        // Threads that wake up between two glances use time; the glances themselves use a little.
        let idle = quiet::used_by_all().saturating_sub(used) < AWAKE + since.elapsed() / 20;
        if gate::is_any_closed() && quiet::is_asleep() && idle {
            if since.elapsed() >= setup.stall {
                return (Err(RecvTimeoutError::Timeout), true);
            }
            asleep = Some((since, used));
        }
    }
    (receive.recv_timeout(Duration::ZERO), false)
}

/// Runs a case in this process, with a watchdog.
pub fn run_here(case: &Case, setup: &Setup) -> Report {
    let started = Instant::now();
    let (send, receive) = mpsc::channel();
    let (case_copy, setup_copy) = (*case, setup.clone());
    let body = move || {
        let result = catch_unwind(AssertUnwindSafe(|| attempt(&case_copy, &setup_copy)));
        let result = result.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|t| (*t).to_owned()));
            Err(Stop::fail(format!("the case panicked: {}", text.unwrap_or_default())))
        });
        let _ = send.send(result);
    };
    let spawned = std::thread::Builder::new().name(case.name.to_owned()).spawn(body);
    let (result, stalled) = await_result(&receive, setup);
    let result = match (&spawned, result) {
        (Err(error), _) => Err(Stop::skip(format!("no thread is to be had: {error}"))),
        (_, Ok(result)) => result,
        (_, Err(RecvTimeoutError::Timeout)) => Err(Stop {
            outcome: Outcome::Timeout,
            message: match stalled {
                true => format!(
                    "a gate is closed and every thread of the process has been asleep for {} s: \
                     a call waits that ought not to",
                    setup.stall.as_secs_f32()
                ),
                false => format!("not at its end after {} s", setup.timeout.as_secs_f32()),
            },
        }),
        (_, Err(RecvTimeoutError::Disconnected)) => Err(Stop::fail("the case's thread vanished")),
    };
    if let (Ok(thread), Ok(())) = (spawned, &result) {
        // Its thread-local destructors belong to the case.
        let _ = thread.join();
    }
    let milliseconds = started.elapsed().as_secs_f64() * 1000.0;
    match result {
        Ok(()) => Report::new(Outcome::Pass, "", milliseconds),
        Err(Stop { outcome, message }) => Report::new(outcome, message, milliseconds),
    }
}

/// The body of a process that runs one case: prints the result line.
pub fn run_and_tell(case: &Case, setup: &Setup) -> i32 {
    let report = run_here(case, setup);
    let line = json!({
        "outcome": report.outcome.word(),
        "message": report.message,
        "ms": report.milliseconds,
    });
    println!("{RESULT}{line}");
    if report.outcome == Outcome::Timeout {
        // The case is still inside a call: an orderly exit might wait for it.
        std::process::abort();
    }
    0
}

/// Runs a case in a process of its own.
fn run_apart(case: &Case, setup: &Setup) -> Report {
    let started = Instant::now();
    let mut command = Command::new(&setup.executable);
    command
        .args(program::protocol(setup))
        .args(["--timeout", &setup.timeout.as_secs_f32().to_string()])
        .args(["--stall", &setup.stall.as_secs_f32().to_string()])
        .args(["--run-case", case.name])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(allowed) = setup.allowed {
        command.args(["--allowed", &allowed[case.mode() as usize].to_string()]);
    }
    let child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            let message = format!("the process of the case does not start: {error}");
            return Report::new(Outcome::Crash, message, 0.0);
        }
    };
    let ended = program::finish(case.name.to_owned(), child, setup.timeout + GRACE);
    let told = ended.stdout.lines().find_map(|line| {
        let value: Value = serde_json::from_str(line.strip_prefix(RESULT)?).ok()?;
        let outcome = Outcome::from_word(value["outcome"].as_str()?)?;
        let message = value["message"].as_str()?.to_owned();
        Some(Report::new(outcome, message, value["ms"].as_f64()?))
    });
    let milliseconds = started.elapsed().as_secs_f64() * 1000.0;
    match told {
        Some(report) if report.outcome == Outcome::Timeout || ended.code == Some(0) => report,
        Some(report) if ended.timed_out => {
            let word = report.outcome.word();
            let message = format!("the case came to {word}, its process never ended");
            Report::new(Outcome::Timeout, message, milliseconds)
        }
        Some(report) => {
            let (word, message) = (report.outcome.word(), &report.message);
            let message = format!("the case came to {word} ({message}), then {}", ended.story());
            Report::new(Outcome::Crash, message, milliseconds)
        }
        None if ended.timed_out => Report::new(Outcome::Timeout, ended.story(), milliseconds),
        None => Report::new(Outcome::Crash, ended.story(), milliseconds),
    }
}

/// Runs a case several times, each time with data of its own, until it fails.
fn repeated(case: &Case, setup: &Setup, repeat: usize, run: fn(&Case, &Setup) -> Report) -> Report {
    let mut longest = 0.0f64;
    for number in 0..repeat as u64 {
        let setup = Setup { seed: setup.seed.wrapping_add(number), ..setup.clone() };
        let mut report = run(case, &setup);
        longest = longest.max(report.milliseconds);
        let last = number + 1 == repeat as u64;
        if report.outcome != Outcome::Pass || last {
            report.runs = number as usize + 1;
            report.milliseconds = longest;
            if repeat > 1 && report.outcome != Outcome::Pass {
                let (run, seed) = (report.runs, setup.seed);
                report.message =
                    format!("run {run} of {repeat} (--seed {seed}): {}", report.message);
            }
            return report;
        }
    }
    Report::new(Outcome::Skip, "no run was asked for", longest)
}

/// How cases are run.
pub struct Plan<'a> {
    /// What is the same for every case.
    pub setup: &'a Setup,
    /// How many run at the same time.
    pub jobs: usize,
    /// How often each is run, at least once.
    pub repeat: usize,
    /// What is known to fail.
    pub expectations: &'a Expectations,
}

impl Plan<'_> {
    /// Runs every case in a process of its own, several at a time, and at the end those that want their device
    /// to themselves; tells about each as it ends, with how many have.
    pub fn run_apart(
        &self,
        cases: &[Case],
        told: impl Fn(&Case, &Report, usize) + Sync,
    ) -> Vec<Report> {
        let (next, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let reports: Mutex<Vec<Option<Report>>> = Mutex::new(vec![None; cases.len()]);
        let run = |index: usize| {
            let case = &cases[index];
            let mut report = repeated(case, self.setup, self.repeat, run_apart);
            self.expectations.apply(case, &mut report);
            let mut all = reports.lock().unwrap_or_else(PoisonError::into_inner);
            told(case, &report, ended.fetch_add(1, Ordering::Relaxed) + 1);
            all[index] = Some(report);
        };
        let wants_all = |index: &usize| cases[*index].needs(Need::WholeDevice);
        let (last, first): (Vec<_>, Vec<_>) = (0..cases.len()).partition(wants_all);
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.max(1) {
                scope.spawn(|| {
                    while let Some(index) = first.get(next.fetch_add(1, Ordering::Relaxed)) {
                        run(*index);
                    }
                });
            }
        });
        last.into_iter().for_each(run);
        let reports = reports.into_inner().unwrap_or_else(PoisonError::into_inner);
        reports.into_iter().flatten().collect()
    }

    /// Runs every case in this process. A case that does not come to its end ends the process.
    pub fn run_here(&self, cases: &[Case], told: impl Fn(&Case, &Report, usize)) -> Vec<Report> {
        let mut reports = Vec::new();
        for case in cases {
            let mut report = repeated(case, self.setup, self.repeat, run_here);
            let is_stuck = report.outcome == Outcome::Timeout;
            self.expectations.apply(case, &mut report);
            told(case, &report, reports.len() + 1);
            if is_stuck {
                eprintln!("the process ends here: `{}` is still inside a call", case.name);
                std::process::abort();
            }
            reports.push(report);
        }
        reports
    }
}
