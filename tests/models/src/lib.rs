//! Model checks: loom runs every interleaving of the protocols that this project wrote itself.
//!
//! Rule: a model compiles the very file of the product, over loom's atomics (`atomic` stands in for the
//! `atomic.rs` of the crate that the file is from).

/// Loom's atomics under the name that the protocols use.
pub mod atomic {
    pub use crate::futex;
    pub use loom::hint::spin_loop;
    pub use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
    pub use loom::thread::yield_now;

    /// Loom's cell, which sees two threads that do not exclude each other.
    pub struct Cell<T>(loom::cell::UnsafeCell<T>);

    impl<T> Cell<T> {
        /// A cell with this value.
        pub fn new(value: T) -> Cell<T> {
            Cell(loom::cell::UnsafeCell::new(value))
        }

        /// Reads.
        pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
            self.0.with(read)
        }

        /// Writes.
        pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
            self.0.with_mut(write)
        }
    }
}

pub mod futex;

#[allow(
    dead_code,
    missing_docs,
    clippy::new_without_default,
    reason = "the product's file as it is"
)]
#[path = "../../../runtime-core/src/fences.rs"]
pub mod fences;

#[allow(
    dead_code,
    missing_docs,
    clippy::new_without_default,
    reason = "the product's file as it is"
)]
#[path = "../../../runtime-core/src/event_state.rs"]
pub mod event_state;

#[allow(
    dead_code,
    missing_docs,
    clippy::new_without_default,
    reason = "the product's file as it is"
)]
#[path = "../../../runtime-core/src/stream_state.rs"]
pub mod stream_state;

#[allow(
    dead_code,
    missing_docs,
    clippy::new_without_default,
    reason = "the product's file as it is"
)]
#[path = "../../../runtime-core/src/record.rs"]
pub mod record;

#[allow(
    dead_code,
    missing_docs,
    clippy::new_without_default,
    reason = "the product's file as it is"
)]
#[path = "../../../backend-cpu/src/claim.rs"]
pub mod claim;

#[allow(
    dead_code,
    missing_docs,
    clippy::new_without_default,
    reason = "the product's file as it is"
)]
#[path = "../../../backend-cpu/src/identity.rs"]
pub mod identity;

#[allow(
    dead_code,
    missing_docs,
    clippy::new_without_default,
    reason = "the product's file as it is"
)]
#[path = "../../../backend-cpu/src/progress.rs"]
pub mod progress;

#[allow(
    dead_code,
    missing_docs,
    clippy::new_without_default,
    reason = "the product's file as it is"
)]
#[path = "../../../backend-cpu/src/ring.rs"]
pub mod ring;

#[allow(
    dead_code,
    missing_docs,
    clippy::new_without_default,
    reason = "the product's file as it is"
)]
#[path = "../../../backend-cpu/src/signal.rs"]
pub mod signal;

#[allow(
    dead_code,
    missing_docs,
    clippy::new_without_default,
    reason = "the product's file as it is"
)]
#[path = "../../../backend-cpu/src/sleepers.rs"]
pub mod sleepers;

#[allow(
    dead_code,
    missing_docs,
    clippy::new_without_default,
    reason = "the product's file as it is"
)]
#[path = "../../../runtime-core/src/visitors.rs"]
pub mod visitors;
