//! The atomics and the cell that the engine's own protocols are written with.
//!
//! Rule: a file with such a protocol (`ring`, `claim`, `progress`, `identity`, `signal`, `sleepers`) takes them from here and names
//! nothing of this crate that is not one of them, so that `tests/models` can compile that very file over loom's, which
//! run every interleaving.

pub use llaisys_runtime_core::futex;
pub use std::hint::spin_loop;
pub use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
pub use std::thread::yield_now;

/// A place for a value whose users exclude each other by a protocol.
pub struct Cell<T>(std::cell::UnsafeCell<T>);

impl<T> Cell<T> {
    /// A cell with this value.
    pub const fn new(value: T) -> Cell<T> {
        Cell(std::cell::UnsafeCell::new(value))
    }

    /// Reads through a pointer that is good for the call.
    #[inline]
    pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    /// Writes through a pointer that is good for the call.
    #[inline]
    pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}
