//! One case: a story from the field or a sentence of the contract, with what it needs.

use crate::context::Context;
use crate::needs::Need;
use crate::outcome::Checked;
use crate::raw::Plugin;
use llaisys_runtime_core::api::Capabilities;

/// What a case is about; one file of `cases` each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Area {
    /// Which devices there are and which one is current.
    Devices,
    /// What a failure leaves behind.
    Errors,
    /// Allocation and freeing.
    Memory,
    /// Copies.
    Copies,
    /// Order, waiting, handles.
    Streams,
    /// Points in a stream.
    Events,
    /// Users' functions in a stream.
    HostFunctions,
    /// Users' values that the runtime keeps.
    Slots,
    /// Where memory went.
    Accounting,
    /// What a backend says that it is able to do.
    Capabilities,
    /// Many threads.
    Concurrency,
    /// Exit, fork, signals.
    Life,
    /// Backends from files.
    Plugins,
    /// The NVIDIA plugin over a driver that fails on demand.
    NvidiaDriver,
    /// The plugin's one symbol and its descriptor.
    RawQuery,
    /// The plugin's table: which entries are there.
    RawTable,
    /// What the plugin writes, and where.
    RawOutputs,
    /// What a failure of the plugin's leaves behind.
    RawErrors,
    /// Memory, copies, streams and events of the plugin alone.
    RawWork,
}

impl Area {
    /// Every area, in the order of a report.
    pub const ALL: [Area; 19] = [
        Area::Devices,
        Area::Errors,
        Area::Memory,
        Area::Copies,
        Area::Streams,
        Area::Events,
        Area::HostFunctions,
        Area::Slots,
        Area::Accounting,
        Area::Capabilities,
        Area::Concurrency,
        Area::Life,
        Area::Plugins,
        Area::NvidiaDriver,
        Area::RawQuery,
        Area::RawTable,
        Area::RawOutputs,
        Area::RawErrors,
        Area::RawWork,
    ];

    /// The word in reports.
    pub fn word(self) -> &'static str {
        match self {
            Area::Devices => "devices",
            Area::Errors => "errors",
            Area::Memory => "memory",
            Area::Copies => "copies",
            Area::Streams => "streams",
            Area::Events => "events",
            Area::HostFunctions => "host_functions",
            Area::Slots => "slots",
            Area::Accounting => "accounting",
            Area::Capabilities => "capabilities",
            Area::Concurrency => "concurrency",
            Area::Life => "life",
            Area::Plugins => "plugins",
            Area::NvidiaDriver => "nvidia_driver",
            Area::RawQuery => "raw_query",
            Area::RawTable => "raw_table",
            Area::RawOutputs => "raw_outputs",
            Area::RawErrors => "raw_errors",
            Area::RawWork => "raw_work",
        }
    }
}

/// Whom a case asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The plugin's own table, with no core around it.
    Raw,
    /// The public C ABI of the library over the backend.
    Core,
}

impl Mode {
    /// Both, in the order of a report.
    pub const ALL: [Mode; 2] = [Mode::Raw, Mode::Core];

    /// The word in reports.
    pub fn word(self) -> &'static str {
        match self {
            Mode::Raw => "raw",
            Mode::Core => "core",
        }
    }
}

/// What a case does, with what must be there for it to say anything.
#[derive(Clone, Copy)]
pub enum Body {
    /// Against the plugin alone. What it needs are capabilities.
    Raw(&'static [Capabilities], fn(&'static Plugin) -> Checked),
    /// Against the library.
    Core(&'static [Need], fn(&'static Context) -> Checked),
}

/// One case.
#[derive(Clone, Copy)]
pub struct Case {
    /// Its story in a few words; unique.
    pub name: &'static str,
    /// What it is about.
    pub area: Area,
    /// The clause of the contract that it checks.
    pub clause: &'static str,
    /// The case itself.
    pub body: Body,
}

impl Case {
    /// Whom it asks.
    pub fn mode(&self) -> Mode {
        match self.body {
            Body::Raw(..) => Mode::Raw,
            Body::Core(..) => Mode::Core,
        }
    }

    /// Whether it says that it needs something; a case against the plugin alone says capabilities only.
    pub fn needs(&self, need: Need) -> bool {
        matches!(self.body, Body::Core(needs, _) if needs.contains(&need))
    }

    /// Whether every backend has what the case is about: it needs nothing optional but the gates, with
    /// which streams are held.
    pub fn is_of_the_core_profile(&self) -> bool {
        match self.body {
            Body::Raw(needs, _) => {
                needs.iter().all(|need| Capabilities::HOST_FUNCTIONS.contains(*need))
            }
            Body::Core(needs, _) => !needs.iter().any(|need| need.is_optional()),
        }
    }

    /// The case as lists and filters know it: `area/name [clause]`.
    pub fn title(&self) -> String {
        format!("{}/{} [{}]", self.area.word(), self.name, self.clause)
    }
}

/// Lists the cases of an area: `cases! { Area::Memory; "M1" name [Need, …]; … }`.
macro_rules! cases {
    ($area:expr; $($clause:literal $name:ident [$($need:ident),*];)*) => {
        /// The cases of this area.
        pub const CASES: &[$crate::case::Case] = &[$($crate::case::Case {
            name: stringify!($name),
            area: $area,
            clause: $clause,
            body: $crate::case::Body::Core(&[$($crate::needs::Need::$need),*], $name),
        }),*];
    };
}

/// Lists the cases of an area against the plugin alone: `raw_cases! { Area::RawTable; "P3" name
/// [CAPABILITY, …]; … }`.
macro_rules! raw_cases {
    ($area:expr; $($clause:literal $name:ident [$($need:ident),*];)*) => {
        /// The cases of this area.
        pub const CASES: &[$crate::case::Case] = &[$($crate::case::Case {
            name: stringify!($name),
            area: $area,
            clause: $clause,
            body: $crate::case::Body::Raw(
                &[$(llaisys_runtime_core::api::Capabilities::$need),*],
                $name,
            ),
        }),*];
    };
}
