//! A strict `libcuda.so.1` on host memory.
//!
//! The NVIDIA backend opens it in place of the real driver where there is no GPU. It answers as the
//! driver on an H200 answers (the program `examples/ask` asks both, `answers-h200.txt` is what the
//! real one said) and its work is as asynchronous as the real one's, so that a wait that is missing is
//! missed here too. Read `driver.rs` first; `doors/` lists every exported function.

mod arena;
mod batches;
mod capture;
mod contexts;
mod copies;
mod devices;
mod doors;
mod driver;
mod entry;
mod errors;
mod events;
mod faults;
mod fills;
mod handles;
mod hints;
mod managed;
mod memory;
mod pinned;
mod pointers;
mod pools;
mod settings;
mod shapes;
mod streams;
mod work;
mod workers;
