//! What `Managed` promises a client and a backend about the twelve operations.

mod scribe;

use llaisys_runtime_core::api::*;
use llaisys_runtime_core::managed::Managed;
use llaisys_runtime_core::{RuntimeApi, Status};
use scribe::{Scribe, managed, status};
use std::ffi::c_void;
use std::sync::{Arc, Barrier, mpsc};

#[test]
fn a_device_that_does_not_exist_never_reaches_the_backend() {
    let (scribe, api) = managed();
    for device in [2, 99, -1, i32::MIN, i32::MAX] {
        assert_eq!(status(api.set_device(device)), Status::InvalidDevice);
        assert_eq!(status(api.malloc_device(device, 16)), Status::InvalidDevice);
        assert_eq!(status(api.malloc_device(device, 0)), Status::InvalidDevice);
        assert_eq!(status(api.create_stream(device)), Status::InvalidDevice);
    }
    assert!(scribe.calls().is_empty());
}

#[test]
fn zero_bytes_are_null_and_free_of_null_is_nothing() {
    let (scribe, api) = managed();
    assert!(api.malloc_device(0, 0).expect("no error").is_null());
    assert!(api.malloc_host(0, 0).expect("no error").is_null());
    // SAFETY: NULL may be freed.
    unsafe {
        api.free_device(0, std::ptr::null_mut()).expect("a no-op");
        api.free_host(0, std::ptr::null_mut()).expect("a no-op");
    }
    assert!(scribe.calls().is_empty());
}

#[test]
fn sizes_that_no_address_space_holds_are_out_of_memory() {
    let (scribe, api) = managed();
    for size in [usize::MAX, usize::MAX - 255, 1 << 63] {
        assert_eq!(status(api.malloc_device(0, size)), Status::OutOfMemory);
        assert_eq!(status(api.malloc_host(0, size)), Status::OutOfMemory);
    }
    assert!(scribe.calls().is_empty());
}

#[test]
fn a_block_is_freed_once_on_its_own_device_and_with_its_own_function() {
    let (scribe, api) = managed();
    let block = api.malloc_device(1, 64).expect("allocated");
    scribe.calls();
    // SAFETY: wrong frees are what is tested; Managed refuses them.
    unsafe {
        assert_eq!(status(api.free_host(0, block)), Status::InvalidValue);
        assert_eq!(status(api.free_device(0, block.wrapping_byte_add(16))), Status::InvalidValue);
        assert!(scribe.calls().is_empty());
        api.free_device(0, block).expect("freed");
        assert_eq!(scribe.calls(), ["free_device 1"]);
        assert_eq!(status(api.free_device(0, block)), Status::InvalidValue);
    }
    assert!(scribe.calls().is_empty());
}

#[test]
fn a_free_that_fails_loses_nothing_and_can_be_tried_again() {
    let (scribe, api) = managed();
    let block = api.malloc_device(0, 64).expect("allocated");
    scribe.fail_next(Status::DriverError);
    // SAFETY: the block is live until a free succeeds.
    unsafe {
        assert_eq!(status(api.free_device(0, block)), Status::DriverError);
        api.free_device(0, block).expect("freed at the second try");
    }
}

#[test]
fn an_operation_runs_on_the_device_of_its_stream_and_of_its_memory() {
    let (scribe, api) = managed();
    let stream = api.create_stream(1).expect("made");
    let (a, b) = (api.malloc_device(1, 64).expect("made"), api.malloc_device(0, 64).expect("made"));
    scribe.calls();
    // SAFETY: the backend touches no memory.
    unsafe {
        api.stream_synchronize(0, stream).expect("done");
        api.memcpy_async(0, a, b, 64, MemcpyKind::D2D, stream, CopyFlags::NONE).expect("done");
        api.memcpy_sync(0, a, b, 64, MemcpyKind::D2D, CopyFlags::NONE).expect("done");
    }
    assert_eq!(
        scribe.calls(),
        [
            "stream_synchronize 1",
            "memcpy_async 1 64 D2D 0",
            // Ordered after the work of both devices.
            "stream_synchronize 1",
            "memcpy_sync 0 64 D2D 0",
        ]
    );
}

#[test]
fn a_destroyed_stream_is_an_unknown_handle() {
    let (scribe, api) = managed();
    let stream = api.create_stream(0).expect("made");
    let block = api.malloc_device(0, 64).expect("made");
    let host = [0u8; 64];
    // SAFETY: the handles are refused, which is what is tested.
    unsafe {
        api.destroy_stream(0, stream).expect("destroyed");
        scribe.calls();
        assert_eq!(status(api.destroy_stream(0, stream)), Status::InvalidHandle);
        assert_eq!(status(api.stream_synchronize(0, stream)), Status::InvalidHandle);
        let src = host.as_ptr().cast();
        let copy = api.memcpy_async(0, block, src, 64, MemcpyKind::H2D, stream, CopyFlags::NONE);
        assert_eq!(status(copy), Status::InvalidHandle);
        api.destroy_stream(0, Stream::DEFAULT).expect("a no-op");
    }
    assert!(scribe.calls().is_empty());
}

#[test]
fn a_stream_that_another_thread_waits_for_is_destroyed_when_the_wait_ends() {
    let (scribe, api) = managed();
    let stream = api.create_stream(0).expect("made");
    let barrier = Arc::new(Barrier::new(2));
    *scribe.meeting.lock().expect("no panic") = Some(barrier.clone());
    let waiter = std::thread::spawn(move || {
        // SAFETY: the stream is live when the wait begins; that it stays so is what is tested.
        unsafe { api.stream_synchronize(0, stream) }
    });
    barrier.wait();
    scribe.calls();
    // SAFETY: the stream is live.
    unsafe { api.destroy_stream(0, stream).expect("returns at once") };
    assert!(scribe.calls().is_empty(), "destroyed under a thread that uses it");
    barrier.wait();
    waiter.join().expect("no panic").expect("the wait succeeds");
    assert_eq!(scribe.calls(), ["stream_synchronize 0", "destroy_stream 0"]);
}

#[test]
fn the_first_cause_of_a_lost_device_answers_every_later_call_on_it() {
    let (scribe, api) = managed();
    let block = api.malloc_device(0, 64).expect("made");
    scribe.fail_next(Status::DeviceLost);
    assert_eq!(status(api.device_synchronize(0)), Status::DeviceLost);
    scribe.calls();
    assert_eq!(status(api.malloc_device(0, 64)), Status::DeviceLost);
    // SAFETY: the block is live.
    assert_eq!(status(unsafe { api.free_device(0, block) }), Status::DeviceLost);
    assert!(scribe.calls().is_empty(), "a lost device was called");
    assert_eq!(status(api.malloc_device(1, 64)), Status::Success);
}

#[test]
fn waiting_inside_a_host_function_is_refused() {
    type Ask = (&'static Managed<Scribe>, mpsc::Sender<Status>);
    unsafe extern "C" fn inside(data: *mut c_void) {
        // SAFETY: the test passes a leaked `Ask` and launches once.
        let (api, answers) = *unsafe { Box::from_raw(data.cast::<Ask>()) };
        answers.send(status(api.device_synchronize(0))).expect("the test listens");
        // SAFETY: the default stream exists.
        let waited = unsafe { api.stream_synchronize(0, Stream::DEFAULT) };
        answers.send(status(waited)).expect("the test listens");
    }
    let (_, api) = managed();
    let (answers, heard) = mpsc::channel();
    let data: *mut Ask = Box::into_raw(Box::new((api, answers)));
    // SAFETY: `inside` takes the data, once.
    unsafe { api.launch_host_function(0, Stream::DEFAULT, inside, data.cast()) }.expect("launched");
    assert_eq!(heard.iter().collect::<Vec<_>>(), [Status::NotPermitted; 2]);
    assert_eq!(status(api.device_synchronize(0)), Status::Success);
}
