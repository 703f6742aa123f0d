//! The doors of copies and fills.

use super::arguments::*;
use super::{backend, door};
use crate::api::*;
use std::ffi::c_void;

pub(super) unsafe extern "C" fn memcpy_sync<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    dst: *mut c_void,
    src: *const c_void,
    size: u64,
    kind: u32,
    flags: CopyFlags,
) -> i32 {
    door("memcpy_sync", || {
        let (kind, size, flags) =
            (MemcpyKind::from_extended_code(kind)?, bytes(size)?, known(flags)?);
        // SAFETY: `this` belongs to this table; the caller keeps `memcpy_sync`'s contract.
        unsafe { backend::<B>(this)?.memcpy_sync(device, dst, src, size, kind, flags) }
    })
}

pub(super) unsafe extern "C" fn memcpy_async<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    dst: *mut c_void,
    src: *const c_void,
    size: u64,
    kind: u32,
    stream: Stream,
    flags: CopyFlags,
) -> i32 {
    door("memcpy_async", || {
        let (kind, size, flags) =
            (MemcpyKind::from_extended_code(kind)?, bytes(size)?, known(flags)?);
        // SAFETY: `this` belongs to this table; the caller keeps `memcpy_async`'s contract.
        unsafe { backend::<B>(this)?.memcpy_async(device, dst, src, size, kind, stream, flags) }
    })
}

pub(super) unsafe extern "C" fn memset_async<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    dst: *mut c_void,
    pattern: *const c_void,
    pattern_size: u32,
    size: u64,
    stream: Stream,
) -> i32 {
    door("memset_async", || {
        // SAFETY: the caller gives `pattern_size` readable bytes.
        let pattern = unsafe { read_pattern(pattern, pattern_size) }?;
        let size = bytes(size)?;
        // SAFETY: `this` belongs to this table; the caller keeps `memset_async`'s contract.
        unsafe { backend::<B>(this)?.memset_async(device, dst, pattern, size, stream) }
    })
}

pub(super) unsafe extern "C" fn memset_sync<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    dst: *mut c_void,
    pattern: *const c_void,
    pattern_size: u32,
    size: u64,
) -> i32 {
    door("memset_sync", || {
        // SAFETY: the caller gives `pattern_size` readable bytes.
        let pattern = unsafe { read_pattern(pattern, pattern_size) }?;
        let size = bytes(size)?;
        // SAFETY: `this` belongs to this table; the caller keeps `memset_sync`'s contract.
        unsafe { backend::<B>(this)?.memset_sync(device, dst, pattern, size) }
    })
}

pub(super) unsafe extern "C" fn memcpy_3d_async<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    copy: *const LlaisysCopy3D,
    stream: Stream,
    flags: CopyFlags,
) -> i32 {
    door("memcpy_3d_async", || {
        // SAFETY: the caller's struct begins with its size.
        let copy = unsafe { read_copy_3d(copy) }?;
        let flags = known(flags)?;
        // SAFETY: `this` belongs to this table; the caller keeps `memcpy_3d_async`'s contract.
        unsafe { backend::<B>(this)?.memcpy_3d_async(device, &copy, stream, flags) }
    })
}

pub(super) unsafe extern "C" fn memcpy_3d_sync<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    copy: *const LlaisysCopy3D,
) -> i32 {
    door("memcpy_3d_sync", || {
        // SAFETY: the caller's struct begins with its size.
        let copy = unsafe { read_copy_3d(copy) }?;
        // SAFETY: `this` belongs to this table; the caller keeps `memcpy_3d_sync`'s contract.
        unsafe { backend::<B>(this)?.memcpy_3d_sync(device, &copy) }
    })
}

pub(super) unsafe extern "C" fn memcpy_batch_async<B: RuntimeApi>(
    this: *mut c_void,
    device: Ordinal,
    ranges: *const LlaisysCopyRange,
    count: u64,
    stride: u64,
    kind: u32,
    stream: Stream,
    flags: CopyFlags,
) -> i32 {
    door("memcpy_batch_async", || {
        // SAFETY: the caller gives `count` ranges, `stride` bytes apart.
        let ranges = unsafe { read_ranges(ranges, count, stride) }?;
        let kind = MemcpyKind::from_extended_code(kind)?;
        let flags = known(flags)?;
        // SAFETY: `this` belongs to this table; the caller keeps `memcpy_batch_async`'s contract.
        unsafe { backend::<B>(this)?.memcpy_batch_async(device, &ranges, kind, stream, flags) }
    })
}
