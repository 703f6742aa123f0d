//! Events, seen through the plugin's own table: on the fake driver by default, on a real one with
//! `LLAISYS_TEST_DRIVER=""`.

mod support;

use llaisys_runtime_core::api::{Event, EventFlags, Stream, StreamFlags};
use llaisys_runtime_core::status::Status;
use std::ffi::c_void;
use std::time::{Duration, Instant};
use support::Plugin;
use support::extended::*;
use support::on_device::*;

const ALL: [EventFlags; 4] =
    [EventFlags::NONE, EventFlags::TIMING, EventFlags::BLOCKING_WAIT, EventFlags::KNOWN];

on_a_device! {
    /// V1: never recorded is ready; recorded it is reached with what was enqueued before it.
    fn an_event_is_reached_when_its_stream_comes_to_it(plugin) {
        let non_blocking = plugin.stream_with(0, StreamFlags::NON_BLOCKING, 0).expect("a stream");
        for stream in [Stream::DEFAULT, plugin.new_stream(), non_blocking] {
            for flags in ALL {
                let event = plugin.event(0, flags).expect("an event");
                assert!(plugin.is_reached(event).expect("a query"), "never recorded");
                plugin.wait_for(event).expect("nothing to wait for");
                let gate = Gate::on(plugin, stream);
                plugin.record(event, stream).expect("recorded");
                assert!(!plugin.is_reached(event).expect("a query"));
                gate.open(plugin);
                plugin.wait_for(event).expect("reached");
                assert!(plugin.is_reached(event).expect("a query"));
                plugin.destroy_event(event).expect("destroyed");
            }
        }
    }

    /// V1: a wait captures the record that is current when it is issued.
    fn a_stream_waits_for_the_record_that_the_event_had(plugin) {
        let held = plugin.stream_with(0, StreamFlags::NON_BLOCKING, 0).expect("a stream");
        let waiting = plugin.stream_with(0, StreamFlags::NON_BLOCKING, 0).expect("a stream");
        let event = plugin.event(0, EventFlags::NONE).expect("an event");
        plugin.wait_in(0, waiting, event).expect("never recorded: nothing to wait for");
        plugin.wait(waiting);
        let gate = Gate::on(plugin, held);
        plugin.record(event, held).expect("recorded");
        plugin.wait_in(0, waiting, event).expect("enqueued");
        // A newer record that is reached at once changes nothing for the wait that was issued.
        let idle = plugin.stream_with(0, StreamFlags::NON_BLOCKING, 0).expect("a stream");
        plugin.record(event, idle).expect("recorded");
        plugin.wait_for(event).expect("reached");
        assert!(!plugin.is_ready(waiting));
        gate.open(plugin);
        assert!(plugin.is_ready(waiting));
    }

    /// V3: waiting across devices works.
    fn a_stream_waits_for_an_event_of_another_device(plugin) {
        if plugin.device_count().expect("devices") < 2 {
            println!("skipped: one device");
            return;
        }
        let event = plugin.event(0, EventFlags::NONE).expect("an event");
        let held = plugin.new_stream();
        let there = plugin.stream_with(1, StreamFlags::BLOCKING, 0).expect("a stream");
        let gate = Gate::on(plugin, held);
        plugin.record(event, held).expect("recorded");
        plugin.wait_in(1, there, event).expect("enqueued");
        assert!(!is_ready_on(plugin, 1, there));
        gate.open(plugin);
        let start = Instant::now();
        while !is_ready_on(plugin, 1, there) {
            assert!(start.elapsed() < Duration::from_secs(5), "it never came");
        }
    }

    /// V2: a monotonic clock, negative the other way round; without timing or a record an error.
    fn elapsed_time_is_told_between_two_timed_events(plugin) {
        let stream = plugin.new_stream();
        let [start, end] = [(); 2].map(|()| plugin.event(0, EventFlags::TIMING).expect("an event"));
        let without = plugin.event(0, EventFlags::NONE).expect("an event");
        assert!(plugin.elapsed(start, end).is_err(), "neither was recorded");
        plugin.record(start, stream).expect("recorded");
        pause(plugin, stream);
        plugin.record(end, stream).expect("recorded");
        let failure = plugin.elapsed(start, end).expect_err("not reached yet");
        assert_eq!(failure.status, Status::NotReady.code(), "{failure:?}");
        plugin.record(without, stream).expect("recorded");
        plugin.wait(stream);
        let forth = plugin.elapsed(start, end).expect("a time");
        assert!((20_000_000..5_000_000_000).contains(&forth), "{forth} ns for a pause of 20 ms");
        assert_eq!(plugin.elapsed(end, start).expect("a time"), -forth);
        assert_eq!(plugin.elapsed(end, end).expect("a time"), 0);
        let failure = plugin.elapsed(start, without).expect_err("it has no time");
        assert!(failure.message.contains("tell the time"), "{failure:?}");
    }

    /// V3: destroying a pending event is fine, and an event outlives its stream.
    fn a_pending_event_is_destroyed_and_an_event_outlives_its_stream(plugin) {
        let cuda = Cuda::open();
        let stream = plugin.new_stream();
        let before = cuda.count("live_events");
        let gate = Gate::on(plugin, stream);
        let [pending, kept] = [(); 2].map(|()| plugin.event(0, EventFlags::NONE).expect("an event"));
        plugin.record(pending, stream).expect("recorded");
        plugin.record(kept, stream).expect("recorded");
        plugin.destroy_event(pending).expect("destroyed");
        plugin.destroy(stream).expect("destroyed");
        assert!(!plugin.is_reached(kept).expect("a query"));
        gate.open(plugin);
        plugin.wait_for(kept).expect("reached");
        plugin.destroy_event(kept).expect("destroyed");
        // The mark of the destroyed stream is let go by the next one that looks.
        plugin.free(plugin.device_memory(64)).expect("a free");
        assert_eq!(cuda.count("live_events"), before);
    }
}

fn is_ready_on(plugin: &Plugin, device: i32, stream: Stream) -> bool {
    let mut ready = -1;
    // SAFETY: `ready` is writable, and the stream is live.
    let status = unsafe { (plugin.api.stream_query)(plugin.api.self_, device, stream, &mut ready) };
    plugin.result(status).expect("a query");
    ready == 1
}

fn pause(plugin: &Plugin, stream: Stream) {
    unsafe extern "C" fn sleep(_: *mut c_void) {
        std::thread::sleep(Duration::from_millis(21));
    }
    let table = plugin.api;
    let nothing = std::ptr::null_mut();
    // SAFETY: the function takes nothing and does not unwind.
    let status =
        unsafe { (table.launch_host_function)(table.self_, 0, stream, Some(sleep), nothing) };
    plugin.result(status).expect("enqueued");
}

#[test]
fn what_the_driver_answers_about_events_is_told_with_what_was_asked() {
    let name = "what_the_driver_answers_about_events_is_told_with_what_was_asked";
    let failures = "cuEventCreate:2=2,cuEventRecord=900,cuStreamWaitEvent=400,cuEventQuery=700,\
                    cuEventSynchronize=700,cuEventDestroy_v2=400";
    on_a_fake(
        name,
        &[("FAKE_CUDA_FAIL", failures), ("FAKE_CUDA_CONTAINED_FAULTS", "1")],
        |plugin| {
            let event = plugin.event(0, EventFlags::NONE).expect("the first is made");
            let failure = plugin.event(0, EventFlags::NONE).expect_err("the second is not");
            assert_eq!(failure.status, Status::OutOfMemory.code(), "{failure:?}");
            let told = |result: Answer<()>, status: Status, word: &str| {
                let failure = result.expect_err("refused");
                assert_eq!(failure.status, status.code(), "{failure:?}");
                assert!(failure.message.contains(word), "{failure:?}");
                assert!(failure.message.contains("device 0"), "{failure:?}");
            };
            let stream = Stream::DEFAULT;
            told(plugin.record(event, stream), Status::NotPermitted, "record the event");
            told(plugin.wait_in(0, stream, event), Status::InvalidHandle, "wait for the event");
            told(plugin.destroy_event(event), Status::InvalidHandle, "destroy the event");
            told(plugin.is_reached(event).map(drop), Status::DeviceLost, "query the event");
            told(plugin.wait_for(event), Status::DeviceLost, "wait for the event");
        },
    );
}

/// L1: nothing is left to destroy when the driver is gone.
#[test]
fn an_event_is_quietly_gone_with_the_driver() {
    let name = "an_event_is_quietly_gone_with_the_driver";
    on_a_fake(name, &[("FAKE_CUDA_FAIL", "cuEventDestroy_v2=4")], |plugin| {
        let event: Event = plugin.event(0, EventFlags::NONE).expect("an event");
        plugin.destroy_event(event).expect("quiet");
    });
}
