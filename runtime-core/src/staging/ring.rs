//! What a thread of the engine copies with: a pinned ring, and a stream with events for each device.
//!
//! Rules: pinned memory is good for every device (contract M6), so there is one ring. The streams are not
//! ordered with the default stream (S2): the engine itself waits for what a copy comes after. What may
//! still be used by a device is not freed, but leaked.

use crate::api::{Event, EventFlags, Ordinal, RuntimeApi, Stream, StreamFlags};
use crate::error::Result;
use std::ffi::c_void;

/// A pinned ring and what moves it.
pub struct Ring {
    backend: &'static dyn RuntimeApi,
    /// On whose behalf the memory was allocated.
    device: Ordinal,
    memory: *mut c_void,
    slot_size: usize,
    slots: usize,
    lanes: Vec<Lane>,
}

/// A stream of one device, with an event for each slot.
#[derive(Clone)]
pub struct Lane {
    /// The device.
    pub device: Ordinal,
    /// Not ordered with the default stream.
    pub stream: Stream,
    /// By slot.
    pub events: Vec<Event>,
}

impl Ring {
    /// A ring of so many slots.
    pub fn new(
        backend: &'static dyn RuntimeApi,
        device: Ordinal,
        slots: usize,
        slot_size: usize,
    ) -> Result<Ring> {
        let memory = backend.malloc_host(device, slots * slot_size)?;
        Ok(Ring { backend, device, memory, slot_size, slots, lanes: Vec::new() })
    }

    /// Where a slot begins.
    pub fn slot(&self, index: usize) -> *mut c_void {
        debug_assert!(index < self.slots);
        // SAFETY: inside the ring's memory, since there are so many slots.
        unsafe { self.memory.byte_add(index * self.slot_size) }
    }

    /// The lane of a device, made when there is none.
    pub fn lane(&mut self, device: Ordinal) -> Result<usize> {
        if let Some(found) = self.lanes.iter().position(|lane| lane.device == device) {
            return Ok(found);
        }
        let stream = self.backend.create_stream_with(device, StreamFlags::NON_BLOCKING, 0)?;
        // From here on the lane owns what there is of it.
        let mut lane = Lane { device, stream, events: Vec::new() };
        for _ in 0..self.slots {
            match self.backend.create_event(device, EventFlags::NONE) {
                Ok(event) => lane.events.push(event),
                Err(error) => {
                    self.destroy(&lane);
                    return Err(error);
                }
            }
        }
        self.lanes.push(lane);
        Ok(self.lanes.len() - 1)
    }

    /// A lane that was found or made.
    pub fn at(&self, lane: usize) -> &Lane {
        &self.lanes[lane]
    }

    /// Gives everything back. No device uses it any more.
    pub fn free(self) {
        for lane in &self.lanes {
            self.destroy(lane);
        }
        // SAFETY: from `malloc_host`, freed once, for this value is gone.
        let _nobody_to_tell = unsafe { self.backend.free_host(self.device, self.memory) };
    }

    fn destroy(&self, lane: &Lane) {
        for event in &lane.events {
            // SAFETY: made by the backend on this device, destroyed once; the thread is in no other call.
            let _nobody_to_tell = unsafe { self.backend.destroy_event(lane.device, *event) };
        }
        // SAFETY: as above.
        let _nobody_to_tell = unsafe { self.backend.destroy_stream(lane.device, lane.stream) };
    }
}
