//! Streams that users capture into graphs, by calls of the driver that this runtime does not see.
//!
//! Rule: nothing that this backend does by itself spoils a capture. While a stream is captured, asking whether
//! it is idle or recording on it does, and so does the use of the default stream while a blocking stream is
//! captured; so whoever wants to do that asks here first. While a capture of the driver's global mode is
//! under way in whichever thread, allocations and questions about events do; so these are made in the
//! relaxed mode, in which a thread answers for itself that no captured work depends on them.

use crate::call::cu;
use crate::errors::SUCCESS;
use cust::sys::{CUstream, CUstreamCaptureMode, CUstreamCaptureMode_enum as Mode};
use std::ffi::c_int;
use std::marker::PhantomData;

/// The default stream was asked about while a blocking stream is captured.
const CAPTURE_IMPLICIT: i32 = 906;

/// Whether a stream is captured, or, of the default stream, a blocking stream beside it: then its work does
/// not run, and to ask about it or to record on it would spoil the capture. The context is entered.
pub(crate) fn forbids_questions(stream: CUstream) -> bool {
    let mut state: c_int = 0;
    // SAFETY: the stream is NULL or live by the caller's word, and `state` is a C int, which is what the
    // entry point writes.
    let code = unsafe { cu!(cuStreamIsCapturing(stream, (&raw mut state).cast())) };
    code == CAPTURE_IMPLICIT || code == SUCCESS && state != 0
}

/// The calling thread's capture mode is relaxed while this lives.
pub(crate) struct Relaxed {
    /// What it was; `None` where the driver has no such modes.
    before: Option<c_int>,
    /// The mode is a thread's.
    _this_thread: PhantomData<*const ()>,
}

impl Relaxed {
    pub(crate) fn enter() -> Relaxed {
        let mut mode = Mode::CU_STREAM_CAPTURE_MODE_RELAXED as c_int;
        let before = exchange(&mut mode).then_some(mode);
        Relaxed { before, _this_thread: PhantomData }
    }
}

impl Drop for Relaxed {
    fn drop(&mut self) {
        if let Some(mut mode) = self.before {
            exchange(&mut mode);
        }
    }
}

/// Changes the thread's mode and writes what it was; whether that could be done.
fn exchange(mode: &mut c_int) -> bool {
    let mode: *mut CUstreamCaptureMode = std::ptr::from_mut(mode).cast();
    // SAFETY: a C int, which is what the entry point reads and writes.
    unsafe { cu!(cuThreadExchangeStreamCaptureMode(mode)) == SUCCESS }
}
