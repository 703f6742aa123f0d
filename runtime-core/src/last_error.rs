//! The thread's last-error slot (contract E2).
//!
//! Rule: the slot keeps the first failure until it is read; a later success does not clear it.
//! Reading clears, peeking does not. What was read stays in memory until this thread's next
//! failing call, so the pointers that C code holds stay good until then.
//!
//! A plugin has a slot of its own (its own copy of this crate); `import` reads that one at once
//! after each failure, so the two never mix.

use crate::error::Error;
use crate::status::Status;
use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::mem::ManuallyDrop;

/// One failed call, with texts ready for C.
pub struct FailedCall {
    /// What kind of failure it was.
    pub status: Status,
    /// The operation that failed, for example `memcpy_async`.
    pub operation: CString,
    /// The native driver's code, 0 where no driver was asked.
    pub native_code: i64,
    /// The native driver's name for its code; empty where no driver was asked.
    pub native_name: CString,
    /// What was asked and what was found.
    pub message: CString,
}

impl FailedCall {
    fn new(operation: &str, error: &Error) -> FailedCall {
        let (native_code, native_name) = match error.native() {
            Some(native) => (native.code, native.name.as_str()),
            None => (0, ""),
        };
        FailedCall {
            status: error.status(),
            operation: c_text(operation),
            native_code,
            native_name: c_text(native_name),
            message: c_text(error.message()),
        }
    }

    /// The failure as a Rust error again.
    pub fn to_error(&self) -> Error {
        let error = Error::new(self.status, lossy(&self.message));
        if self.native_name.is_empty() && self.native_code == 0 {
            error
        } else {
            error.with_native(self.native_code, lossy(&self.native_name))
        }
    }
}

fn lossy(text: &CStr) -> String {
    text.to_string_lossy().into_owned()
}

/// `text` for C; a NUL inside, which C cannot carry, becomes a replacement character.
fn c_text(text: &str) -> CString {
    CString::new(text).unwrap_or_else(|_| {
        CString::new(text.replace('\0', "\u{fffd}")).expect("every NUL was just replaced")
    })
}

struct Slot {
    /// The failure that nobody has read yet.
    pending: Option<Box<FailedCall>>,
    /// The failure that was read last: C code may still hold pointers into it.
    read: Option<Box<FailedCall>>,
}

thread_local! {
    // No destructor of its own: exit handlers, which come after those, fail too and read what they left.
    static SLOT: ManuallyDrop<RefCell<Slot>> =
        const { ManuallyDrop::new(RefCell::new(Slot { pending: None, read: None })) };
    static SWEEPER: Sweeper = const { Sweeper };
}

/// Empties the slot of a thread that ends; that of the main thread ends with the process.
struct Sweeper;

impl Drop for Sweeper {
    fn drop(&mut self) {
        // SAFETY: both only read numbers.
        if unsafe { libc::getpid() != libc::gettid() } {
            SLOT.with(|slot| {
                if let Ok(mut slot) = slot.try_borrow_mut() {
                    (slot.pending, slot.read) = (None, None);
                }
            });
        }
    }
}

/// Puts a failure into this thread's slot, unless an unread one is there, and returns its status.
///
/// While the thread's storage is being torn down (a free from a destructor at thread exit) there is
/// nobody to read it; the status alone is returned.
#[cold]
pub fn record(operation: &str, error: &Error) -> Status {
    let _registered = SWEEPER.try_with(|_| ());
    let _ = SLOT.try_with(|slot| {
        if let Ok(mut slot) = slot.try_borrow_mut() {
            slot.read = None;
            if slot.pending.is_none() {
                slot.pending = Some(Box::new(FailedCall::new(operation, error)));
            }
        }
    });
    error.status()
}

/// Reads and clears the slot. The pointer stays good until this thread's next failing call.
pub fn take() -> Option<*const FailedCall> {
    SLOT.try_with(|slot| {
        let slot = &mut *slot.borrow_mut();
        slot.read = Some(slot.pending.take()?);
        slot.read.as_deref().map(|call| call as *const FailedCall)
    })
    .ok()
    .flatten()
}

/// Reads the slot and leaves it. The pointer stays good until the slot is read and another call fails.
pub fn peek() -> Option<*const FailedCall> {
    SLOT.try_with(|slot| slot.borrow().pending.as_deref().map(|call| call as *const FailedCall))
        .ok()
        .flatten()
}

/// Reads and clears the slot, as a Rust error; for `import` and for Rust callers.
pub fn take_error() -> Option<Error> {
    SLOT.try_with(|slot| slot.borrow_mut().pending.take().map(|call| call.to_error()))
        .ok()
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fail(operation: &str, status: Status, message: &str) {
        record(operation, &Error::new(status, message));
    }

    #[test]
    fn the_first_failure_is_kept_until_it_is_read() {
        fail("memcpy_async", Status::InvalidValue, "kind 42 is not one of 0..=3");
        fail("malloc_device", Status::OutOfMemory, "second");
        assert!(peek().is_some());
        let first = take_error().expect("a failure was recorded");
        assert_eq!(first.status(), Status::InvalidValue);
        assert!(take_error().is_none() && peek().is_none());
    }

    #[test]
    fn what_was_read_stays_good_until_the_next_failure() {
        fail("a", Status::InvalidValue, "first");
        let read = take().expect("a failure was recorded");
        // SAFETY: no call of this thread failed since `take`.
        assert_eq!(unsafe { &*read }.message.to_bytes(), b"first");
        fail("b", Status::NotReady, "second");
        assert_eq!(take_error().expect("recorded").status(), Status::NotReady);
    }

    #[test]
    fn a_text_with_a_nul_inside_is_not_lost() {
        fail("a", Status::Internal, "left\0right");
        let error = take_error().expect("recorded");
        assert_eq!(error.message(), "left\u{fffd}right");
    }

    #[test]
    fn each_thread_has_its_own_slot() {
        fail("a", Status::InvalidValue, "mine");
        std::thread::spawn(|| assert!(take().is_none())).join().expect("no panic");
        assert!(take().is_some());
    }
}
