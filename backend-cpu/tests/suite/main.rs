//! The CPU backend, raw: without `Managed` above it.
//!
//! Rule: order is tested with gates (a host function that waits until the test lets it go on), never
//! with sleeps. A test that polls does so for something that must come sooner or later.

mod batches;
mod capabilities;
mod copies;
mod devices;
mod events;
mod fills;
mod forking;
mod gate;
mod handles;
mod managed;
mod memory;
mod order;
mod pitched;
mod pointers;
mod random;
mod registrations;
mod rig;
mod stream_memory;
mod streams;
mod threads;
