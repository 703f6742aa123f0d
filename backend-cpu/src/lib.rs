//! The CPU backend: real asynchronous streams over host memory.
//!
//! | question | file |
//! |---|---|
//! | what is an operation of the runtime here? | `cpu` |
//! | what can be configured? | `configuration` |
//! | what belongs together, and what happens to it at `fork`? | `engine` |
//! | in which order does work run? | `device` |
//! | what is a stream, a point in a stream, a handle? | `stream`, `handle` |
//! | what is an event? | `events` |
//! | what is one piece of work? | `command`, with `fill` |
//! | what shapes do copies have, and what is staged? | `transfer`, with `pitched`, `batch`, `staging` |
//! | who runs it? | `worker` |
//! | where does memory come from, and when does it go back? | `memory`, with `blocks`, `deferred` |
//! | what of the user's own memory is known? | `registrations`, with `pages` |
//! | how much memory may be used? | `budget`, with `cgroup` |
//! | what are the devices? | `devices`, with `processor` |
//! | how does a thread wait? | `signal`, and the core's `lock`, both on its `futex` |
//!
//! Rule: nothing starts before it is needed. Making a [`Cpu`] costs nothing; a thread starts when a
//! stream first has work that nobody can do at once, and ends when it has had none for a while.

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!(
    "the CPU backend waits with Linux futexes and puts its handles into 64-bit pointers"
);

mod batch;
mod blocks;
mod budget;
mod cgroup;
mod command;
mod configuration;
mod cpu;
mod deferred;
mod device;
mod devices;
mod engine;
mod events;
mod fill;
mod handle;
mod memory;
mod pages;
mod pitched;
mod processor;
mod registrations;
mod signal;
mod staging;
mod stream;
mod transfer;
mod worker;

pub use configuration::Configuration;
pub use cpu::Cpu;
