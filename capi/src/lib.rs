//! `libllaisys_runtime`: the C ABI. Every symbol that this library exports is defined here.
//!
//! | question | file |
//! |---|---|
//! | what does LLAISYS's table do? | `table` |
//! | which device is current on this thread? | `context` |
//! | what failed, and why? | `errors` |
//! | which devices are there? | `devices` |
//! | which backends are there, and why is one missing? | `loading` |
//! | what can a backend do beyond the twelve? | `backend_table` |
//! | where is a device type's backend, quickly? | `backends` |
//! | which version is this? | `version` |
//! | how are LLAISYS's types spelled? | `types` |
//!
//! Rules: an exported function's body is one guard call, so nothing unwinds into C (contract E1)
//! and a failure is in the thread's slot when the function returns. NULL is looked at before
//! anything is formed from a pointer, and outputs are written only on success. The documentation of
//! what is exported is the documentation in `include/`: `build.rs` puts it there.
//!
//! Loading this library runs nothing and starts no thread; the first call that needs a backend
//! does.

pub mod backend_table;
mod backends;
pub mod context;
pub mod devices;
pub mod errors;
pub mod loading;
pub mod table;
pub mod types;
pub mod version;

/// The core, for Rust programs that link this library: they name one crate (design, "Layout").
pub use llaisys_runtime_core as core;
