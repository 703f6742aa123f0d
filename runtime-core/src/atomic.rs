//! The atomics that our own protocols are written with.
//!
//! Rule: a file with such a protocol takes them from here, so that `tests/models` can compile that very
//! file over loom's, which run every interleaving.

pub use std::sync::atomic::{AtomicU64, Ordering, fence};
