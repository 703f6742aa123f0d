//! The error slot and the tables as C reaches them (contract E1–E3, D2, D3, D5, M1, M5, C1).
//!
//! Each test runs on a thread of its own, and thus has a slot and a current device of its own.

use llaisys_runtime::backend_table::llaisysGetBackendAPI;
use llaisys_runtime::context::{llaisysGetContextRuntime, llaisysSetContextRuntime};
use llaisys_runtime::devices::{llaisysDeviceTypeName, llaisysGetDeviceCount};
use llaisys_runtime::errors::{
    LlaisysError, llaisysCopyLastError, llaisysGetLastError, llaisysPeekLastError,
    llaisysStatusName, llaisysStatusText,
};
use llaisys_runtime::loading::{
    LlaisysCandidate, llaisysGetCandidate, llaisysGetCandidateCount, llaisysLoadBackend,
};
use llaisys_runtime::table::{LlaisysRuntimeAPI, llaisysGetRuntimeAPI};
use llaisys_runtime::types::{DeviceTypeNumber, MemcpyKindNumber};
use llaisys_runtime::version::{llaisysGetAbiVersion, llaisysGetVersion};
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::Stream;
use std::ffi::{CStr, c_char, c_void};
use std::ptr;

const CPU: DeviceTypeNumber = DeviceTypeNumber(0);
const H2D: MemcpyKindNumber = MemcpyKindNumber(1);
const D2H: MemcpyKindNumber = MemcpyKindNumber(2);

fn table(device_type: DeviceTypeNumber) -> &'static LlaisysRuntimeAPI {
    // SAFETY: never NULL, and constant for the life of the process.
    unsafe { &*llaisysGetRuntimeAPI(device_type) }
}

fn text(pointer: *const c_char) -> String {
    assert!(!pointer.is_null());
    // SAFETY: the C ABI's texts end with a NUL.
    unsafe { CStr::from_ptr(pointer) }.to_str().expect("texts are UTF-8").to_owned()
}

/// Status, operation and message; clears the slot.
fn last_error() -> (i32, String, String) {
    let mut error: *const LlaisysError = ptr::null();
    // SAFETY: `error` may be written, and what it becomes stays until this thread's next failure.
    unsafe {
        let status = llaisysGetLastError(&mut error);
        assert_eq!(status, (*error).status);
        (status, text((*error).operation), text((*error).message))
    }
}

fn nothing_failed() -> bool {
    // SAFETY: NULL is allowed.
    unsafe { llaisysPeekLastError(ptr::null_mut()) == 0 }
}

#[test]
fn the_first_of_many_failures_is_told_after_a_success() {
    let api = table(CPU);
    let mut host = [7u8; 64];
    // SAFETY: the pointers are this test's own, or refused.
    unsafe {
        let memory = (api.malloc_device)(64);
        (api.memcpy_sync)(memory, host.as_ptr().cast(), 64, MemcpyKindNumber(42));
        assert!((api.malloc_device)(usize::MAX).is_null());
        (api.memcpy_sync)(memory, host.as_ptr().cast(), 64, H2D);
        host.fill(0);
        (api.memcpy_sync)(host.as_mut_ptr().cast(), memory, 64, D2H);
        (api.free_device)(memory);
    }
    assert_eq!(host, [7; 64]);
    let (status, operation, message) = last_error();
    assert_eq!(status, Status::InvalidValue.code());
    assert_eq!(operation, "memcpy_sync");
    assert_eq!(message, "kind 42 is not one of 0..=3");
    assert!(nothing_failed());
    assert_eq!(last_error(), (0, String::new(), "the call succeeded".to_owned()));
}

#[test]
fn peeking_leaves_and_copying_gives_one_whole_line() {
    let api = table(CPU);
    // SAFETY: the device is refused; the buffers are this test's own.
    unsafe {
        (api.set_device)(99);
        let mut error: *const LlaisysError = ptr::null();
        for _ in 0..2 {
            assert_eq!(llaisysPeekLastError(&mut error), Status::InvalidDevice.code());
            assert_eq!(text((*error).operation), "set_device");
            assert_eq!((text((*error).native_name), (*error).native_code), (String::new(), 0));
        }
        let mut needed = 0;
        let status = llaisysCopyLastError(ptr::null_mut(), 0, &mut needed);
        assert_eq!(status, Status::InvalidDevice.code());
        let mut line = vec![1 as c_char; needed as usize + 1];
        assert_eq!(llaisysCopyLastError(line.as_mut_ptr(), needed, ptr::null_mut()), status);
        let whole = text(line.as_ptr());
        assert_eq!(whole.len() as u64 + 1, needed);
        assert!(
            whole.starts_with("set_device: INVALID_DEVICE: device 99 does not exist"),
            "{whole}"
        );
        assert_eq!(line[needed as usize], 1, "nothing is written past the capacity");
        let mut short = [1 as c_char; 8];
        assert_eq!(llaisysCopyLastError(short.as_mut_ptr(), 4, &mut needed), status);
        assert_eq!((text(short.as_ptr()), short[4]), ("set".to_owned(), 1));
    }
    last_error();
    let mut needed = 0;
    // SAFETY: `needed` may be written.
    assert_eq!(unsafe { llaisysCopyLastError(ptr::null_mut(), 0, &mut needed) }, 0);
    assert_eq!(needed, 1);
}

#[test]
fn threads_do_not_see_each_others_failures_or_devices() {
    llaisysSetContextRuntime(CPU, -5);
    std::thread::spawn(|| {
        assert!(nothing_failed());
        llaisysSetContextRuntime(CPU, i32::MIN);
        assert_eq!(last_error().1, "llaisysSetContextRuntime");
    })
    .join()
    .expect("the other thread's checks hold");
    assert!(last_error().2.contains("device -5"));
}

/// Cases 1 and 5: any number has a full table; without a backend it counts 0 and fails otherwise.
#[test]
fn a_type_that_nobody_serves_has_a_table_of_errors() {
    for number in [2, 11, 32, 47, 48, 1000, i32::MAX as u32, -1i32 as u32] {
        let api = table(DeviceTypeNumber(number));
        let memory = (&raw const number).cast_mut().cast::<c_void>();
        // SAFETY: nothing is behind this table, so nothing is read or written.
        unsafe {
            assert_eq!((api.get_device_count)(), 0);
            assert!(nothing_failed(), "counting is no failure");
            let fails = |operation: &str| {
                let (status, failed, message) = last_error();
                assert_eq!(status, Status::BackendUnavailable.code(), "{number}: {message}");
                assert_eq!(failed, operation);
            };
            (api.set_device)(0);
            fails("set_device");
            (api.device_synchronize)();
            fails("device_synchronize");
            assert!((api.create_stream)().is_default());
            fails("create_stream");
            (api.destroy_stream)(Stream(memory));
            fails("destroy_stream");
            (api.stream_synchronize)(Stream::DEFAULT);
            fails("stream_synchronize");
            assert!((api.malloc_device)(16).is_null());
            fails("malloc_device");
            (api.free_device)(memory);
            fails("free_device");
            assert!((api.malloc_host)(16).is_null());
            fails("malloc_host");
            (api.free_host)(memory);
            fails("free_host");
            (api.memcpy_sync)(memory, memory, 4, H2D);
            fails("memcpy_sync");
            (api.memcpy_async)(memory, memory, 4, H2D, Stream::DEFAULT);
            fails("memcpy_async");
        }
        assert!(llaisysGetBackendAPI(number as i32).is_null());
        assert_eq!(last_error().1, "llaisysGetBackendAPI");
        let mut count = 123;
        // SAFETY: `count` may be written.
        let status = unsafe { llaisysGetDeviceCount(number as i32, &mut count) };
        assert_eq!((status, count), (Status::BackendUnavailable.code(), 123));
        assert_eq!(last_error().1, "llaisysGetDeviceCount");
    }
}

/// The inferred kind is the extended table's alone.
#[test]
fn the_twelve_functions_take_the_four_kinds_of_llaisys_only() {
    let api = table(CPU);
    let mut host = [7u8; 64];
    // SAFETY: the pointers are this test's own, or refused.
    unsafe {
        let memory = (api.malloc_device)(64);
        for kind in [4, 5, u32::MAX] {
            (api.memcpy_sync)(memory, host.as_mut_ptr().cast(), 64, MemcpyKindNumber(kind));
            assert_eq!(last_error().0, Status::InvalidValue.code());
            let kind = MemcpyKindNumber(kind);
            (api.memcpy_async)(memory, host.as_ptr().cast(), 64, kind, Stream::DEFAULT);
            let (status, operation, _) = last_error();
            assert_eq!((status, operation.as_str()), (Status::InvalidValue.code(), "memcpy_async"));
        }
        (api.free_device)(memory);
    }
    assert!(nothing_failed());
}

/// Case 40.
#[test]
fn a_failed_choice_leaves_the_current_device() {
    let api = table(CPU);
    let current = || {
        let (mut device_type, mut device) = (-1, -1);
        // SAFETY: both may be written.
        assert_eq!(unsafe { llaisysGetContextRuntime(&mut device_type, &mut device) }, 0);
        (device_type, device)
    };
    assert_eq!(current(), (0, 0), "a thread that never chose");
    llaisysSetContextRuntime(CPU, 0);
    for device in [99, -1, i32::MIN, i32::MAX] {
        // SAFETY: the device is refused.
        unsafe { (api.set_device)(device) };
        assert_eq!(last_error().0, Status::InvalidDevice.code());
        llaisysSetContextRuntime(CPU, device);
        assert_eq!(last_error().0, Status::InvalidDevice.code());
        assert_eq!(current(), (0, 0));
    }
    llaisysSetContextRuntime(DeviceTypeNumber(9), 0);
    assert_eq!(last_error().0, Status::BackendUnavailable.code());
    assert_eq!(current(), (0, 0));
    // SAFETY: NULL is allowed.
    assert_eq!(unsafe { llaisysGetContextRuntime(ptr::null_mut(), ptr::null_mut()) }, 0);
}

/// Case 19.
#[test]
fn nothing_is_no_failure() {
    let api = table(CPU);
    let garbage = 16 as *mut c_void;
    // SAFETY: zero bytes of garbage are not touched; NULL is allowed everywhere here.
    unsafe {
        for _ in 0..3 {
            assert!((api.malloc_device)(0).is_null());
            assert!((api.malloc_host)(0).is_null());
        }
        (api.free_device)(ptr::null_mut());
        (api.free_host)(ptr::null_mut());
        (api.destroy_stream)(Stream::DEFAULT);
        for pointer in [ptr::null_mut(), garbage] {
            (api.memcpy_sync)(pointer, pointer, 0, H2D);
            (api.memcpy_async)(pointer, pointer, 0, D2H, Stream::DEFAULT);
        }
        (api.stream_synchronize)(Stream::DEFAULT);
        (api.device_synchronize)();
    }
    assert!(nothing_failed());
}

/// Case 18.
#[test]
fn what_is_not_alive_is_refused() {
    let api = table(CPU);
    // SAFETY: every call that is wrong is refused before anything is touched.
    unsafe {
        let memory = (api.malloc_device)(4096);
        let host = (api.malloc_host)(4096);
        let stream = (api.create_stream)();
        (api.free_device)(memory.cast::<u8>().add(16).cast());
        assert_eq!(last_error().1, "free_device");
        (api.free_device)(host);
        assert_eq!(last_error().1, "free_device");
        (api.free_device)(memory);
        (api.free_host)(host);
        (api.destroy_stream)(stream);
        assert!(nothing_failed());
        (api.free_device)(memory);
        assert_eq!(last_error().0, Status::InvalidValue.code());
        (api.destroy_stream)(stream);
        assert_eq!(last_error().0, Status::InvalidHandle.code());
        (api.stream_synchronize)(stream);
        assert_eq!(last_error().0, Status::InvalidHandle.code());
    }
}

/// Contract S8: a CPU operator on the next line reads what an asynchronous copy brought.
#[test]
fn on_an_idle_cpu_stream_an_asynchronous_copy_is_there_at_once() {
    let api = table(CPU);
    // SAFETY: on the CPU device memory may be read by the host; the buffers are this test's own.
    unsafe {
        let stream = (api.create_stream)();
        let memory = (api.malloc_device)(1 << 20);
        let source = (api.malloc_host)(1 << 20);
        for round in 1..50u8 {
            source.cast::<u8>().write_bytes(round, 1 << 20);
            (api.memcpy_async)(memory, source, 1 << 20, H2D, stream);
            assert_eq!(*memory.cast::<u8>().add((1 << 20) - 1), round);
        }
        (api.free_device)(memory);
        (api.free_host)(source);
        (api.destroy_stream)(stream);
    }
    assert!(nothing_failed());
}

#[test]
fn the_extended_table_answers_with_statuses() {
    let api = llaisysGetBackendAPI(0);
    // SAFETY: not NULL for the CPU; the pointers are this test's own, or refused.
    unsafe {
        let api = &*api;
        let (mut count, mut memory) = (0, ptr::null_mut());
        assert_eq!((api.get_device_count)(api.self_, &mut count), 0);
        assert!(count >= 1);
        assert_eq!((api.malloc_device)(api.self_, 0, 100, &mut memory), 0);
        let kind = 5;
        let flags = llaisys_runtime_core::api::CopyFlags::NONE;
        let status = (api.memcpy_sync)(api.self_, 0, memory, memory, 100, kind, flags);
        assert_eq!((status, last_error().0), (Status::InvalidValue.code(), status));
        assert_eq!((api.free_device)(api.self_, 0, memory), 0);
        let before = memory;
        let status = (api.malloc_device)(api.self_, 77, 100, &mut memory);
        assert_eq!((status, memory), (Status::InvalidDevice.code(), before));
        assert_eq!(last_error().1, "malloc_device");
        assert!(ptr::eq(api, llaisysGetBackendAPI(0)), "always the same table");
    }
}

#[test]
fn the_built_in_backend_is_a_candidate_and_a_bad_file_becomes_one() {
    let count = llaisysGetCandidateCount();
    assert!(count >= 1);
    let mut candidate = LlaisysCandidate {
        struct_size: size_of::<LlaisysCandidate>() as u32,
        status: -1,
        device_type: -1,
        reserved: -1,
        name: ptr::null(),
        path: ptr::null(),
        version: ptr::null(),
        vendor: ptr::null(),
        reason: ptr::null(),
    };
    // SAFETY: the structs and texts are this test's own.
    unsafe {
        assert_eq!(llaisysGetCandidate(0, &mut candidate), 0);
        assert_eq!((candidate.status, candidate.device_type), (0, 0));
        assert_eq!((text(candidate.name), text(candidate.path)), ("cpu".to_owned(), String::new()));
        assert!(!text(candidate.version).is_empty() && !text(candidate.reason).is_empty());

        let path = c"/nowhere/libllaisys_backend_none.so";
        let mut device_type = 55;
        let status = llaisysLoadBackend(path.as_ptr(), &mut device_type);
        assert_eq!((status, device_type), (Status::BackendRefused.code(), 55));
        let (_, operation, message) = last_error();
        assert_eq!(operation, "llaisysLoadBackend");
        let now = llaisysGetCandidateCount();
        assert!(now > count);
        let found = (0..now).any(|index| {
            assert_eq!(llaisysGetCandidate(index, &mut candidate), 0);
            text(candidate.path) == "/nowhere/libllaisys_backend_none.so"
                && candidate.status == status
                && text(candidate.reason) == message
        });
        assert!(found, "the refused file is a candidate with the same reason");

        for index in [-1, now, i32::MAX] {
            assert_eq!(llaisysGetCandidate(index, &mut candidate), Status::InvalidValue.code());
            assert!(last_error().2.contains(&format!("candidate {index}")));
        }
        assert_eq!(llaisysGetCandidate(0, ptr::null_mut()), Status::InvalidValue.code());
        last_error();
        assert_eq!(llaisysLoadBackend(ptr::null(), ptr::null_mut()), Status::InvalidValue.code());
        last_error();
        assert_eq!(llaisysGetDeviceCount(0, ptr::null_mut()), Status::InvalidValue.code());
        last_error();
    }
}

/// Contract P3: an older client's struct is shorter, a newer one's longer; neither is overrun.
#[test]
fn a_candidate_is_written_up_to_the_callers_size() {
    let mut buffer = [0x5555_5555_5555_5555u64; 16];
    // SAFETY: the buffer is larger than any size that it is given.
    unsafe {
        let candidate = buffer.as_mut_ptr().cast::<LlaisysCandidate>();
        for size in [0, 3] {
            (&raw mut (*candidate).struct_size).write(size);
            assert_eq!(llaisysGetCandidate(0, candidate), Status::InvalidValue.code());
            last_error();
        }
        (&raw mut (*candidate).struct_size).write(8);
        assert_eq!(llaisysGetCandidate(0, candidate), 0);
        assert_eq!((*candidate).status, 0);
        assert!(buffer[1..].iter().all(|&word| word == 0x5555_5555_5555_5555));
        let candidate = buffer.as_mut_ptr().cast::<LlaisysCandidate>();
        (&raw mut (*candidate).struct_size).write(128);
        assert_eq!(llaisysGetCandidate(0, candidate), 0);
        assert_eq!((*candidate).struct_size, 128);
        let end = size_of::<LlaisysCandidate>() / 8;
        assert!(buffer[end..].iter().all(|&word| word == 0x5555_5555_5555_5555));
    }
}

#[test]
fn every_status_has_a_name_and_a_text_and_so_has_every_other_number() {
    for status in Status::ALL {
        assert_eq!(text(llaisysStatusName(status.code())), status.name());
        assert_eq!(text(llaisysStatusText(status.code())), status.text());
    }
    for number in [-1, Status::ALL.len() as i32, i32::MIN, i32::MAX] {
        assert_eq!(text(llaisysStatusName(number)), "UNKNOWN");
        assert!(!text(llaisysStatusText(number)).is_empty());
    }
}

#[test]
fn names_and_versions_are_told() {
    assert_eq!(text(llaisysDeviceTypeName(0)), "cpu");
    assert_eq!(text(llaisysDeviceTypeName(1)), "nvidia");
    assert_eq!(text(llaisysDeviceTypeName(10)), "ali");
    for number in [-1, 11, 32, i32::MIN] {
        assert_eq!(text(llaisysDeviceTypeName(number)), "unknown");
    }
    assert_eq!(text(llaisysGetVersion()), env!("CARGO_PKG_VERSION"));
    assert_eq!(llaisysGetAbiVersion() >> 16, llaisys_runtime_core::abi::ABI_MAJOR);
}
