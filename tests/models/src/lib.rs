//! Model checks: loom runs every interleaving of the protocols that this project wrote itself.
//!
//! Rule: a model compiles the very file of the product, over loom's atomics (`atomic` stands in for
//! `runtime-core/src/atomic.rs`).

/// Loom's atomics under the name that the protocols use.
pub mod atomic {
    pub use loom::sync::atomic::{AtomicU64, Ordering, fence};
}

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
