//! Marks: events at the present end of everything that a device was given to do.
//!
//! Rule (contract M4, C3): a mark orders nothing. An event on the default stream would: it waits for
//! all blocking streams, and what they are given later waits for it, so that a free would tie
//! together streams that have nothing to do with each other. So each stream gets an event of its own,
//! and the default stream's work is caught by an event on a private blocking stream that has no work:
//! what is recorded there waits for the default stream and holds up nobody.

use crate::call::cu;
use crate::capture;
use crate::device::Device;
use crate::driver::driver;
use crate::errors::{self, SUCCESS};
use crate::event::Event;
use cust::sys::{self, CUstream};
use llaisys_runtime_core::error::Result;
use once_cell::sync::OnceCell;
use parking_lot::Mutex;
use std::sync::Arc;

/// A stream's handle, which the driver lets every thread use.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Handle(CUstream);

// SAFETY: nothing is read through the handle here.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// A stream that may be given work.
#[derive(Clone, Copy)]
struct Live {
    handle: Handle,
    /// Ordered with the default stream, so that this one tells for it whether it has work.
    blocking: bool,
    /// Somebody else's: let go of, never destroyed.
    adopted: bool,
}

impl Live {
    /// Whether its work is being captured into a graph: it does not run then, and to ask about the
    /// stream or to record on it would end the capture.
    fn is_captured(&self) -> bool {
        // It is live while it is listed.
        capture::forbids_questions(self.handle.0)
    }

    /// Whether it has nothing to do.
    fn is_ready(&self) -> bool {
        // SAFETY: the stream is live while it is listed.
        self.is_captured() || unsafe { cu!(cuStreamQuery(self.handle.0)) } == SUCCESS
    }
}

/// The streams of one device.
pub(crate) struct Streams {
    known: Mutex<Known>,
    /// The private blocking stream that never has work of its own.
    idle: OnceCell<Handle>,
    /// Private non-blocking streams for what another device's streams have done here; one that is being
    /// given work is not in here.
    detours: Mutex<Vec<Handle>>,
}

/// So many detours may be busy; the next one queues behind one of them.
const MOST_DETOURS: usize = 32;

struct Known {
    /// Made or adopted here and not destroyed or let go. A stream in here may be recorded on while
    /// the lock is held.
    live: Vec<Live>,
    /// The ends of streams that were destroyed while they were busy.
    destroyed: Vec<Arc<Event>>,
}

impl Streams {
    /// A device without streams.
    pub(crate) const fn new() -> Streams {
        let known = Known { live: Vec::new(), destroyed: Vec::new() };
        Streams { known: Mutex::new(known), idle: OnceCell::new(), detours: Mutex::new(Vec::new()) }
    }

    /// A stream was made.
    pub(crate) fn add(&self, stream: CUstream, blocking: bool) {
        let mut known = self.known.lock();
        // Somebody else's stream whose address came back (contract S3).
        known.live.retain(|live| live.handle.0 != stream);
        known.live.push(Live { handle: Handle(stream), blocking, adopted: false });
    }

    /// A stream of somebody else's may be given work here from now on.
    pub(crate) fn adopt(&self, stream: CUstream, blocking: bool) {
        let mut known = self.known.lock();
        if known.live.iter().all(|live| live.handle.0 != stream) {
            known.live.push(Live { handle: Handle(stream), blocking, adopted: true });
        }
    }

    /// A stream is about to be destroyed, or let go; what it still has to do is remembered. Answers
    /// whether it is ours to destroy.
    pub(crate) fn remove(&self, stream: CUstream) -> bool {
        let mut known = self.known.lock();
        let found = known.live.iter().position(|live| live.handle.0 == stream);
        let live = found.map(|index| known.live.swap_remove(index));
        known.destroyed.retain(|end| !end.has_passed());
        if !live.is_some_and(|live| live.is_captured()) {
            // A stream that cannot be recorded on belongs to a device that is lost.
            known.destroyed.extend(Event::record(stream).map(Arc::new));
        }
        !live.is_some_and(|live| live.adopted)
    }
}

impl Device {
    /// An event for each stream that has work. The device's context is entered.
    pub(crate) fn marks(&self) -> Result<Vec<Arc<Event>>> {
        if self.is_idle() {
            return Ok(Vec::new());
        }
        let blocking = sys::CUstream_flags_enum::CU_STREAM_DEFAULT as u32;
        let idle = self.private_stream(&self.streams.idle, blocking)?;
        let mut known = self.streams.known.lock();
        let mut marks = known.destroyed.clone();
        let live = known.live.iter().filter(|live| !live.is_captured());
        for stream in live.map(|live| live.handle).chain([idle]) {
            marks.push(Arc::new(Event::record(stream.0)?));
        }
        marks.retain(|mark| !mark.has_passed());
        known.destroyed.retain(|end| !end.has_passed());
        Ok(marks)
    }

    /// Whether the device has nothing to do. The device's context is entered.
    pub(crate) fn is_idle(&self) -> bool {
        if !default_is_ready() {
            return false;
        }
        let mut known = self.streams.known.lock();
        known.destroyed.retain(|end| !end.has_passed());
        known.destroyed.is_empty()
            && known.live.iter().filter(|live| !live.blocking).all(Live::is_ready)
    }

    /// Has something done here, on a private stream, in the order of another device's stream. Two of that
    /// device's streams have nothing to do with each other (contract S1), so each gets a stream that has
    /// nothing to do. The device's context is entered.
    pub(crate) fn on_detour<T>(&self, work: impl FnOnce(CUstream) -> Result<T>) -> Result<T> {
        let detour = self.take_detour()?;
        let result = work(detour.0);
        self.streams.detours.lock().push(detour);
        result
    }

    fn take_detour(&self) -> Result<Handle> {
        let mut detours = self.streams.detours.lock();
        // SAFETY: a private stream, which is never destroyed. A query orders nothing.
        let is_ready = |detour: &Handle| unsafe { cu!(cuStreamQuery(detour.0)) } == SUCCESS;
        if let Some(index) = detours.iter().position(is_ready) {
            return Ok(detours.swap_remove(index));
        }
        if detours.len() >= MOST_DETOURS {
            return Ok(detours.remove(0));
        }
        drop(detours);
        self.make_private_stream(sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32)
    }

    fn private_stream(&self, cell: &OnceCell<Handle>, flags: u32) -> Result<Handle> {
        cell.get_or_try_init(|| self.make_private_stream(flags)).copied()
    }

    fn make_private_stream(&self, flags: u32) -> Result<Handle> {
        let mut stream: CUstream = std::ptr::null_mut();
        // SAFETY: `stream` is writable; the device's context is entered.
        errors::check(unsafe { cu!(cuStreamCreate(&mut stream, flags)) }, || {
            format!("make a private stream on device {}", self.ordinal)
        })?;
        Ok(Handle(stream))
    }
}

/// Whether the default stream has nothing to do, nor the blocking streams that it waits for. The
/// device's context is entered.
pub(crate) fn default_is_ready() -> bool {
    // Beside a captured stream nothing is known of it: as if it had work.
    // SAFETY: NULL is the legacy stream of the context that was entered. A query orders nothing.
    !capture::forbids_questions(std::ptr::null_mut())
        && unsafe { cu!(cuStreamQuery(std::ptr::null_mut())) == SUCCESS }
}

/// Whether no device in use has anything to do.
pub(crate) fn all_are_idle() -> bool {
    let Ok(driver) = driver() else { return false };
    driver.devices.iter().filter(|device| device.context.get().is_some()).all(|device| {
        let Ok(_entered) = device.enter() else { return false };
        device.is_idle()
    })
}

/// Waits for what the device was given to do. The device's context is entered.
pub(crate) fn wait() {
    // SAFETY: takes nothing. A lost device answers at once, and its answer is the next call's too.
    let _told_by_the_next_call = unsafe { cu!(cuCtxSynchronize()) };
}

/// Waits for what every device in use was given to do.
pub(crate) fn wait_for_all_devices() {
    let Ok(driver) = driver() else { return };
    for used in driver.devices.iter().filter(|device| device.context.get().is_some()) {
        if let Ok(_entered) = used.enter() {
            wait();
        }
    }
}

/// Marks at the present end of the work of every device in use; none where a device is idle. A
/// stream of one device may use the memory of another, so a free asks for the marks of all.
pub(crate) fn of_all_devices() -> Result<Vec<Arc<Event>>> {
    let mut marks = Vec::new();
    for used in &driver()?.devices {
        if used.context.get().is_none() {
            continue;
        }
        // A device whose context cannot be entered is lost, and does nothing any more.
        let Ok(_entered) = used.enter() else { continue };
        match used.marks() {
            Ok(more) => marks.extend(more),
            Err(_) => wait(),
        }
    }
    Ok(marks)
}
