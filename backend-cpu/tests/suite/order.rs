//! In which order work runs (contract S1 to S6, H1).

use crate::gate::{Gate, Log};
use crate::rig::{Rig, eventually, fill};
use llaisys_backend_cpu::Configuration;
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{CopyFlags, MemcpyKind, RuntimeApi, Stream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

#[test]
fn a_stream_runs_its_work_in_order() {
    let rig = Rig::with_devices(1);
    let (stream, log) = (rig.stream(), Log::default());
    for number in 0..5_000 {
        log.note(rig, 0, stream, number);
    }
    rig.wait(0, stream);
    assert_eq!(log.numbers(), (0..5_000).collect::<Vec<_>>());
}

#[test]
fn two_streams_are_independent() {
    let rig = Rig::with_devices(1);
    let (held, free, log) = (rig.stream(), rig.stream(), Log::default());
    let _gate = Gate::reached_on(rig, 0, held);
    log.note(rig, 0, free, 1);
    rig.wait(0, free);
    assert_eq!(log.numbers(), [1]);
    assert!(rig.is_idle(free) && !rig.is_idle(held) && !rig.is_idle(Stream::DEFAULT));
}

#[test]
fn the_default_stream_starts_after_earlier_work_of_every_stream() {
    let rig = Rig::with_devices(1);
    let (a, b, log) = (rig.stream(), rig.stream(), Log::default());
    for _ in 0..50 {
        let (first, second) = (Gate::on(rig, 0, a), Gate::on(rig, 0, b));
        log.note(rig, 0, a, 1);
        log.note(rig, 0, b, 1);
        log.note(rig, 0, Stream::DEFAULT, 2);
        second.open();
        first.open();
        rig.wait(0, Stream::DEFAULT);
    }
    assert_eq!(log.numbers(), [1, 1, 2].repeat(50));
}

#[test]
fn later_work_of_every_stream_starts_after_the_default_stream() {
    let rig = Rig::with_devices(2);
    let (a, b, log) = (rig.stream(), rig.stream(), Log::default());
    let gate = Gate::reached_on(rig, 0, Stream::DEFAULT);
    log.note(rig, 0, Stream::DEFAULT, 1);
    log.note(rig, 0, a, 2);
    log.note(rig, 0, b, 2);
    // A stream that was made while the default stream was busy, too.
    let c = rig.stream();
    log.note(rig, 0, c, 2);
    // Another device takes no part in this, and has run before anything here does.
    log.note(rig, 1, Stream::DEFAULT, 0);
    rig.wait(1, Stream::DEFAULT);
    assert_eq!(log.numbers(), [0]);
    gate.open();
    rig.0.device_synchronize(0).expect("synchronized");
    assert_eq!(log.numbers(), [0, 1, 2, 2, 2]);
}

#[test]
fn order_through_the_default_stream_holds_across_streams_back_and_forth() {
    let rig = Rig::with_devices(1);
    let (a, b, log) = (rig.stream(), rig.stream(), Log::default());
    let gate = Gate::on(rig, 0, a);
    for round in 0..500 {
        log.note(rig, 0, a, 4 * round);
        log.note(rig, 0, Stream::DEFAULT, 4 * round + 1);
        log.note(rig, 0, b, 4 * round + 2);
        log.note(rig, 0, Stream::DEFAULT, 4 * round + 3);
    }
    gate.open();
    rig.0.device_synchronize(0).expect("synchronized");
    assert_eq!(log.numbers(), (0..2_000).collect::<Vec<_>>());
}

#[test]
fn destroying_a_busy_stream_returns_at_once_and_its_work_completes() {
    let rig = Rig::with_devices(1);
    let (stream, log) = (rig.stream(), Log::default());
    let gate = Gate::reached_on(rig, 0, stream);
    for number in 0..100 {
        log.note(rig, 0, stream, number);
    }
    rig.destroy(stream);
    // A destroyed stream's work is work of its device: the default stream comes after it.
    log.note(rig, 0, Stream::DEFAULT, 100);
    assert_eq!(log.numbers(), []);
    gate.open();
    rig.0.device_synchronize(0).expect("synchronized");
    assert_eq!(log.numbers(), (0..=100).collect::<Vec<_>>());
}

#[test]
fn a_stream_that_another_thread_waits_for_is_destroyed() {
    let rig = Rig::with_devices(1);
    let stream = rig.stream();
    let gate = Gate::reached_on(rig, 0, stream);
    thread::scope(|scope| {
        let (started, has_started) = mpsc::channel();
        scope.spawn(move || {
            started.send(()).expect("the test is there");
            // The handle may be gone before this begins.
            // SAFETY: stale handles are looked up only.
            let _ = unsafe { rig.0.stream_synchronize(0, stream) };
        });
        has_started.recv().expect("the thread is there");
        rig.destroy(stream);
        gate.open();
    });
    rig.0.device_synchronize(0).expect("synchronized");
}

#[test]
fn a_blocking_call_in_a_host_function_is_an_error_and_no_deadlock() {
    let rig = Rig::with_devices(1);
    let (stream, other) = (rig.stream(), rig.stream());
    let (results, received) = mpsc::channel();
    let _gate = Gate::reached_on(rig, 0, other);
    rig.call(0, stream, move || {
        let mut byte = [0u8; 2];
        let (dst, src) = (byte.as_mut_ptr(), byte.as_ptr().wrapping_add(1));
        // SAFETY: the handles are live and the bytes are local to this call.
        let sync = unsafe {
            [
                rig.0.device_synchronize(0),
                rig.0.stream_synchronize(0, stream),
                rig.0.stream_synchronize(0, other),
                rig.0.memcpy_sync(0, dst.cast(), src.cast(), 1, MemcpyKind::H2H, CopyFlags::NONE),
                rig.copy(dst, src, 1, other, CopyFlags::DESTINATION_PAGEABLE),
            ]
        };
        // What does not wait is allowed.
        let fine = rig.try_call(0, other, || ());
        let statuses = sync.map(|result| result.map_err(|error| error.status()));
        results.send((statuses, fine.is_ok(), rig.is_idle(stream))).expect("the test is there");
    });
    let (statuses, fine, idle) = received.recv().expect("the host function ran");
    assert_eq!(statuses, [Err(Status::NotPermitted); 5]);
    assert!(fine && !idle);
}

#[test]
fn a_full_queue_is_back_pressure_and_not_growth() {
    const CAPACITY: u32 = 32;
    let rig =
        Rig::with(Configuration { queue_capacity: CAPACITY as usize, ..Configuration::default() });
    let (stream, log) = (rig.stream(), Log::default());
    let gate = Gate::reached_on(rig, 0, stream);
    let enqueued = Arc::new(AtomicU32::new(0));
    thread::scope(|scope| {
        let (log, enqueued_there) = (log.clone(), enqueued.clone());
        scope.spawn(move || {
            for number in 0..2_000 {
                log.note(rig, 0, stream, number);
                enqueued_there.fetch_add(1, Ordering::SeqCst);
            }
        });
        eventually("a full queue", || enqueued.load(Ordering::SeqCst) == CAPACITY);
        for _ in 0..1_000 {
            assert_eq!(enqueued.load(Ordering::SeqCst), CAPACITY);
            thread::yield_now();
        }
        gate.open();
    });
    rig.wait(0, stream);
    assert_eq!(log.numbers(), (0..2_000).collect::<Vec<_>>());
}

#[test]
fn a_host_function_that_fills_its_own_queue_gets_an_error() {
    let rig = Rig::with(Configuration { queue_capacity: 4, ..Configuration::default() });
    let stream = rig.stream();
    let (result, received) = mpsc::channel();
    rig.call(0, stream, move || {
        let full = (0..100).find_map(|_| rig.try_call(0, stream, || ()).err());
        result.send(full.map(|error| error.status())).expect("the test is there");
    });
    assert_eq!(received.recv().expect("it ran"), Some(Status::NotPermitted));
    rig.wait(0, stream);
}

#[test]
fn back_pressure_with_a_crowd_of_streams_and_the_default_stream_is_no_deadlock() {
    let rig = Rig::with(Configuration { queue_capacity: 2, ..Configuration::default() });
    let count = Arc::new(AtomicU32::new(0));
    thread::scope(|scope| {
        for thread in 0..4 {
            let count = count.clone();
            scope.spawn(move || {
                let own = [rig.stream(), rig.stream(), Stream::DEFAULT];
                for turn in 0..600 {
                    let count = count.clone();
                    rig.call(0, own[(turn + thread) % 3], move || {
                        count.fetch_add(1, Ordering::SeqCst);
                    });
                }
                rig.destroy(own[0]);
                rig.destroy(own[1]);
            });
        }
    });
    rig.0.device_synchronize(0).expect("synchronized");
    assert_eq!(count.load(Ordering::SeqCst), 2_400);
}

#[test]
fn work_that_comes_while_a_caller_copies_at_once_runs_after_that_copy() {
    // 8 MiB take the copying caller a while; the other thread enqueues behind it meanwhile.
    const SIZE: usize = 8 << 20;
    let rig = Rig::with_devices(1);
    let stream = rig.stream();
    let (a, b, c) =
        (rig.device_memory(SIZE, 0), rig.device_memory(SIZE, 0), rig.device_memory(SIZE, 0));
    for round in 1..=20 {
        fill(a, SIZE, round);
        thread::scope(|scope| {
            let (b, c) = (b as usize, c as usize);
            scope.spawn(move || {
                rig.copy(c as *mut u8, b as *const u8, SIZE, stream, CopyFlags::NONE)
                    .expect("queued");
            });
            rig.copy(b as *mut u8, a, SIZE, stream, CopyFlags::AT_ONCE_IF_IDLE).expect("copied");
        });
        rig.wait(0, stream);
        // Before or after, but whole.
        // SAFETY: the stream is idle; nobody writes.
        let seen = unsafe { std::slice::from_raw_parts(c, SIZE) };
        assert!(seen.iter().all(|&byte| byte == seen[0]), "torn in round {round}");
        assert!(seen[0] == round || seen[0] == round - 1);
        rig.copy_now(c, b, SIZE);
    }
}
