//! The operations of the plugin's table as the stories about a device want them.
//!
//! The gate is a host function that holds a stream until the test lets it go, so that "while the
//! stream is busy" is certain and not a matter of luck.

use super::{Failure, Plugin};
use llaisys_runtime_core::api::{CopyFlags, Stream};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub const H2H: u32 = 0;
pub const H2D: u32 = 1;
pub const D2H: u32 = 2;
pub const D2D: u32 = 3;

/// Sizes below, at and above what a driver copies at once (64 KiB).
pub const SIZES: [usize; 5] = [1, 255, 65_536, 65_537, 3 << 20];

/// Runs a story in a child, on a driver with devices.
macro_rules! on_a_device {
    ($($(#[$attribute:meta])* fn $name:ident($plugin:ident) $body:block)*) => {
        $(
            $(#[$attribute])*
            #[test]
            fn $name() {
                let driver = $crate::support::driver_with_devices();
                $crate::support::in_a_child(stringify!($name), &[("LLAISYS_CUDA_DRIVER", &driver)], || {
                    let $plugin = &$crate::support::Plugin::open();
                    $body
                });
            }
        )*
    };
}

pub(crate) use on_a_device;

/// The operations of the table as a test wants them: on device 0, failures as values.
pub trait Operations {
    fn new_stream(&self) -> Stream;
    fn destroy(&self, stream: Stream) -> Result<(), Failure>;
    fn wait(&self, stream: Stream);
    fn is_ready(&self, stream: Stream) -> bool;
    fn device_memory(&self, size: usize) -> *mut c_void;
    fn pinned(&self, size: usize) -> &'static mut [u8];
    fn copy(&self, dst: *mut c_void, src: *const c_void, size: usize, kind: u32);
    fn copy_in(
        &self,
        stream: Stream,
        dst: *mut c_void,
        src: *const c_void,
        size: usize,
        kind: u32,
        flags: CopyFlags,
    );
    fn free(&self, pointer: *mut c_void) -> Result<(), Failure>;
    fn free_pinned(&self, pointer: *mut u8) -> Result<(), Failure>;
    fn read(&self, from: *const c_void, size: usize) -> Vec<u8>;
    fn fill(&self, to: *mut c_void, pattern: &[u8]);
}

impl Operations for Plugin {
    fn new_stream(&self) -> Stream {
        let mut stream = Stream::DEFAULT;
        // SAFETY: `stream` is writable.
        let status = unsafe { (self.api.create_stream)(self.api.self_, 0, &mut stream) };
        self.result(status).expect("a stream");
        assert!(!stream.is_default());
        stream
    }
    fn destroy(&self, stream: Stream) -> Result<(), Failure> {
        // SAFETY: the stories destroy a stream once.
        self.result(unsafe { (self.api.destroy_stream)(self.api.self_, 0, stream) })
    }
    fn wait(&self, stream: Stream) {
        // SAFETY: the stories wait for live streams.
        let status = unsafe { (self.api.stream_synchronize)(self.api.self_, 0, stream) };
        self.result(status).expect("the work is done");
    }
    fn is_ready(&self, stream: Stream) -> bool {
        let mut ready = -1;
        // SAFETY: `ready` is writable, and the stories ask about live streams.
        let status = unsafe { (self.api.stream_query)(self.api.self_, 0, stream, &mut ready) };
        self.result(status).expect("a query");
        ready == 1
    }
    fn device_memory(&self, size: usize) -> *mut c_void {
        let mut pointer = std::ptr::null_mut();
        // SAFETY: `pointer` is writable.
        let status =
            unsafe { (self.api.malloc_device)(self.api.self_, 0, size as u64, &mut pointer) };
        self.result(status).expect("device memory");
        assert_eq!(pointer as usize % 256, 0);
        pointer
    }
    fn pinned(&self, size: usize) -> &'static mut [u8] {
        let mut pointer = std::ptr::null_mut();
        // SAFETY: `pointer` is writable.
        let status =
            unsafe { (self.api.malloc_host)(self.api.self_, 0, size as u64, &mut pointer) };
        self.result(status).expect("pinned memory");
        assert_eq!(pointer as usize % 64, 0);
        // SAFETY: fresh memory of that size, made readable by the fill.
        unsafe {
            pointer.cast::<u8>().write_bytes(0, size);
            std::slice::from_raw_parts_mut(pointer.cast(), size)
        }
    }
    fn copy(&self, dst: *mut c_void, src: *const c_void, size: usize, kind: u32) {
        let (table, flags) = (self.api, CopyFlags::NONE);
        // SAFETY: the stories give ranges that fit.
        let status =
            unsafe { (table.memcpy_sync)(table.self_, 0, dst, src, size as u64, kind, flags) };
        self.result(status).expect("a copy");
    }
    fn copy_in(
        &self,
        stream: Stream,
        dst: *mut c_void,
        src: *const c_void,
        size: usize,
        kind: u32,
        flags: CopyFlags,
    ) {
        let table = self.api;
        // SAFETY: the stories give ranges that fit and live until the stream has passed.
        let status = unsafe {
            (table.memcpy_async)(table.self_, 0, dst, src, size as u64, kind, stream, flags)
        };
        self.result(status).expect("a copy");
    }
    fn free(&self, pointer: *mut c_void) -> Result<(), Failure> {
        self.free_device(pointer as usize)
    }
    fn free_pinned(&self, pointer: *mut u8) -> Result<(), Failure> {
        // SAFETY: the stories free a block once.
        self.result(unsafe { (self.api.free_host)(self.api.self_, 0, pointer.cast()) })
    }
    fn read(&self, from: *const c_void, size: usize) -> Vec<u8> {
        let mut bytes = vec![0xEE; size];
        self.copy(bytes.as_mut_ptr().cast(), from, size, D2H);
        bytes
    }
    fn fill(&self, to: *mut c_void, pattern: &[u8]) {
        self.copy(to, pattern.as_ptr().cast(), pattern.len(), H2D);
    }
}

/// A stream that is held until `open`.
pub struct Gate {
    /// What the host function waits for.
    pub open: Box<AtomicBool>,
}

impl Gate {
    pub fn on(plugin: &Plugin, stream: Stream) -> Gate {
        unsafe extern "C" fn hold(open: *mut c_void) {
            // SAFETY: the gate outlives the function: `open` waits for the stream.
            let open = unsafe { &*open.cast::<AtomicBool>() };
            let start = Instant::now();
            while !open.load(Ordering::Acquire) {
                assert!(start.elapsed() < Duration::from_secs(20), "nobody opened the gate");
                std::thread::sleep(Duration::from_micros(50));
            }
        }
        let open = Box::new(AtomicBool::new(false));
        let data = (&raw const *open).cast_mut().cast();
        let table = plugin.api;
        // SAFETY: `hold` does not unwind before 20 s, and its data lives in the gate.
        let status =
            unsafe { (table.launch_host_function)(table.self_, 0, stream, Some(hold), data) };
        plugin.result(status).expect("a host function");
        Gate { open }
    }

    pub fn open(self, plugin: &Plugin) {
        self.open.store(true, Ordering::Release);
        // SAFETY: takes numbers alone.
        let status = unsafe { (plugin.api.device_synchronize)(plugin.api.self_, 0) };
        plugin.result(status).expect("everything is done");
    }
}

pub fn pattern(seed: u8, size: usize) -> Vec<u8> {
    (0..size).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed) ^ (i >> 8) as u8).collect()
}
