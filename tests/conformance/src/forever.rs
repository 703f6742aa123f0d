//! Things that stay for the rest of the process, because a thread or a stream may come back to them.
//!
//! They are kept in a list, so that what looks for leaks sees that they are wanted.

use std::sync::{Mutex, PoisonError};

static KEPT: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Keeps a value for the rest of the process.
pub fn forever<T>(value: T) -> &'static T {
    let kept: &'static T = Box::leak(Box::new(value));
    let address = std::ptr::from_ref(kept).expose_provenance();
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).push(address);
    kept
}
