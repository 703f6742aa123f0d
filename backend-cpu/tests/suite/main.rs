//! The CPU backend, raw: without `Managed` above it.
//!
//! Rule: order is tested with gates (a host function that waits until the test lets it go on), never
//! with sleeps. A test that polls does so for something that must come sooner or later.

mod copies;
mod forking;
mod gate;
mod handles;
mod memory;
mod order;
mod random;
mod rig;
mod threads;
