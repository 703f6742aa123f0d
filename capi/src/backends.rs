//! The backends of this process, and the quick way to one.
//!
//! Rule: the CPU is built in and everything else comes through the registry; nothing happens before
//! the first question (design, decision 4).

use llaisys_backend_cpu::Cpu;
use llaisys_runtime_core::api::RuntimeApi;
use llaisys_runtime_core::device_type::{self, DeviceType};
use llaisys_runtime_core::error::Result;
use llaisys_runtime_core::registry::{Builtin, Registry};

static BUILT_IN: [Builtin; 1] = [Builtin::new::<Cpu>(device_type::CPU, "cpu", "")];

/// The one registry.
pub static REGISTRY: Registry = Registry::new(&BUILT_IN);

/// The backend of a device type.
///
/// # Errors
/// `BACKEND_UNAVAILABLE` and its like: why there is none.
#[inline]
pub fn get(device_type: DeviceType) -> Result<&'static dyn RuntimeApi> {
    Ok(REGISTRY.backend(device_type)?.api)
}
