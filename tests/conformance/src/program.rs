//! Programs of the suite that run in a process of their own: with another environment, to end it, to
//! fork it, to load what must not be loaded here.
//!
//! A program is a function of this binary, which starts itself again. It tells what it found by its
//! exit code and on stderr; what it prints is for the case that started it.

use crate::context::{Context, Setup};
use crate::forever::forever;
use crate::library::Library;
use crate::outcome::{Checked, Outcome, Stop};
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The exit code of a program that found the backend at fault.
const AT_FAULT: i32 = 99;
/// The exit code of a program that cannot do its work here.
const NOT_HERE: i32 = 98;
/// The exit code of a program that found an operation missing, rightly.
const NOT_SUPPORTED: i32 = 97;

/// Variables that would disturb a program that says itself where backends come from.
const VARIABLES: [&str; 6] = [
    "LLAISYS_BACKENDS",
    "LLAISYS_BACKEND_PATH",
    "LLAISYS_REQUIRE",
    "LLAISYS_LAUNCH_BLOCKING",
    "LLAISYS_CPU_DEVICES",
    "LLAISYS_CPU_MEMORY_LIMIT",
];

/// One program.
#[derive(Clone, Copy)]
pub struct Program {
    /// Its name; unique.
    pub name: &'static str,
    /// What it does; the result is the exit code.
    pub run: fn(&Bare) -> Checked<i32>,
}

/// Lists the programs of a file: `programs![first, second]`.
macro_rules! programs {
    ($($name:ident),* $(,)?) => {
        /// What the cases of this file run in processes of their own.
        pub const PROGRAMS: &[$crate::program::Program] =
            &[$($crate::program::Program { name: stringify!($name), run: $name }),*];
    };
}

/// What a program gets: nothing is opened yet.
pub struct Bare {
    /// The setup of the run.
    pub setup: Setup,
    /// Its arguments.
    pub arguments: Vec<String>,
}

impl Bare {
    /// Opens the library and asks it nothing.
    pub fn library(&self) -> Checked<Library> {
        Library::open(&self.setup.library).map_err(Stop::fail)
    }

    /// What a case gets, for the device type under test.
    pub fn context(&self) -> Checked<&'static Context> {
        self.context_of(&self.setup.device_type)
    }

    /// What a case gets, for another device type.
    pub fn context_of(&self, device_type: &str) -> Checked<&'static Context> {
        let setup = Setup { device_type: device_type.to_owned(), ..self.setup.clone() };
        let context = Context::new(setup, "a program").map_err(Stop::fail)?;
        Ok(forever(context))
    }

    /// Loads a plugin and makes it the device type under test.
    pub fn plugin(&self, path: &str) -> Checked<&'static Context> {
        let library = self.library()?;
        match library.load_backend(Path::new(path)) {
            Ok(number) => self.context_of(&number.to_string()),
            Err(code) => {
                fail!("loading {path}: {code:?}, {:?}", library.take_failure())
            }
        }
    }

    /// An argument.
    pub fn argument(&self, index: usize) -> Checked<&str> {
        let found = self.arguments.get(index).map(String::as_str);
        found.ok_or_else(|| Stop::fail(format!("the program wants {} arguments", index + 1)))
    }
}

/// Runs a program in this process; the result is the exit code.
pub fn run(programs: &[Program], name: &str, bare: &Bare) -> i32 {
    let Some(program) = programs.iter().find(|program| program.name == name) else {
        eprintln!("there is no program `{name}`");
        return NOT_HERE;
    };
    match (program.run)(bare) {
        Ok(code) => code,
        Err(stop) => {
            eprintln!("{}", stop.message);
            match stop.outcome {
                Outcome::Skip => NOT_HERE,
                Outcome::NotSupported => NOT_SUPPORTED,
                _ => AT_FAULT,
            }
        }
    }
}

/// A program that is about to be run in a process of its own.
pub struct Launch {
    name: String,
    setup: Setup,
    wrapper: Vec<OsString>,
    executable: PathBuf,
    arguments: Vec<OsString>,
    set: Vec<(OsString, OsString)>,
    remove: Vec<&'static str>,
    folder: Option<PathBuf>,
    timeout: Duration,
}

/// What came of a process.
#[derive(Debug)]
pub struct Ended {
    name: String,
    /// The exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// It did not end in time.
    pub timed_out: bool,
    /// What it wrote.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
}

impl Launch {
    /// A program with the setup of this run.
    pub fn new(setup: &Setup, name: &str) -> Launch {
        Launch {
            name: name.to_owned(),
            executable: setup.executable.clone(),
            // Less than the case has, so that the case tells the story.
            timeout: setup.timeout.mul_f32(0.8),
            setup: setup.clone(),
            wrapper: Vec::new(),
            arguments: Vec::new(),
            set: Vec::new(),
            remove: Vec::new(),
            folder: None,
        }
    }

    /// With a variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Launch {
        self.set.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// Without the variables that say where backends come from.
    pub fn alone(mut self) -> Launch {
        self.remove.extend(VARIABLES);
        self
    }

    /// Without a variable.
    pub fn without(mut self, name: &'static str) -> Launch {
        self.remove.push(name);
        self
    }

    /// For another device type.
    pub fn device_type(mut self, name: &str) -> Launch {
        self.setup.device_type = name.to_owned();
        self
    }

    /// With an argument.
    pub fn argument(mut self, argument: impl AsRef<OsStr>) -> Launch {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// In another working directory.
    pub fn in_folder(mut self, folder: &Path) -> Launch {
        self.folder = Some(folder.to_owned());
        self
    }

    /// With another library.
    pub fn library(mut self, path: &Path) -> Launch {
        self.setup.library = path.to_owned();
        self
    }

    /// From another copy of this binary, started by another program.
    pub fn wrapped(mut self, wrapper: &[&str], executable: &Path) -> Launch {
        self.wrapper = wrapper.iter().map(OsString::from).collect();
        self.executable = executable.to_owned();
        self
    }

    fn command(&self) -> Command {
        let mut words: Vec<OsString> = self.wrapper.clone();
        words.push(self.executable.clone().into());
        words.extend(protocol(&self.setup));
        words.extend(["--program".into(), self.name.clone().into(), "--".into()]);
        words.extend(self.arguments.iter().cloned());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        for name in &self.remove {
            command.env_remove(name);
        }
        command.envs(self.set.iter().cloned());
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command
    }

    /// Runs it to its end.
    pub fn run(self) -> Checked<Ended> {
        let child = self.command().spawn();
        let child =
            child.map_err(|error| Stop::skip(format!("{} does not start: {error}", self.name)))?;
        Ok(finish(self.name, child, self.timeout))
    }
}

/// The arguments with which this binary starts itself: everything that is the same for a run.
pub fn protocol(setup: &Setup) -> Vec<OsString> {
    let mut words: Vec<OsString> = setup.front.iter().map(OsString::from).collect();
    words.extend(["--library".into(), setup.library.clone().into()]);
    if let Some(plugin) = &setup.plugin {
        words.extend(["--plugin".into(), plugin.clone().into()]);
    }
    words.extend(["--device-type".into(), setup.device_type.clone().into()]);
    words.extend(["--seed".into(), setup.seed.to_string().into()]);
    words.extend(["--include".into(), setup.include.clone().into()]);
    if setup.quick {
        words.push("--quick".into());
    }
    words
}

/// Waits for a process, or ends it when its time is over.
pub fn finish(name: String, mut child: Child, timeout: Duration) -> Ended {
    let stdout = drain(child.stdout.take());
    let stderr = drain(child.stderr.take());
    let started = Instant::now();
    let mut timed_out = false;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if started.elapsed() < timeout => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Ok(None) => {
                timed_out = true;
                let _ = child.kill();
                break child.wait().ok();
            }
            Err(_) => break None,
        }
    };
    let text = |thread: JoinHandle<Vec<u8>>| {
        String::from_utf8_lossy(&thread.join().unwrap_or_default()).into_owned()
    };
    Ended {
        name,
        code: status.and_then(|status| status.code()),
        signal: status.and_then(|status| status.signal()),
        timed_out,
        stdout: text(stdout),
        stderr: text(stderr),
    }
}

/// Reads a pipe to its end beside the process, so that it never blocks on a full one.
fn drain(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

impl Ended {
    /// How it ended, in words.
    pub fn story(&self) -> String {
        let end = match (self.timed_out, self.code, self.signal) {
            (true, ..) => "did not end in time".to_owned(),
            (_, Some(code), _) => format!("ended with exit code {code}"),
            (_, _, Some(signal)) => format!("was ended by signal {signal}"),
            _ => "ended, nobody knows how".to_owned(),
        };
        let said = self.stderr.trim();
        let from = said.char_indices().rev().nth(1500).map_or(0, |(at, _)| at);
        format!("the process `{}` {end}; it said: {}", self.name, &said[from..])
    }

    /// Fails unless it ended with this exit code.
    pub fn expect_code(&self, code: i32) -> Checked {
        if self.code == Some(code) && !self.timed_out {
            return Ok(());
        }
        match self.code {
            Some(NOT_HERE) => Err(Stop::skip(self.stderr.trim())),
            Some(NOT_SUPPORTED) => Err(Stop::not_supported(self.stderr.trim())),
            Some(AT_FAULT) if !self.timed_out => Err(Stop::fail(self.stderr.trim())),
            _ => fail!("expected exit code {code}; {}", self.story()),
        }
    }

    /// Fails unless it ended well.
    pub fn expect_success(&self) -> Checked {
        self.expect_code(0)
    }

    /// Fails when it wrote anything.
    pub fn expect_silence(&self) -> Checked {
        ensure_eq!(self.stdout.as_str(), "", "what `{}` wrote on stdout", self.name);
        ensure_eq!(self.stderr.as_str(), "", "what `{}` wrote on stderr", self.name);
        Ok(())
    }
}
