//! The versioned table of a backend, for clients that want more than the twelve functions.
//!
//! Rule: it is the table that the core's `export` makes of the managed backend, so what a client
//! reaches through it is checked as everything else is.

use crate::backends::REGISTRY;
use llaisys_runtime_core::abi::LlaisysBackendAPI;
use llaisys_runtime_core::export::guard;
use std::ptr;

/// The table of a device type's backend, with the runtime's checks around the backend: what
/// `LLAISYS_STATUS_*` and the last-error slot say holds here too.
///
/// Returns NULL, with the reason in the slot, when no backend serves `device_type`
/// (`BACKEND_UNAVAILABLE`) or the one that was asked for by name was refused (`BACKEND_REFUSED`).
/// The table belongs to the runtime and stays for the life of the process. Look at `struct_size`
/// before you use a function that a newer header added.
#[unsafe(no_mangle)]
pub extern "C" fn llaisysGetBackendAPI(device_type: i32) -> *const LlaisysBackendAPI {
    guard("llaisysGetBackendAPI", || Ok(&raw const REGISTRY.backend(device_type)?.table))
        .unwrap_or(ptr::null())
}
