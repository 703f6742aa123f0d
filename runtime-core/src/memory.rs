//! What is known of a pointer and of a device's memory, and how memory can be advised.

use crate::error::{Error, Result};
use crate::status::Status;
use std::ffi::c_void;

/// The location that means the host, where a device ordinal is asked for.
pub const LOCATION_HOST: i32 = -1;

/// Memory that this runtime did not make and the backend does not know: ordinary host memory.
pub const MEMORY_PAGEABLE: u32 = 0;
/// Device memory.
pub const MEMORY_DEVICE: u32 = 1;
/// Pinned host memory.
pub const MEMORY_PINNED: u32 = 2;
/// Managed memory: one address for host and device, moved as needed.
pub const MEMORY_MANAGED: u32 = 3;
/// The user's own host memory, registered (pinned) afterwards.
pub const MEMORY_REGISTERED: u32 = 4;

/// What is known of a pointer. An output struct.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LlaisysPointerAttributes {
    /// The size of the struct in bytes, set by the caller.
    pub struct_size: u32,
    /// One of `LLAISYS_MEMORY_*`.
    pub kind: u32,
    /// The device type whose backend knows the memory; -1 for pageable memory.
    pub device_type: i32,
    /// The device it is on, or for which it was pinned; -1 for pageable memory.
    pub device: i32,
    /// The first byte of the block; 0 for pageable memory.
    pub base: u64,
    /// The size of the block in bytes; 0 for pageable memory.
    pub size: u64,
    /// 1 when this runtime allocated or registered it, 0 when somebody else did.
    pub ours: u32,
    /// Zero.
    pub reserved: u32,
}

impl LlaisysPointerAttributes {
    /// Ordinary host memory.
    pub const fn pageable() -> LlaisysPointerAttributes {
        LlaisysPointerAttributes {
            struct_size: size_of::<LlaisysPointerAttributes>() as u32,
            kind: MEMORY_PAGEABLE,
            device_type: -1,
            device: -1,
            base: 0,
            size: 0,
            ours: 0,
            reserved: 0,
        }
    }
}

/// Where the memory of a device, or of a stream, went. An output struct; all sizes in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LlaisysMemoryStatistics {
    /// The size of the struct in bytes, set by the caller.
    pub struct_size: u32,
    /// Zero.
    pub reserved: u32,
    /// Handed out and not freed.
    pub used: u64,
    /// Held from the driver, used or cached; at least `used`.
    pub reserved_bytes: u64,
    /// The most that `used` was since the last reset.
    pub peak: u64,
    /// The number of blocks that are handed out.
    pub live: u64,
    /// Allocations since the start.
    pub allocations: u64,
    /// Frees since the start.
    pub frees: u64,
    /// Allocations that failed for want of memory.
    pub failures: u64,
    /// The limit set for the device; `UINT64_MAX` without one.
    pub limit: u64,
}

/// What the runtime may know about the use of managed memory. Numbers as CUDA's `CUmem_advise`.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryAdvice {
    /// It is mostly read: copies on several devices are fine.
    SetReadMostly = 1,
    /// No longer so.
    UnsetReadMostly = 2,
    /// It should live at the location.
    SetPreferredLocation = 3,
    /// No longer so.
    UnsetPreferredLocation = 4,
    /// The location will access it: keep it mapped there.
    SetAccessedBy = 5,
    /// No longer so.
    UnsetAccessedBy = 6,
}

impl MemoryAdvice {
    /// The advice with this number.
    ///
    /// # Errors
    /// `INVALID_VALUE` for a number that is none.
    pub fn from_code(code: u32) -> Result<MemoryAdvice> {
        Ok(match code {
            1 => MemoryAdvice::SetReadMostly,
            2 => MemoryAdvice::UnsetReadMostly,
            3 => MemoryAdvice::SetPreferredLocation,
            4 => MemoryAdvice::UnsetPreferredLocation,
            5 => MemoryAdvice::SetAccessedBy,
            6 => MemoryAdvice::UnsetAccessedBy,
            _ => {
                let message = format!("advice {code} is not one of 1..=6");
                return Err(Error::new(Status::InvalidValue, message));
            }
        })
    }
}

/// Asked when an allocation does not fit, after the caches were emptied: may free memory, and answers
/// nonzero when the allocation should be tried again. No lock of the runtime is held meanwhile.
pub type OutOfMemoryCallback =
    unsafe extern "C" fn(data: *mut c_void, device_type: i32, device: i32, requested: u64) -> i32;

/// Called with the value of a user slot when its time is over.
pub type SlotDestructor = unsafe extern "C" fn(value: *mut c_void);
