//! LLAISYS's table of twelve functions, as a client compiled against its header sees it.
//!
//! The methods are safe to call because of what the contract says of the arguments, not because of
//! their types: see `address`.

use crate::address::Address;
use llaisys_runtime_core::api::{MemcpyKind, Stream};
use std::ffi::c_void;

/// The C struct: twelve pointers, nothing else.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Table {
    get_device_count: unsafe extern "C" fn() -> i32,
    set_device: unsafe extern "C" fn(i32),
    device_synchronize: unsafe extern "C" fn(),
    create_stream: unsafe extern "C" fn() -> *mut c_void,
    destroy_stream: unsafe extern "C" fn(*mut c_void),
    stream_synchronize: unsafe extern "C" fn(*mut c_void),
    malloc_device: unsafe extern "C" fn(usize) -> *mut c_void,
    free_device: unsafe extern "C" fn(*mut c_void),
    malloc_host: unsafe extern "C" fn(usize) -> *mut c_void,
    free_host: unsafe extern "C" fn(*mut c_void),
    memcpy_sync: unsafe extern "C" fn(*mut c_void, *const c_void, usize, u32),
    memcpy_async: unsafe extern "C" fn(*mut c_void, *const c_void, usize, u32, *mut c_void),
}

/// The names of the twelve, in the order of the table.
pub const NAMES: [&str; 12] = [
    "get_device_count",
    "set_device",
    "device_synchronize",
    "create_stream",
    "destroy_stream",
    "stream_synchronize",
    "malloc_device",
    "free_device",
    "malloc_host",
    "free_host",
    "memcpy_sync",
    "memcpy_async",
];

/// The twelve functions of one device type.
#[derive(Clone, Copy)]
pub struct Twelve(Table);

impl Twelve {
    /// Takes a table that the runtime handed out.
    ///
    /// # Errors
    /// The first slot that is NULL, or that the table itself is (contract D5).
    ///
    /// # Safety
    /// - `table` is what `llaisysGetRuntimeAPI` returned.
    pub unsafe fn take(table: *const c_void) -> Result<Twelve, String> {
        if table.is_null() {
            return Err("llaisysGetRuntimeAPI returned NULL".to_owned());
        }
        // SAFETY: a table is twelve pointers.
        let words = unsafe { table.cast::<[usize; 12]>().read() };
        if let Some(empty) = words.iter().position(|word| *word == 0) {
            return Err(format!("slot {} ({}) of the table is NULL", empty, NAMES[empty]));
        }
        // SAFETY: as above, and no slot is NULL.
        Ok(Twelve(unsafe { table.cast::<Table>().read() }))
    }

    /// The number of devices.
    pub fn get_device_count(&self) -> i32 {
        // SAFETY: takes nothing.
        unsafe { (self.0.get_device_count)() }
    }

    /// Makes a device current.
    pub fn set_device(&self, device: i32) {
        // SAFETY: takes a number.
        unsafe { (self.0.set_device)(device) }
    }

    /// Waits for the current device.
    pub fn device_synchronize(&self) {
        // SAFETY: takes nothing.
        unsafe { (self.0.device_synchronize)() }
    }

    /// Makes a stream.
    pub fn create_stream(&self) -> Stream {
        // SAFETY: takes nothing.
        Stream(unsafe { (self.0.create_stream)() })
    }

    /// Destroys a stream.
    pub fn destroy_stream(&self, stream: Stream) {
        // SAFETY: a handle is looked up, never followed (contract S3).
        unsafe { (self.0.destroy_stream)(stream.0) }
    }

    /// Waits for a stream.
    pub fn stream_synchronize(&self, stream: Stream) {
        // SAFETY: as for `destroy_stream`.
        unsafe { (self.0.stream_synchronize)(stream.0) }
    }

    /// Allocates device memory.
    pub fn malloc_device(&self, size: usize) -> Address {
        // SAFETY: takes a number.
        Address::from_pointer(unsafe { (self.0.malloc_device)(size) })
    }

    /// Frees device memory.
    pub fn free_device(&self, pointer: Address) {
        // SAFETY: an address to free is looked up, never followed (contract M5).
        unsafe { (self.0.free_device)(pointer.pointer()) }
    }

    /// Allocates pinned host memory.
    pub fn malloc_host(&self, size: usize) -> Address {
        // SAFETY: takes a number.
        Address::from_pointer(unsafe { (self.0.malloc_host)(size) })
    }

    /// Frees pinned host memory.
    pub fn free_host(&self, pointer: Address) {
        // SAFETY: as for `free_device`.
        unsafe { (self.0.free_host)(pointer.pointer()) }
    }

    /// Copies and waits; `kind` may be any number.
    pub fn memcpy_sync(&self, dst: Address, src: Address, size: usize, kind: u32) {
        // SAFETY: the ranges are memory that the case keeps alive, or such as the contract says are
        // refused or left alone (M1, M3, C1, C4).
        unsafe { (self.0.memcpy_sync)(dst.pointer(), src.pointer(), size, kind) }
    }

    /// Enqueues a copy; `kind` may be any number.
    pub fn memcpy_async(&self, dst: Address, src: Address, size: usize, kind: u32, stream: Stream) {
        // SAFETY: as for `memcpy_sync`; the case keeps pinned memory until the stream has passed, or
        // frees it, which the contract allows (M4).
        unsafe { (self.0.memcpy_async)(dst.pointer(), src.pointer(), size, kind, stream.0) }
    }

    /// Copies and waits, in a direction that exists.
    pub fn copy(&self, dst: Address, src: Address, size: usize, kind: MemcpyKind) {
        self.memcpy_sync(dst, src, size, kind as u32);
    }

    /// Enqueues a copy in a direction that exists.
    pub fn enqueue(&self, dst: Address, src: Address, size: usize, kind: MemcpyKind, on: Stream) {
        self.memcpy_async(dst, src, size, kind as u32, on);
    }
}
