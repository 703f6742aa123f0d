//! LLAISYS's own types, spelled as its header spells them, and the numbers that C code uses.
//!
//! Rule: C gives integers, Rust makes enums. The enums here exist for the header alone; a parameter
//! arrives as a [`DeviceTypeNumber`] or a [`MemcpyKindNumber`], which hold any number, and is
//! looked at before it becomes something that Rust may match on. Numbers that the core has too are
//! equal to the core's: the assertions below stop the build otherwise.

use llaisys_runtime_core::api::MemcpyKind;
use llaisys_runtime_core::device_type;

/// The kinds of device that LLAISYS itself knows. Other kinds have the numbers
/// `LLAISYS_DEVICE_TYPE_*` below or are given one when their backend is loaded.
///
/// cbindgen:rename-all=None
#[expect(non_camel_case_types, reason = "LLAISYS's spelling")]
#[repr(C)]
#[derive(Clone, Copy)]
pub enum llaisysDeviceType_t {
    /// The CPU. Always there.
    LLAISYS_DEVICE_CPU = 0,
    /// NVIDIA GPUs.
    LLAISYS_DEVICE_NVIDIA = 1,
    /// LLAISYS's count of its own kinds. This runtime compiles no behaviour from it.
    LLAISYS_DEVICE_TYPE_COUNT = 2,
}

/// The element types of LLAISYS's tensors. The runtime copies bytes and reads none of these.
///
/// cbindgen:rename-all=None
#[expect(non_camel_case_types, missing_docs, reason = "LLAISYS's spelling, which says it all")]
#[repr(C)]
#[derive(Clone, Copy)]
pub enum llaisysDataType_t {
    LLAISYS_DTYPE_INVALID = 0,
    LLAISYS_DTYPE_BYTE = 1,
    LLAISYS_DTYPE_BOOL = 2,
    LLAISYS_DTYPE_I8 = 3,
    LLAISYS_DTYPE_I16 = 4,
    LLAISYS_DTYPE_I32 = 5,
    LLAISYS_DTYPE_I64 = 6,
    LLAISYS_DTYPE_U8 = 7,
    LLAISYS_DTYPE_U16 = 8,
    LLAISYS_DTYPE_U32 = 9,
    LLAISYS_DTYPE_U64 = 10,
    LLAISYS_DTYPE_F8 = 11,
    LLAISYS_DTYPE_F16 = 12,
    LLAISYS_DTYPE_F32 = 13,
    LLAISYS_DTYPE_F64 = 14,
    LLAISYS_DTYPE_C16 = 15,
    LLAISYS_DTYPE_C32 = 16,
    LLAISYS_DTYPE_C64 = 17,
    LLAISYS_DTYPE_C128 = 18,
    LLAISYS_DTYPE_BF16 = 19,
}

/// The direction of a copy: where the source is, then where the destination is.
///
/// cbindgen:rename-all=None
#[expect(non_camel_case_types, reason = "LLAISYS's spelling")]
#[repr(C)]
#[derive(Clone, Copy)]
pub enum llaisysMemcpyKind_t {
    /// Host to host. Works on every device.
    LLAISYS_MEMCPY_H2H = 0,
    /// Host to device.
    LLAISYS_MEMCPY_H2D = 1,
    /// Device to host.
    LLAISYS_MEMCPY_D2H = 2,
    /// Device to device, also between two devices of one kind.
    LLAISYS_MEMCPY_D2D = 3,
}

/// A `llaisysDeviceType_t` as it arrives: any number.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceTypeNumber(pub u32);

/// A `llaisysMemcpyKind_t` as it arrives: any number.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemcpyKindNumber(pub u32);

/// The first number that is given to backends whose kind has no number.
pub const LLAISYS_DEVICE_TYPE_FIRST_ASSIGNED: i32 = 32;
/// The last number that is given to backends whose kind has no number.
pub const LLAISYS_DEVICE_TYPE_LAST_ASSIGNED: i32 = 47;

/// The runtime finds the direction of a copy out from the two pointers; one that nobody knows is
/// pageable host memory. Only in this table: LLAISYS's twelve functions refuse it.
pub const LLAISYS_MEMCPY_INFERRED: u32 = 4;

const _: () = {
    use {llaisysDeviceType_t as device, llaisysMemcpyKind_t as kind};
    assert!(device::LLAISYS_DEVICE_CPU as i32 == device_type::CPU);
    assert!(device::LLAISYS_DEVICE_NVIDIA as i32 == device_type::NVIDIA);
    assert!(LLAISYS_DEVICE_TYPE_FIRST_ASSIGNED == *device_type::ASSIGNED.start());
    assert!(LLAISYS_DEVICE_TYPE_LAST_ASSIGNED == *device_type::ASSIGNED.end());
    assert!(kind::LLAISYS_MEMCPY_H2H as u32 == MemcpyKind::H2H as u32);
    assert!(kind::LLAISYS_MEMCPY_H2D as u32 == MemcpyKind::H2D as u32);
    assert!(kind::LLAISYS_MEMCPY_D2H as u32 == MemcpyKind::D2H as u32);
    assert!(kind::LLAISYS_MEMCPY_D2D as u32 == MemcpyKind::D2D as u32);
    assert!(LLAISYS_MEMCPY_INFERRED == MemcpyKind::Inferred as u32);
};
