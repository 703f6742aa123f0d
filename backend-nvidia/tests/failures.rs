//! What the driver's failures become, one injected by the fake driver at a time.

mod support;

use llaisys_runtime_core::api::{CopyFlags, Stream};
use llaisys_runtime_core::status::Status;
use std::ffi::c_void;
use support::{Failure, Plugin, driver_with_devices, in_a_child};

/// Runs a story on a fake driver that fails as `failures` says (`name:nth=code`, see its settings).
fn failing(test: &str, failures: &str, story: impl FnOnce(&Plugin)) {
    if std::env::var_os("LLAISYS_TEST_DRIVER").is_some_and(|driver| driver.is_empty()) {
        println!("skipped: a real driver does not fail on demand");
        return;
    }
    let driver = driver_with_devices();
    let environment = [("LLAISYS_CUDA_DRIVER", driver.as_str()), ("FAKE_CUDA_FAIL", failures)];
    in_a_child(test, &environment, || story(&Plugin::open()));
}

fn allocate(plugin: &Plugin, size: u64) -> Result<*mut c_void, Failure> {
    let mut pointer = std::ptr::null_mut();
    // SAFETY: `pointer` is writable.
    let status = unsafe { (plugin.api.malloc_device)(plugin.api.self_, 0, size, &mut pointer) };
    plugin.result(status).map(|()| pointer)
}

fn copy_in(plugin: &Plugin, to: *mut c_void, kind: u32) -> Result<(), Failure> {
    let (table, source) = (plugin.api, [1_u8; 64]);
    let (this, from, flags) = (table.self_, source.as_ptr().cast(), CopyFlags::SOURCE_PAGEABLE);
    // SAFETY: the story gives 64 bytes on the side that the kind names.
    let status =
        unsafe { (table.memcpy_async)(this, 0, to, from, 64, kind, Stream::DEFAULT, flags) };
    plugin.result(status)
}

/// Case 37: what is full now may have room later.
#[test]
fn a_context_that_could_not_be_made_is_tried_again() {
    let name = "a_context_that_could_not_be_made_is_tried_again";
    failing(name, "cuDevicePrimaryCtxRetain:1=2", |plugin| {
        let failure = allocate(plugin, 64).expect_err("the first try fails");
        assert_eq!(failure.status, Status::OutOfMemory.code(), "{failure:?}");
        assert!(failure.message.contains("primary context of device 0"), "{failure:?}");
        allocate(plugin, 64).expect("the second does not");
    });
}

#[test]
fn a_pool_that_could_not_be_made_is_tried_again() {
    let name = "a_pool_that_could_not_be_made_is_tried_again";
    failing(name, "cuMemPoolCreate:1=2", |plugin| {
        let failure = allocate(plugin, 64).expect_err("the first try fails");
        assert_eq!(failure.status, Status::OutOfMemory.code(), "{failure:?}");
        allocate(plugin, 64).expect("the second does not");
    });
}

#[test]
fn a_device_that_says_it_has_pools_and_has_none_does_without() {
    let name = "a_device_that_says_it_has_pools_and_has_none_does_without";
    failing(name, "cuMemPoolCreate=801", |plugin| {
        let block = allocate(plugin, 64).expect("plain memory");
        copy_in(plugin, block, 1).expect("a copy");
        plugin.free_device(block as usize).expect("a free");
    });
}

/// E4: the pool is emptied and the request tried again before anyone is told.
#[test]
fn out_of_memory_is_told_only_after_a_second_try() {
    let name = "out_of_memory_is_told_only_after_a_second_try";
    failing(name, "cuMemAllocFromPoolAsync:1=2", |plugin| {
        allocate(plugin, 64).expect("the second try, unseen");
    });
}

/// E5: which device, what was asked, and the driver's own name.
#[test]
fn a_fault_of_a_kernel_is_a_lost_device_with_its_cause() {
    let name = "a_fault_of_a_kernel_is_a_lost_device_with_its_cause";
    failing(name, "cuMemcpyHtoDAsync_v2=700", |plugin| {
        let block = allocate(plugin, 64).expect("memory");
        let failure = copy_in(plugin, block, 1).expect_err("the device is lost");
        assert_eq!(failure.status, Status::DeviceLost.code(), "{failure:?}");
        assert_eq!(failure.native_code, 700);
        assert_eq!(failure.native_name, "CUDA_ERROR_ILLEGAL_ADDRESS");
        for word in ["64 bytes", "H2D", "device 0"] {
            assert!(failure.message.contains(word), "{failure:?}");
        }
    });
}

/// The enum that `cust_raw` makes of the codes has no 912; reading it as that would be undefined.
#[test]
fn a_code_of_a_later_driver_keeps_its_number() {
    let name = "a_code_of_a_later_driver_keeps_its_number";
    failing(name, "cuMemcpyHtoDAsync_v2=912,cuStreamCreate=7777", |plugin| {
        let failure = copy_in(plugin, 0x1000 as *mut c_void, 1).expect_err("a failure");
        assert_eq!(failure.status, Status::DriverError.code());
        assert_eq!(failure.native_code, 912);
        let failure = allocate(plugin, 64).expect_err("the pool needs a stream");
        assert_eq!((failure.native_code, failure.status), (7777, Status::DriverError.code()));
        assert!(failure.message.contains("7777"), "{failure:?}");
    });
}

/// Case 30, L1: nothing is left to free when the driver is gone.
#[test]
fn a_free_or_destroy_while_the_driver_shuts_down_succeeds() {
    let name = "a_free_or_destroy_while_the_driver_shuts_down_succeeds";
    let failures = "cuMemFreeAsync=4,cuStreamDestroy_v2=4,cuEventRecord=4,cuMemcpyHtoDAsync_v2=4";
    failing(name, failures, |plugin| {
        let table = plugin.api;
        let block = allocate(plugin, 64).expect("memory");
        let mut stream = Stream::DEFAULT;
        let mut pinned = std::ptr::null_mut();
        // SAFETY: both are writable; each is freed once below.
        unsafe {
            plugin.result((table.create_stream)(table.self_, 0, &mut stream)).expect("a stream");
            plugin.result((table.malloc_host)(table.self_, 0, 64, &mut pinned)).expect("memory");
            plugin.free_device(block as usize).expect("quiet");
            plugin.result((table.destroy_stream)(table.self_, 0, stream)).expect("quiet");
            plugin.result((table.free_host)(table.self_, 0, pinned)).expect("quiet");
        }
        let failure = copy_in(plugin, block, 1).expect_err("anything else is told");
        assert_eq!(failure.status, Status::Shutdown.code(), "{failure:?}");
    });
}

#[test]
fn a_host_function_that_was_not_taken_leaves_no_copy_behind() {
    let name = "a_host_function_that_was_not_taken_leaves_no_copy_behind";
    failing(name, "cuLaunchHostFunc=900", |plugin| {
        let mut target = vec![0_u8; 64];
        let failure = copy_in(plugin, target.as_mut_ptr().cast(), 0).expect_err("not taken");
        assert_eq!(failure.status, Status::NotPermitted.code(), "{failure:?}");
        // SAFETY: takes numbers alone.
        let status = unsafe { (plugin.api.device_synchronize)(plugin.api.self_, 0) };
        plugin.result(status).expect("nothing is under way");
        assert!(target.iter().all(|&byte| byte == 0));
    });
}

/// D2: the thread keeps what it had.
#[test]
fn a_context_that_cannot_be_entered_is_told() {
    let name = "a_context_that_cannot_be_entered_is_told";
    failing(name, "cuCtxPushCurrent_v2=709,cuCtxSetCurrent=201", |plugin| {
        let failure = allocate(plugin, 64).expect_err("the context is gone");
        assert_eq!(failure.status, Status::DeviceLost.code(), "{failure:?}");
        // SAFETY: takes numbers alone.
        let status = unsafe { (plugin.api.set_device)(plugin.api.self_, 0) };
        let failure = plugin.result(status).expect_err("not bound");
        assert_eq!(failure.status, Status::DriverError.code(), "{failure:?}");
        assert!(failure.message.contains("device 0 current"), "{failure:?}");
    });
}
