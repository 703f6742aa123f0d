//! What `Managed` promises about the rest: events, accounts, what it does for a backend that lacks
//! something.

mod scribe;

use llaisys_runtime_core::api::*;
use llaisys_runtime_core::{RuntimeApi, Status};
use scribe::{Scribe, managed, status};
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

const S: Stream = Stream::DEFAULT;

fn claim(scribe: &Scribe, capabilities: Capabilities) {
    scribe.capabilities.store(capabilities.0, Ordering::Relaxed);
}

fn set_reached(scribe: &Scribe, reached: bool) {
    *scribe.reached.lock().expect("no panic") = reached;
}

#[test]
fn a_completed_event_is_asked_about_once() {
    let (scribe, api) = managed();
    let event = api.create_event(0, EventFlags::NONE).expect("made");
    scribe.calls();
    // SAFETY: the event is alive until it is destroyed.
    unsafe {
        assert!(api.event_query(0, event).expect("never recorded is reached"));
        api.event_synchronize(0, event).expect("nothing to wait for");
        api.stream_wait_event(0, S, event).expect("a no-op");
        assert!(scribe.calls().is_empty(), "the driver was asked about an event without record");
        api.record_event(0, event, S).expect("recorded");
        assert!(!api.event_query(0, event).expect("pending"));
        api.stream_wait_event(0, S, event).expect("enqueued");
        set_reached(&scribe, true);
        assert!(api.event_query(0, event).expect("reached"));
        let asked = ["record_event 0", "event_query 0", "stream_wait_event 0", "event_query 0"];
        assert_eq!(scribe.calls(), asked);
        assert!(api.event_query(0, event).expect("still"));
        api.stream_wait_event(0, S, event).expect("a no-op");
        assert!(scribe.calls().is_empty(), "the driver was asked again");
        api.destroy_event(0, event).expect("destroyed");
        assert_eq!(status(api.event_query(0, event)), Status::InvalidHandle);
        assert_eq!(status(api.destroy_event(0, event)), Status::InvalidHandle);
    }
}

#[test]
fn an_event_is_recorded_on_streams_of_its_device_only() {
    let (scribe, api) = managed();
    let event = api.create_event(0, EventFlags::NONE).expect("made");
    let stream = api.create_stream(1).expect("made");
    scribe.calls();
    // SAFETY: both are alive.
    unsafe {
        assert_eq!(status(api.record_event(0, event, stream)), Status::InvalidValue);
        assert_eq!(status(api.record_event(1, event, S)), Status::InvalidValue);
        assert!(scribe.calls().is_empty());
        api.record_event(0, event, S).expect("its own device");
        api.stream_wait_event(0, stream, event).expect("waiting works across devices");
    }
    assert_eq!(scribe.calls(), ["record_event 0", "stream_wait_event 1"]);
}

#[test]
fn what_cannot_be_measured_says_which_of_three_things_is_missing() {
    let (scribe, api) = managed();
    let made = |flags| api.create_event(0, flags).expect("made");
    let (start, end) = (made(EventFlags::TIMING), made(EventFlags::TIMING));
    let untimed = made(EventFlags::NONE);
    // SAFETY: all are alive.
    unsafe {
        api.record_event(0, start, S).expect("recorded");
        api.record_event(0, untimed, S).expect("recorded");
        assert_eq!(status(api.event_elapsed(0, start, end)), Status::NotReady);
        set_reached(&scribe, true);
        assert_eq!(status(api.event_elapsed(0, start, end)), Status::NotRecorded);
        assert_eq!(status(api.event_elapsed(0, start, untimed)), Status::TimingDisabled);
        api.record_event(0, end, S).expect("recorded");
        assert_eq!(api.event_elapsed(0, start, end).expect("measured"), -5);
        set_reached(&scribe, false);
        api.record_event(0, end, S).expect("recorded again");
        assert_eq!(status(api.event_elapsed(0, start, end)), Status::NotReady, "a stale number");
    }
}

#[test]
fn a_backend_without_fills_or_other_copies_has_them_done_with_plain_copies() {
    let (scribe, api) = managed();
    let block = api.malloc_device(0, 1 << 20).expect("made");
    let host = vec![0u8; 4096];
    scribe.calls();
    let pattern = Pattern::new(&[1, 2]).expect("two bytes");
    // SAFETY: the backend touches no memory; the ranges are inside.
    unsafe {
        api.memset_async(0, block, pattern, 100 << 10, S).expect("done");
        assert_eq!(scribe.calls(), ["memcpy_async 0 65536 H2D 1", "memcpy_async 0 36864 H2D 1"]);
        let copy = LlaisysCopy3D {
            struct_size: size_of::<LlaisysCopy3D>() as u32,
            kind: MemcpyKind::Inferred as u32,
            dst: block,
            dst_pitch: 64,
            dst_slice_height: 4,
            src: host.as_ptr().cast(),
            src_pitch: 32,
            src_slice_height: 2,
            width: 32,
            height: 2,
            depth: 2,
        };
        api.memcpy_3d_async(0, &copy, S, CopyFlags::NONE).expect("done");
        assert_eq!(scribe.calls(), ["memcpy_async 0 32 H2D 1"; 4]);
        let range = |at: usize| LlaisysCopyRange {
            dst: block.byte_add(at),
            src: host.as_ptr().byte_add(at).cast(),
            size: 16,
        };
        let none = LlaisysCopyRange { dst: block, src: host.as_ptr().cast(), size: 0 };
        let ranges = [range(0), none, range(64)];
        api.memcpy_batch_async(0, &ranges, MemcpyKind::H2D, S, CopyFlags::NONE).expect("done");
        assert_eq!(scribe.calls(), ["memcpy_async 0 16 H2D 1"; 2]);
        let bad = [range(0), LlaisysCopyRange { size: 2 << 20, ..range(0) }];
        let refused = api.memcpy_batch_async(0, &bad, MemcpyKind::H2D, S, CopyFlags::NONE);
        assert!(refused.expect_err("past the end").message().starts_with("range 1:"));
        assert!(scribe.calls().is_empty(), "a refused batch copied something");
    }
    assert_eq!(api.get_operation_support("memset_async").expect("a name"), Support::Emulated);
    assert_eq!(api.get_operation_support("malloc_managed").expect("a name"), Support::Unsupported);
    assert_eq!(status(api.get_operation_support("malloc_magic")), Status::InvalidValue);
}

#[test]
fn a_fill_reaches_the_backend_with_its_shortest_pattern_and_bad_ones_do_not() {
    let (scribe, api) = managed();
    claim(&scribe, Capabilities::FILL);
    let block = api.malloc_device(0, 4096).expect("made");
    let host = [0u8; 64];
    scribe.calls();
    let four = Pattern::new(&[9, 9, 9, 9]).expect("four bytes");
    // SAFETY: the backend touches no memory.
    unsafe {
        api.memset_async(0, block, four, 16, S).expect("done");
        assert_eq!(scribe.calls(), ["memset_async 0 [9] 16"]);
        api.memset_async(0, std::ptr::null_mut(), four, 0, S).expect("zero bytes are nothing");
        for (dst, size) in [
            (block, 4100),
            (block.byte_add(2), 4),
            (block, 6),
            (std::ptr::null_mut(), 4),
            (block, usize::MAX - 3),
        ] {
            assert_eq!(status(api.memset_async(0, dst, four, size, S)), Status::InvalidValue);
        }
        let pinned = api.malloc_host(0, 64).expect("made");
        assert_eq!(status(api.memset_async(0, pinned, four, 4, S)), Status::InvalidValue);
        let _ = host;
    }
}

#[test]
fn accounts_follow_the_memory_and_a_limit_holds() {
    let (scribe, api) = managed();
    let stream = api.create_stream(1).expect("made");
    api.set_memory_limit(1, 1000).expect("set");
    // SAFETY: the blocks are freed once; the stream is alive.
    unsafe {
        let first = api.malloc_async(0, 600, stream).expect("on the stream's device");
        assert_eq!(status(api.malloc_device(1, 600)), Status::OutOfMemory);
        let second = api.malloc_device(1, 400).expect("fits exactly");
        let now = api.get_memory_statistics(1).expect("an account");
        assert_eq!((now.used, now.live, now.failures, now.limit), (1000, 2, 1, 1000));
        let on_stream = api.get_stream_memory_statistics(0, stream).expect("an account");
        assert_eq!((on_stream.used, on_stream.live), (600, 1));
        api.free_async(0, first, stream).expect("freed");
        api.free_device(0, second).expect("freed");
        let now = api.get_memory_statistics(1).expect("an account");
        assert_eq!((now.used, now.peak, now.frees), (0, 1000, 2));
        assert_eq!(api.get_stream_memory_statistics(0, stream).expect("an account").used, 0);
        api.reset_peak_memory(1).expect("reset");
        assert_eq!(api.get_memory_statistics(1).expect("an account").peak, 0);
        assert_eq!(api.get_memory_statistics(0).expect("an account").allocations, 0);
    }
    let _ = scribe;
}

#[test]
fn out_of_memory_empties_the_cache_then_asks_the_user_then_gives_up() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    unsafe extern "C" fn ask(_: *mut c_void, _: i32, device: i32, requested: u64) -> i32 {
        assert_eq!((device, requested), (0, 64));
        i32::from(ASKED.fetch_add(1, Ordering::SeqCst) == 0)
    }
    let (scribe, api) = managed();
    claim(&scribe, Capabilities::MEMORY_POOL);
    // The first try fails; the one after the trim works.
    scribe.fail_next(Status::OutOfMemory);
    api.malloc_device(0, 64).expect("fits after the trim");
    let calls = ["malloc_device 0 64", "trim_memory 0 0", "malloc_device 0 64"];
    assert_eq!(scribe.calls(), calls);
    // A limit that the user can do something about.
    api.set_memory_limit(0, 1).expect("set");
    // SAFETY: `ask` may be called from anywhere.
    unsafe { api.set_out_of_memory_callback(Some(ask), std::ptr::null_mut()) }.expect("set");
    let refused = api.malloc_device(0, 64).expect_err("the limit stays");
    assert_eq!(refused.status(), Status::OutOfMemory);
    assert_eq!(ASKED.load(Ordering::SeqCst), 2, "asked until it says no");
    assert_eq!(api.get_memory_statistics(0).expect("an account").used, 64);
}

#[test]
fn a_users_value_dies_before_its_stream() {
    static DIED: AtomicUsize = AtomicUsize::new(0);
    unsafe extern "C" fn die(_: *mut c_void) {
        DIED.fetch_add(1, Ordering::SeqCst);
    }
    let (scribe, api) = managed();
    let stream = api.create_stream(0).expect("made");
    let value = std::ptr::without_provenance_mut(8);
    // SAFETY: `die` may be called anywhere; the stream is alive until it is destroyed.
    unsafe {
        api.set_stream_slot(stream, 1, value, Some(die)).expect("kept");
        assert_eq!(api.get_stream_slot(stream, 1).expect("kept"), value);
        assert!(api.get_stream_slot(stream, 2).expect("nothing there").is_null());
        assert_eq!(status(api.set_stream_slot(S, 1, value, None)), Status::InvalidHandle);
        api.destroy_stream(0, stream).expect("destroyed");
        assert_eq!(DIED.load(Ordering::SeqCst), 1);
        assert_eq!(status(api.get_stream_slot(stream, 1)), Status::InvalidHandle);
    }
    assert_eq!(scribe.calls(), ["create_stream 0", "destroy_stream 0"]);
}

#[test]
fn a_foreign_stream_is_used_and_never_destroyed() {
    let (scribe, api) = managed();
    assert_eq!(
        status(api.get_stream_device(Stream(std::ptr::without_provenance_mut(0x77)))),
        Status::InvalidHandle
    );
    // This backend adopts nothing.
    // SAFETY: the address is not used.
    let adopted = unsafe { api.adopt_stream(std::ptr::without_provenance_mut(0x77)) };
    assert_eq!(status(adopted), Status::NotSupported);
    claim(&scribe, Capabilities::FOREIGN_STREAMS);
    // SAFETY: NULL is refused.
    assert_eq!(status(unsafe { api.adopt_stream(std::ptr::null_mut()) }), Status::InvalidValue);
    assert!(scribe.calls().is_empty());
}
