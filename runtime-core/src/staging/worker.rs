//! A thread of the staging engine: claims pieces of copies and moves them through its ring.
//!
//! Rules: to the device a piece is moved into the ring with ordinary stores, so that it lies in the cache
//! when the device reads it there. From the device it is moved out with ordinary stores too where many
//! threads share the caches, and past the caches where there are few. A piece is finished when the device is
//! done with its slot, and not before: whoever waits for the copy may then free both sides.

use super::Engine;
use super::board::{Failure, Piece};
use super::lines;
use super::ring::Ring;
use super::settings::Settings;
use crate::api::{CopyFlags, Event, MemcpyKind, Ordinal, RuntimeApi};
use crate::error::{Error, Result};
use crate::streaming::{copy_streaming, has_streaming_stores};
use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::atomic::Ordering::Acquire;

/// So much is copied at a time with ordinary stores: a C library goes past the caches by itself above
/// some size, a few hundred KiB with some.
const STEP: usize = 256 << 10;

/// Serves copies until there have been none for a while.
pub fn run(engine: &'static Engine, device: Ordinal) {
    let (Some(settings), Some(backend)) = (&engine.settings, engine.backend.get().copied()) else {
        return engine.leave();
    };
    // Calls are quicker where the thread's native state is that of the device.
    let _a_slower_one_works_too = backend.set_device(device);
    match Ring::new(backend, device, settings.slots, settings.chunk) {
        Ok(ring) => Worker::new(engine, backend, settings, ring).work(),
        Err(_) => engine.leave(),
    }
}

/// A piece whose slot a device is at work on.
struct UnderWay {
    piece: Piece,
    slot: usize,
    /// Behind the device's part of it.
    event: Event,
}

struct Worker {
    engine: &'static Engine,
    backend: &'static dyn RuntimeApi,
    settings: &'static Settings,
    ring: Ring,
    /// Slots that no device uses.
    free: Vec<usize>,
    /// In the order in which they were begun.
    under_way: VecDeque<UnderWay>,
    /// A device may still use the ring, and cannot be asked.
    is_broken: bool,
    is_past_caches: bool,
}

impl Worker {
    fn new(
        engine: &'static Engine,
        backend: &'static dyn RuntimeApi,
        settings: &'static Settings,
        ring: Ring,
    ) -> Worker {
        Worker {
            engine,
            backend,
            settings,
            ring,
            free: (0..settings.slots).collect(),
            under_way: VecDeque::new(),
            is_broken: false,
            is_past_caches: settings.is_past_caches && has_streaming_stores(),
        }
    }

    fn work(mut self) {
        loop {
            let seen = self.engine.posted.load(Acquire);
            let claimed = if self.is_broken { None } else { self.engine.board.lock().claim() };
            if let Some(piece) = claimed {
                if self.free.is_empty() {
                    self.retire();
                }
                if self.is_broken {
                    // A device that is lost may still use the slot that just came free.
                    self.engine.finish(&piece, Err(Failure::Unserved));
                    continue;
                }
                self.begin(piece);
            } else if !self.under_way.is_empty() {
                self.retire();
            } else if self.is_broken {
                return self.engine.leave();
            } else if !self.engine.await_work(seen, self.settings) {
                return self.ring.free();
            }
        }
    }

    /// Has the device move a piece between a free slot and its own memory.
    fn begin(&mut self, piece: Piece) {
        let slot = self.free.pop().expect("a slot was made free");
        match self.enqueue(&piece, slot) {
            Ok(event) => self.under_way.push_back(UnderWay { piece, slot, event }),
            Err(error) => {
                self.free.push(slot);
                self.engine.finish(&piece, Err(Failure::from(about(&piece, error))));
            }
        }
    }

    fn enqueue(&mut self, piece: &Piece, slot: usize) -> Result<Event> {
        let (device, kind) = (piece.job.device, piece.job.kind);
        let event = self.ring.event(device, slot)?;
        let line = lines::line(&self.engine.board, self.backend, device, kind)?;
        let at = self.ring.slot(slot);
        let src = (piece.job.src + piece.offset) as *const c_void;
        let dst = (piece.job.dst + piece.offset) as *mut c_void;
        let (dst, src) = match kind {
            MemcpyKind::D2H => (at, src),
            _ => {
                // SAFETY: the piece is inside the source, which the poster of the copy vouches for until it
                // is finished; no device uses the slot, which is as large as the largest piece.
                unsafe { copy_by_steps(at.cast(), src.cast(), piece.size) };
                (dst, at.cast_const())
            }
        };
        // SAFETY: the slot stays until the device is done with it, and the other side is vouched for by
        // the poster until the piece is finished. Stream and event are live, and of the device.
        let enqueued = unsafe {
            let size = piece.size;
            self.backend
                .memcpy_async(device, dst, src, size, kind, line.stream, CopyFlags::NONE)
                .and_then(|()| self.backend.record_event(device, event, line.stream))
        };
        if enqueued.is_err() {
            self.settle(device, kind);
        }
        enqueued.map(|()| event)
    }

    /// Waits for the oldest piece, and finishes it.
    fn retire(&mut self) {
        let Some(UnderWay { piece, slot, event }) = self.under_way.pop_front() else { return };
        let (device, kind) = (piece.job.device, piece.job.kind);
        // SAFETY: a live event of this device.
        let passed = unsafe { self.backend.event_synchronize(device, event) };
        match &passed {
            Err(_) => self.settle(device, kind),
            Ok(()) if kind == MemcpyKind::D2H => {
                let (from, to) = (self.ring.slot(slot), piece.job.dst + piece.offset);
                // SAFETY: the device has written the slot; the piece is inside the destination, which
                // the poster of the copy vouches for until it is finished.
                unsafe { self.move_out(to as *mut u8, from.cast(), piece.size) };
            }
            Ok(()) => {}
        }
        self.free.push(slot);
        let outcome = passed.map_err(|error| Failure::from(about(&piece, error)));
        self.engine.finish(&piece, outcome);
    }

    /// Waits for a stream of which something failed: what it was given before may still use the ring.
    fn settle(&mut self, device: Ordinal, kind: MemcpyKind) {
        let settled =
            lines::line(&self.engine.board, self.backend, device, kind).and_then(|line| {
                // SAFETY: a stream of this device, which is there while this thread is.
                unsafe { self.backend.stream_synchronize(device, line.stream) }
            });
        self.is_broken |= settled.is_err();
    }

    /// # Safety
    /// - `from` is readable and `to` writable for `size` bytes; they do not overlap.
    unsafe fn move_out(&self, to: *mut u8, from: *const u8, size: usize) {
        // SAFETY: by the contract above; whether there are such stores was asked.
        unsafe {
            if self.is_past_caches {
                copy_streaming(to, from, size);
            } else {
                copy_by_steps(to, from, size);
            }
        }
    }
}

/// # Safety
/// - `from` is readable and `to` writable for `size` bytes; they do not overlap.
unsafe fn copy_by_steps(to: *mut u8, from: *const u8, size: usize) {
    for offset in (0..size).step_by(STEP) {
        // SAFETY: inside the ranges.
        unsafe {
            from.add(offset).copy_to_nonoverlapping(to.add(offset), STEP.min(size - offset));
        }
    }
}

/// A failure with what was asked in front.
#[cold]
fn about(piece: &Piece, error: Error) -> Error {
    let (size, kind, offset) = (piece.job.size, piece.job.kind, piece.offset);
    let message = format!(
        "copy {size} bytes {kind:?} of pageable memory in parts: at byte {offset}: {}",
        error.message()
    );
    error.with_message(message)
}
