//! What a test steers and counts. Callable at any time; no guard.

use crate::entry::text;
use crate::faults;
use std::sync::atomic::Ordering::Relaxed;

/// Calls of the primary contexts' reset.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_resets() -> i64 {
    faults::RESETS.load(Relaxed)
}

/// Uses of a stream or an event after its end, which end the process on the real driver.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_misuses() -> i64 {
    faults::MISUSES.load(Relaxed)
}

/// How often a function was called, by its exported name or by its name without `_v2`; -1 for no name.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_call_count(name: *const libc::c_char) -> i64 {
    text(name).map_or(-1, faults::calls)
}

/// From now on the nth call (0: every one) of a function fails with a code; code 0 takes that back.
#[unsafe(no_mangle)]
pub extern "C" fn fakecuda_fail(name: *const libc::c_char, nth: u64, code: i32) -> i32 {
    match text(name) {
        Ok(name) => {
            faults::fail(name, nth, code);
            0
        }
        Err(code) => code,
    }
}
