//! Streams that are not ordered with the default stream, and what else a stream can be made with
//! (contract S2).

use crate::gate::{Gate, Log};
use crate::rig::{Rig, bytes, eventually, failure};
use llaisys_backend_cpu::Configuration;
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{CopyFlags, RuntimeApi, Stream, StreamFlags};
use std::collections::HashSet;
use std::thread;

const SIZE: usize = 4096;

#[test]
fn a_non_blocking_stream_does_not_wait_for_the_default_stream() {
    let rig = Rig::with_devices(1);
    let (exempt, log) = (rig.non_blocking_stream(), Log::default());
    let _gate = Gate::reached_on(rig, 0, Stream::DEFAULT);
    log.note(rig, 0, exempt, 1);
    rig.wait(0, exempt);
    assert_eq!(log.numbers(), [1]);
    // A copy that is done at once where it can be is done at once.
    let (from, to) = (rig.pinned_memory(SIZE, 1), rig.device_memory(SIZE, 0));
    rig.copy(to, from, SIZE, exempt, CopyFlags::AT_ONCE_IF_IDLE).expect("copied");
    assert_eq!(bytes(to, SIZE), [1; SIZE]);
}

#[test]
fn the_default_stream_and_a_synchronous_copy_do_not_wait_for_a_non_blocking_stream() {
    let rig = Rig::with_devices(1);
    let (exempt, log) = (rig.non_blocking_stream(), Log::default());
    let gate = Gate::reached_on(rig, 0, exempt);
    assert!(rig.is_idle(Stream::DEFAULT) && !rig.is_idle(exempt));
    log.note(rig, 0, Stream::DEFAULT, 1);
    rig.wait(0, Stream::DEFAULT);
    assert_eq!(log.numbers(), [1]);
    let (from, to) = (rig.pinned_memory(SIZE, 1), rig.device_memory(SIZE, 0));
    rig.copy_now(to, from, SIZE);
    rig.copy(from, to, SIZE, Stream::DEFAULT, CopyFlags::AT_ONCE_IF_IDLE).expect("copied");
    // The device is not done before the stream is.
    log.note(rig, 0, exempt, 2);
    thread::scope(|scope| {
        scope.spawn(|| {
            rig.0.device_synchronize(0).expect("synchronized");
            assert_eq!(log.numbers(), [1, 2]);
        });
        gate.open();
    });
}

#[test]
fn a_non_blocking_stream_that_is_destroyed_busy_stays_out_of_the_default_streams_order() {
    let rig = Rig::with_devices(1);
    let (exempt, log) = (rig.non_blocking_stream(), Log::default());
    let gate = Gate::reached_on(rig, 0, exempt);
    log.note(rig, 0, exempt, 2);
    rig.destroy(exempt);
    log.note(rig, 0, Stream::DEFAULT, 1);
    rig.wait(0, Stream::DEFAULT);
    assert_eq!(log.numbers(), [1]);
    gate.open();
    rig.0.device_synchronize(0).expect("synchronized");
    assert_eq!(log.numbers(), [1, 2]);
}

#[test]
fn a_slot_that_comes_back_is_blocking_or_not_as_its_new_stream_is() {
    let rig = Rig::with_devices(1);
    let log = Log::default();
    let mut slots = HashSet::new();
    for round in 0..40 {
        let blocking = round % 2 == 0;
        let stream = if blocking { rig.stream() } else { rig.non_blocking_stream() };
        // Whichever slot it is: there are far fewer than rounds.
        slots.insert(stream.0 as usize as u32);
        let gate = Gate::reached_on(rig, 0, Stream::DEFAULT);
        log.note(rig, 0, stream, round);
        if !blocking {
            rig.wait(0, stream);
        }
        let done = log.numbers().len() as u32 == round + 1;
        assert_eq!(done, !blocking);
        gate.open();
        rig.0.device_synchronize(0).expect("synchronized");
        rig.destroy(stream);
    }
    assert!(slots.len() < 20, "slots come back: {} for 40 streams", slots.len());
}

#[test]
fn memory_freed_under_work_of_a_non_blocking_stream_is_not_handed_out() {
    let rig = Rig::with(Configuration { memory_limit: Some(1 << 20), ..Configuration::default() });
    let exempt = rig.non_blocking_stream();
    let block = rig.device_memory(SIZE, 1);
    let gate = Gate::reached_on(rig, 0, exempt);
    rig.free(block);
    let free = || rig.0.get_memory_info(0).expect("information").free;
    assert_eq!(free(), (1 << 20) - SIZE as u64);
    gate.open();
    eventually("the memory comes back", || free() == 1 << 20);
}

#[test]
fn there_is_one_priority_and_every_other_is_clamped_to_it() {
    let rig = Rig::with_devices(2);
    let range = rig.0.get_stream_priority_range(1).expect("a range");
    assert_eq!((range.least, range.greatest), (0, 0));
    for priority in [i32::MIN, -1, 0, 7, i32::MAX] {
        for flags in [StreamFlags::BLOCKING, StreamFlags::NON_BLOCKING] {
            let stream = rig.0.create_stream_with(1, flags, priority).expect("a stream");
            rig.call(1, stream, || ());
            rig.wait(1, stream);
        }
    }
    assert_eq!(failure(rig.0.get_stream_priority_range(2)), Status::InvalidDevice);
    let nowhere = rig.0.create_stream_with(-1, StreamFlags::BLOCKING, 0);
    assert_eq!(failure(nowhere), Status::InvalidDevice);
}

#[test]
fn there_is_no_stream_of_somebody_else_to_take_in() {
    let rig = Rig::with_devices(1);
    // SAFETY: refused, whatever it is.
    let error = unsafe { rig.0.adopt_stream(8 as *mut _) }.expect_err("must fail");
    assert_eq!(error.status(), Status::NotSupported);
    assert!(error.message().contains("no native streams"), "{error}");
}
