//! The loader's record and the devices, as `llaisys-rt devices --json` says them in a process of its
//! own.
//!
//! Rule: the child's words are passed on as they are; what is added is what a compute capability means.

use super::capability::{self, Meaning};
use super::child::{self, Ended};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// One backend that was looked at; the fields of `devices --json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Candidate {
    pub name: Option<String>,
    pub version: Option<String>,
    pub path: Option<String>,
    pub taken: bool,
    pub status: String,
    pub reason: String,
    pub device_count: i32,
    pub no_device: Option<NoDevice>,
}

/// Why a backend that is in use has no device.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NoDevice {
    pub status: String,
    pub message: String,
    pub native_code: Option<i64>,
    pub native_name: Option<String>,
}

/// A device; some fields of `devices --json`, and what its capability means.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Device {
    pub backend: String,
    pub ordinal: i32,
    pub name: Option<String>,
    pub compute_capability: Option<String>,
    pub driver_version: Option<String>,
    pub uuid: Option<String>,
    pub pci_address: Option<String>,
    #[serde(skip_deserializing)]
    pub meaning: Option<Meaning>,
}

impl Device {
    /// `nvidia:0`.
    pub fn label(&self) -> String {
        format!("{}:{}", self.backend, self.ordinal)
    }

    /// Its compute capability as numbers.
    pub fn capability(&self) -> Option<(u32, u32)> {
        two(self.compute_capability.as_ref()?)
    }

    /// The CUDA that its driver is for.
    pub fn cuda(&self) -> Option<(u32, u32)> {
        if self.backend == "nvidia" { two(self.driver_version.as_ref()?) } else { None }
    }
}

/// `12.4` as two numbers.
fn two(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// What was asked and came back.
#[derive(Debug, Default, Deserialize)]
pub struct Backends {
    #[serde(rename = "backends")]
    pub candidates: Vec<Candidate>,
    pub devices: Vec<Device>,
    /// Why nothing came back.
    #[serde(skip)]
    pub trouble: Option<Trouble>,
}

/// Why the backends said nothing.
#[derive(Debug)]
pub enum Trouble {
    /// Nothing came back in time.
    TimedOut(Duration),
    /// In words.
    Failed(String),
}

/// Asks all backends.
pub fn ask(limit: Duration) -> Backends {
    let without = |trouble| Backends { trouble: Some(trouble), ..Backends::default() };
    let text = match child::run(&["devices".into(), "--json".into()], limit) {
        Ended::Said(text) => text,
        Ended::TimedOut => return without(Trouble::TimedOut(limit)),
        Ended::Failed(reason) => return without(Trouble::Failed(reason)),
    };
    match serde_json::from_str::<Backends>(&text) {
        Ok(mut backends) => {
            for device in &mut backends.devices {
                device.meaning = device.capability().map(capability::meaning);
            }
            backends
        }
        Err(error) => {
            without(Trouble::Failed(format!("the child's report could not be read: {error}")))
        }
    }
}
