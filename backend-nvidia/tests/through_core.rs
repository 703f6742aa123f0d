//! The plugin as a client meets it: found, checked and managed by the core.

mod support;

use llaisys_runtime_core::RuntimeApi;
use llaisys_runtime_core::api::{
    CopyFlags, EventFlags, LlaisysCopy3D, LlaisysCopyRange, MemcpyKind, Pattern, Stream,
    StreamFlags, Support,
};
use llaisys_runtime_core::error::{Error, Result};
use llaisys_runtime_core::registry::Registry;
use llaisys_runtime_core::status::Status;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, Ordering};
use support::extended::Cuda;
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

/// Every operation of the extended table is there natively, and does what it says through the core.
#[test]
fn the_extended_operations_work_through_the_core() {
    let name = "the_extended_operations_work_through_the_core";
    on_a_device(name, "", |api| {
        let size = 100_000;
        for operation in [
            "create_stream_with",
            "create_event",
            "malloc_async",
            "malloc_managed",
            "register_host",
            "memset_async",
            "memcpy_3d_async",
            "memcpy_batch_async",
            "get_peer_link",
            "adopt_stream",
            "get_pointer_attributes",
            "trim_memory",
        ] {
            let support = api.get_operation_support(operation).expect("an operation");
            assert_eq!(support, Support::Native, "{operation}");
        }
        let stream = api.create_stream_with(0, StreamFlags::NON_BLOCKING, -100).expect("a stream");
        let event = api.create_event(0, EventFlags::TIMING).expect("an event");
        let mut host = vec![0_u8; size];
        let (to, pattern) = (host.as_mut_ptr().cast::<c_void>(), [1_u8, 2, 3, 4, 5, 6, 7, 8]);
        // SAFETY: the ranges fit, and the handles are live.
        unsafe {
            api.register_host(0, to, size).expect("registered");
            let block = api.malloc_async(0, size, stream).expect("memory");
            let filling = Pattern::new(&pattern).expect("eight bytes");
            api.memset_async(0, block, filling, size, stream).expect("a fill");
            let copy = LlaisysCopy3D {
                struct_size: size_of::<LlaisysCopy3D>() as u32,
                kind: MemcpyKind::Inferred as u32,
                dst: to,
                dst_pitch: 1000,
                dst_slice_height: 0,
                src: block,
                src_pitch: 800,
                src_slice_height: 0,
                width: 800,
                height: 100,
                depth: 1,
            };
            api.memcpy_3d_async(0, &copy, stream, CopyFlags::NONE).expect("rows");
            api.record_event(0, event, stream).expect("recorded");
            api.event_synchronize(0, event).expect("reached");
            assert!(api.event_query(0, event).expect("a query"));
            let range = |at: usize| LlaisysCopyRange {
                dst: to.byte_add(at + 800),
                src: block.byte_add(at),
                size: 200,
            };
            let ranges = [range(0), range(1000)];
            api.memcpy_batch_async(0, &ranges, MemcpyKind::D2H, stream, CopyFlags::NONE)
                .expect("a batch");
            api.stream_synchronize(0, stream).expect("done");
            for row in 0..100 {
                let filled = if row < 2 { 1000 } else { 800 };
                for (at, byte) in host[row * 1000..][..1000].iter().enumerate() {
                    let wanted = if at < filled { pattern[at % 8] } else { 0 };
                    assert_eq!(*byte, wanted, "row {row}, byte {at}");
                }
            }
            assert!(
                api.get_memory_statistics(0).expect("statistics").reserved_bytes >= size as u64
            );
            api.free_async(0, block, stream).expect("a free");
            api.unregister_host(0, to).expect("let go");
            api.destroy_event(0, event).expect("destroyed");
            api.destroy_stream(0, stream).expect("destroyed");
        }
    });
}

/// A foreign stream that was let go is its owner's: nothing here may touch it once that one has destroyed
/// it.
#[test]
fn a_foreign_stream_that_was_let_go_is_never_touched_again() {
    let name = "a_foreign_stream_that_was_let_go_is_never_touched_again";
    on_a_device(name, "", |api| {
        api.set_device(0).expect("bound");
        let cuda = Cuda::open();
        let native = cuda.stream(1);
        let (block, other) = (api.malloc_device(0, 64).expect("memory"), api.create_stream(0));
        // SAFETY: the stream is live until its owner destroys it; the rest is live to the end.
        unsafe {
            assert_eq!(api.adopt_stream(native).expect("taken in"), 0);
            api.destroy_stream(0, Stream(native)).expect("let go");
            assert_eq!(cuda.call("cuStreamDestroy_v2", native), 0);
            unsafe extern "C" fn pause(_: *mut c_void) {
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
            let other = other.expect("a stream");
            api.launch_host_function(0, other, pause, null_mut()).expect("enqueued");
            api.free_device(0, block).expect("a free while the device is busy");
        }
        assert_eq!(cuda.count("misuses").unwrap_or_default(), 0);
    });
}

/// A capture by a user's own calls of the driver.
struct Capture {
    cuda: Cuda,
    stream: Stream,
}

impl Capture {
    fn begin(stream: Stream) -> Capture {
        let cuda = Cuda::open();
        let begin: unsafe extern "C" fn(*mut c_void, i32) -> i32 =
            cuda.function("cuStreamBeginCapture_v2");
        // SAFETY: a live stream; 0 is the global mode, which forbids the most.
        assert_eq!(unsafe { begin(stream.0, 0) }, 0);
        Capture { cuda, stream }
    }

    /// Whether nothing has spoilt it.
    fn end(self) {
        let end: unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> i32 =
            self.cuda.function("cuStreamEndCapture");
        let mut graph = null_mut();
        // SAFETY: a live stream, and a place for the graph, which is left alone.
        assert_eq!(unsafe { end(self.stream.0, &mut graph) }, 0, "the capture was spoilt");
        assert!(!graph.is_null());
    }
}

/// What is allocated and freed while a stream is captured, here and in other threads, blocks of pools and
/// larger ones, pinned ones: the capture comes to its end, and what was freed meanwhile waits for that.
#[test]
fn a_stream_that_is_captured_is_left_alone_by_who_allocates_and_frees() {
    let name = "a_stream_that_is_captured_is_left_alone_by_who_allocates_and_frees";
    on_a_device(name, "", |api| {
        let kinds = [StreamFlags::BLOCKING, StreamFlags::NON_BLOCKING];
        for (flags, size) in kinds.into_iter().flat_map(|it| [(it, 8192), (it, 3 << 20)]) {
            let (captured, other) = (
                api.create_stream_with(0, flags, 0).expect("a stream"),
                api.create_stream(0).expect("a stream"),
            );
            let blocks: Vec<usize> =
                (0..40).map(|_| api.malloc_device(0, size).expect("memory") as usize).collect();
            let large = api.malloc_device(0, 65 << 20).expect("memory");
            let pinned = api.malloc_host(0, size).expect("memory");
            let target = api.malloc_device(0, 16 << 20).expect("memory");
            let source = vec![7_u8; 16 << 20];
            let capture = Capture::begin(captured);
            // A copy of pageable memory becomes part of the graph, whoever would do it otherwise.
            for size in [1 << 20, source.len()] {
                let from = source.as_ptr().cast();
                // SAFETY: both have so many bytes, and the graph is never launched.
                let copied = unsafe {
                    api.memcpy_async(
                        0,
                        target,
                        from,
                        size,
                        MemcpyKind::H2D,
                        captured,
                        CopyFlags::NONE,
                    )
                };
                copied.expect("captured");
            }
            // SAFETY: the stream is live.
            let error = refused(unsafe { api.stream_query(0, captured) });
            assert_eq!(error.status(), Status::NotPermitted, "{error}");
            // SAFETY: none of them is used any more.
            unsafe {
                api.free_device(0, large).expect("freed");
                api.free_host(0, pinned).expect("freed");
                for block in &blocks {
                    api.free_device(0, *block as *mut c_void).expect("freed");
                }
            }
            let in_turn = || -> Vec<usize> {
                (0..100)
                    .map(|_| {
                        let block = api.malloc_device(0, size).expect("memory");
                        // SAFETY: just allocated.
                        unsafe { api.free_device(0, block) }.expect("freed");
                        block as usize
                    })
                    .collect()
            };
            let mut meanwhile = in_turn();
            let theirs = std::thread::scope(|scope| scope.spawn(in_turn).join());
            meanwhile.extend(theirs.expect("no panic"));
            let mut distinct = meanwhile.clone();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!(distinct.len(), meanwhile.len(), "freed and handed out during a capture");
            assert!(!meanwhile.iter().any(|block| blocks.contains(block)));
            let again = api.malloc_host(0, 1 << 20).expect("memory");
            // SAFETY: just allocated.
            unsafe { api.free_host(0, again) }.expect("freed");
            api.trim_memory(0, 0).expect("trimmed");
            capture.end();
            // SAFETY: a live stream.
            unsafe { api.stream_synchronize(0, other) }.expect("the other one is as it was");
            // Now it comes back, once enough waits for somebody to ask.
            let after: Vec<usize> = (0..10).flat_map(|_| in_turn()).collect();
            let distinct: std::collections::BTreeSet<usize> = after.iter().copied().collect();
            assert!(distinct.len() < after.len(), "nothing that was freed came back");
            // SAFETY: not used any more.
            unsafe { api.free_device(0, target) }.expect("freed");
            for stream in [captured, other] {
                // SAFETY: live, and not used any more.
                unsafe { api.destroy_stream(0, stream) }.expect("destroyed");
            }
        }
        assert_eq!(Cuda::open().count("misuses").unwrap_or_default(), 0);
    });
}

/// M5, M6 of pools of pinned memory: few calls of the driver, each block freed once and by its own function.
#[test]
fn a_thousand_pinned_blocks_are_few_calls_of_the_driver_and_each_is_freed_once() {
    let name = "a_thousand_pinned_blocks_are_few_calls_of_the_driver_and_each_is_freed_once";
    on_a_device(name, "", |api| {
        let stream = api.create_stream(0).expect("a stream");
        for size in [100_usize, 4096, 70_000, 3 << 20] {
            let mut blocks = Vec::new();
            for round in 0..50 {
                let block = api.malloc_host(0, size).expect("memory");
                assert_eq!(block as usize % 64, 0);
                // SAFETY: host memory of so many bytes.
                unsafe { block.cast::<u8>().write_bytes(round, size) };
                blocks.push((block, round));
            }
            let device = api.malloc_device(0, size).expect("memory");
            for (block, round) in &blocks {
                // SAFETY: host memory of so many bytes, as written above.
                let bytes = unsafe { std::slice::from_raw_parts(block.cast::<u8>(), size) };
                assert!(bytes.iter().all(|byte| byte == round), "two have one block");
                let kind = MemcpyKind::H2D;
                // SAFETY: both have so many bytes, and are freed behind this.
                let copied = unsafe {
                    api.memcpy_async(0, device, *block, size, kind, stream, CopyFlags::NONE)
                };
                copied.expect("queued");
                // SAFETY: it is refused; then it is freed, and once more, which is refused.
                unsafe {
                    assert_eq!(refused(api.free_device(0, *block)).status(), Status::InvalidValue);
                    api.free_host(0, *block).expect("freed");
                    assert_eq!(refused(api.free_host(0, *block)).status(), Status::InvalidValue);
                }
            }
            // SAFETY: a live stream; the block is used by it alone.
            unsafe {
                api.stream_synchronize(0, stream).expect("waited for");
                assert_eq!(refused(api.free_host(0, device)).status(), Status::InvalidValue);
                api.free_device(0, device).expect("freed");
            }
            let before = Cuda::open().calls("cuMemHostAlloc").unwrap_or_default();
            for _ in 0..1000 {
                let block = api.malloc_host(0, size).expect("memory");
                // SAFETY: just allocated.
                unsafe { api.free_host(0, block) }.expect("freed");
            }
            let calls = Cuda::open().calls("cuMemHostAlloc").unwrap_or_default() - before;
            assert!(calls < 4, "{calls} calls of the driver for 1000 blocks of {size} bytes");
        }
        // SAFETY: nobody uses it any more.
        unsafe { api.destroy_stream(0, stream) }.expect("destroyed");
    });
}
