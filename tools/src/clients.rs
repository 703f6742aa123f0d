//! The demo's clients in other languages: where they are and how one is run.
//!
//! Rule: a client is a program of its own that takes `--device NAME --ordinal N --mib N --repeat N
//! --json` and prints a [`Measured`] as a line of JSON for each leg. What it says on standard error is the
//! reason when it fails. One that does not come to an end is ended.

use crate::row::{self, Measured};
use std::ffi::OsString;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A program that runs the demo's sequence.
pub struct Client {
    /// Its language, as its rows say it.
    pub name: &'static str,
    program: OsString,
    arguments: Vec<OsString>,
}

/// What a client is to do.
pub struct Job<'a> {
    /// The name of the backend.
    pub backend: &'a str,
    /// The ordinal of the device.
    pub device: i32,
    /// MiB that are moved on each leg.
    pub mib: u64,
    /// How often.
    pub repeat: u32,
    /// How long it may take.
    pub limit: Duration,
}

/// The clients in a folder: `c/copy_two_streams`, `cpp/copy_two_streams` and
/// `python/copy_two_streams.py`. The built ones know their library; Python is told of it.
///
/// # Errors
/// Which one is missing.
pub fn find(folder: &Path, library: &Path) -> Result<Vec<Client>, String> {
    let at = |place: &str| {
        let path = folder.join(place);
        if path.is_file() { Ok(path) } else { Err(format!("no client at {}", path.display())) }
    };
    let built = |name: &'static str| {
        let program = at(&format!("{name}/copy_two_streams"))?.into_os_string();
        Ok::<_, String>(Client { name, program, arguments: Vec::new() })
    };
    let script = at("python/copy_two_streams.py")?.into_os_string();
    let python = std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
    let arguments = vec![script, "--library".into(), library.as_os_str().to_owned()];
    Ok(vec![built("c")?, built("cpp")?, Client { name: "python", program: python, arguments }])
}

impl Client {
    /// Runs the client.
    ///
    /// # Errors
    /// Why there are no complete and right results, with those that there are.
    pub fn run(&self, job: &Job<'_>) -> Result<Vec<Measured>, (Vec<Measured>, String)> {
        let nothing = |reason: String| (Vec::new(), reason);
        let child = self
            .command(job)
            .spawn()
            .map_err(|error| nothing(format!("cannot start {:?}: {error}", self.program)))?;
        let ended = wait(child, job.limit).map_err(nothing)?;
        let (mut results, mut bad) = (Vec::new(), None);
        for line in ended.output.lines().filter(|line| !line.trim().is_empty()) {
            match serde_json::from_str::<Measured>(line) {
                Ok(result) => results.push(result),
                Err(error) => bad = Some(format!("printed `{line}`, which is no result: {error}")),
            }
        }
        let trouble = ended.trouble.or(bad).or_else(|| row::complaint(&results));
        match trouble {
            None => Ok(results),
            Some(reason) => Err((results, reason)),
        }
    }

    fn command(&self, job: &Job<'_>) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .args(["--device", job.backend])
            .args(["--ordinal", &job.device.to_string()])
            .args(["--mib", &job.mib.to_string()])
            .args(["--repeat", &job.repeat.to_string()])
            .arg("--json")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

/// A client that came to its end.
struct Ended {
    output: String,
    /// What it said and how it ended, unless it ended well.
    trouble: Option<String>,
}

/// Waits for a client and reads what it prints meanwhile.
fn wait(mut child: Child, limit: Duration) -> Result<Ended, String> {
    let output = drain(child.stdout.take());
    let errors = drain(child.stderr.take());
    let start = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if start.elapsed() >= limit => {
                // Already dead is as good.
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
            Ok(None) => thread::sleep(Duration::from_millis(20)),
            Err(error) => return Err(format!("cannot wait for it: {error}")),
        }
    };
    let read = |thread: thread::JoinHandle<String>| thread.join().unwrap_or_default();
    let (output, errors) = (read(output), read(errors));
    let said = errors.trim().lines().last().unwrap_or("it said nothing").trim();
    let trouble = match status {
        Some(status) if status.success() => None,
        Some(status) => Some(format!("{status}: {said}")),
        None => Some(format!("ended after {} s without a result: {said}", limit.as_secs())),
    };
    Ok(Ended { output, trouble })
}

/// Reads a pipe to its end on a thread of its own, so that the client never waits for a reader.
fn drain(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What was read before a failure is still worth showing.
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
