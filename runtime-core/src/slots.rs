//! Users' own values, kept for a thread and device or for a stream: a cuBLAS handle, say (case 22).
//!
//! Rule: each destructor runs exactly once: when the value is replaced, when its thread ends, at exit
//! for the thread that leaves `main`, or before its stream is destroyed. No lock of the runtime is
//! held while it runs.

use crate::api::{Ordinal, SlotDestructor};
use crate::device_type::DeviceType;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::mem::ManuallyDrop;

/// A value and what destroys it. Dropping it runs the destructor.
pub struct Slot {
    value: *mut c_void,
    destructor: Option<SlotDestructor>,
}

// SAFETY: whoever set the value allowed its destructor to be called from where it will be.
unsafe impl Send for Slot {}

impl Slot {
    /// A value; NULL is none.
    pub fn new(value: *mut c_void, destructor: Option<SlotDestructor>) -> Option<Slot> {
        // Made only when there is one: dropping a slot runs its destructor.
        (!value.is_null()).then(|| Slot { value, destructor })
    }

    /// The value.
    pub fn value(&self) -> *mut c_void {
        self.value
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(destructor) = self.destructor {
            // SAFETY: whoever set the value allowed this one call with it.
            unsafe { destructor(self.value) };
        }
    }
}

type ThreadKey = (DeviceType, Ordinal, u64);

thread_local! {
    static THREAD: RefCell<BTreeMap<ThreadKey, Slot>> = const { RefCell::new(BTreeMap::new()) };
}

/// Keeps a value for this thread; false while the thread's storage is being torn down, and then the
/// value is still the caller's.
pub fn set_for_thread(key: ThreadKey, slot: Option<Slot>) -> bool {
    let mut slot = ManuallyDrop::new(slot);
    let replaced = THREAD.try_with(|slots| {
        let mut slots = slots.borrow_mut();
        match slot.take() {
            Some(slot) => slots.insert(key, slot),
            None => slots.remove(&key),
        }
    });
    // The old value is destroyed here, outside the borrow: its destructor may set slots itself.
    replaced.map(drop).is_ok()
}

/// The value kept for this thread, or NULL.
pub fn get_for_thread(key: ThreadKey) -> *mut c_void {
    THREAD
        .try_with(|slots| slots.borrow().get(&key).map_or(std::ptr::null_mut(), Slot::value))
        .unwrap_or(std::ptr::null_mut())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    unsafe extern "C" fn count(value: *mut c_void) {
        // SAFETY: the tests pass counters that live for the process.
        unsafe { &*value.cast::<AtomicUsize>() }.fetch_add(1, Ordering::SeqCst);
    }

    #[test]
    fn a_destructor_runs_once_when_replaced_and_once_when_its_thread_ends() {
        static FIRST: AtomicUsize = AtomicUsize::new(0);
        static SECOND: AtomicUsize = AtomicUsize::new(0);
        let slot =
            |of: &'static AtomicUsize| Slot::new(std::ptr::from_ref(of) as *mut _, Some(count));
        std::thread::spawn(move || {
            assert!(set_for_thread((0, 0, 7), slot(&FIRST)));
            assert!(set_for_thread((0, 0, 7), slot(&SECOND)));
            assert_eq!(FIRST.load(Ordering::SeqCst), 1);
            assert_eq!(get_for_thread((0, 0, 7)), std::ptr::from_ref(&SECOND) as *mut _);
            assert!(get_for_thread((0, 1, 7)).is_null());
        })
        .join()
        .expect("no panic");
        assert_eq!((FIRST.load(Ordering::SeqCst), SECOND.load(Ordering::SeqCst)), (1, 1));
        assert!(get_for_thread((0, 0, 7)).is_null(), "another thread's value was seen");
    }

    #[test]
    fn a_value_that_a_dying_thread_does_not_take_stays_the_callers() {
        static REFUSED: AtomicUsize = AtomicUsize::new(0);
        static ACCEPTED: AtomicUsize = AtomicUsize::new(0);
        /// Sets a value when the thread's storage goes, after the slots' own has gone or before.
        struct Late;
        impl Drop for Late {
            fn drop(&mut self) {
                let value = std::ptr::from_ref(&REFUSED) as *mut _;
                if set_for_thread((0, 0, 8), Slot::new(value, Some(count))) {
                    ACCEPTED.fetch_add(1, Ordering::SeqCst);
                }
            }
        }
        thread_local!(static LATE: Late = const { Late });
        std::thread::spawn(|| {
            // `LATE` is made first, so it goes after the slots.
            LATE.with(|_| ());
            let slot = Slot::new(std::ptr::without_provenance_mut(8), None);
            assert!(set_for_thread((0, 0, 9), slot));
        })
        .join()
        .expect("no panic");
        let (refused, accepted) = (REFUSED.load(Ordering::SeqCst), ACCEPTED.load(Ordering::SeqCst));
        assert_eq!(refused, accepted, "a refused value was destroyed, or an accepted one was not");
    }
}
