//! Streams of other kinds: not blocking, with a priority, somebody else's; and that freed memory waits for
//! them too. On the fake driver by default, on a real one with `LLAISYS_TEST_DRIVER=""`.

mod support;

use llaisys_runtime_core::api::{CopyFlags, Stream, StreamFlags};
use llaisys_runtime_core::status::Status;
use std::ffi::c_void;
use std::time::{Duration, Instant};
use support::Plugin;
use support::extended::*;
use support::on_device::*;

const NON_BLOCKING: u32 = 1;

on_a_device! {
    /// S2: not ordered with the default stream, in either direction.
    fn a_non_blocking_stream_and_the_default_stream_do_not_wait_for_each_other(plugin) {
        let free = plugin.stream_with(0, StreamFlags::NON_BLOCKING, 0).expect("a stream");
        let tied = plugin.stream_with(0, StreamFlags::BLOCKING, 0).expect("a stream");
        let (block, pinned) = (plugin.device_memory(64), plugin.pinned(64));
        let copy = |stream| {
            plugin.copy_in(stream, block, pinned.as_ptr().cast(), 64, H2D, CopyFlags::NONE);
        };
        let gate = Gate::on(plugin, Stream::DEFAULT);
        copy(free);
        plugin.wait(free);
        copy(tied);
        assert!(!plugin.is_ready(tied) && plugin.is_ready(free));
        gate.open(plugin);
        let gate = Gate::on(plugin, free);
        copy(Stream::DEFAULT);
        plugin.wait(Stream::DEFAULT);
        assert!(!plugin.is_ready(free));
        gate.open(plugin);
    }

    fn a_priority_is_clamped_into_the_range_that_is_told(plugin) {
        let range = plugin.priorities().expect("a range");
        println!("priorities: {range:?}");
        assert!(range.greatest <= range.least);
        let cuda = Cuda::open();
        let of: unsafe extern "C" fn(*mut c_void, *mut i32) -> i32 =
            cuda.function("cuStreamGetPriority");
        for (asked, given) in [
            (i32::MIN, range.greatest),
            (range.greatest, range.greatest),
            (range.least, range.least),
            (i32::MAX, range.least),
        ] {
            let stream = plugin.stream_with(0, StreamFlags::NON_BLOCKING, asked).expect("a stream");
            let mut priority = 77;
            // SAFETY: the stream is live, and `priority` is writable.
            assert_eq!(unsafe { of(stream.0, &mut priority) }, 0);
            assert_eq!(priority, given, "asked for {asked}");
            plugin.destroy(stream).expect("a stream");
        }
    }

    /// M4, for a stream of whose work the default stream knows nothing.
    fn freed_memory_waits_for_a_non_blocking_stream(plugin) {
        for destroyed in [false, true] {
            let held = plugin.stream_with(0, StreamFlags::NON_BLOCKING, 0).expect("a stream");
            freed_memory_waits_for(plugin, held, || {
                if destroyed {
                    plugin.destroy(held).expect("a stream");
                }
            });
        }
    }

    /// Design, "Native handles": somebody else's stream is used, let go of, and never destroyed.
    fn a_foreign_stream_is_used_and_let_go_and_lives_on(plugin) {
        plugin.bind(0);
        let cuda = Cuda::open();
        for flags in [0, NON_BLOCKING] {
            let native = cuda.stream(flags);
            assert_eq!(plugin.adopt(native).expect("taken in"), 0);
            assert_eq!(plugin.adopt(native).expect("again is fine"), 0);
            let stream = Stream(native);
            let (block, pinned) = (plugin.device_memory(64), plugin.pinned(64));
            pinned.copy_from_slice(&pattern(1, 64));
            plugin.copy_in(stream, block, pinned.as_ptr().cast(), 64, H2D, CopyFlags::NONE);
            plugin.wait(stream);
            assert!(plugin.read(block, 64) == pattern(1, 64));
            freed_memory_waits_for(plugin, stream, || {
                plugin.destroy(stream).expect("let go, with work under way");
            });
            assert_eq!(cuda.call("cuStreamQuery", native), 0, "it lives");
            assert_eq!(cuda.call("cuStreamDestroy_v2", native), 0, "it is its owner's");
            // Nothing here touches it any more, also not while the device is busy.
            let gate = Gate::on(plugin, Stream::DEFAULT);
            plugin.free(block).expect("a free");
            plugin.free_pinned(pinned.as_mut_ptr()).expect("a free");
            gate.open(plugin);
            assert_eq!(cuda.count("misuses").unwrap_or_default(), 0);
        }
    }

    /// Before this backend has used the device at all: PyTorch was there first.
    fn a_foreign_stream_of_a_device_that_was_not_used_here_yet_is_taken_in(plugin) {
        let count = plugin.initialize().expect("devices");
        let cuda = Cuda::open();
        let retain: unsafe extern "C" fn(*mut *mut c_void, i32) -> i32 =
            cuda.function("cuDevicePrimaryCtxRetain");
        let mut context = std::ptr::null_mut();
        // SAFETY: `context` is writable.
        assert_eq!(unsafe { retain(&mut context, count - 1) }, 0);
        assert_eq!(cuda.call("cuCtxSetCurrent", context), 0);
        let native = cuda.stream(NON_BLOCKING);
        assert_eq!(cuda.call("cuCtxSetCurrent", std::ptr::null_mut()), 0);
        assert_eq!(plugin.adopt(native).expect("taken in"), count - 1);
        assert!(cuda.count("contexts_created").is_none_or(|made| made == 1), "and none was made");
    }

    fn streams_that_nobody_can_own_here_are_refused_by_name(plugin) {
        plugin.bind(0);
        let cuda = Cuda::open();
        let create: unsafe extern "C" fn(*mut *mut c_void, u32, i32) -> i32 =
            cuda.function("cuCtxCreate_v2");
        let mut context = std::ptr::null_mut();
        // SAFETY: `context` is writable; device 0 is there.
        assert_eq!(unsafe { create(&mut context, 0, 0) }, 0);
        let other = cuda.stream(0);
        for (native, word) in [
            (std::ptr::null_mut(), "default stream"),
            (std::ptr::without_provenance_mut(1), "default stream"),
            (std::ptr::without_provenance_mut(2), "in each thread"),
            (other, "primary context"),
        ] {
            let failure = plugin.adopt(native).expect_err("refused");
            assert_eq!(failure.status, Status::InvalidHandle.code(), "{failure:?}");
            assert!(failure.message.contains(word), "{failure:?}");
        }
        let mut current = std::ptr::null_mut();
        let ask: unsafe extern "C" fn(*mut *mut c_void) -> i32 = cuda.function("cuCtxGetCurrent");
        // SAFETY: `current` is writable.
        assert_eq!(unsafe { ask(&mut current) }, 0);
        assert_eq!(current, context, "the thread's context is as it was");
        assert_eq!(cuda.call("cuCtxDestroy_v2", context), 0);
    }
}

/// What `stream` was given keeps the memory that was freed meanwhile, device memory and pinned.
fn freed_memory_waits_for(plugin: &Plugin, stream: Stream, after: impl FnOnce()) {
    let size = 1 << 20;
    let [source, target, second] = [(); 3].map(|()| plugin.device_memory(size));
    let pinned = plugin.pinned(size);
    plugin.fill(source, &pattern(4, size));
    pinned.copy_from_slice(&pattern(5, size));
    let gate = Gate::on(plugin, stream);
    plugin.copy_in(stream, target, source, size, D2D, CopyFlags::NONE);
    plugin.copy_in(stream, second, pinned.as_ptr().cast(), size, H2D, CopyFlags::NONE);
    after();
    let start = Instant::now();
    plugin.free(source).expect("a free that does not wait");
    plugin.free_pinned(pinned.as_mut_ptr()).expect("a free that does not wait");
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    let other = plugin.stream_with(0, StreamFlags::NON_BLOCKING, 0).expect("a stream");
    let garbage = plugin.pinned(size);
    assert_ne!(garbage.as_ptr(), pinned.as_ptr(), "handed out while a copy reads it");
    garbage.fill(0xBD);
    for _ in 0..3 {
        let fresh = plugin.device_memory(size);
        assert_ne!(fresh, source, "handed out while a copy reads it");
        plugin.copy_in(other, fresh, garbage.as_ptr().cast(), size, H2D, CopyFlags::NONE);
        plugin.wait(other);
    }
    gate.open(plugin);
    assert!(plugin.read(target, size) == pattern(4, size));
    assert!(plugin.read(second, size) == pattern(5, size));
}

#[test]
fn what_the_driver_answers_about_streams_is_told_with_what_was_asked() {
    let name = "what_the_driver_answers_about_streams_is_told_with_what_was_asked";
    let failures =
        "cuStreamCreateWithPriority=2,cuCtxGetStreamPriorityRange:2=999,cuStreamGetCtx=400";
    on_a_fake(name, &[("FAKE_CUDA_FAIL", failures)], |plugin| {
        let failure = plugin.stream_with(0, StreamFlags::BLOCKING, 0).expect_err("no room");
        assert_eq!(failure.status, Status::OutOfMemory.code(), "{failure:?}");
        let failure = plugin.priorities().expect_err("no answer");
        assert_eq!(failure.status, Status::DriverError.code(), "{failure:?}");
        assert!(failure.message.contains("priorities of device 0"), "{failure:?}");
        let failure = plugin.adopt(std::ptr::without_provenance_mut(0x1230)).expect_err("none");
        assert_eq!(failure.status, Status::InvalidHandle.code(), "{failure:?}");
        assert_eq!(failure.native_code, 400);
    });
}
