//! Streams of other kinds, events, links and capabilities through the versioned table.

use super::{Answer, Extended};
use crate::address::Address;
use crate::code::Code;
use llaisys_runtime_core::api::{Event, EventFlags, LlaisysPeerLink, Stream, StreamFlags};
use std::ffi::{CStr, c_void};
use std::ptr;

impl Extended {
    /// Makes a stream of a kind.
    pub fn create_stream_with(&self, device: i32, flags: u32, priority: i32) -> Answer<Stream> {
        let (mut stream, flags) = (Stream::DEFAULT, StreamFlags(flags));
        let call = self.raw.create_stream_with;
        // SAFETY: the table's own `self`; `stream` is ours.
        Code(unsafe { call(self.this(), device, flags, priority, &mut stream) }).result()?;
        Ok(stream)
    }

    /// The priorities that streams can have: the least, the greatest.
    pub fn get_stream_priority_range(&self, device: i32) -> Answer<(i32, i32)> {
        let (mut least, mut greatest) = (i32::MIN, i32::MIN);
        let call = self.raw.get_stream_priority_range;
        // SAFETY: the table's own `self`; both numbers are ours.
        Code(unsafe { call(self.this(), device, &mut least, &mut greatest) }).result()?;
        Ok((least, greatest))
    }

    /// Takes in a native stream; its device.
    pub fn adopt_stream(&self, native: Address) -> Answer<i32> {
        let mut device = -1;
        let native = native.pointer();
        // SAFETY: NULL, or a stream that is alive; `device` is ours.
        Code(unsafe { (self.raw.adopt_stream)(self.this(), native, &mut device) }).result()?;
        Ok(device)
    }

    /// The device of a stream.
    pub fn get_stream_device(&self, stream: Stream) -> Answer<i32> {
        let mut device = -1;
        // SAFETY: the table's own `self`; `device` is ours; a handle is looked up, never followed.
        Code(unsafe { (self.raw.get_stream_device)(self.this(), stream, &mut device) }).result()?;
        Ok(device)
    }

    /// Makes an event.
    pub fn create_event(&self, device: i32, flags: EventFlags) -> Answer<Event> {
        let mut event = Event(ptr::null_mut());
        // SAFETY: the table's own `self`; `event` is ours.
        Code(unsafe { (self.raw.create_event)(self.this(), device, flags, &mut event) })
            .result()?;
        Ok(event)
    }

    /// Destroys an event.
    pub fn destroy_event(&self, event: Event) -> Answer {
        // SAFETY: the table's own `self`; a handle is looked up, never followed (V3).
        Code(unsafe { (self.raw.destroy_event)(self.this(), 0, event) }).result()
    }

    /// Records an event.
    pub fn record_event(&self, device: i32, event: Event, stream: Stream) -> Answer {
        // SAFETY: as for `destroy_event`.
        Code(unsafe { (self.raw.record_event)(self.this(), device, event, stream) }).result()
    }

    /// Has a stream wait for an event.
    pub fn stream_wait_event(&self, device: i32, stream: Stream, event: Event) -> Answer {
        // SAFETY: as for `destroy_event`.
        Code(unsafe { (self.raw.stream_wait_event)(self.this(), device, stream, event) }).result()
    }

    /// Whether an event is reached.
    pub fn event_query(&self, event: Event) -> Answer<bool> {
        let mut answer = -1;
        // SAFETY: as for `destroy_event`; `answer` is ours.
        Code(unsafe { (self.raw.event_query)(self.this(), 0, event, &mut answer) }).result()?;
        Ok(answer != 0)
    }

    /// Waits for an event.
    pub fn event_synchronize(&self, event: Event) -> Answer {
        // SAFETY: as for `destroy_event`.
        Code(unsafe { (self.raw.event_synchronize)(self.this(), 0, event) }).result()
    }

    /// The nanoseconds between two events.
    pub fn event_elapsed(&self, start: Event, end: Event) -> Answer<i64> {
        let mut time = i64::MIN;
        // SAFETY: as for `destroy_event`; `time` is ours.
        Code(unsafe { (self.raw.event_elapsed)(self.this(), 0, start, end, &mut time) })
            .result()?;
        Ok(time)
    }

    /// The backend's own event.
    pub fn get_native_event(&self, event: Event) -> Answer<Address> {
        let mut native: *mut c_void = ptr::null_mut();
        // SAFETY: as for `destroy_event`; `native` is ours.
        Code(unsafe { (self.raw.get_native_event)(self.this(), event, &mut native) }).result()?;
        Ok(Address::from_pointer(native))
    }

    /// How a device reaches the memory of another.
    pub fn get_peer_link(&self, device: i32, peer: i32) -> Answer<LlaisysPeerLink> {
        let mut link = LlaisysPeerLink::staged();
        // SAFETY: the table's own `self`; the struct is ours and knows its size.
        Code(unsafe { (self.raw.get_peer_link)(self.this(), device, peer, &mut link) }).result()?;
        Ok(link)
    }

    /// Lets kernels use the memory of another device.
    pub fn enable_peer_access(&self, device: i32, peer: i32) -> Answer {
        // SAFETY: the table's own `self`.
        Code(unsafe { (self.raw.enable_peer_access)(self.this(), device, peer) }).result()
    }

    /// How an operation is there.
    pub fn get_operation_support(&self, name: &CStr) -> Answer<i32> {
        let mut support = -1;
        let call = self.raw.get_operation_support;
        // SAFETY: the table's own `self`; the name ends with a NUL; `support` is ours.
        Code(unsafe { call(self.this(), name.as_ptr(), &mut support) }).result()?;
        Ok(support)
    }
}
