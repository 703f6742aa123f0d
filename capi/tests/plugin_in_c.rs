//! Plugins that are written in C and in C++, with `llaisys/backend.h` alone, and loaded by an explicit call.

mod toolchain;

use llaisys_runtime::backend_table::llaisysGetBackendAPI;
use llaisys_runtime::devices::{llaisysDeviceTypeName, llaisysGetDeviceCount};
use llaisys_runtime::errors::llaisysGetLastError;
use llaisys_runtime::loading::{llaisysGetCandidateCount, llaisysLoadBackend};
use llaisys_runtime::table::llaisysGetRuntimeAPI;
use llaisys_runtime::types::{
    DeviceTypeNumber, LLAISYS_DEVICE_TYPE_FIRST_ASSIGNED, LLAISYS_DEVICE_TYPE_LAST_ASSIGNED,
};
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::LlaisysMemoryInfo;
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use toolchain::Standard;

fn load(path: &Path) -> (i32, i32) {
    let path = CString::new(path.as_os_str().as_bytes()).expect("a path has no NUL");
    let mut device_type = -7;
    // SAFETY: the file is this test's own plugin; `device_type` may be written.
    let status = unsafe { llaisysLoadBackend(path.as_ptr(), &mut device_type) };
    (status, device_type)
}

#[test]
fn a_plugin_in_c_is_loaded_once_and_its_gaps_are_not_supported() {
    let source = toolchain::root().join("tests/headers/plugin_author.c");
    let flags = ["-fvisibility=hidden", "-fPIC"];
    let plugin = [Standard::C99, Standard::C11].map(|standard| {
        let object = toolchain::compile(standard, &source, &flags);
        let name = format!("libllaisys_backend_nothing_{standard:?}.so");
        toolchain::link_plugin(standard, &[object], &name)
    });

    let (status, device_type) = load(&plugin[0]);
    assert_eq!(status, 0, "{}", last_message());
    let assigned = LLAISYS_DEVICE_TYPE_FIRST_ASSIGNED..=LLAISYS_DEVICE_TYPE_LAST_ASSIGNED;
    assert!(assigned.contains(&device_type));
    let candidates = llaisysGetCandidateCount();
    assert_eq!(load(&plugin[0]), (0, device_type), "the same file");
    let link = toolchain::scratch("link.so");
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(&plugin[0], &link).expect("the scratch folder can be written");
    assert_eq!(load(&link), (0, device_type), "the same file by a link");
    assert_eq!(llaisysGetCandidateCount(), candidates);

    // SAFETY: texts of the C ABI end with a NUL; the tables are not NULL; outputs are ours.
    unsafe {
        assert_eq!(CStr::from_ptr(llaisysDeviceTypeName(device_type)), c"nothing");
        let mut count = -1;
        assert_eq!((llaisysGetDeviceCount(device_type, &mut count), count), (0, 0));
        let api = &*llaisysGetRuntimeAPI(DeviceTypeNumber(device_type as u32));
        assert_eq!((api.get_device_count)(), 0);
        assert!((api.malloc_device)(16).is_null());
        assert_eq!(llaisysGetLastError(ptr::null_mut()), Status::InvalidDevice.code());
        // Its table ends before this entry; ours does not.
        let api = &*llaisysGetBackendAPI(device_type);
        let mut info = LlaisysMemoryInfo::new(0, 0);
        let status = (api.get_memory_info)(api.self_, 0, &mut info);
        assert!([Status::InvalidDevice.code(), Status::NotSupported.code()].contains(&status));
        llaisysGetLastError(ptr::null_mut());
    }

    // Another file of the same name is refused and harms nobody.
    assert_eq!(load(&plugin[1]), (Status::BackendRefused.code(), -7));
    assert!(last_message().contains("nothing"));
    assert_eq!(load(&plugin[0]), (0, device_type));
}

/// The standard library's templates are exported whatever the visibility is; the linker's list hides them.
#[test]
fn a_plugin_in_cpp_needs_the_linkers_list_and_is_told_so() {
    let source = toolchain::root().join("tests/headers/plugin_author.cpp");
    let object = toolchain::compile(Standard::Cxx17, &source, &["-fvisibility=hidden", "-fPIC"]);
    let objects = [object];
    let open = toolchain::link_plugin(Standard::Cxx17, &objects, "libllaisys_backend_open.so");
    assert_eq!(load(&open), (Status::BackendRefused.code(), -7));
    assert!(last_message().contains("backend.map"));

    let map = toolchain::root().join("include/llaisys/backend.map");
    let option = format!("-Wl,--version-script={}", map.display());
    let objects = [objects[0].clone(), option.into()];
    let plugin = toolchain::link_plugin(Standard::Cxx17, &objects, "libllaisys_backend_cpp.so");
    let (status, device_type) = load(&plugin);
    assert_eq!(status, 0, "{}", last_message());
    // What its library threw came to its own catch, and its text to this slot.
    let mut count = -1;
    // SAFETY: `count` may be written.
    let status = unsafe { llaisysGetDeviceCount(device_type, &mut count) };
    assert_eq!(status, Status::DriverUnavailable.code());
    assert_eq!(last_message(), "thrown in C++ and caught there");
}

/// What this thread's slot says.
fn last_message() -> String {
    let mut error = ptr::null();
    // SAFETY: `error` may be written and is never NULL after the call.
    unsafe {
        llaisysGetLastError(&mut error);
        CStr::from_ptr((*error).message).to_string_lossy().into_owned()
    }
}
