//! What the environment asks of the fake. Read once, by the `cuInit` that succeeds; never later.
//!
//! A value that cannot be read is reported on stderr and its default is used.

use crate::errors::Code;
use std::time::Duration;

/// The settings of a process.
#[derive(Debug)]
pub struct Settings {
    /// `FAKE_CUDA_DEVICES`: how many devices the machine has.
    pub devices: usize,
    /// `FAKE_CUDA_DEVICE_MEMORY`: bytes of memory of each.
    pub device_memory: usize,
    /// `FAKE_CUDA_NO_PEER`: no device reaches another's memory.
    pub no_peer: bool,
    /// `FAKE_CUDA_NO_MEMPOOLS`: no stream-ordered memory.
    pub no_mempools: bool,
    /// `FAKE_CUDA_NO_MANAGED`: no managed memory.
    pub no_managed: bool,
    /// `FAKE_CUDA_NO_CONCURRENT_MANAGED`: managed memory, but no prefetch and no advice of a device.
    pub no_concurrent_managed: bool,
    /// `FAKE_CUDA_LATENCY_US`: each operation of a stream takes at least so long.
    pub latency: Duration,
    /// `FAKE_CUDA_QUEUE_DEPTH`: operations that a stream takes before the caller has to wait.
    pub queue_depth: usize,
    /// How many hardware queues the copies of a direction share; 0: each stream has its own.
    pub copy_queues: u64,
    /// `FAKE_CUDA_REUSE_HANDLES`: a destroyed stream's or event's address comes back at once.
    pub reuse_handles: bool,
    /// `FAKE_CUDA_ABORT_ON_MISUSE`: a destroyed handle ends the process, as it does on the real driver.
    pub abort_on_misuse: bool,
    /// `FAKE_CUDA_DEINITIALIZED_AT_EXIT`: calls after the exit handlers answer DEINITIALIZED.
    pub deinitialized_at_exit: bool,
    /// `FAKE_CUDA_CONTAINED_FAULTS`: a fatal fault breaks its own context only.
    pub contained_faults: bool,
    /// `FAKE_CUDA_MISSING`: names that `cuGetProcAddress` does not know.
    pub missing: Vec<String>,
}

impl Settings {
    /// Reads the environment.
    pub fn read() -> Settings {
        Settings {
            devices: number("FAKE_CUDA_DEVICES").unwrap_or(2),
            device_memory: number("FAKE_CUDA_DEVICE_MEMORY").unwrap_or(4 << 30),
            no_peer: flag("FAKE_CUDA_NO_PEER"),
            no_mempools: flag("FAKE_CUDA_NO_MEMPOOLS"),
            no_managed: flag("FAKE_CUDA_NO_MANAGED"),
            no_concurrent_managed: flag("FAKE_CUDA_NO_CONCURRENT_MANAGED"),
            latency: Duration::from_micros(number("FAKE_CUDA_LATENCY_US").unwrap_or(0) as u64),
            queue_depth: number("FAKE_CUDA_QUEUE_DEPTH").unwrap_or(1021).max(1),
            copy_queues: number("FAKE_CUDA_COPY_QUEUES").unwrap_or(0) as u64,
            reuse_handles: flag("FAKE_CUDA_REUSE_HANDLES"),
            abort_on_misuse: flag("FAKE_CUDA_ABORT_ON_MISUSE"),
            deinitialized_at_exit: flag("FAKE_CUDA_DEINITIALIZED_AT_EXIT"),
            contained_faults: flag("FAKE_CUDA_CONTAINED_FAULTS"),
            missing: list("FAKE_CUDA_MISSING"),
        }
    }
}

/// `FAKE_CUDA_INIT_ERROR`: what `cuInit` answers. Apart from the rest because it is read by each `cuInit`.
pub fn init_error() -> Option<Code> {
    number("FAKE_CUDA_INIT_ERROR").map(|code| code as Code).filter(|code| *code != 0)
}

/// `FAKE_CUDA_DRIVER_VERSION`, for `cuDriverGetVersion`, which works before `cuInit`.
pub fn driver_version() -> i32 {
    number("FAKE_CUDA_DRIVER_VERSION").map_or(13000, |version| version as i32)
}

/// `FAKE_CUDA_FAIL`: `name:nth=code` or `name=code`, comma-separated.
pub fn failures() -> Vec<(String, u64, Code)> {
    let mut failures = Vec::new();
    for entry in list("FAKE_CUDA_FAIL") {
        let parsed = entry.split_once('=').and_then(|(call, code)| {
            let (name, nth) = call.split_once(':').unwrap_or((call, "0"));
            Some((name.trim().to_owned(), nth.trim().parse().ok()?, code.trim().parse().ok()?))
        });
        match parsed {
            Some(failure) => failures.push(failure),
            None => eprintln!(
                "fake-cuda: FAKE_CUDA_FAIL entry {entry:?} is not name=code or name:nth=code"
            ),
        }
    }
    failures
}

/// A number with an optional suffix k, m or g.
fn number(name: &str) -> Option<usize> {
    let text = std::env::var(name).ok()?;
    let text = text.trim().to_ascii_lowercase();
    let (digits, shift) = match text.chars().last() {
        Some('k') => (&text[..text.len() - 1], 10),
        Some('m') => (&text[..text.len() - 1], 20),
        Some('g') => (&text[..text.len() - 1], 30),
        _ => (&text[..], 0),
    };
    let value = digits.parse::<usize>().ok().and_then(|value| value.checked_mul(1 << shift));
    if value.is_none() && !text.is_empty() {
        eprintln!("fake-cuda: {name}={text:?} is not a number with an optional k, m or g");
    }
    value
}

fn flag(name: &str) -> bool {
    std::env::var(name).is_ok_and(|value| !matches!(value.trim(), "" | "0"))
}

fn list(name: &str) -> Vec<String> {
    let text = std::env::var(name).unwrap_or_default();
    text.split(',').map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect()
}
