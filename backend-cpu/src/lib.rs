//! The CPU backend: real asynchronous streams over host memory.
//!
//! | question | file |
//! |---|---|
//! | what is an operation of the runtime here? | `cpu` |
//! | what can be configured? | `configuration` |
//! | what belongs together, and what happens to it at `fork`? | `engine` |
//! | in which order does work run? | `device`, with `active` |
//! | what is a stream inside, a point in a stream, a handle? | `queue`, `position`, `handle`, with `identity`, `slots` |
//! | how do threads put work in and take it out without a lock? | `ring`, `claim`, `progress` |
//! | what is an event? | `events` |
//! | what is one piece of work? | `command`, with `fill` |
//! | what shapes do copies have, and what is staged? | `transfer`, with `pitched`, `batch`, `staging` |
//! | who runs it? | `runner`: workers (`worker`, `pool`, `ready`, `berth`, `lookout`, and the core's `thread`) and threads that wait |
//! | how is much memory moved or filled? | `bulk`, with `crew` and the core's `streaming` |
//! | what may a host function not do? | `host_call` |
//! | what does a seed do? | `schedule` |
//! | where does memory come from, and when does it go back? | `memory`, with `blocks`, `deferred` |
//! | what if the host must not touch device memory? | `strict`, with `text` |
//! | what of the user's own memory is known? | `registrations`, with `pages` |
//! | how much memory may be used? | `budget`, with the core's `cgroup` and `available_memory` |
//! | what are the devices? | `devices`, with `processor` |
//! | how does a thread wait? | `signal`, `sleepers`, and the core's `lock`, both on its `futex` |
//!
//! Rule: nothing starts before it is needed. Making a [`Cpu`] costs nothing; a thread starts when
//! there is first work that nobody can do at once, and ends when it has had none for a while.

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!(
    "the CPU backend waits with Linux futexes and puts its handles into 64-bit pointers"
);

mod active;
mod atomic;
mod batch;
mod berth;
mod blocks;
mod budget;
mod bulk;
mod c_heap;
mod claim;
mod command;
mod configuration;
mod cpu;
mod crew;
mod deferred;
mod device;
mod devices;
mod engine;
mod events;
mod fill;
mod handle;
mod host_call;
mod identity;
mod lookout;
mod memory;
mod pages;
mod pitched;
mod pool;
mod position;
mod processor;
mod progress;
mod queue;
mod ready;
mod registrations;
#[cfg(test)]
mod rig;
mod ring;
mod runner;
mod schedule;
mod signal;
mod sleepers;
mod slots;
mod staging;
mod strict;
mod text;
mod transfer;
mod worker;

pub use configuration::Configuration;
pub use cpu::Cpu;
