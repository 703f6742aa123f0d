//! The driver: opened and initialised once in this process, at the first call that needs it.
//!
//! Rules: nothing happens when the plugin is opened. The outcome, also a failure, is what every later
//! caller gets. A process that only asks how many devices there are is left as it was: the driver
//! cannot be used in a child that is forked after its initialisation (see `probe`).

use crate::device::Device;
use crate::library::Library;
use crate::newer::Newer;
use crate::{doors, fork, search};
use llaisys_runtime_core::error::{Error, Result};
use once_cell::sync::OnceCell;
use parking_lot::Mutex;

/// A driver that is open, initialised and has devices.
pub(crate) struct Driver {
    /// What `cuDriverGetVersion` answers: 1000 × major + 10 × minor.
    pub(crate) version: i32,
    /// What it has beside what `cust_raw` knows.
    pub(crate) newer: Newer,
    /// The devices, at their ordinals.
    pub(crate) devices: Vec<Device>,
    /// Held while a device gets its context or its pool, so that each sees the other's peers. Never
    /// on a hot path.
    pub(crate) setup: Mutex<()>,
}

/// What came of the one attempt.
static OUTCOME: OnceCell<Result<Driver>> = OnceCell::new();

/// The driver, opened and initialised by the first caller.
///
/// # Errors
/// The reason why there is none, the same each time; `FORKED` in a child of a process that had one.
#[inline]
pub(crate) fn driver() -> Result<&'static Driver> {
    if fork::forked() {
        return Err(fork::error());
    }
    match OUTCOME.get() {
        Some(Ok(driver)) => Ok(driver),
        _ => first(),
    }
}

#[cold]
fn first() -> Result<&'static Driver> {
    if OUTCOME.get().is_none() {
        // Before the cell is entered: a child forked meanwhile must not wait for a thread it does
        // not have.
        fork::touch()?;
    }
    OUTCOME.get_or_init(open).as_ref().map_err(Error::clone)
}

/// Whether a child that is being forked now inherits an initialised driver, or one half-way. Asked
/// in the child, while it is being forked: async-signal-safe.
pub(crate) fn was_touched() -> bool {
    !matches!(OUTCOME.get(), Some(Err(_)))
}

/// The outcome, if the attempt was made.
pub(crate) fn outcome() -> Option<Result<&'static Driver>> {
    Some(OUTCOME.get()?.as_ref().map_err(Error::clone))
}

fn open() -> Result<Driver> {
    let library = search::find(Library::start)?;
    // SAFETY: what was found is a CUDA driver, and it is never closed.
    unsafe { doors::resolve(|name| library.address(name)) };
    Driver::start(library.version, library.count)
}

impl Driver {
    /// Lists the devices of a driver that is initialised. Makes no context (contract D4).
    fn start(version: i32, count: i32) -> Result<Driver> {
        let devices =
            (0..count).map(|ordinal| Device::find(ordinal, count)).collect::<Result<Vec<_>>>()?;
        Ok(Driver { version, newer: Newer::find(version), devices, setup: Mutex::new(()) })
    }
}
