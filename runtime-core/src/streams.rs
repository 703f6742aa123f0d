//! The live streams of a backend: which handles exist, and on which device each one is.
//!
//! Rule: a stream leaves the table when it is destroyed, so its handle is refused from then on
//! (contract S3); natively it is destroyed by whoever uses it last. A thread that is inside a call on
//! it, a long synchronize for example, therefore never sees it vanish, and the destroyer never waits.

use crate::accounting::Account;
use crate::api::{Ordinal, Stream};
use crate::error::{Error, Result};
use crate::fork::ForkAware;
use crate::lock::{ForkLock, Mutex};
use crate::slots::Slot;
use crate::status::Status;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

static NEXT_SERIAL: AtomicU64 = AtomicU64::new(0);

/// A stream that exists natively.
pub struct LiveStream {
    /// The native handle.
    pub stream: Stream,
    /// The device it was made on.
    pub device: Ordinal,
    /// Tells it from another stream whose native address was the same (S3).
    pub serial: u64,
    /// The memory that was allocated on it.
    pub account: Account,
    /// The user's values.
    pub slots: Mutex<BTreeMap<u64, Slot>>,
}

impl LiveStream {
    /// A stream without history.
    pub fn new(stream: Stream, device: Ordinal) -> LiveStream {
        let (account, slots) = (Account::new(), Mutex::new(BTreeMap::new()));
        let serial = NEXT_SERIAL.fetch_add(1, Ordering::Relaxed);
        LiveStream { stream, device, serial, account, slots }
    }
}

/// The streams that clients may name.
#[derive(Default)]
pub struct StreamTable(Mutex<BTreeMap<usize, Arc<LiveStream>>>);

impl StreamTable {
    /// A table without streams.
    pub const fn new() -> StreamTable {
        StreamTable(Mutex::new(BTreeMap::new()))
    }

    /// Remembers a stream that the backend just made.
    pub fn insert(&self, stream: Stream, device: Ordinal) {
        let record = Arc::new(LiveStream::new(stream, device));
        self.0.lock().insert(stream.0 as usize, record);
    }

    /// The stream with this handle, kept alive while the result is held.
    ///
    /// # Errors
    /// `INVALID_HANDLE` when there is none.
    #[inline]
    pub fn get(&self, stream: Stream) -> Result<Arc<LiveStream>> {
        self.0.lock().get(&(stream.0 as usize)).cloned().ok_or_else(|| unknown(stream))
    }

    /// Takes a stream out, for the one caller who destroys it.
    ///
    /// # Errors
    /// `INVALID_HANDLE` when there is none (destroyed before, or never made).
    pub fn remove(&self, stream: Stream) -> Result<Arc<LiveStream>> {
        self.0.lock().remove(&(stream.0 as usize)).ok_or_else(|| unknown(stream))
    }
}

#[cold]
fn unknown(stream: Stream) -> Error {
    let message = format!("{:p} is no stream of this backend (destroyed, or never made)", stream.0);
    Error::new(Status::InvalidHandle, message)
}

impl ForkAware for StreamTable {
    fn prepare(&self) {
        self.0.hold();
    }
    fn parent(&self) {
        // SAFETY: held by `prepare` on this thread.
        unsafe { self.0.release() };
    }
}
