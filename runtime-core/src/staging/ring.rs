//! What a thread of the engine copies with: a pinned ring, and events for each device.
//!
//! Rules: pinned memory is good for every device (contract M6), so there is one ring; an event is of one
//! device. What may still be used by a device is not freed, but leaked.

use crate::api::{Event, EventFlags, Ordinal, RuntimeApi};
use crate::error::Result;
use std::ffi::c_void;

/// A pinned ring and what tells that a device is done with a slot.
pub struct Ring {
    backend: &'static dyn RuntimeApi,
    /// On whose behalf the memory was allocated.
    device: Ordinal,
    memory: *mut c_void,
    slot_size: usize,
    slots: usize,
    marks: Vec<Marks>,
}

/// The events of one device, one for each slot.
struct Marks {
    device: Ordinal,
    events: Vec<Event>,
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
        Ok(Ring { backend, device, memory, slot_size, slots, marks: Vec::new() })
    }

    /// Where a slot begins.
    pub fn slot(&self, index: usize) -> *mut c_void {
        debug_assert!(index < self.slots);
        // SAFETY: inside the ring's memory, since there are so many slots.
        unsafe { self.memory.byte_add(index * self.slot_size) }
    }

    /// The event of a slot on a device, made when there is none.
    pub fn event(&mut self, device: Ordinal, slot: usize) -> Result<Event> {
        if let Some(marks) = self.marks.iter().find(|marks| marks.device == device) {
            return Ok(marks.events[slot]);
        }
        let mut marks = Marks { device, events: Vec::new() };
        for _ in 0..self.slots {
            match self.backend.create_event(device, EventFlags::NONE) {
                Ok(event) => marks.events.push(event),
                Err(error) => {
                    self.destroy(&marks);
                    return Err(error);
                }
            }
        }
        let event = marks.events[slot];
        self.marks.push(marks);
        Ok(event)
    }

    /// Gives everything back. No device uses it any more.
    pub fn free(self) {
        for marks in &self.marks {
            self.destroy(marks);
        }
        // SAFETY: from `malloc_host`, freed once, for this value is gone.
        let _nobody_to_tell = unsafe { self.backend.free_host(self.device, self.memory) };
    }

    fn destroy(&self, marks: &Marks) {
        for event in &marks.events {
            // SAFETY: made by the backend on this device, destroyed once; the thread is in no other call.
            let _nobody_to_tell = unsafe { self.backend.destroy_event(marks.device, *event) };
        }
    }
}
