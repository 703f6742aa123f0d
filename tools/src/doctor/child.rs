//! This command as a child of its own, for what may hang or crash: whatever starts a driver.
//!
//! Rule: it is ended with all it has started when its time is over, and nobody waits for it longer.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// How a child ended.
pub enum Ended {
    /// It said this on standard output, whatever its exit code.
    Said(String),
    /// It was ended.
    TimedOut,
    /// It could not be started, or crashed, or said nothing.
    Failed(String),
}

/// Runs this command with other arguments for so long.
pub fn run(arguments: &[OsString], limit: Duration) -> Ended {
    let command = match std::env::current_exe() {
        Ok(command) => command,
        Err(error) => return Ended::Failed(format!("this command cannot find itself: {error}")),
    };
    let child = Command::new(command)
        .args(arguments)
        // With it every backend would say what another one lacks; the doctor judges it itself.
        .env_remove("LLAISYS_REQUIRE")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A group of its own, so that what it started ends with it.
        .process_group(0)
        .spawn();
    match child {
        Ok(child) => wait(child, limit),
        Err(error) => Ended::Failed(format!("this command cannot start itself: {error}")),
    }
}

fn wait(mut child: Child, limit: Duration) -> Ended {
    let output = drain(child.stdout.take());
    let errors = drain(child.stderr.take());
    let start = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if start.elapsed() >= limit => {
                end(&mut child);
                return Ended::TimedOut;
            }
            Ok(None) => thread::sleep(Duration::from_millis(10)),
            Err(error) => return Ended::Failed(format!("cannot wait for it: {error}")),
        }
    };
    // A grandchild that lives on may hold the pipes: its output is not waited for without end.
    let patience = Duration::from_secs(5);
    let said = output.recv_timeout(patience).unwrap_or_default();
    if !said.trim().is_empty() {
        return Ended::Said(said);
    }
    let errors = errors.recv_timeout(patience).unwrap_or_default();
    let last = errors.trim().lines().last().unwrap_or("it said nothing").to_owned();
    Ended::Failed(format!("the child that was to ask ended with {status}: {last}"))
}

/// Ends a child and its group. One that hangs inside the kernel's driver cannot be ended; it is left.
fn end(child: &mut Child) {
    let group = child.id() as libc::pid_t;
    // SAFETY: the child has not been waited for, so the group's number is still its own.
    unsafe { libc::kill(-group, libc::SIGKILL) };
    let start = Instant::now();
    while matches!(child.try_wait(), Ok(None)) && start.elapsed() < Duration::from_secs(2) {
        thread::sleep(Duration::from_millis(5));
    }
}

/// Reads a pipe to its end on a thread of its own, so that the child never waits for a reader.
fn drain(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What was read before a failure is still worth having.
            let _ = pipe.read_to_end(&mut bytes);
        }
        // Nobody waits any more: fine.
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}
