//! Contract L2: a child of a process that had initialised the driver is told so; its frees do
//! nothing; the parent goes on.

mod support;

use llaisys_runtime_core::api::{EventFlags, StreamFlags};
use llaisys_runtime_core::status::Status;
use support::extended::{Extended, on_a_fake};
use support::on_device::Operations;
use support::{Plugin, driver_from, in_a_child};

/// A driver with one device that, as the real one, works in no process but the one that started it.
/// It has no cuDevicePrimaryCtxRetain: whoever wants a context fails.
const ONE_DEVICE: &str = "
    #include <unistd.h>
    static int owner;
    static int state(void) { return owner == getpid() ? 0 : 3; }
    int cuInit(unsigned f) { if (owner == 0) owner = getpid(); return state(); }
    int cuDriverGetVersion(int *v) { *v = 12080; return 0; }
    int cuDeviceGetCount(int *n) { *n = 1; return state(); }
    int cuDeviceGet(int *d, int n) { *d = n; return state(); }
    int cuDeviceTotalMem_v2(unsigned long *n, int d) { *n = 1 << 20; return state(); }
    int cuDevicePrimaryCtxGetState(int d, unsigned *f, int *a) { *f = 0; *a = 0; return state(); }
";

/// Forks; the child answers with its exit code.
fn in_a_fork(body: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the test process has one thread that matters; the child only runs `body` and leaves
    // with `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork");
    if child == 0 {
        let code = body();
        // SAFETY: ends the child without its destructors.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: `status` is writable and the child is ours.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status), "the child ended by a signal: {status:#x}");
    libc::WEXITSTATUS(status)
}

fn status_of_start(plugin: &Plugin) -> i32 {
    plugin.initialize().map_or_else(|failure| failure.status, |_| 0)
}

fn status_of_count(plugin: &Plugin) -> i32 {
    plugin.device_count().map_or_else(|failure| failure.status, |_| 0)
}

#[test]
fn a_fork_after_the_start_is_told_and_its_frees_are_quiet() {
    let driver = driver_from("started", ONE_DEVICE);
    let name = "a_fork_after_the_start_is_told_and_its_frees_are_quiet";
    in_a_child(name, &[("LLAISYS_CUDA_DRIVER", &driver)], || {
        let plugin = Plugin::open();
        assert_eq!(plugin.initialize().expect("one device"), 1);
        let told = in_a_fork(|| match plugin.free_device(0x1000) {
            Ok(()) => status_of_count(&plugin),
            Err(_) => 99,
        });
        assert_eq!(told, Status::Forked.code());
        assert_eq!(plugin.initialize().expect("the parent is unharmed"), 1);
        // A child of the child is no better off.
        let told = in_a_fork(|| in_a_fork(|| status_of_start(&plugin)));
        assert_eq!(told, Status::Forked.code());
    });
}

/// Case 4.
#[test]
fn a_process_that_only_counts_may_fork_children_that_start_the_driver() {
    let driver = driver_from("counted", ONE_DEVICE);
    let name = "a_process_that_only_counts_may_fork_children_that_start_the_driver";
    in_a_child(name, &[("LLAISYS_CUDA_DRIVER", &driver)], || {
        let plugin = Plugin::open();
        for _ in 0..3 {
            assert_eq!(plugin.device_count().expect("one device"), 1);
            assert_eq!(in_a_fork(|| status_of_start(&plugin)), 0);
        }
        assert_eq!(in_a_fork(|| status_of_count(&plugin)), 0);
        // SAFETY: asks about children of this process.
        let left = unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) };
        assert_eq!(left, -1, "no child is left behind");
        assert_eq!(plugin.initialize().expect("one device"), 1);
        assert_eq!(in_a_fork(|| status_of_start(&plugin)), Status::Forked.code());
    });
}

#[test]
fn a_host_that_ignores_its_children_gets_its_count() {
    let driver = driver_from("ignored", ONE_DEVICE);
    let name = "a_host_that_ignores_its_children_gets_its_count";
    in_a_child(name, &[("LLAISYS_CUDA_DRIVER", &driver)], || {
        // SAFETY: this process is the test's own; the kernel then collects children itself.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
        assert_eq!(Plugin::open().device_count().expect("one device"), 1);
    });
}

#[test]
fn a_driver_that_crashes_when_it_starts_does_not_take_the_host_with_it() {
    let source = ONE_DEVICE.replace("if (owner == 0)", "*(volatile int *)0 = 1; if (owner == 0)");
    let driver = driver_from("crashing", &source);
    let name = "a_driver_that_crashes_when_it_starts_does_not_take_the_host_with_it";
    in_a_child(name, &[("LLAISYS_CUDA_DRIVER", &driver)], || {
        let failure = Plugin::open().device_count().expect_err("no answer");
        assert_eq!(failure.status, Status::DriverUnavailable.code());
        assert!(failure.message.contains("did not answer"), "{failure:?}");
    });
}

#[test]
fn a_fork_after_another_library_started_the_driver_says_so() {
    let driver = driver_from("foreign", ONE_DEVICE);
    let name = "a_fork_after_another_library_started_the_driver_says_so";
    in_a_child(name, &[("LLAISYS_CUDA_DRIVER", &driver)], || {
        let file = std::env::var("LLAISYS_CUDA_DRIVER").expect("set above");
        // SAFETY: the library was written above.
        let library = unsafe { libloading::os::unix::Library::new(file) }.expect("a library");
        // SAFETY: as written above.
        let init: unsafe extern "C" fn(u32) -> i32 =
            *unsafe { library.get(b"cuInit\0") }.expect("written above");
        // SAFETY: as written above.
        assert_eq!(unsafe { init(0) }, 0);
        let plugin = Plugin::open();
        let forked = Status::Forked.code();
        assert_eq!(in_a_fork(|| status_of_count(&plugin)), forked);
        assert_eq!(in_a_fork(|| status_of_start(&plugin)), forked);
        // Here it is asked where it runs already, without a child.
        assert_eq!(plugin.device_count().expect("one device"), 1);
        assert_eq!(plugin.initialize().expect("one device"), 1);
    });
}

#[test]
fn a_fork_on_a_machine_without_a_driver_keeps_the_reason() {
    let name = "a_fork_on_a_machine_without_a_driver_keeps_the_reason";
    in_a_child(name, &[("LLAISYS_CUDA_DRIVER", "/nowhere/libcuda.so.1")], || {
        let plugin = Plugin::open();
        for status in [status_of_count, status_of_start] {
            let reason = status(&plugin);
            assert_eq!(reason, Status::DriverUnavailable.code());
            assert_eq!(in_a_fork(|| status(&plugin)), reason);
        }
    });
}

#[test]
fn what_a_device_is_can_be_asked_without_a_context() {
    let driver = driver_from("asking", ONE_DEVICE);
    let name = "what_a_device_is_can_be_asked_without_a_context";
    in_a_child(name, &[("LLAISYS_CUDA_DRIVER", &driver)], || {
        use llaisys_runtime_core::api::{LlaisysMemoryInfo, UNKNOWN_BYTES};
        let plugin = Plugin::open();
        let mut info = LlaisysMemoryInfo::new(0, 0);
        // SAFETY: `info` is writable and tells its size.
        let status = unsafe { (plugin.api.get_memory_info)(plugin.api.self_, 0, &mut info) };
        plugin.result(status).expect("the total is known");
        assert_eq!((info.free, info.total), (UNKNOWN_BYTES, 1 << 20));
        // SAFETY: takes numbers alone.
        let status = unsafe { (plugin.api.set_device)(plugin.api.self_, 0) };
        let failure = plugin.result(status).expect_err("no context is to be had");
        assert_eq!(failure.native_name, "CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND");
    });
}

/// The extended table too: what frees or destroys is a no-op in the child, everything else is told.
#[test]
fn in_a_forked_child_what_was_inherited_is_let_go_quietly() {
    let name = "in_a_forked_child_what_was_inherited_is_let_go_quietly";
    on_a_fake(name, &[], |plugin| {
        let event = plugin.event(0, EventFlags::NONE).expect("an event");
        let stream = plugin.stream_with(0, StreamFlags::NON_BLOCKING, 0).expect("a stream");
        let managed = plugin.managed(64).expect("memory");
        let block = plugin.memory_in(stream, 64).expect("memory");
        let mut host = vec![0_u8; 4096];
        plugin.register(&mut host).expect("registered");
        let told = in_a_fork(|| {
            let quiet = [
                plugin.destroy_event(event),
                plugin.free_managed(managed),
                plugin.free_in(stream, block),
                plugin.unregister(&mut host),
                plugin.destroy(stream),
            ];
            if quiet.iter().any(Result::is_err) {
                return 99;
            }
            let told = [
                plugin.is_reached(event).map(drop),
                plugin.record(event, stream),
                plugin.set(stream, block, &[1], 64),
                plugin.memory_in(stream, 64).map(drop),
                plugin.attributes(block).map(drop),
                plugin.link(0, 1).map(drop),
                plugin.adopt(stream.0).map(drop),
                plugin.trim(0),
            ];
            let forked = Status::Forked.code();
            i32::from(!told.iter().all(|it| it.as_ref().is_err_and(|it| it.status == forked)))
        });
        assert_eq!(told, 0);
        plugin.record(event, stream).expect("the parent is unharmed");
        plugin.wait_for(event).expect("reached");
    });
}
