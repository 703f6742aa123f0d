//! Many copies with one call (contract C3, C4, S6).

use crate::gate::{Gate, Log};
use crate::rig::{Rig, bytes, failure, fill};
use llaisys_backend_cpu::Configuration;
use llaisys_runtime_core::api::*;
use llaisys_runtime_core::{Result, Status};
use std::ptr::null_mut;
use std::sync::mpsc::{self, TryRecvError};
use std::thread;

const SIZE: usize = 4096;

/// Ranges of all sizes and alignments from one block to another, that do not meet.
fn ranges(to: *mut u8, from: *const u8) -> Vec<LlaisysCopyRange> {
    let mut at = 0;
    (0..60)
        .map(|size| {
            let (dst, src) = (to.wrapping_add(at).cast(), from.wrapping_add(at + size).cast());
            at += size + 3;
            LlaisysCopyRange { dst, src, size: size as u64 }
        })
        .collect()
}

fn expected(to: &[u8], from: &[u8]) -> Vec<u8> {
    let (mut expected, mut at) = (to.to_vec(), 0);
    for size in 0..60 {
        expected[at..at + size].copy_from_slice(&from[at + size..at + 2 * size]);
        at += size + 3;
    }
    expected
}

fn enqueue(rig: Rig, ranges: &[LlaisysCopyRange], stream: Stream, flags: CopyFlags) -> Result<()> {
    // SAFETY: the tests give ranges of live blocks, or such that are refused.
    unsafe { rig.0.memcpy_batch_async(0, ranges, MemcpyKind::D2D, stream, flags) }
}

#[test]
fn every_range_is_copied_exactly_at_once_queued_and_staged() {
    let rig = Rig::with_devices(1);
    let (stream, to, from) = (rig.stream(), rig.device_memory(SIZE, 0), rig.pinned_memory(SIZE, 0));
    let source: Vec<u8> = (0..SIZE).map(|index| (index * 7 + index / 256) as u8).collect();
    source.iter().enumerate().for_each(|(index, byte)| fill(from.wrapping_add(index), 1, *byte));
    for (flags, busy) in [
        (CopyFlags::NONE, false),
        (CopyFlags::NONE, true),
        (CopyFlags::AT_ONCE_IF_IDLE, false),
        (CopyFlags::SOURCE_PAGEABLE, false),
        (CopyFlags::SOURCE_PAGEABLE, true),
        (CopyFlags::DESTINATION_PAGEABLE, false),
    ] {
        fill(to, SIZE, 0xee);
        let gate = busy.then(|| Gate::reached_on(rig, 0, stream));
        enqueue(rig, &ranges(to, from), stream, flags).expect("queued");
        drop(gate);
        rig.wait(0, stream);
        assert!(bytes(to, SIZE) == expected(&[0xee; SIZE], &source), "{flags:?}, busy: {busy}");
    }
}

#[test]
fn a_batch_reads_pinned_memory_in_its_turn_and_pageable_memory_at_the_call() {
    let rig = Rig::with_devices(1);
    let (stream, to, from) = (rig.stream(), rig.device_memory(SIZE, 0), rig.pinned_memory(SIZE, 0));
    let pageable = CopyFlags::SOURCE_PAGEABLE;
    for (flags, seen) in
        [(CopyFlags::NONE, 2), (pageable, 1), (pageable.with(CopyFlags::HOST_BUFFER_PROMISED), 2)]
    {
        fill(from, SIZE, 1);
        fill(to, SIZE, 0);
        let gate = Gate::reached_on(rig, 0, stream);
        // The list itself is read at the call.
        enqueue(rig, &ranges(to, from), stream, flags).expect("queued");
        fill(from, SIZE, 2);
        assert_eq!(bytes(to, SIZE), [0; SIZE]);
        gate.open();
        rig.wait(0, stream);
        assert_eq!(bytes(to, SIZE), expected(&[0; SIZE], &[seen; SIZE]), "{flags:?}");
    }
}

/// Runs a batch in another thread behind a gate, sees that it does not return, opens the gate.
fn returns_only_when_done(rig: Rig, flags: CopyFlags) {
    let (stream, other) = (rig.stream(), rig.stream());
    let gate = Gate::reached_on(rig, 0, stream);
    thread::scope(|scope| {
        let (done, is_done) = mpsc::channel();
        scope.spawn(move || {
            let (mut to, from) = (vec![0u8; SIZE], vec![1u8; SIZE]);
            let ranges = ranges(to.as_mut_ptr(), from.as_ptr());
            enqueue(rig, &ranges, stream, flags).expect("copied");
            done.send(to).expect("the test is there");
        });
        for _ in 0..50 {
            rig.call(0, other, || ());
            rig.wait(0, other);
            assert_eq!(is_done.try_recv(), Err(TryRecvError::Empty), "it returned too early");
        }
        gate.open();
        assert_eq!(is_done.recv().expect("it ran"), expected(&[0; SIZE], &[1; SIZE]));
    });
}

#[test]
fn a_batch_that_may_not_be_left_behind_returns_when_it_is_done() {
    returns_only_when_done(Rig::with_devices(1), CopyFlags::DESTINATION_PAGEABLE);
    // Room for the list and not for the sources; room for neither.
    for staging_bytes in [59 * 24 + 100, 59 * 24 - 1] {
        let small = || Rig::with(Configuration { staging_bytes, ..Configuration::default() });
        returns_only_when_done(small(), CopyFlags::SOURCE_PAGEABLE);
    }
}

#[test]
fn a_queue_full_of_batches_is_back_pressure_and_not_growth() {
    // Room for two lists; the third waits for the stream.
    let staging_bytes = 2 * 59 * 24;
    let rig = Rig::with(Configuration { staging_bytes, ..Configuration::default() });
    let (to, from) = (rig.device_memory(SIZE, 0), rig.pinned_memory(SIZE, 1));
    let stream = rig.stream();
    let gate = Gate::reached_on(rig, 0, stream);
    for _ in 0..2 {
        enqueue(rig, &ranges(to, from), stream, CopyFlags::NONE).expect("queued");
    }
    assert_eq!(bytes(to, SIZE), [0; SIZE]);
    let (result, received) = mpsc::channel();
    let (other, to, from) = (rig.stream(), to as usize, from as usize);
    rig.call(0, other, move || {
        let ranges = ranges(to as *mut u8, from as *const u8);
        let refused = enqueue(rig, &ranges, stream, CopyFlags::NONE).map_err(|e| e.status());
        result.send(refused).expect("the test is there");
    });
    assert_eq!(received.recv().expect("it ran"), Err(Status::NotPermitted));
    thread::scope(|scope| {
        let (done, is_done) = mpsc::channel();
        scope.spawn(move || {
            let ranges = ranges(to as *mut u8, from as *const u8);
            enqueue(rig, &ranges, stream, CopyFlags::NONE).expect("copied");
            done.send(()).expect("the test is there");
        });
        for _ in 0..50 {
            rig.call(0, other, || ());
            rig.wait(0, other);
            assert_eq!(is_done.try_recv(), Err(TryRecvError::Empty), "it was not waited for");
        }
        gate.open();
        is_done.recv().expect("it ran");
    });
    rig.wait(0, stream);
    // All that was taken is there again.
    for _ in 0..100 {
        let gate = Gate::reached_on(rig, 0, stream);
        let ranges = ranges(to as *mut u8, from as *const u8);
        enqueue(rig, &ranges, stream, CopyFlags::NONE).expect("queued");
        enqueue(rig, &ranges, stream, CopyFlags::NONE).expect("queued");
        gate.open();
        rig.wait(0, stream);
    }
}

#[test]
fn a_batch_is_one_piece_of_work_in_the_order_of_its_stream() {
    let rig = Rig::with(Configuration { queue_capacity: 4, ..Configuration::default() });
    let (stream, log) = (rig.stream(), Log::default());
    let (to, from) = (rig.device_memory(SIZE, 0), rig.pinned_memory(SIZE, 1));
    let gate = Gate::reached_on(rig, 0, stream);
    log.note(rig, 0, stream, 1);
    // 60 ranges have room where four pieces of work have.
    enqueue(rig, &ranges(to, from), stream, CopyFlags::NONE).expect("queued");
    log.note(rig, 0, stream, 2);
    gate.open();
    rig.wait(0, stream);
    assert_eq!((log.numbers(), bytes(to, SIZE)[3]), (vec![1, 2], 1));
}

#[test]
fn nothing_to_copy_is_no_error_and_one_null_refuses_the_whole_batch() {
    let rig = Rig::with_devices(1);
    let (stream, to, from) = (rig.stream(), rig.device_memory(8, 0), rig.device_memory(8, 1));
    let stale = Stream(usize::MAX as *mut _);
    let range = |dst: *mut u8, src: *mut u8, size| LlaisysCopyRange {
        dst: dst.cast(),
        src: src.cast(),
        size,
    };
    let nothing = [range(null_mut(), from, 0), range(to, to, 8)];
    for list in [&nothing[..], &[]] {
        enqueue(rig, list, stream, CopyFlags::NONE).expect("nothing to do");
        assert_eq!(failure(enqueue(rig, list, stale, CopyFlags::NONE)), Status::InvalidHandle);
    }
    let wrong = [range(to, from, 4), range(null_mut(), from, 4)];
    assert_eq!(failure(enqueue(rig, &wrong, stream, CopyFlags::NONE)), Status::InvalidValue);
    rig.wait(0, stream);
    assert_eq!(bytes(to, 8), [0; 8]);
}
