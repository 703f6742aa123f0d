//! A stream as it crosses the C ABI, and how one is made.

use std::ffi::c_void;

/// A stream as it crosses the C ABI: the backend's native handle, or NULL for the default stream of
/// the device that is named beside it.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stream(pub *mut c_void);

impl Stream {
    /// The default stream, with CUDA's legacy meaning (contract S2).
    pub const DEFAULT: Stream = Stream(std::ptr::null_mut());

    /// Whether this is the default stream.
    pub fn is_default(self) -> bool {
        self.0.is_null()
    }
}

// SAFETY: a stream is a handle that is compared and passed on; this crate never reads through it,
// and contract D3 lets every thread use it.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

/// How a stream is made.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct StreamFlags(pub u32);

impl StreamFlags {
    /// Ordered with the default stream (contract S2).
    pub const BLOCKING: StreamFlags = StreamFlags(0);
    /// Not ordered with the default stream.
    pub const NON_BLOCKING: StreamFlags = StreamFlags(1);
    /// Every flag that has a meaning.
    pub const KNOWN: StreamFlags = StreamFlags(1);

    /// Whether the stream is ordered with the default stream.
    pub const fn is_blocking(self) -> bool {
        self.0 & Self::NON_BLOCKING.0 == 0
    }
}

/// The priorities that streams of a device can have. A lower number is served first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriorityRange {
    /// The number of those who are served last.
    pub least: i32,
    /// The number of those who are served first; `greatest <= least`.
    pub greatest: i32,
}
