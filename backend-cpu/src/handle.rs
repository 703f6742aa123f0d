//! What a stream or an event is called outside.
//!
//! Rule: a handle is a number that is compared and never followed, so any number is safe to look up.

use llaisys_runtime_core::api::{Event, Ordinal, Stream};
use std::ffi::c_void;

/// Device, slot and how often the slot was given away, in one 64-bit number that is never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    /// The device that it is of.
    pub device: u8,
    /// The slot among the device's streams, or events; below `SLOTS`.
    pub slot: u32,
    /// How often the slot was given away; never 0.
    pub generation: u32,
}

/// How many slots a handle can tell apart.
pub const SLOTS: u32 = 1 << 24;

impl Handle {
    /// The handle of a slot that was just given away.
    pub fn new(device: Ordinal, slot: u32, generation: u32) -> Handle {
        let device = u8::try_from(device).expect("there are at most 256 devices");
        Handle { device, slot, generation }
    }

    fn to_bits(self) -> *mut c_void {
        let bits = u64::from(self.generation) << 32
            | u64::from(self.device) << 24
            | u64::from(self.slot & (SLOTS - 1));
        bits as *mut c_void
    }

    fn from_bits(bits: *mut c_void) -> Handle {
        let bits = bits as u64;
        Handle {
            device: (bits >> 24) as u8,
            slot: bits as u32 & (SLOTS - 1),
            generation: (bits >> 32) as u32,
        }
    }

    /// The handle of a stream as it crosses the C ABI.
    pub fn to_stream(self) -> Stream {
        Stream(self.to_bits())
    }

    /// Reads back what `to_stream` made; of anything else, something that names no stream.
    pub fn from_stream(stream: Stream) -> Handle {
        Handle::from_bits(stream.0)
    }

    /// The handle of an event as it crosses the C ABI.
    pub fn to_event(self) -> Event {
        Event(self.to_bits())
    }

    /// Reads back what `to_event` made; of anything else, something that names no event.
    pub fn from_event(event: Event) -> Handle {
        Handle::from_bits(event.0)
    }

    /// Whether it names something of this device.
    pub fn is_of(self, device: Ordinal) -> bool {
        Ordinal::from(self.device) == device
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_reads_back_and_is_never_null() {
        for (device, slot, generation) in [(0, 1, 1), (255, SLOTS - 1, u32::MAX), (3, 0, 1)] {
            let handle = Handle::new(device, slot, generation);
            assert!(!handle.to_stream().is_default() && !handle.to_event().0.is_null());
            assert_eq!(Handle::from_stream(handle.to_stream()), handle);
            assert_eq!(Handle::from_event(handle.to_event()), handle);
        }
    }
}
