//! The conformance suite: what every backend, seen through the C ABI, promises (`docs/contract.md`).
//!
//! It opens a `libllaisys_runtime.so` as a client does, asks it for the two tables of a device type and
//! tries every clause that these can show. It knows no backend by name: what is expected follows from
//! capabilities and properties. Two exceptions: the area `nvidia_driver`, which tests the NVIDIA plugin
//! against faults of a driver, and `cases::two_backends`, which has the CPU beside the one under test.
//!
//! | question | file |
//! |---|---|
//! | which cases are there? | `cases`, one file per area |
//! | what is a case, and what may come of one? | `case`, `outcome`, `needs` |
//! | how are the tables called? | `library`, `twelve`, `extended`, with `address`, `failure` |
//! | is every operation there as it says? | `operations` |
//! | what does a case get? | `context` |
//! | how is a stream held? | `gate` |
//! | how is a call that waits watched? | `caller` |
//! | how is a copy stopped half-way? | `held_page` |
//! | which operations copy? | `way` |
//! | has everything that could go on gone on? | `quiet` |
//! | where does data come from, and who sees a byte too many? | `data`, `place`, `guarded` |
//! | what stays until the end? | `forever` |
//! | what runs in a process of its own? | `program` |
//! | where do broken plugins come from? | `plugin_file` |
//! | how are cases run and told about? | `runner`, `report` |
//!
//! # Rules
//!
//! Order is shown with gates, never with sleeps: a backend that is synchronous or racy fails, it is not
//! merely unlucky. Data is seeded per case. Both sides of every destination carry sentinels. A skip has
//! a reason that code has checked. A case leaves nothing unread in the error slot.

// The macros of these three are used by the files below.
#[macro_use]
mod outcome;
#[macro_use]
pub mod case;
#[macro_use]
pub mod program;

mod address;
mod caller;
pub mod cases;
mod code;
mod context;
mod data;
mod elf;
mod extended;
mod failure;
mod folder;
mod forever;
mod gate;
mod guarded;
mod held_page;
pub mod library;
mod needs;
pub mod operations;
mod place;
mod plugin_file;
mod quiet;
pub mod report;
pub mod runner;
mod twelve;
mod way;

pub use case::{Area, Case};
pub use context::{Context, Setup};
pub use outcome::Outcome;
