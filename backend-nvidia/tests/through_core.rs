//! The plugin as a client meets it: found, checked and managed by the core.

mod support;

use llaisys_runtime_core::RuntimeApi;
use llaisys_runtime_core::api::{CopyFlags, MemcpyKind, Stream};
use llaisys_runtime_core::error::{Error, Result};
use llaisys_runtime_core::registry::Registry;
use llaisys_runtime_core::status::Status;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, Ordering};
use support::{driver_with_devices, in_a_child, plugin_file};

static REGISTRY: Registry = Registry::new(&[]);

/// The plugin with everything that the core adds.
fn managed() -> &'static dyn RuntimeApi {
    REGISTRY.load(&plugin_file()).expect("the core takes the plugin").api
}

fn on_a_device(test: &str, failures: &str, story: impl FnOnce(&'static dyn RuntimeApi)) {
    let driver = driver_with_devices();
    if driver.is_empty() && !failures.is_empty() {
        println!("skipped: a real driver does not fail on demand");
        return;
    }
    let environment = [
        ("LLAISYS_CUDA_DRIVER", driver.as_str()),
        ("FAKE_CUDA_FAIL", failures),
        ("FAKE_CUDA_CONTAINED_FAULTS", "1"),
    ];
    in_a_child(test, &environment, || story(managed()));
}

fn copy(
    api: &dyn RuntimeApi,
    dst: *mut c_void,
    src: *const c_void,
    size: usize,
    kind: MemcpyKind,
) -> Result<()> {
    // SAFETY: the stories give ranges that fit, or ones that the core refuses.
    unsafe { api.memcpy_sync(0, dst, src, size, kind, CopyFlags::NONE) }
}

#[track_caller]
fn refused<T>(result: Result<T>) -> Error {
    match result {
        Ok(_) => panic!("it was not refused"),
        Err(error) => error,
    }
}

/// Case 17, 18, 19.
#[test]
fn what_contradicts_the_pointers_is_refused_and_copies_nothing() {
    let name = "what_contradicts_the_pointers_is_refused_and_copies_nothing";
    on_a_device(name, "", |api| {
        let block = api.malloc_device(0, 4096).expect("memory");
        let (mut a, b) = ([1_u8; 64], [2_u8; 64]);
        let (to, from) = (a.as_mut_ptr().cast::<c_void>(), b.as_ptr().cast::<c_void>());
        for (dst, src, kind) in [
            (to, from, MemcpyKind::H2D),
            (to, from, MemcpyKind::D2D),
            (block, from, MemcpyKind::D2H),
            (to, block.cast_const(), MemcpyKind::H2D),
            (block.wrapping_byte_add(1), block.cast_const(), MemcpyKind::D2D),
        ] {
            let error = refused(copy(api, dst, src, 64, kind));
            assert_eq!(error.status(), Status::InvalidValue, "{error}");
        }
        assert_eq!(a, [1; 64]);
        copy(api, to, from, 64, MemcpyKind::H2H).expect("host to host works");
        assert_eq!(a, [2; 64]);
        copy(api, null_mut(), null_mut(), 0, MemcpyKind::D2D).expect("nothing to do");
        assert!(api.malloc_device(0, 0).expect("nothing").is_null());
        // SAFETY: each wrong free is refused before anything is touched.
        unsafe {
            assert!(api.free_device(0, block.wrapping_byte_add(16)).is_err());
            assert!(api.free_host(0, block).is_err());
            api.free_device(0, block).expect("a free");
            assert!(api.free_device(0, block).is_err());
        }
        assert_eq!(refused(api.set_device(99)).status(), Status::InvalidDevice);
    });
}

/// H1.
#[test]
fn a_call_that_waits_inside_a_host_function_is_refused() {
    static SEEN: AtomicI32 = AtomicI32::new(-1);
    unsafe extern "C" fn wait_inside(_: *mut c_void) {
        let result = managed().device_synchronize(0);
        let status = result.map_or_else(|error| error.status(), |()| Status::Success);
        SEEN.store(status.code(), Ordering::SeqCst);
    }
    let name = "a_call_that_waits_inside_a_host_function_is_refused";
    on_a_device(name, "", |api| {
        // SAFETY: the function may run on any thread, and does not unwind.
        unsafe { api.launch_host_function(0, Stream::DEFAULT, wait_inside, null_mut()) }
            .expect("enqueued");
        api.device_synchronize(0).expect("done");
        assert_eq!(SEEN.load(Ordering::SeqCst), Status::NotPermitted.code());
    });
}

/// E5: the first cause is what later calls get. (After a fault of a kernel today's driver fails on
/// every device of the process; an error that it contains to one device leaves the others.)
#[test]
fn a_lost_device_is_latched_with_its_cause_and_the_other_goes_on() {
    let name = "a_lost_device_is_latched_with_its_cause_and_the_other_goes_on";
    on_a_device(name, "cuMemcpyHtoD_v2:1=719", |api| {
        let block = api.malloc_device(0, 64).expect("memory");
        let other = api.malloc_device(1, 64).expect("memory of the other device");
        let bytes = [3_u8; 64];
        let from = bytes.as_ptr().cast();
        let first = refused(copy(api, block, from, 64, MemcpyKind::H2D));
        assert_eq!(first.status(), Status::DeviceLost, "{first}");
        let later = refused(api.malloc_device(0, 64));
        assert_eq!(later.status(), Status::DeviceLost);
        assert!(later.to_string().contains("CUDA_ERROR_LAUNCH_FAILED"), "{later}");
        copy(api, other, from, 64, MemcpyKind::H2D).expect("the other device works");
    });
}

/// Case 4 and L2, with the core's locks carried over the probe's own fork.
#[test]
fn a_process_that_counts_through_the_core_may_fork_and_one_that_allocates_may_not() {
    let name = "a_process_that_counts_through_the_core_may_fork_and_one_that_allocates_may_not";
    on_a_device(name, "", |api| {
        // SAFETY: the child runs this closure's calls and leaves with `_exit`.
        let in_a_fork = |body: &dyn Fn() -> Status| unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::_exit(body().code());
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            assert!(libc::WIFEXITED(status), "{status:#x}");
            libc::WEXITSTATUS(status)
        };
        let allocate = || match api.malloc_device(0, 64) {
            Ok(_) => Status::Success,
            Err(error) => error.status(),
        };
        assert!(api.get_device_count().expect("devices") >= 1);
        assert_eq!(in_a_fork(&allocate), Status::Success.code());
        let block = api.malloc_device(0, 64).expect("memory");
        assert_eq!(in_a_fork(&allocate), Status::Forked.code());
        let free = || {
            // SAFETY: inherited, and freed once in this child.
            let freed = unsafe { api.free_device(0, block) };
            freed.map_or_else(|error| error.status(), |()| Status::Success)
        };
        assert_eq!(in_a_fork(&free), Status::Success.code());
        // SAFETY: freed once in this process.
        unsafe { api.free_device(0, block) }.expect("the parent is unharmed");
    });
}
