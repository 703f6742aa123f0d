//! An event as it crosses the C ABI, and how one is made.

use std::ffi::c_void;

/// An event: a point in a stream that can be asked about, waited for and measured between.
///
/// A client's handle is the core's own; a backend's is native. Never NULL.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Event(pub *mut c_void);

// SAFETY: an event is a handle that is compared and passed on; this crate never reads through it,
// and contract D3 lets every thread use it.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

/// How an event is made.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct EventFlags(pub u32);

impl EventFlags {
    /// Without time, waited for by spinning: the cheapest.
    pub const NONE: EventFlags = EventFlags(0);
    /// The event remembers when it was reached, for `event_elapsed`.
    pub const TIMING: EventFlags = EventFlags(1);
    /// A wait for the event sleeps instead of spinning.
    pub const BLOCKING_WAIT: EventFlags = EventFlags(2);
    /// Every flag that has a meaning.
    pub const KNOWN: EventFlags = EventFlags(3);

    /// Whether all bits of `other` are set here.
    pub const fn contains(self, other: EventFlags) -> bool {
        self.0 & other.0 == other.0
    }
}
