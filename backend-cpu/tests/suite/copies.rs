//! When a copy reads, when it writes, and when it returns (contract C2 to C5, S8).

use crate::gate::Gate;
use crate::rig::{Rig, bytes, failure, fill};
use llaisys_backend_cpu::Configuration;
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{CopyFlags, MemcpyKind, RuntimeApi, Stream};
use std::ptr::{null, null_mut};
use std::sync::mpsc::{self, TryRecvError};
use std::thread;

const SIZE: usize = 4096;

#[test]
fn a_pinned_copy_behind_pending_work_reads_when_its_turn_comes() {
    let rig = Rig::with_devices(1);
    let (stream, from, to) = (rig.stream(), rig.pinned_memory(SIZE, 1), rig.device_memory(SIZE, 0));
    for flags in [CopyFlags::NONE, CopyFlags::AT_ONCE_IF_IDLE] {
        fill(from, SIZE, 1);
        fill(to, SIZE, 0);
        let gate = Gate::reached_on(rig, 0, stream);
        rig.copy(to, from, SIZE, stream, flags).expect("queued");
        assert_eq!(bytes(to, SIZE), [0; SIZE]);
        fill(from, SIZE, 2);
        gate.open();
        rig.wait(0, stream);
        assert_eq!(bytes(to, SIZE), [2; SIZE]);
    }
}

#[test]
fn a_local_vector_may_go_as_soon_as_the_copy_from_it_was_queued() {
    let rig = Rig::with_devices(1);
    let (stream, to) = (rig.stream(), rig.device_memory(SIZE, 0));
    let gate = Gate::reached_on(rig, 0, stream);
    let mut local = vec![1u8; SIZE];
    rig.copy(to, local.as_ptr(), SIZE, stream, CopyFlags::SOURCE_PAGEABLE).expect("queued");
    local.fill(9);
    drop(local);
    assert_eq!(bytes(to, SIZE), [0; SIZE], "it must not run before its turn");
    gate.open();
    rig.wait(0, stream);
    assert_eq!(bytes(to, SIZE), [1; SIZE]);
}

#[test]
fn a_promised_buffer_is_not_staged() {
    let rig = Rig::with_devices(1);
    let (stream, to) = (rig.stream(), rig.device_memory(SIZE, 0));
    let gate = Gate::reached_on(rig, 0, stream);
    let mut local = vec![1u8; SIZE];
    let flags = CopyFlags::SOURCE_PAGEABLE
        .with(CopyFlags::DESTINATION_PAGEABLE)
        .with(CopyFlags::HOST_BUFFER_PROMISED);
    let from = local.as_mut_ptr();
    rig.copy(to, from, SIZE, stream, flags).expect("queued, without waiting");
    fill(from, SIZE, 2);
    gate.open();
    rig.wait(0, stream);
    assert_eq!(bytes(to, SIZE), [2; SIZE]);
}

/// Runs a copy in another thread behind a gate, sees that it does not return, opens the gate.
fn returns_only_when_done(rig: Rig, flags: CopyFlags) {
    let (stream, other) = (rig.stream(), rig.stream());
    let gate = Gate::reached_on(rig, 0, stream);
    thread::scope(|scope| {
        let (done, is_done) = mpsc::channel();
        scope.spawn(move || {
            let (mut to, from) = (vec![0u8; SIZE], vec![1u8; SIZE]);
            rig.copy(to.as_mut_ptr(), from.as_ptr(), SIZE, stream, flags).expect("copied");
            done.send(to).expect("the test is there");
        });
        for _ in 0..100 {
            rig.call(0, other, || ());
            rig.wait(0, other);
            assert_eq!(is_done.try_recv(), Err(TryRecvError::Empty), "it returned too early");
        }
        gate.open();
        assert_eq!(is_done.recv().expect("the copy ran"), [1; SIZE]);
    });
}

#[test]
fn a_copy_into_pageable_memory_returns_when_the_data_is_there() {
    let rig = Rig::with_devices(1);
    returns_only_when_done(rig, CopyFlags::DESTINATION_PAGEABLE);
    let both = CopyFlags::DESTINATION_PAGEABLE.with(CopyFlags::SOURCE_PAGEABLE);
    returns_only_when_done(rig, both);
}

#[test]
fn above_the_bound_a_pageable_source_is_waited_for_and_not_staged() {
    let staging_bytes = SIZE - 1;
    let rig = Rig::with(Configuration { staging_bytes, ..Configuration::default() });
    returns_only_when_done(rig, CopyFlags::SOURCE_PAGEABLE);
}

#[test]
fn staged_bytes_are_given_back() {
    let rig = Rig::with(Configuration { staging_bytes: SIZE, ..Configuration::default() });
    let (stream, to) = (rig.stream(), rig.device_memory(SIZE, 0));
    for round in 0..100 {
        let gate = Gate::reached_on(rig, 0, stream);
        let local = vec![round; SIZE];
        rig.copy(to, local.as_ptr(), SIZE, stream, CopyFlags::SOURCE_PAGEABLE).expect("queued");
        gate.open();
        rig.wait(0, stream);
        assert_eq!(bytes(to, SIZE), [round; SIZE]);
    }
}

#[test]
fn with_nothing_pending_a_copy_of_the_twelve_function_table_is_complete_on_return() {
    let rig = Rig::with_devices(1);
    let (from, to) = (rig.pinned_memory(SIZE, 0), rig.device_memory(SIZE, 0));
    for stream in [rig.stream(), Stream::DEFAULT] {
        for round in 1..=200 {
            fill(from, SIZE, round);
            rig.copy(to, from, SIZE, stream, CopyFlags::AT_ONCE_IF_IDLE).expect("copied");
            assert_eq!(bytes(to, SIZE), [round; SIZE]);
        }
    }
}

#[test]
fn at_once_is_not_at_once_when_the_default_stream_or_a_stream_before_it_is_busy() {
    let rig = Rig::with_devices(1);
    let stream = rig.stream();
    let (from, to) = (rig.pinned_memory(SIZE, 1), rig.device_memory(SIZE, 0));
    for (busy, copying) in [(Stream::DEFAULT, stream), (stream, Stream::DEFAULT)] {
        fill(to, SIZE, 0);
        let gate = Gate::reached_on(rig, 0, busy);
        rig.copy(to, from, SIZE, copying, CopyFlags::AT_ONCE_IF_IDLE).expect("queued");
        assert_eq!(bytes(to, SIZE), [0; SIZE]);
        gate.open();
        rig.wait(0, copying);
        assert_eq!(bytes(to, SIZE), [1; SIZE]);
    }
    // Another stream's work is nothing to wait for.
    let other = rig.stream();
    let _gate = Gate::reached_on(rig, 0, other);
    fill(from, SIZE, 7);
    rig.copy(to, from, SIZE, stream, CopyFlags::AT_ONCE_IF_IDLE).expect("copied");
    assert_eq!(bytes(to, SIZE), [7; SIZE]);
}

#[test]
fn a_synchronous_copy_comes_after_earlier_work_on_blocking_streams() {
    let rig = Rig::with_devices(1);
    let (from, middle) = (rig.pinned_memory(SIZE, 1), rig.device_memory(SIZE, 0));
    for stream in [rig.stream(), Stream::DEFAULT] {
        fill(middle, SIZE, 0);
        let gate = Gate::reached_on(rig, 0, stream);
        rig.copy(middle, from, SIZE, stream, CopyFlags::NONE).expect("queued");
        thread::scope(|scope| {
            let middle = middle as usize;
            let copy = scope.spawn(move || {
                let mut local = vec![0u8; SIZE];
                rig.copy_now(local.as_mut_ptr(), middle as *const u8, SIZE);
                local
            });
            gate.open();
            assert_eq!(copy.join().expect("no panic"), [1; SIZE]);
        });
    }
}

#[test]
fn nothing_to_copy_is_no_error_and_null_is_one() {
    let rig = Rig::with_devices(1);
    let (stream, memory) = (rig.stream(), rig.device_memory(8, 1));
    let garbage = 0x1234 as *mut u8;
    rig.copy(null_mut(), null(), 0, stream, CopyFlags::NONE).expect("nothing to do");
    rig.copy(garbage, garbage.wrapping_add(9), 0, stream, CopyFlags::NONE).expect("nothing to do");
    rig.copy(memory, memory, 8, stream, CopyFlags::NONE).expect("nothing to do");
    rig.copy_now(null_mut(), null(), 0);
    for (dst, src) in [(null_mut(), memory.cast_const()), (memory, null())] {
        let result = rig.copy(dst, src, 8, stream, CopyFlags::NONE);
        assert_eq!(failure(result), Status::InvalidValue);
    }
    let stale = Stream(usize::MAX as *mut _);
    assert_eq!(failure(rig.copy(memory, null(), 0, stale, CopyFlags::NONE)), Status::InvalidHandle);
    assert_eq!(bytes(memory, 8), [1; 8]);
}

#[test]
fn any_alignment_and_any_size_copies_exactly_the_range_asked_for() {
    let rig = Rig::with_devices(1);
    let (stream, from, to) = (rig.stream(), rig.device_memory(256, 0), rig.device_memory(256, 0));
    for byte in 0..=255u8 {
        fill(from.wrapping_add(usize::from(byte)), 1, byte);
    }
    for size in 1..=65 {
        for (at, offset) in [(0, 1), (1, 3), (3, 7), (7, 0)] {
            fill(to, 256, 0xee);
            let (dst, src) = (to.wrapping_add(at), from.wrapping_add(offset));
            rig.copy(dst, src, size, stream, CopyFlags::NONE).expect("queued");
            rig.wait(0, stream);
            let mut expected = vec![0xee; 256];
            expected[at..at + size].copy_from_slice(&bytes(src, size));
            assert_eq!(bytes(to, 256), expected, "size {size} from {offset} to {at}");
        }
    }
}

#[test]
fn a_copy_between_two_devices_works_on_a_stream_of_either() {
    let rig = Rig::with_devices(2);
    let pointers =
        [0, 1].map(|device| rig.0.malloc_device(device, SIZE).expect("memory").cast::<u8>());
    for device in [0, 1] {
        fill(pointers[0], SIZE, 3 + device as u8);
        let stream = rig.0.create_stream(device).expect("a stream");
        let (dst, src) = (pointers[1].cast(), pointers[0].cast());
        let kind = MemcpyKind::D2D;
        // SAFETY: both blocks are live and the stream is the device's.
        unsafe { rig.0.memcpy_async(device, dst, src, SIZE, kind, stream, CopyFlags::NONE) }
            .expect("queued");
        rig.wait(device, stream);
        assert_eq!(bytes(pointers[1], SIZE), [3 + device as u8; SIZE]);
    }
}
