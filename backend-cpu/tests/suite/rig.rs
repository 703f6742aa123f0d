//! A CPU to test, with the calls that tests make, once.

use crate::gate;
use llaisys_backend_cpu::{Configuration, Cpu};
use llaisys_runtime_core::api::{
    CopyFlags, Event, EventFlags, MemcpyKind, Pattern, RuntimeApi, Stream, StreamFlags,
};
use llaisys_runtime_core::{Result, Status};
use std::ffi::c_void;
use std::thread;
use std::time::{Duration, Instant};

/// A CPU for the rest of the process. Every test has its own.
#[derive(Clone, Copy)]
pub struct Rig(pub &'static Cpu);

impl Rig {
    /// With defaults and this many devices.
    pub fn with_devices(devices: i32) -> Rig {
        Rig::with(Configuration { devices, ..Configuration::default() })
    }

    /// With this configuration.
    pub fn with(configuration: Configuration) -> Rig {
        Rig(Box::leak(Box::new(Cpu::with_configuration(configuration))))
    }

    /// A stream of device 0.
    pub fn stream(self) -> Stream {
        self.0.create_stream(0).expect("a stream")
    }

    /// Device memory of device 0 with these bytes in it.
    pub fn device_memory(self, size: usize, fill: u8) -> *mut u8 {
        let pointer = self.0.malloc_device(0, size).expect("memory").cast::<u8>();
        // SAFETY: just allocated with this size.
        unsafe { pointer.write_bytes(fill, size) };
        pointer
    }

    /// Pinned memory with these bytes in it.
    pub fn pinned_memory(self, size: usize, fill: u8) -> *mut u8 {
        let pointer = self.0.malloc_host(0, size).expect("memory").cast::<u8>();
        // SAFETY: just allocated with this size.
        unsafe { pointer.write_bytes(fill, size) };
        pointer
    }

    /// Frees memory of device 0.
    pub fn free(self, pointer: *mut u8) {
        // SAFETY: the tests free what they allocated; wrong pointers are looked up only.
        unsafe { self.0.free_device(0, pointer.cast()) }.expect("freed");
    }

    /// An asynchronous copy on device 0; the kind makes no difference here.
    pub fn copy(
        self,
        dst: *mut u8,
        src: *const u8,
        size: usize,
        stream: Stream,
        flags: CopyFlags,
    ) -> Result<()> {
        let (dst, src, kind) = (dst.cast(), src.cast(), MemcpyKind::D2D);
        // SAFETY: the tests keep their memory until the stream has passed.
        unsafe { self.0.memcpy_async(0, dst, src, size, kind, stream, flags) }
    }

    /// A synchronous copy on device 0.
    pub fn copy_now(self, dst: *mut u8, src: *const u8, size: usize) {
        let (dst, src, kind) = (dst.cast(), src.cast(), MemcpyKind::D2H);
        // SAFETY: the tests give ranges of live memory.
        unsafe { self.0.memcpy_sync(0, dst, src, size, kind, CopyFlags::NONE) }.expect("copied");
    }

    /// Has the stream call a closure.
    pub fn call(self, device: i32, stream: Stream, closure: impl FnOnce() + Send + 'static) {
        self.try_call(device, stream, closure).expect("launched");
    }

    /// Has the stream call a closure, if it can.
    pub fn try_call(
        self,
        device: i32,
        stream: Stream,
        closure: impl FnOnce() + Send + 'static,
    ) -> Result<()> {
        let closure: Box<Box<dyn FnOnce() + Send>> = Box::new(Box::new(closure));
        let data: *mut c_void = Box::into_raw(closure).cast();
        // SAFETY: `gate::call` takes the box once, on any thread.
        let launched = unsafe { self.0.launch_host_function(device, stream, gate::call, data) };
        if launched.is_err() {
            // SAFETY: what was refused is not called, so the box is still ours.
            drop(unsafe { Box::from_raw(data.cast::<Box<dyn FnOnce() + Send>>()) });
        }
        launched
    }

    /// Waits for a stream of the device.
    pub fn wait(self, device: i32, stream: Stream) {
        // SAFETY: stale handles are looked up only.
        unsafe { self.0.stream_synchronize(device, stream) }.expect("synchronized");
    }

    /// Whether a stream of device 0 has nothing pending.
    pub fn is_idle(self, stream: Stream) -> bool {
        // SAFETY: stale handles are looked up only.
        unsafe { self.0.stream_query(0, stream) }.expect("queried")
    }

    /// A stream of device 0 that is not ordered with the default stream.
    pub fn non_blocking_stream(self) -> Stream {
        self.0.create_stream_with(0, StreamFlags::NON_BLOCKING, 0).expect("a stream")
    }

    /// Frees memory of device 0 in the order of a stream.
    pub fn free_on(self, pointer: *mut u8, stream: Stream) {
        // SAFETY: the tests free what they allocated; wrong pointers are looked up only.
        unsafe { self.0.free_async(0, pointer.cast(), stream) }.expect("freed");
    }

    /// Fills memory of device 0 with a byte, on a stream.
    pub fn fill_on(self, pointer: *mut u8, value: u8, size: usize, stream: Stream) {
        let pattern = Pattern::new(&[value]).expect("a pattern");
        // SAFETY: the tests keep their memory until the stream has passed.
        unsafe { self.0.memset_async(0, pointer.cast(), pattern, size, stream) }.expect("queued");
    }

    /// An event of device 0.
    pub fn event(self, flags: EventFlags) -> Event {
        self.0.create_event(0, flags).expect("an event")
    }

    /// Records an event of device 0.
    pub fn record(self, event: Event, stream: Stream) {
        // SAFETY: stale handles are looked up only.
        unsafe { self.0.record_event(0, event, stream) }.expect("recorded");
    }

    /// Has a stream of device 0 wait for an event.
    pub fn wait_event(self, stream: Stream, event: Event) {
        // SAFETY: stale handles are looked up only.
        unsafe { self.0.stream_wait_event(0, stream, event) }.expect("queued");
    }

    /// Whether an event of device 0 is reached.
    pub fn is_reached(self, event: Event) -> bool {
        // SAFETY: stale handles are looked up only.
        unsafe { self.0.event_query(0, event) }.expect("queried")
    }

    /// Waits for an event of device 0.
    pub fn synchronize(self, event: Event) {
        // SAFETY: stale handles are looked up only.
        unsafe { self.0.event_synchronize(0, event) }.expect("synchronized");
    }

    /// Nanoseconds between two events of device 0.
    pub fn elapsed(self, start: Event, end: Event) -> Result<i64> {
        // SAFETY: stale handles are looked up only.
        unsafe { self.0.event_elapsed(0, start, end) }
    }

    /// Destroys an event of device 0.
    pub fn destroy_event(self, event: Event) {
        // SAFETY: stale handles are looked up only.
        unsafe { self.0.destroy_event(0, event) }.expect("destroyed");
    }

    /// Destroys a stream of device 0.
    pub fn destroy(self, stream: Stream) {
        // SAFETY: stale handles are looked up only.
        unsafe { self.0.destroy_stream(0, stream) }.expect("destroyed");
    }
}

/// The bytes of a block.
pub fn bytes(pointer: *const u8, size: usize) -> Vec<u8> {
    // SAFETY: the tests give live blocks that nobody writes meanwhile.
    unsafe { std::slice::from_raw_parts(pointer, size) }.to_vec()
}

/// Writes a block.
pub fn fill(pointer: *mut u8, size: usize, value: u8) {
    // SAFETY: the tests give live blocks that nobody else uses meanwhile.
    unsafe { pointer.write_bytes(value, size) };
}

/// Waits for what must come sooner or later.
pub fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < end, "never came: {what}");
        thread::yield_now();
    }
}

/// The status of what must fail.
pub fn failure<T: std::fmt::Debug>(result: Result<T>) -> Status {
    result.expect_err("must fail").status()
}
