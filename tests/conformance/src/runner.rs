//! Runs cases: each in a process of its own, or all in this one.
//!
//! A case has a thread of its own, so that its error slot and its current device are fresh, and a
//! watchdog. Its process tells what came of it in one line on stdout; a process that ends without
//! that line has crashed.

use crate::case::Case;
use crate::context::{Context, Setup};
use crate::forever::forever;
use crate::gate;
use crate::outcome::{Checked, Outcome, Stop};
use crate::program;
use crate::quiet;
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
    /// How long it took.
    pub milliseconds: f64,
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
    let context = Context::new(setup.clone(), case.name).map_err(Stop::fail)?;
    // Cases start threads that may outlive them when they fail.
    let context = forever(context);
    for need in case.needs {
        need.check(context)?;
    }
    (case.run)(context)?;
    context.clean("a failure that nobody asked for was left in the slot")
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
        Ok(()) => Report { outcome: Outcome::Pass, message: String::new(), milliseconds },
        Err(Stop { outcome, message }) => Report { outcome, message, milliseconds },
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
pub fn run_apart(case: &Case, setup: &Setup) -> Report {
    let started = Instant::now();
    let mut command = Command::new(&setup.executable);
    command
        .arg("--library")
        .arg(&setup.library)
        .args(["--device-type", &setup.device_type, "--seed", &setup.seed.to_string()])
        .args(["--timeout", &setup.timeout.as_secs_f32().to_string(), "--run-case", case.name])
        .args(["--stall", &setup.stall.as_secs_f32().to_string()])
        .arg("--include")
        .arg(&setup.include)
        .args(setup.quick.then_some("--quick"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            let message = format!("the process of the case does not start: {error}");
            return Report { outcome: Outcome::Crash, message, milliseconds: 0.0 };
        }
    };
    let ended = program::finish(case.name.to_owned(), child, setup.timeout + GRACE);
    let told = ended.stdout.lines().find_map(|line| {
        let value: Value = serde_json::from_str(line.strip_prefix(RESULT)?).ok()?;
        let outcome = Outcome::from_word(value["outcome"].as_str()?)?;
        let message = value["message"].as_str()?.to_owned();
        Some(Report { outcome, message, milliseconds: value["ms"].as_f64()? })
    });
    let milliseconds = started.elapsed().as_secs_f64() * 1000.0;
    match told {
        Some(report) if report.outcome == Outcome::Timeout || ended.code == Some(0) => report,
        Some(report) if ended.timed_out => Report {
            outcome: Outcome::Timeout,
            message: format!("the case came to {:?}, its process never ended", report.outcome),
            milliseconds,
        },
        Some(report) => Report {
            outcome: Outcome::Crash,
            message: format!(
                "the case came to {} ({}), then {}",
                report.outcome.word(),
                report.message,
                ended.story()
            ),
            milliseconds,
        },
        None if ended.timed_out => {
            Report { outcome: Outcome::Timeout, message: ended.story(), milliseconds }
        }
        None => Report { outcome: Outcome::Crash, message: ended.story(), milliseconds },
    }
}

/// Runs every case in a process of its own, `jobs` at a time; tells about each as it ends.
pub fn run_all_apart(
    cases: &[Case],
    setup: &Setup,
    jobs: usize,
    told: impl Fn(&Case, &Report) + Sync,
) -> Vec<Report> {
    let next = AtomicUsize::new(0);
    let reports: Mutex<Vec<Option<Report>>> = Mutex::new(vec![None; cases.len()]);
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(index) else { break };
                    let report = run_apart(case, setup);
                    told(case, &report);
                    reports.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(report);
                }
            });
        }
    });
    let reports = reports.into_inner().unwrap_or_else(PoisonError::into_inner);
    reports.into_iter().flatten().collect()
}

/// Runs every case in this process. A case that does not come to its end ends the process.
pub fn run_all_here(cases: &[Case], setup: &Setup, told: impl Fn(&Case, &Report)) -> Vec<Report> {
    let mut reports = Vec::new();
    for case in cases {
        let report = run_here(case, setup);
        told(case, &report);
        if report.outcome == Outcome::Timeout {
            eprintln!("the process ends here: `{}` is still inside a call", case.name);
            std::process::abort();
        }
        reports.push(report);
    }
    reports
}
