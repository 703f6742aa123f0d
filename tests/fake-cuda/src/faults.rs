//! Failures on demand, and what tests may count.
//!
//! The rule: a failure is decided at the entry of a call, before anything is done, so a failing call
//! changes nothing; an uninitialised fake counts and fails too.

use crate::errors::Code;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

struct Failure {
    name: String,
    /// Which call from now on fails; 0 is every one.
    nth: u64,
    seen: u64,
    code: Code,
}

struct Faults {
    failures: Vec<Failure>,
    calls: HashMap<&'static str, i64>,
}

static FAULTS: LazyLock<Mutex<Faults>> = LazyLock::new(|| {
    let failures = crate::settings::failures();
    let failures = failures
        .into_iter()
        .map(|(name, nth, code)| Failure { name, nth, seen: 0, code })
        .collect();
    Mutex::new(Faults { failures, calls: HashMap::new() })
});

/// Primary contexts that were made.
pub static CONTEXTS_CREATED: AtomicI64 = AtomicI64::new(0);
/// Calls of `cuDevicePrimaryCtxReset`.
pub static RESETS: AtomicI64 = AtomicI64::new(0);
/// Uses of a handle after its end, which end the process on the real driver.
pub static MISUSES: AtomicI64 = AtomicI64::new(0);

/// Counts a call and says whether it is to fail.
pub fn enter(name: &'static str) -> Result<(), Code> {
    let mut faults = FAULTS.lock();
    *faults.calls.entry(name).or_insert(0) += 1;
    let mut verdict = Ok(());
    for failure in &mut faults.failures {
        if failure.name == name || failure.name == base(name) {
            failure.seen += 1;
            if failure.nth == 0 || failure.nth == failure.seen {
                verdict = verdict.and(Err(failure.code));
            }
        }
    }
    verdict
}

/// From now on the nth call of a function (0: every call) fails with a code; code 0 takes it back.
pub fn fail(name: &str, nth: u64, code: Code) {
    let mut faults = FAULTS.lock();
    if code == 0 {
        faults.failures.retain(|failure| failure.name != name);
    } else {
        faults.failures.push(Failure { name: name.to_owned(), nth, seen: 0, code });
    }
}

/// How often a function was called, by its exported name or by its name without `_v2`.
pub fn calls(name: &str) -> i64 {
    let faults = FAULTS.lock();
    faults
        .calls
        .iter()
        .filter(|(called, _)| **called == name || base(called) == name)
        .map(|(_, n)| n)
        .sum()
}

/// A handle was used after its end.
pub fn misuse(what: &str, handle: usize, abort: bool) {
    MISUSES.fetch_add(1, Relaxed);
    eprintln!(
        "fake-cuda: {what} {handle:#x} was used after its end; the real driver ends the process here"
    );
    if abort {
        std::process::abort();
    }
}

/// A name without its version.
pub fn base(name: &str) -> &str {
    name.strip_suffix("_v2")
        .or_else(|| name.strip_suffix("_v3"))
        .or_else(|| name.strip_suffix("_v4"))
        .unwrap_or(name)
}
