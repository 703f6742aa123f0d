//! What a stream handle may be (contract S2, S3): anything, without harm.

use crate::gate::{Gate, Log};
use crate::rig::{Rig, failure};
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{RuntimeApi, Stream};
use std::collections::HashSet;

#[test]
fn a_handle_is_never_null_and_never_comes_twice() {
    let rig = Rig::with_devices(1);
    let (mut seen, mut slots) = (HashSet::new(), HashSet::new());
    for _ in 0..1_000 {
        let stream = rig.stream();
        assert!(!stream.is_default() && seen.insert(stream));
        slots.insert(stream.0 as usize as u32);
        rig.destroy(stream);
    }
    assert_eq!(slots.len(), 1, "an idle stream's slot comes back at once");
}

#[test]
fn destroyed_foreign_and_made_up_handles_are_errors() {
    let rig = Rig::with_devices(2);
    let (live, gone) = (rig.stream(), rig.stream());
    rig.destroy(gone);
    let made_up = [1usize, 8, 0x7fff_0000_1234, usize::MAX, 1 << 32, live.0 as usize + (1 << 32)];
    let wrong = made_up.map(|bits| Stream(bits as *mut _));
    for stream in wrong.into_iter().chain([gone]) {
        // SAFETY: handles are looked up only, which is what is tested.
        unsafe {
            assert_eq!(failure(rig.0.stream_synchronize(0, stream)), Status::InvalidHandle);
            assert_eq!(failure(rig.0.stream_query(0, stream)), Status::InvalidHandle);
            assert_eq!(failure(rig.0.destroy_stream(0, stream)), Status::InvalidHandle);
        }
        assert_eq!(failure(rig.try_call(0, stream, || ())), Status::InvalidHandle);
    }
    // SAFETY: as above.
    let elsewhere = unsafe { rig.0.stream_query(1, live) };
    assert_eq!(failure(elsewhere), Status::InvalidHandle);
    assert!(rig.is_idle(live));
    rig.destroy(Stream::DEFAULT);
    assert!(rig.is_idle(Stream::DEFAULT));
}

#[test]
fn a_slot_that_comes_back_has_nothing_of_its_former_stream() {
    let rig = Rig::with_devices(1);
    let (old, log) = (rig.stream(), Log::default());
    let gate = Gate::reached_on(rig, 0, old);
    rig.destroy(old);
    let new = rig.stream();
    log.note(rig, 0, new, 1);
    rig.wait(0, new);
    assert_eq!(log.numbers(), [1]);
    gate.open();
    rig.0.device_synchronize(0).expect("synchronized");
    for _ in 0..100 {
        let stream = rig.stream();
        assert!(rig.is_idle(stream));
        log.note(rig, 0, stream, 2);
        rig.destroy(stream);
    }
    rig.0.device_synchronize(0).expect("synchronized");
    assert_eq!(log.numbers().len(), 101);
}

#[test]
fn a_device_that_is_none_is_an_error_everywhere() {
    let rig = Rig::with_devices(2);
    assert_eq!(rig.0.get_device_count().expect("a number"), 2);
    for device in [-1, 2, i32::MIN, i32::MAX] {
        assert_eq!(failure(rig.0.set_device(device)), Status::InvalidDevice);
        assert_eq!(failure(rig.0.create_stream(device)), Status::InvalidDevice);
        assert_eq!(failure(rig.0.malloc_device(device, 1)), Status::InvalidDevice);
        assert_eq!(failure(rig.0.malloc_host(device, 1)), Status::InvalidDevice);
        assert_eq!(failure(rig.0.device_synchronize(device)), Status::InvalidDevice);
        assert_eq!(failure(rig.0.get_memory_info(device)), Status::InvalidDevice);
        assert!(rig.0.get_device_properties(device).is_err());
    }
}
