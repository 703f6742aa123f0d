//! Links between devices, seen through the plugin's own table: on the fake driver by default, on a real one
//! with `LLAISYS_TEST_DRIVER=""`.

mod support;

use llaisys_runtime_core::api::{
    Capabilities, LINK_NVLINK, LINK_PCIE, LINK_THROUGH_HOST, LlaisysPeerLink,
};
use llaisys_runtime_core::status::Status;
use support::extended::*;
use support::on_device::*;

on_a_device! {
    /// D4: no question makes a context; access can be switched on, and on again.
    fn the_link_between_two_devices_is_told_and_switched_on(plugin) {
        let count = plugin.initialize().expect("devices");
        let cuda = Cuda::open();
        if count < 2 {
            assert!(!plugin.has(0, Capabilities::PEERS));
            println!("skipped: one device");
            return;
        }
        for (device, peer) in [(0, 1), (1, 0)] {
            let link = plugin.link(device, peer).expect("a link");
            println!("{device} -> {peer}: {link:?}");
            assert_eq!(link.enabled, 0);
            assert!(cuda.count("contexts_created").is_none_or(|made| device != 0 || made == 0));
            if link.can_access == 0 {
                assert_eq!(link.kind, LINK_THROUGH_HOST);
                continue;
            }
            assert!(matches!(link.kind, LINK_PCIE | LINK_NVLINK));
            assert!(plugin.has(device, Capabilities::PEERS));
            plugin.enable(device, peer).expect("switched on");
            plugin.enable(device, peer).expect("again is fine");
            assert_eq!(plugin.link(device, peer).expect("a link"), LlaisysPeerLink { enabled: 1, ..link });
        }
    }

    /// What another library has switched on is no failure, and pool memory is open as well.
    fn access_that_somebody_else_switched_on_is_fine(plugin) {
        if plugin.initialize().expect("devices") < 2 || plugin.link(0, 1).expect("a link").can_access == 0 {
            println!("skipped: no two devices with a path");
            return;
        }
        plugin.bind(1);
        let far = plugin.device_memory(64);
        let cuda = Cuda::open();
        let current: unsafe extern "C" fn(*mut *mut std::ffi::c_void) -> i32 =
            cuda.function("cuCtxGetCurrent");
        let mut peer = std::ptr::null_mut();
        // SAFETY: `peer` is writable.
        assert_eq!(unsafe { current(&mut peer) }, 0);
        plugin.bind(0);
        let enable: unsafe extern "C" fn(*mut std::ffi::c_void, u32) -> i32 =
            cuda.function("cuCtxEnablePeerAccess");
        // SAFETY: the peer's context is live.
        assert_eq!(unsafe { enable(peer, 0) }, 0);
        plugin.enable(0, 1).expect("already on");
        plugin.free(far).expect("a free");
    }
}

#[test]
fn without_a_path_the_link_is_through_the_host_and_nothing_is_switched_on() {
    let name = "without_a_path_the_link_is_through_the_host_and_nothing_is_switched_on";
    on_a_fake(name, &[("FAKE_CUDA_NO_PEER", "1")], |plugin| {
        plugin.initialize().expect("devices");
        assert_eq!(plugin.link(0, 1).expect("a link"), LlaisysPeerLink::staged());
        assert!(!plugin.has(0, Capabilities::PEERS));
        let failure = plugin.enable(0, 1).expect_err("there is no path");
        assert_eq!(failure.status, Status::NotSupported.code(), "{failure:?}");
        assert!(failure.message.contains("copies between them work"), "{failure:?}");
        assert_eq!(Cuda::open().count("contexts_created"), Some(0));
    });
}

#[test]
fn a_refusal_to_switch_access_on_is_told() {
    let name = "a_refusal_to_switch_access_on_is_told";
    on_a_fake(name, &[("FAKE_CUDA_FAIL", "cuCtxEnablePeerAccess=711")], |plugin| {
        let failure = plugin.enable(0, 1).expect_err("too many peers");
        assert_eq!((failure.status, failure.native_code), (Status::DriverError.code(), 711));
        assert!(failure.message.contains("device 1 to device 0"), "{failure:?}");
        assert_eq!(plugin.link(0, 1).expect("a link").enabled, 0);
    });
}

/// A management library in which every path is an NVLink with this status.
fn management_library(name: &str, nvlink: u32) {
    let source = format!(
        "int nvmlInit_v2(void) {{ return 0; }}\n\
         int nvmlDeviceGetHandleByPciBusId_v2(const char *at, void **device) {{ *device = (void *)at; return 0; }}\n\
         int nvmlDeviceGetP2PStatus(void *a, void *b, unsigned what, unsigned *status) {{\n\
             if (what != 2) return 2;\n\
             *status = {nvlink};\n\
             return 0;\n\
         }}\n"
    );
    let file = support::library_from(name, "libnvidia-ml.so.1", &source);
    // SAFETY: it has no constructor. From now on the linker knows it by its name.
    std::mem::forget(unsafe { libloading::os::unix::Library::new(file) }.expect("it loads"));
}

/// The management library knows better than what follows from atomics.
#[test]
fn the_management_library_tells_nvlink_from_pcie() {
    let name = "the_management_library_tells_nvlink_from_pcie";
    on_a_fake(name, &[], |plugin| {
        management_library("nvml-pcie", 5);
        plugin.initialize().expect("devices");
        let link = plugin.link(0, 1).expect("a link");
        assert_eq!((link.kind, link.native_atomics), (LINK_PCIE, 1));
    });
}

#[test]
fn the_management_library_may_say_nvlink() {
    let name = "the_management_library_may_say_nvlink";
    on_a_fake(name, &[], |plugin| {
        management_library("nvml-nvlink", 0);
        plugin.initialize().expect("devices");
        assert_eq!(plugin.link(0, 1).expect("a link").kind, LINK_NVLINK);
    });
}
