//! `llaisys-rt doctor`: what a machine has of CUDA, what is wrong with it, and what to do.
//!
//! | question | file |
//! |---|---|
//! | what is asked, in which order? | this one |
//! | which folders are looked in? | `place` |
//! | which libraries are there, in which version? | `library`, `version` |
//! | which toolkits? | `toolkit` |
//! | which driver does a toolkit need? | `compatibility` |
//! | what does a compute capability mean? | `capability` |
//! | what does the system show of the driver? | `driver` |
//! | is it a container, WSL, limited? | `machine` |
//! | what does the driver answer? | `asked`, `child` |
//! | what do the backends say? | `backends` |
//! | which variables matter? | `environment` |
//! | which faults are there? | `fault`; found in `driver_faults`, `library_faults`, `backend_faults`, `environment_faults` |
//! | how is it printed? | `text` |
//! | how does a folder stand for a machine? | `root` |
//!
//! Rules: this process opens no driver and no backend; a child with a time limit does. Facts are found
//! first and judged afterwards, so that a fault can look at all of them.

mod asked;
mod backend_faults;
mod backends;
mod capability;
mod child;
mod compatibility;
mod driver;
mod driver_faults;
mod environment;
mod environment_faults;
mod fault;
mod library;
mod library_faults;
mod machine;
mod place;
mod root;
mod text;
mod toolkit;
mod version;

use crate::print;
use crate::progress::Progress;
use backends::{Backends, Candidate, Device, Trouble};
use compatibility::Level;
use driver::Driver;
use environment::Variable;
use fault::{Fault, Faults, Severity};
use library::Library;
use machine::Machine;
use place::{Origin, Places};
use root::Root;
use serde::Serialize;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use toolkit::Toolkit;

/// The arguments of `doctor`.
#[derive(clap::Args)]
pub struct Options {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// How long a driver may take to answer, in seconds
    #[arg(long, value_name = "N", default_value = "60",
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    limit: u64,
    /// A folder that stands for a machine: its files are looked at, and nothing is run
    #[arg(long, value_name = "DIR", value_parser = crate::existing, hide = true)]
    root: Option<PathBuf>,
    /// Ask this machine's backends and driver all the same
    #[arg(long, requires = "root", hide = true)]
    ask: bool,
    /// Open this driver's library and say what it answers: the child's part
    #[arg(long, value_name = "NAME", hide = true)]
    ask_driver: Option<OsString>,
    /// A device node that the child tries to open
    #[arg(long, value_name = "PATH", requires = "ask_driver", hide = true)]
    node: Vec<String>,
}

/// What `--json` prints. Fields are added, never renamed.
#[derive(Serialize)]
pub struct Report {
    version: &'static str,
    /// What is wrong, the worst first.
    faults: Vec<Fault>,
    machine: Machine,
    driver: Driver,
    libraries: Vec<Library>,
    toolkits: Vec<Toolkit>,
    devices: Vec<Device>,
    candidates: Vec<Candidate>,
    environment: Vec<Variable>,
    /// Whether backends and driver were asked.
    asked: bool,
    #[serde(skip)]
    level: Level,
    #[serde(skip)]
    trouble: Option<Trouble>,
}

/// Looks, asks, judges and prints; the exit code says whether a fault was found.
pub fn run(options: &Options) -> ExitCode {
    if let Some(name) = &options.ask_driver {
        return asked::answer(name, &options.node);
    }
    let report = Report::find(options);
    if options.json {
        print::json(&report)
    } else {
        text::print(&report)
    }
    ExitCode::from(u8::from(report.faults.iter().any(|fault| fault.severity == Severity::Error)))
}

impl Report {
    fn find(options: &Options) -> Report {
        let root = Root::new(options.root.clone());
        let ask = options.ask || !root.is_a_folder();
        let limit = Duration::from_secs(options.limit);
        let progress = Progress::new(if ask { 3 } else { 1 });
        progress.step("looking at files".to_owned());
        let machine = Machine::find(&root);
        let mut driver = Driver::find(&root, &machine);
        let places = Places::find(&root);
        let libraries = library::find(&root, &places);
        let toolkits = toolkit::find(&root, &places, &libraries);
        let mut backends = Backends::default();
        if ask {
            progress.step("asking the driver".to_owned());
            driver.asked = asked::ask(&first_driver(), &permitted(&driver), limit);
            progress.step("asking the backends".to_owned());
            backends = backends::ask(limit);
            driver.look_again(&root, &machine);
        }
        progress.end();
        let mut report = Report {
            version: env!("CARGO_PKG_VERSION"),
            faults: Vec::new(),
            machine,
            driver,
            libraries,
            toolkits,
            devices: backends.devices,
            candidates: backends.candidates,
            environment: environment::set(),
            asked: ask,
            level: Level::default(),
            trouble: backends.trouble,
        };
        report.judge(&root);
        report
    }

    fn judge(&mut self, root: &Root) {
        let answer = self.driver.asked.as_ref().filter(|answer| !answer.is_of_a_stub());
        let opened = || answer.and_then(asked::Answer::release);
        let library = self.driver_library().and_then(|library| library.version.clone());
        self.driver.library = library.or_else(opened);
        let of_a_device = || self.devices.iter().find_map(Device::cuda);
        let said = answer.and_then(asked::Answer::cuda).or_else(of_a_device);
        let release = self.driver.library.clone().or_else(|| self.driver.kernel_module.clone());
        self.level = Level::of(release, said);
        self.driver.cuda = self.level.cuda.map(compatibility::spell);
        let devices: Vec<(String, (u32, u32))> = self
            .devices
            .iter()
            .filter_map(|device| Some((device.label(), device.capability()?)))
            .collect();
        for toolkit in &mut self.toolkits {
            toolkit.judge(&self.level, &devices);
        }
        let mut faults = Faults::default();
        driver_faults::find(self, &mut faults);
        library_faults::find(self, &mut faults);
        backend_faults::find(self, &mut faults);
        environment_faults::find(root, &self.machine, &mut faults);
        self.faults = faults.into_sorted();
    }

    /// The driver's library that is used: what was opened when the driver was asked; without that, what
    /// the environment names, or the dynamic linker takes, or lies where it is always looked for.
    fn driver_library(&self) -> Option<&Library> {
        let answer = self.driver.asked.as_ref().filter(|answer| !answer.is_of_a_stub());
        if let Some(file) = answer.and_then(|answer| answer.file.as_ref()) {
            return self.libraries.iter().find(|library| library.path.as_os_str() == &**file);
        }
        let of_driver = || self.libraries.iter().filter(|library| library.name == library::DRIVER);
        let is_one = |library: &&Library| {
            !matches!(library.origin, Origin::Stub)
                && library.names.iter().any(|name| name == "libcuda.so.1")
        };
        let named = place::paths_of("LLAISYS_CUDA_DRIVER");
        of_driver()
            .find(|library| named.contains(&library.path))
            .or_else(|| of_driver().filter(is_one).find(|library| library.first))
            .or_else(|| of_driver().filter(is_one).find(|library| library.origin == Origin::Wsl))
            .or_else(|| of_driver().filter(is_one).find(|library| library.origin == Origin::System))
    }

    /// What the dynamic linker takes for `libcuda.so.1`, stub or not.
    fn linked_driver(&self) -> Option<&Library> {
        self.libraries.iter().find(|library| {
            library.name == library::DRIVER
                && library.first
                && library.names.iter().any(|name| name == "libcuda.so.1")
        })
    }

    /// Whether the NVIDIA backend has a device: then nothing that it needs is missing.
    fn works(&self) -> bool {
        self.devices.iter().any(|device| device.backend == "nvidia")
    }

    /// Whether anything says that there is, or was meant to be, an NVIDIA GPU.
    fn is_nvidia_there(&self) -> bool {
        self.driver.is_there()
            || self.libraries.iter().any(|library| {
                library.name == library::DRIVER
                    && !matches!(library.origin, Origin::Stub | Origin::Compat)
            })
    }
}

/// What the runtime opens first: what the environment names, or the dynamic linker's.
fn first_driver() -> OsString {
    let named = place::paths_of("LLAISYS_CUDA_DRIVER");
    named.into_iter().next().map_or_else(|| "libcuda.so.1".into(), PathBuf::into_os_string)
}

/// The nodes that this user may open by their permissions.
fn permitted(driver: &Driver) -> Vec<String> {
    let nodes = driver.nodes.iter().filter(|node| node.permitted);
    nodes.map(|node| node.path.clone()).collect()
}
