//! A futex for models: the kernel looks at the word and puts the thread to sleep in one step.

use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Condvar, Mutex};
use std::time::Duration;

loom::lazy_static! {
    static ref KERNEL: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
}

/// Sleeps while `word` holds `expected`, until a wake; there is no time in a model.
pub fn wait(word: &AtomicU32, expected: u32, _timeout: Option<Duration>) {
    let guard = KERNEL.0.lock().expect("no panic holds it");
    // The kernel reads what is newest, as a read-modify-write does.
    if word.fetch_add(0, Ordering::SeqCst) == expected {
        drop(KERNEL.1.wait(guard).expect("no panic holds it"));
    }
}

/// Wakes all who sleep; those who were not meant look again.
pub fn wake(_word: &AtomicU32, _count: i32) {
    let guard = KERNEL.0.lock().expect("no panic holds it");
    KERNEL.1.notify_all();
    drop(guard);
}
