//! The core of llaisys-runtime.
//!
//! | question | file |
//! |---|---|
//! | what can a backend do? | `api` |
//! | what does that look like from C? | `abi`, made by `export`, read by `import` |
//! | what went wrong? | `status`, `error`, `last_error` |
//! | which kinds of device are there? | `device_type` |
//! | where do backends come from, and why is one missing? | `registry`, `candidate` |
//! | why was a file refused? | `loader`: `trust`, `elf`, `sanitizer`, then `descriptor` |
//! | what is checked before a backend is called? | `managed`, with `pointers` and `streams` |
//! | where does device memory come from? | `allocator`, counted by `accounting` |
//! | how is much pageable memory copied? | `staging`, over `thread` and `streaming` |
//! | which device is current on this thread? | `current` |
//! | what happens at `fork`? | `fork`, `lock` over `futex` |
//!
//! This crate names no backend (design, "Layout").

pub mod abi;
mod accounting;
mod allocator;
pub mod api;
mod atomic;
pub mod available_memory;
pub mod candidate;
pub mod cgroup;
pub mod copy;
mod copy_plan;
pub mod current;
mod descriptor;
pub mod device_info;
pub mod device_type;
mod elf;
pub mod entries;
pub mod error;
pub mod event;
mod event_state;
mod events;
pub mod export;
mod fences;
pub mod fork;
pub mod futex;
mod hints;
mod host_function;
pub mod import;
pub mod last_error;
pub mod loader;
pub mod lock;
mod lost;
pub mod managed;
pub mod memory;
mod page_map;
mod pointers;
mod record;
pub mod registry;
mod sanitizer;
mod slots;
mod staging;
pub mod status;
pub mod stream;
mod stream_state;
pub mod streaming;
mod streams;
pub mod support;
pub mod thread;
pub mod trust;
mod visitors;

pub use api::RuntimeApi;
pub use error::{Error, Result};
pub use status::Status;
