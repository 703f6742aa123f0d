//! Stream capture, as far as a runtime can spoil it: what is captured is not run, and no graph comes of it.
//!
//! As an H200 with driver 580 answered when it was asked (2026-12-01). A stream under capture does not
//! do what it is given. To ask about it or to wait for it is refused (900), and so is the legacy stream while a
//! blocking stream is captured (906); each of them makes the capture invalid, and its end answers 901. A record
//! on it makes the event a captured one, which answers 907. While a capture of the global mode is under way,
//! in whichever thread, calls that are potentially unsafe are refused in every thread whose own mode is not
//! relaxed, and make that capture invalid. To ask whether a stream is captured spoils nothing.

use crate::driver::{Driver, World};
use crate::entry::Out;
use crate::errors::{
    Answer, CAPTURE_IMPLICIT, CAPTURE_INVALIDATED, CAPTURE_UNSUPPORTED, CAPTURE_WRONG_THREAD,
    ILLEGAL_STATE, INVALID_VALUE,
};
use crate::handles::Handle;
use crate::streams::{self, StreamKey};
use std::cell::Cell;
use std::thread::{self, ThreadId};

const GLOBAL: i32 = 0;
const RELAXED: i32 = 2;

/// Calls that a capture of the global mode forbids to others.
const UNSAFE: [&str; 13] = [
    "cuEventQuery",
    "cuEventSynchronize",
    // Of any stream, also one that has nothing to do with the capture.
    "cuStreamQuery",
    "cuStreamSynchronize",
    "cuMemAllocAsync",
    "cuMemPoolTrimTo",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemHostAlloc",
    "cuMemAllocHost_v2",
    "cuMemFreeHost",
    "cuMemHostRegister_v2",
    "cuMemPoolCreate",
];

thread_local! {
    static MODE: Cell<i32> = const { Cell::new(GLOBAL) };
}

/// A capture under way.
pub struct Capture {
    mode: i32,
    thread: ThreadId,
    is_valid: bool,
}

/// `cuThreadExchangeStreamCaptureMode`.
pub fn exchange_mode(mode: *mut i32) -> Answer {
    let wanted = crate::entry::read(mode)?;
    if !(GLOBAL..=RELAXED).contains(&wanted) {
        return Err(INVALID_VALUE);
    }
    crate::entry::put_if_asked(mode, MODE.replace(wanted));
    Ok(())
}

/// `cuStreamBeginCapture`.
pub fn begin(driver: &'static Driver, handle: Handle, mode: i32) -> Answer {
    if matches!(handle, 0..=2) {
        return Err(CAPTURE_UNSUPPORTED);
    }
    let (mut world, key) = streams::find(driver, handle)?;
    let stream = world.streams.get_mut(&key).ok_or(INVALID_VALUE)?;
    if stream.capture.is_some() || !(GLOBAL..=RELAXED).contains(&mode) {
        return Err(INVALID_VALUE);
    }
    stream.capture = Some(Capture { mode, thread: thread::current().id(), is_valid: true });
    Ok(())
}

/// `cuStreamEndCapture`; the graph is a number that no function knows.
pub fn end(driver: &'static Driver, handle: Handle, graph: Out<usize>) -> Answer {
    let (mut world, key) = streams::find(driver, handle)?;
    let stream = world.streams.get_mut(&key).ok_or(INVALID_VALUE)?;
    let Some(capture) = &stream.capture else { return Err(ILLEGAL_STATE) };
    if capture.mode != RELAXED && capture.thread != thread::current().id() {
        return Err(CAPTURE_WRONG_THREAD);
    }
    let is_valid = capture.is_valid;
    stream.capture = None;
    if !is_valid {
        graph.set(0)?;
        return Err(CAPTURE_INVALIDATED);
    }
    graph.set(world.number() as usize)
}

/// `cuStreamIsCapturing`.
pub fn status(driver: &'static Driver, handle: Handle) -> Answer<i32> {
    let (world, key) = streams::find_quietly(driver, handle)?;
    if matches!(handle, 0 | 1) && !world.captured_beside(key).is_empty() {
        return Err(CAPTURE_IMPLICIT);
    }
    let capture = world.streams.get(&key).and_then(|stream| stream.capture.as_ref());
    Ok(capture.map_or(0, |capture| if capture.is_valid { 1 } else { 2 }))
}

/// Refuses what a capture of the global mode forbids, and spoils the capture.
pub fn check_safe(driver: &'static Driver, name: &str) -> Answer {
    if MODE.get() == RELAXED || !UNSAFE.contains(&name) {
        return Ok(());
    }
    let mut answer = Ok(());
    for stream in driver.lock().streams.values_mut() {
        let own = thread::current().id();
        if let Some(capture) = &mut stream.capture
            && (capture.mode == GLOBAL || capture.thread == own && capture.mode != RELAXED)
        {
            capture.is_valid = false;
            answer = Err(CAPTURE_UNSUPPORTED);
        }
    }
    answer
}

impl World {
    /// Whether a stream is captured.
    pub fn is_captured(&self, key: StreamKey) -> bool {
        self.streams.get(&key).is_some_and(|stream| stream.capture.is_some())
    }

    /// The captured blocking streams of a stream's context.
    fn captured_beside(&self, key: StreamKey) -> Vec<StreamKey> {
        let context = self.streams.get(&key).map(|stream| stream.context);
        let streams = self.streams.iter().filter(|(_, stream)| {
            stream.capture.is_some() && stream.blocking && Some(stream.context) == context
        });
        streams.map(|(key, _)| *key).collect()
    }

    /// Refuses the use of the legacy stream beside a captured blocking one, and spoils the capture.
    pub fn check_legacy(&mut self, legacy: StreamKey) -> Answer {
        let captured = self.captured_beside(legacy);
        captured.iter().for_each(|key| self.spoil(*key));
        if captured.is_empty() { Ok(()) } else { Err(CAPTURE_IMPLICIT) }
    }

    /// Refuses to ask about a captured stream or to wait for it, and spoils the capture.
    pub fn check_not_captured(&mut self, key: StreamKey) -> Answer {
        if !self.is_captured(key) {
            return Ok(());
        }
        self.spoil(key);
        Err(CAPTURE_UNSUPPORTED)
    }

    /// Refuses to wait for a context that has a captured stream, and spoils the capture.
    pub fn check_context_not_captured(&mut self, context: Handle) -> Answer {
        let mut answer = Ok(());
        let of_context = self.streams.values_mut().filter(|stream| stream.context == context);
        for capture in of_context.filter_map(|stream| stream.capture.as_mut()) {
            capture.is_valid = false;
            answer = Err(CAPTURE_UNSUPPORTED);
        }
        answer
    }

    fn spoil(&mut self, key: StreamKey) {
        if let Some(capture) = self.streams.get_mut(&key).and_then(|it| it.capture.as_mut()) {
            capture.is_valid = false;
        }
    }
}
