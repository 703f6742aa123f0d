//! LLAISYS's table: twelve functions with LLAISYS's names, one constant table for each device type.
//!
//! Rule: this face is thin. It adds what LLAISYS's signatures leave out, which is the device (the
//! calling thread's current one) and the error (the thread's slot), and makes enums of integers;
//! the rest is the backend's, which is reached in one virtual call. No lock is taken and nothing is
//! allocated here.
//!
//! The functions carry no `self`, so each device type has functions of its own: [`Face`] is generic
//! over the number. Types that can never have a backend share one table, whose count is 0 and whose
//! other functions are errors (contract D5).

use crate::types::{DeviceTypeNumber, MemcpyKindNumber};
use crate::{backends, context};
use llaisys_runtime_core::api::{CopyFlags, MemcpyKind, Ordinal, RuntimeApi, Stream};
use llaisys_runtime_core::current;
use llaisys_runtime_core::device_type::{ASSIGNED, DeviceType};
use llaisys_runtime_core::error::Result;
use llaisys_runtime_core::export::{door, guard};
use std::ffi::{c_int, c_void};
use std::panic::catch_unwind;
use std::ptr;

/// Counts the devices.
#[expect(non_camel_case_types, reason = "LLAISYS's spelling, here and below")]
pub type get_device_count_api = unsafe extern "C" fn() -> c_int;
/// Makes a device current.
#[expect(non_camel_case_types, reason = "LLAISYS's spelling")]
pub type set_device_api = unsafe extern "C" fn(device: c_int);
/// Waits for the current device.
#[expect(non_camel_case_types, reason = "LLAISYS's spelling")]
pub type device_synchronize_api = unsafe extern "C" fn();
/// Makes a stream.
#[expect(non_camel_case_types, reason = "LLAISYS's spelling")]
pub type create_stream_api = unsafe extern "C" fn() -> Stream;
/// Destroys a stream.
#[expect(non_camel_case_types, reason = "LLAISYS's spelling")]
pub type destroy_stream_api = unsafe extern "C" fn(stream: Stream);
/// Waits for a stream.
#[expect(non_camel_case_types, reason = "LLAISYS's spelling")]
pub type stream_synchronize_api = unsafe extern "C" fn(stream: Stream);
/// Allocates device memory.
#[expect(non_camel_case_types, reason = "LLAISYS's spelling")]
pub type malloc_device_api = unsafe extern "C" fn(size: usize) -> *mut c_void;
/// Frees device memory.
#[expect(non_camel_case_types, reason = "LLAISYS's spelling")]
pub type free_device_api = unsafe extern "C" fn(pointer: *mut c_void);
/// Allocates pinned host memory.
#[expect(non_camel_case_types, reason = "LLAISYS's spelling")]
pub type malloc_host_api = unsafe extern "C" fn(size: usize) -> *mut c_void;
/// Frees pinned host memory.
#[expect(non_camel_case_types, reason = "LLAISYS's spelling")]
pub type free_host_api = unsafe extern "C" fn(pointer: *mut c_void);
/// Copies and waits.
#[expect(non_camel_case_types, reason = "LLAISYS's spelling")]
pub type memcpy_sync_api =
    unsafe extern "C" fn(dst: *mut c_void, src: *const c_void, size: usize, kind: MemcpyKindNumber);
/// Enqueues a copy.
#[expect(non_camel_case_types, reason = "LLAISYS's spelling")]
pub type memcpy_async_api = unsafe extern "C" fn(
    dst: *mut c_void,
    src: *const c_void,
    size: usize,
    kind: MemcpyKindNumber,
    stream: Stream,
);

/// LLAISYS's twelve functions over one device type. Frozen: it never grows.
///
/// None of these pointers is NULL. They work on the calling thread's current device of the type
/// (see `set_device`), except where a stream or a pointer says which device it belongs to. Whatever
/// fails leaves its reason for `llaisysGetLastError`; a function without a result just returns
/// then, and one that returns a pointer returns NULL.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LlaisysRuntimeAPI {
    /// Returns the number of devices; 0 when there is no backend, driver or device. Never fails,
    /// makes no context, and leaves nothing in the error slot; `llaisysGetDeviceCount` tells
    /// the reason.
    pub get_device_count: get_device_count_api,
    /// Makes `device`, one of `0..get_device_count()`, current on the calling thread, also for the
    /// driver, so that the thread's own kernels run there. On failure the current device stays.
    pub set_device: set_device_api,
    /// Waits until all work of the current device that was enqueued before is done.
    pub device_synchronize: device_synchronize_api,
    /// Makes a stream on the current device; yours until `destroy_stream`. It is ordered with the
    /// device's default stream. Never NULL, unless it failed.
    pub create_stream: create_stream_api,
    /// Destroys a stream, from any thread. Returns at once; work that is already on it completes.
    /// NULL is no stream of yours and is left alone.
    pub destroy_stream: destroy_stream_api,
    /// Waits until all work that was enqueued on `stream` before is done. NULL is the current
    /// device's default stream.
    pub stream_synchronize: stream_synchronize_api,
    /// Allocates `size` bytes on the current device, aligned to at least 256 bytes; yours until
    /// `free_device`. The content is arbitrary. 0 bytes: NULL, and no failure.
    pub malloc_device: malloc_device_api,
    /// Frees device memory, from any thread and whatever device is current. Work that is enqueued
    /// before and uses the memory completes first; the call does not wait for it. NULL: nothing.
    pub free_device: free_device_api,
    /// Allocates `size` bytes of pinned host memory, aligned to at least 64 bytes, for fast copies
    /// to and from every device of the type; yours until `free_host`. 0 bytes: NULL, and no
    /// failure.
    pub malloc_host: malloc_host_api,
    /// Frees pinned host memory, as `free_device` frees device memory.
    pub free_host: free_host_api,
    /// Copies `size` bytes and waits: ordered after earlier work of the device, and when it
    /// returns the data is there for the host and for every stream. 0 bytes or `dst == src`:
    /// nothing. Otherwise the two ranges must not overlap.
    pub memcpy_sync: memcpy_sync_api,
    /// Enqueues a copy of `size` bytes on `stream`; NULL is the current device's default stream.
    /// Pinned memory must stay as it is until the stream has passed. Pageable host memory may
    /// be a local variable: a source has been read, a destination has been written when the
    /// call returns. On a device whose memory is the host's (the CPU) a copy on an idle stream
    /// is complete at once.
    pub memcpy_async: memcpy_async_api,
}

/// The twelve functions of one device type; `TYPE` is its number.
struct Face<const TYPE: DeviceType>;

/// Runs a call on the backend of `TYPE` with the calling thread's current device.
#[inline]
fn on<const TYPE: DeviceType, T>(
    operation: &'static str,
    call: impl FnOnce(&'static dyn RuntimeApi, Ordinal) -> Result<T>,
) -> std::result::Result<T, llaisys_runtime_core::Status> {
    guard(operation, || call(backends::get(TYPE)?, current::device(TYPE)))
}

/// The calling thread's current device, out of line so that who has a stream does not pay for it.
#[cold]
fn device_of_default_stream(device_type: DeviceType) -> Ordinal {
    current::device(device_type)
}

impl<const TYPE: DeviceType> Face<TYPE> {
    const API: LlaisysRuntimeAPI = LlaisysRuntimeAPI {
        get_device_count: Self::get_device_count,
        set_device: Self::set_device,
        device_synchronize: Self::device_synchronize,
        create_stream: Self::create_stream,
        destroy_stream: Self::destroy_stream,
        stream_synchronize: Self::stream_synchronize,
        malloc_device: Self::malloc_device,
        free_device: Self::free_device,
        malloc_host: Self::malloc_host,
        free_host: Self::free_host,
        memcpy_sync: Self::memcpy_sync,
        memcpy_async: Self::memcpy_async,
    };

    extern "C" fn get_device_count() -> c_int {
        // Not `guard`: that there is no device is no failure here (contract D1).
        let counted = catch_unwind(|| backends::get(TYPE)?.get_device_count());
        counted.ok().and_then(Result::ok).unwrap_or(0).max(0)
    }

    extern "C" fn set_device(device: c_int) {
        door("set_device", || context::set_device(TYPE, device));
    }

    extern "C" fn device_synchronize() {
        let _ = on::<TYPE, _>("device_synchronize", |backend, device| {
            backend.device_synchronize(device)
        });
    }

    extern "C" fn create_stream() -> Stream {
        on::<TYPE, _>("create_stream", |backend, device| backend.create_stream(device))
            .unwrap_or(Stream::DEFAULT)
    }

    unsafe extern "C" fn destroy_stream(stream: Stream) {
        let _ = on::<TYPE, _>("destroy_stream", |backend, device| {
            // SAFETY: the managed backend refuses what is no live stream.
            unsafe { backend.destroy_stream(device, stream) }
        });
    }

    unsafe extern "C" fn stream_synchronize(stream: Stream) {
        let _ = on::<TYPE, _>("stream_synchronize", |backend, device| {
            // SAFETY: the managed backend refuses what is no live stream.
            unsafe { backend.stream_synchronize(device, stream) }
        });
    }

    extern "C" fn malloc_device(size: usize) -> *mut c_void {
        on::<TYPE, _>("malloc_device", |backend, device| backend.malloc_device(device, size))
            .unwrap_or(ptr::null_mut())
    }

    unsafe extern "C" fn free_device(pointer: *mut c_void) {
        let _ = on::<TYPE, _>("free_device", |backend, device| {
            // SAFETY: the managed backend refuses what is no live block of its own.
            unsafe { backend.free_device(device, pointer) }
        });
    }

    extern "C" fn malloc_host(size: usize) -> *mut c_void {
        on::<TYPE, _>("malloc_host", |backend, device| backend.malloc_host(device, size))
            .unwrap_or(ptr::null_mut())
    }

    unsafe extern "C" fn free_host(pointer: *mut c_void) {
        let _ = on::<TYPE, _>("free_host", |backend, device| {
            // SAFETY: the managed backend refuses what is no live block of its own.
            unsafe { backend.free_host(device, pointer) }
        });
    }

    unsafe extern "C" fn memcpy_sync(
        dst: *mut c_void,
        src: *const c_void,
        size: usize,
        kind: MemcpyKindNumber,
    ) {
        let _ = on::<TYPE, _>("memcpy_sync", |backend, device| {
            let kind = MemcpyKind::from_code(kind.0)?;
            // SAFETY: the managed backend checks what it knows of the pointers; that the rest may
            // be read and written is the caller's promise.
            unsafe { backend.memcpy_sync(device, dst, src, size, kind, CopyFlags::NONE) }
        });
    }

    unsafe extern "C" fn memcpy_async(
        dst: *mut c_void,
        src: *const c_void,
        size: usize,
        kind: MemcpyKindNumber,
        stream: Stream,
    ) {
        let _ = guard("memcpy_async", || {
            let (kind, flags) = (MemcpyKind::from_code(kind.0)?, CopyFlags::AT_ONCE_IF_IDLE);
            // A stream knows its device; only the default stream is the current one's.
            let device = if stream.is_default() { device_of_default_stream(TYPE) } else { 0 };
            // SAFETY: as in `memcpy_sync`; the managed backend refuses what is no live stream.
            unsafe {
                backends::get(TYPE)?.memcpy_async(device, dst, src, size, kind, stream, flags)
            }
        });
    }
}

macro_rules! faces {
    ($($number:literal)*) => { [$((&Face::<$number>::API, $number)),*] };
}

/// The tables of LLAISYS's and the reserved numbers, by number.
static NUMBERED: [(&LlaisysRuntimeAPI, DeviceType); 11] = faces![0 1 2 3 4 5 6 7 8 9 10];

/// The tables of the assigned numbers, from the first one on.
static ASSIGNED_FACES: [(&LlaisysRuntimeAPI, DeviceType); 16] =
    faces![32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47];

/// The table of every other number. Nothing ever serves -1.
static NOBODY: &LlaisysRuntimeAPI = &Face::<{ -1 }>::API;

const _: () = {
    let count = ASSIGNED_FACES.len() as DeviceType;
    assert!(count == *ASSIGNED.end() - *ASSIGNED.start() + 1, "each assigned number has a table");
};

fn face(device_type: DeviceType) -> &'static LlaisysRuntimeAPI {
    let place = |number: DeviceType| usize::try_from(number).ok();
    let found = place(device_type).and_then(|index| NUMBERED.get(index)).or_else(|| {
        let from_first = device_type.checked_sub(*ASSIGNED.start())?;
        ASSIGNED_FACES.get(place(from_first)?)
    });
    found.map_or(NOBODY, |(face, _)| face)
}

/// The twelve functions of a device type.
///
/// Never NULL and never fails, whatever the number (also LLAISYS_DEVICE_TYPE_COUNT and -1): where
/// no backend serves it, `get_device_count` answers 0 and the other eleven are errors. Loads
/// nothing; the backend is looked for when a function is called. The table is constant and stays
/// for the life of the process.
#[unsafe(no_mangle)]
pub extern "C" fn llaisysGetRuntimeAPI(r#type: DeviceTypeNumber) -> *const LlaisysRuntimeAPI {
    face(r#type.0 as DeviceType)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_its_own_table() {
        for number in (0..=10).chain(ASSIGNED) {
            let (_, own) = NUMBERED
                .iter()
                .chain(&ASSIGNED_FACES)
                .find(|(known, _)| ptr::eq(*known, face(number)))
                .expect("the table is one of the list");
            assert_eq!(*own, number);
        }
        for number in [-1, 11, 31, 48, i32::MIN, i32::MAX] {
            assert!(ptr::eq(face(number), NOBODY), "{number}");
        }
    }
}
