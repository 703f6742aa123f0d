//! LLAISYS's twelve functions with their failures as results, and what they hand out with an owner.
//!
//! Rule: the table is used as a C program uses it, through its function pointers: `black_box` keeps
//! the compiler, which sees both sides here, from calling past them.

use crate::runtime;
use llaisys_runtime::core::api::Stream;
use llaisys_runtime::core::{Result, last_error};
use llaisys_runtime::table::{LlaisysRuntimeAPI, llaisysGetRuntimeAPI};
use llaisys_runtime::types::DeviceTypeNumber;
use std::ffi::c_void;
use std::hint::black_box;

/// The twelve functions of a device type, with their failures as results.
#[derive(Clone, Copy)]
pub struct Twelve(pub &'static LlaisysRuntimeAPI);

impl Twelve {
    /// The functions of a device type.
    pub fn of(device_type: i32) -> Twelve {
        // SAFETY: never NULL, constant, and there for the life of the process.
        Twelve(unsafe { &*black_box(llaisysGetRuntimeAPI(DeviceTypeNumber(device_type as u32))) })
    }

    /// What the calls since the last check left in the slot.
    pub fn check(&self) -> Result<()> {
        last_error::take_error().map_or(Ok(()), Err)
    }

    fn not_null<T>(&self, pointer: *mut T) -> Result<*mut T> {
        if pointer.is_null() { Err(runtime::failure()) } else { Ok(pointer) }
    }

    /// Makes a device current.
    pub fn set_device(&self, device: i32) -> Result<()> {
        // SAFETY: any number may be given.
        unsafe { (self.0.set_device)(device) };
        self.check()
    }

    /// Makes a stream.
    pub fn create_stream(&self) -> Result<Stream> {
        // SAFETY: needs nothing.
        self.not_null(unsafe { (self.0.create_stream)() }.0).map(Stream)
    }

    /// Allocates device memory.
    pub fn malloc_device(&self, size: usize) -> Result<*mut c_void> {
        // SAFETY: any size may be given.
        self.not_null(unsafe { (self.0.malloc_device)(size) })
    }

    /// Allocates pinned host memory.
    pub fn malloc_host(&self, size: usize) -> Result<*mut c_void> {
        // SAFETY: any size may be given.
        self.not_null(unsafe { (self.0.malloc_host)(size) })
    }

    /// Waits for a stream.
    pub fn stream_synchronize(&self, stream: Stream) -> Result<()> {
        // SAFETY: a stream of ours, or one that the runtime refuses.
        unsafe { (self.0.stream_synchronize)(stream) };
        self.check()
    }
}

/// Device memory.
pub struct Block<'a>(pub &'a Twelve, pub *mut c_void);

impl Drop for Block<'_> {
    fn drop(&mut self) {
        // SAFETY: from `malloc_device`, freed once.
        unsafe { (self.0.0.free_device)(self.1) };
    }
}

/// A stream.
pub struct Lane<'a>(pub &'a Twelve, pub Stream);

impl Drop for Lane<'_> {
    fn drop(&mut self) {
        // SAFETY: from `create_stream`, destroyed once.
        unsafe { (self.0.0.destroy_stream)(self.1) };
    }
}

/// Pinned host memory.
pub struct Pinned<'a>(pub &'a Twelve, pub *mut c_void);

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        // SAFETY: from `malloc_host`, freed once.
        unsafe { (self.0.0.free_host)(self.1) };
    }
}
