//! One case: a story from the field or a sentence of the contract, with what it needs.

use crate::context::Context;
use crate::needs::Need;
use crate::outcome::Checked;

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
}

impl Area {
    /// Every area, in the order of a report.
    pub const ALL: [Area; 14] = [
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
        }
    }
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
    /// What must be there for it to say anything.
    pub needs: &'static [Need],
    /// The case itself.
    pub run: fn(&'static Context) -> Checked,
}

/// Lists the cases of an area: `cases! { Area::Memory; "M1" name [Need, …]; … }`.
macro_rules! cases {
    ($area:expr; $($clause:literal $name:ident [$($need:ident),*];)*) => {
        /// The cases of this area.
        pub const CASES: &[$crate::case::Case] = &[$($crate::case::Case {
            name: stringify!($name),
            area: $area,
            clause: $clause,
            needs: &[$($crate::needs::Need::$need),*],
            run: $name,
        }),*];
    };
}
