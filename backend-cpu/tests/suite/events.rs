//! Points in streams that are asked about, waited for and measured between (contract V1 to V3).

use crate::gate::{Gate, Log};
use crate::rig::{Rig, bytes, failure};
use llaisys_backend_cpu::Configuration;
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{CopyFlags, Event, EventFlags, RuntimeApi, Stream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, TryRecvError};
use std::thread;

const KINDS: [EventFlags; 4] =
    [EventFlags::NONE, EventFlags::TIMING, EventFlags::BLOCKING_WAIT, EventFlags(3)];

#[test]
fn an_event_that_was_never_recorded_is_reached_and_waiting_for_it_is_nothing() {
    let rig = Rig::with_devices(1);
    for flags in KINDS {
        let (event, stream, log) = (rig.event(flags), rig.stream(), Log::default());
        assert!(rig.is_reached(event));
        rig.synchronize(event);
        rig.wait_event(stream, event);
        assert!(rig.is_idle(stream), "there is nothing to wait for");
        log.note(rig, 0, stream, 1);
        rig.wait(0, stream);
    }
}

#[test]
fn an_event_is_reached_when_the_work_before_it_is_done_and_not_sooner() {
    let rig = Rig::with_devices(1);
    for flags in KINDS {
        let (event, stream, log) = (rig.event(flags), rig.stream(), Log::default());
        let gate = Gate::reached_on(rig, 0, stream);
        log.note(rig, 0, stream, 1);
        rig.record(event, stream);
        let later = Gate::on(rig, 0, stream);
        assert!(!rig.is_reached(event));
        gate.open();
        rig.synchronize(event);
        assert!(rig.is_reached(event) && log.numbers() == [1] && !rig.is_idle(stream));
        drop(later);
        rig.wait(0, stream);
        // On a stream that has nothing to do it is reached at once.
        rig.record(event, stream);
        assert!(rig.is_reached(event));
    }
}

#[test]
fn a_thread_that_waits_for_an_event_awake_or_asleep_goes_on_when_it_is_reached() {
    let rig = Rig::with_devices(1);
    for flags in KINDS {
        let (event, stream, other) = (rig.event(flags), rig.stream(), rig.stream());
        let gate = Gate::reached_on(rig, 0, stream);
        rig.record(event, stream);
        thread::scope(|scope| {
            let (done, is_done) = mpsc::channel();
            scope.spawn(move || {
                rig.synchronize(event);
                done.send(()).expect("the test is there");
            });
            for _ in 0..50 {
                rig.call(0, other, || ());
                rig.wait(0, other);
                assert_eq!(is_done.try_recv(), Err(TryRecvError::Empty), "it returned too early");
            }
            gate.open();
            is_done.recv().expect("it returned");
        });
    }
}

#[test]
fn a_wait_captures_the_record_that_is_current_when_it_is_issued() {
    let rig = Rig::with_devices(1);
    for flags in KINDS {
        let event = rig.event(flags);
        let [first, second, waiting, early] = [(); 4].map(|()| rig.stream());
        let log = Log::default();
        // Reached already: nothing to wait for, whatever is recorded afterwards.
        rig.record(event, early);
        rig.wait_event(early, event);
        let gate = Gate::reached_on(rig, 0, first);
        let never = Gate::reached_on(rig, 0, second);
        rig.record(event, first);
        rig.wait_event(waiting, event);
        log.note(rig, 0, waiting, 2);
        rig.record(event, second);
        log.note(rig, 0, early, 1);
        rig.wait(0, early);
        assert_eq!(log.numbers(), [1]);
        gate.open();
        rig.wait(0, waiting);
        assert_eq!(log.numbers(), [1, 2]);
        assert!(!rig.is_reached(event), "the newer record is pending");
        drop(never);
        rig.synchronize(event);
    }
}

#[test]
fn a_stream_waits_for_an_event_of_another_device() {
    let rig = Rig::with_devices(3);
    let streams = [0, 1, 2].map(|device| rig.0.create_stream(device).expect("a stream"));
    let log = Log::default();
    let gate = Gate::reached_on(rig, 0, streams[0]);
    log.note(rig, 0, streams[0], 0);
    for device in [1, 2] {
        let before = device as usize - 1;
        let event = rig.0.create_event(before as i32, EventFlags::NONE).expect("an event");
        // SAFETY: all handles are live; the event is of its stream's device.
        unsafe {
            rig.0.record_event(before as i32, event, streams[before]).expect("recorded");
            rig.0.stream_wait_event(device, streams[device as usize], event).expect("queued");
            // The record is kept by the wait.
            rig.0.destroy_event(before as i32, event).expect("destroyed");
        }
        log.note(rig, device, streams[device as usize], device as u32);
    }
    assert_eq!(log.numbers(), []);
    gate.open();
    rig.wait(2, streams[2]);
    assert_eq!(log.numbers(), [0, 1, 2]);
}

#[test]
fn streams_that_wait_for_each_other_in_turn_alternate() {
    let rig = Rig::with_devices(2);
    let streams = [0, 1].map(|device| rig.0.create_stream(device).expect("a stream"));
    let events = [0, 1].map(|device| rig.0.create_event(device, EventFlags::NONE).expect("made"));
    let log = Log::default();
    let gate = Gate::on(rig, 0, streams[0]);
    for round in 0..500 {
        for (own, other) in [(0, 1), (1, 0)] {
            let device = own as i32;
            log.note(rig, device, streams[own], 2 * round + own as u32);
            // SAFETY: all handles are live; each event is of its stream's device.
            unsafe {
                rig.0.record_event(device, events[own], streams[own]).expect("recorded");
                let other_device = other as i32;
                rig.0.stream_wait_event(other_device, streams[other], events[own]).expect("queued");
            }
        }
    }
    gate.open();
    rig.wait(0, streams[0]);
    rig.wait(1, streams[1]);
    assert_eq!(log.numbers(), (0..1_000).collect::<Vec<_>>());
}

#[test]
fn a_thread_that_waits_at_the_end_of_a_long_chain_of_streams_gets_through() {
    const LINKS: u32 = 1_000;
    let rig = Rig::with(Configuration { threads: 1, ..Configuration::default() });
    let memory = rig.device_memory(LINKS as usize + 1, 0);
    let streams: Vec<Stream> = (0..LINKS).map(|_| rig.stream()).collect();
    let gate = Gate::reached_on(rig, 0, streams[0]);
    rig.fill_on(memory, 7, 1, streams[0]);
    for (index, pair) in streams.windows(2).enumerate() {
        let event = rig.event(EventFlags::NONE);
        rig.record(event, pair[0]);
        rig.wait_event(pair[1], event);
        rig.destroy_event(event);
        let (to, from) = (memory.wrapping_add(index + 1), memory.wrapping_add(index));
        rig.copy(to, from, 1, pair[1], CopyFlags::NONE).expect("queued");
    }
    let last = streams[LINKS as usize - 1];
    assert!(!rig.is_idle(last));
    gate.open();
    rig.wait(0, last);
    assert_eq!(bytes(memory, LINKS as usize), vec![7; LINKS as usize]);
}

#[test]
fn an_event_outlives_its_stream_and_a_wait_outlives_its_event() {
    let rig = Rig::with_devices(1);
    for flags in KINDS {
        let (event, stream, waiting, log) =
            (rig.event(flags), rig.stream(), rig.stream(), Log::default());
        let gate = Gate::reached_on(rig, 0, stream);
        log.note(rig, 0, stream, 1);
        rig.record(event, stream);
        rig.destroy(stream);
        assert!(!rig.is_reached(event));
        rig.wait_event(waiting, event);
        log.note(rig, 0, waiting, 2);
        let kept = rig.event(flags);
        rig.record(kept, waiting);
        rig.destroy_event(event);
        gate.open();
        rig.synchronize(kept);
        assert_eq!(log.numbers(), [1, 2]);
        // The slot has another stream now, which means nothing to the event.
        rig.destroy(waiting);
        let next = rig.stream();
        let _gate = Gate::reached_on(rig, 0, next);
        assert!(rig.is_reached(kept));
    }
}

#[test]
fn a_record_on_the_default_stream_is_behind_the_earlier_work_of_every_blocking_stream() {
    let rig = Rig::with_devices(1);
    for flags in KINDS {
        let (event, blocking, exempt) = (rig.event(flags), rig.stream(), rig.non_blocking_stream());
        let gate = Gate::reached_on(rig, 0, blocking);
        let _exempt = Gate::reached_on(rig, 0, exempt);
        rig.record(event, Stream::DEFAULT);
        assert!(!rig.is_reached(event));
        gate.open();
        rig.synchronize(event);
        // Only the stream that takes no part in that order is busy now.
        rig.wait(0, blocking);
        rig.wait(0, Stream::DEFAULT);
        rig.record(event, Stream::DEFAULT);
        assert!(rig.is_reached(event));
    }
}

#[test]
fn a_record_on_a_blocking_stream_is_behind_the_earlier_work_of_the_default_stream() {
    let rig = Rig::with_devices(1);
    for flags in KINDS {
        let [event, exempt_event] = [(); 2].map(|()| rig.event(flags));
        let (stream, exempt) = (rig.stream(), rig.non_blocking_stream());
        let gate = Gate::reached_on(rig, 0, Stream::DEFAULT);
        rig.record(event, stream);
        rig.record(exempt_event, exempt);
        assert!(!rig.is_reached(event) && rig.is_reached(exempt_event));
        gate.open();
        rig.synchronize(event);
    }
}

#[test]
fn the_time_of_an_event_is_when_it_is_reached_and_not_when_it_is_recorded() {
    let rig = Rig::with_devices(1);
    let (stream, idle) = (rig.stream(), rig.stream());
    let [before, event, between, after] = [(); 4].map(|()| rig.event(EventFlags::TIMING));
    let gate = Gate::reached_on(rig, 0, stream);
    rig.record(before, idle);
    rig.record(event, stream);
    // Nobody has used the other stream: these two are reached at the moment of the record.
    rig.record(between, idle);
    assert!(rig.is_reached(before) && rig.is_reached(between));
    gate.open();
    rig.synchronize(event);
    rig.record(after, idle);
    let elapsed = |start, end| rig.elapsed(start, end).expect("both are reached");
    assert!(elapsed(before, between) >= 0);
    assert!(elapsed(between, event) >= 0, "reached after what was recorded later");
    assert!(elapsed(event, after) >= 0);
    // Exact: the parts make the whole, and the other way round it is negative.
    assert_eq!(elapsed(before, event) + elapsed(event, after), elapsed(before, after));
    assert_eq!(elapsed(after, before), -elapsed(before, after));
    assert_eq!(elapsed(event, event), 0);
}

#[test]
fn the_times_of_a_stream_rise_and_hold_up_what_they_measure() {
    let rig = Rig::with_devices(1);
    let (stream, log) = (rig.stream(), Log::default());
    let gate = Gate::on(rig, 0, stream);
    let events: Vec<Event> = (0..100)
        .map(|number| {
            let event = rig.event(EventFlags::TIMING);
            log.note(rig, 0, stream, number);
            rig.record(event, stream);
            event
        })
        .collect();
    gate.open();
    rig.wait(0, stream);
    for pair in events.windows(2) {
        let elapsed = rig.elapsed(pair[0], pair[1]).expect("both are reached");
        assert!((0..30_000_000_000).contains(&elapsed), "{elapsed}");
    }
    events.into_iter().for_each(|event| rig.destroy_event(event));
}

#[test]
fn what_cannot_be_measured_is_one_of_three_errors_and_never_an_old_number() {
    let rig = Rig::with_devices(1);
    let (stream, plain) = (rig.stream(), rig.event(EventFlags::NONE));
    let [start, end, never] = [(); 3].map(|()| rig.event(EventFlags::TIMING));
    rig.record(start, stream);
    rig.record(end, stream);
    rig.record(plain, stream);
    rig.elapsed(start, end).expect("both are reached");
    for (from, to) in [(start, plain), (plain, end)] {
        assert_eq!(failure(rig.elapsed(from, to)), Status::TimingDisabled);
    }
    for (from, to) in [(start, never), (never, end)] {
        assert_eq!(failure(rig.elapsed(from, to)), Status::NotRecorded);
    }
    let gate = Gate::reached_on(rig, 0, stream);
    rig.record(end, stream);
    for (from, to) in [(start, end), (end, start)] {
        assert_eq!(failure(rig.elapsed(from, to)), Status::NotReady);
    }
    gate.open();
    rig.synchronize(end);
    assert!(rig.elapsed(start, end).expect("both are reached") >= 0);
}

#[test]
fn a_timed_event_that_is_recorded_anew_elsewhere_forgets_its_pending_mark() {
    let rig = Rig::with_devices(1);
    let (held, idle) = (rig.stream(), rig.stream());
    let [event, later] = [(); 2].map(|()| rig.event(EventFlags::TIMING));
    let gate = Gate::reached_on(rig, 0, held);
    rig.record(event, held);
    rig.record(event, idle);
    rig.record(later, idle);
    let elapsed = rig.elapsed(event, later).expect("both are reached");
    // The mark of the first record is reached now, after `later`.
    gate.open();
    rig.wait(0, held);
    assert_eq!(rig.elapsed(event, later).expect("both are reached"), elapsed);
    assert!(elapsed >= 0);
}

#[test]
fn waiting_for_an_event_in_a_host_function_is_an_error_and_asking_is_not() {
    let rig = Rig::with_devices(1);
    let (stream, other) = (rig.stream(), rig.stream());
    let (results, received) = mpsc::channel();
    let _gate = Gate::reached_on(rig, 0, other);
    let [event, reached] = [(); 2].map(|()| rig.event(EventFlags::NONE));
    rig.record(event, other);
    rig.call(0, stream, move || {
        // SAFETY: both events are live.
        let waits = unsafe { [event, reached].map(|event| rig.0.event_synchronize(0, event)) };
        let asked = rig.is_reached(event);
        rig.wait_event(other, event);
        rig.record(reached, other);
        let statuses = waits.map(|result| result.map_err(|error| error.status()));
        results.send((statuses, asked)).expect("the test is there");
    });
    let expected = ([Err(Status::NotPermitted), Ok(())], false);
    assert_eq!(received.recv().expect("the host function ran"), expected);
}

#[test]
fn destroyed_foreign_and_made_up_events_are_errors() {
    let rig = Rig::with_devices(2);
    let (stream, live, gone) =
        (rig.stream(), rig.event(EventFlags::NONE), rig.event(EventFlags::NONE));
    rig.destroy_event(gone);
    let reused = rig.event(EventFlags::NONE);
    assert!(reused != gone && rig.is_reached(reused));
    let made_up = [0usize, 1, 0x7fff_0000_1234, usize::MAX, live.0 as usize + (1 << 32)];
    let wrong = made_up.map(|bits| Event(bits as *mut _));
    for event in wrong.into_iter().chain([gone]) {
        // SAFETY: handles are looked up only, which is what is tested.
        let results = unsafe {
            [
                rig.0.event_query(0, event).map(drop),
                rig.0.event_synchronize(0, event),
                rig.0.record_event(0, event, stream),
                rig.0.stream_wait_event(0, stream, event),
                rig.0.event_elapsed(0, event, event).map(drop),
                rig.0.destroy_event(0, event),
            ]
        };
        for result in results {
            assert_eq!(failure(result), Status::InvalidHandle, "{event:?}");
        }
    }
    let elsewhere = rig.0.create_stream(1).expect("a stream");
    // SAFETY: as above.
    unsafe {
        assert_eq!(failure(rig.0.event_query(1, live)), Status::InvalidHandle);
        assert_eq!(failure(rig.0.record_event(1, live, elsewhere)), Status::InvalidHandle);
        assert_eq!(failure(rig.0.record_event(0, live, elsewhere)), Status::InvalidHandle);
        let stale = Stream(usize::MAX as *mut _);
        assert_eq!(failure(rig.0.stream_wait_event(0, stale, live)), Status::InvalidHandle);
    }
    assert!(rig.is_reached(live));
}

#[test]
fn a_record_without_time_takes_no_place_in_the_queue_and_one_with_time_is_back_pressure() {
    let rig = Rig::with(Configuration { queue_capacity: 4, ..Configuration::default() });
    let stream = rig.stream();
    let gate = Gate::reached_on(rig, 0, stream);
    let [event, timed] = [EventFlags::NONE, EventFlags::TIMING].map(|flags| rig.event(flags));
    for _ in 0..1_000 {
        rig.record(event, stream);
    }
    thread::scope(|scope| {
        let recording = scope.spawn(move || {
            for _ in 0..100 {
                rig.record(timed, stream);
            }
        });
        gate.open();
        recording.join().expect("no panic");
    });
    rig.synchronize(timed);
    assert!(rig.is_reached(event));
}

#[test]
fn threads_that_record_ask_and_wait_for_one_event_never_see_it_reached_too_early() {
    let rig = Rig::with_devices(1);
    for flags in [EventFlags::NONE, EventFlags::TIMING] {
        // Every record of this event is behind a gate, so it is never reached.
        let (event, stop) = (rig.event(flags), AtomicBool::new(false));
        let streams = [(); 2].map(|()| rig.stream());
        let gates = streams.map(|stream| Gate::reached_on(rig, 0, stream));
        rig.record(event, streams[0]);
        thread::scope(|scope| {
            let asking = scope.spawn(|| {
                let mut asked = 0;
                while !stop.load(Ordering::Relaxed) {
                    assert!(!rig.is_reached(event));
                    asked += 1;
                }
                asked
            });
            for _ in 0..5_000 {
                rig.record(event, streams[0]);
                rig.record(event, streams[1]);
            }
            stop.store(true, Ordering::Relaxed);
            asking.join().expect("no panic");
        });
        gates.iter().for_each(Gate::open);
        rig.synchronize(event);
    }
}
