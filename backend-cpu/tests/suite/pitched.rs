//! Pitched copies against a loop over bytes, and when they read and write (contract C3, C4).

use crate::gate::Gate;
use crate::rig::{Rig, bytes, failure, fill};
use llaisys_backend_cpu::Configuration;
use llaisys_runtime_core::api::*;
use llaisys_runtime_core::{Result, Status};
use std::sync::mpsc::{self, TryRecvError};
use std::thread;

/// A copy between two blocks of 4096 bytes.
fn copy(dst: *mut u8, src: *const u8, of: [u64; 7]) -> LlaisysCopy3D {
    let [dst_pitch, dst_slice_height, src_pitch, src_slice_height, width, height, depth] = of;
    LlaisysCopy3D {
        struct_size: size_of::<LlaisysCopy3D>() as u32,
        kind: MemcpyKind::D2D as u32,
        dst: dst.cast(),
        dst_pitch,
        dst_slice_height,
        src: src.cast(),
        src_pitch,
        src_slice_height,
        width,
        height,
        depth,
    }
}

fn enqueue(rig: Rig, copy: &LlaisysCopy3D, stream: Stream, flags: CopyFlags) -> Result<()> {
    // SAFETY: the tests give live blocks and shapes that fit into them.
    unsafe { rig.0.memcpy_3d_async(0, copy, stream, flags) }
}

fn expected(copy: &LlaisysCopy3D, mut to: Vec<u8>, from: &[u8]) -> Vec<u8> {
    for z in 0..copy.depth {
        for y in 0..copy.height {
            for x in 0..copy.width {
                let at = |pitch, slice| ((z * slice + y) * pitch + x) as usize;
                to[at(copy.dst_pitch, copy.dst_slice_height)] =
                    from[at(copy.src_pitch, copy.src_slice_height)];
            }
        }
    }
    to
}

const SIZE: usize = 4096;
/// Rows alone, rows with gaps on either side or none, slices with gaps on either side or none.
const SHAPES: [[u64; 7]; 10] = [
    [16, 4, 16, 4, 16, 4, 3],
    [16, 4, 20, 4, 16, 4, 3],
    [20, 4, 16, 5, 16, 4, 3],
    [16, 6, 16, 5, 16, 4, 3],
    [33, 7, 17, 9, 13, 5, 4],
    [64, 0, 48, 0, 40, 9, 1],
    [0, 0, 0, 0, 100, 1, 1],
    [16, 1, 16, 1, 16, 1, 8],
    [1, 40, 2, 20, 1, 20, 5],
    [u64::MAX, u64::MAX, 7, u64::MAX, 7, 1, 1],
];

fn blocks(rig: Rig) -> (*mut u8, *mut u8) {
    let (to, from) = (rig.device_memory(SIZE, 0xee), rig.pinned_memory(SIZE, 0));
    for index in 0..SIZE {
        fill(from.wrapping_add(index), 1, (index * 7 + index / 256) as u8);
    }
    (to, from)
}

#[test]
fn every_shape_copies_exactly_its_rows_at_once_queued_and_staged() {
    let rig = Rig::with_devices(1);
    let (stream, (to, from)) = (rig.stream(), blocks(rig));
    let source = bytes(from, SIZE);
    for of in SHAPES {
        let copy = copy(to, from, of);
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
            enqueue(rig, &copy, stream, flags).expect("queued");
            drop(gate);
            rig.wait(0, stream);
            let expected = expected(&copy, vec![0xee; SIZE], &source);
            assert!(bytes(to, SIZE) == expected, "{of:?} with {flags:?}, busy: {busy}");
        }
    }
}

#[test]
fn columns_of_one_layout_are_copied_beside_each_other() {
    let rig = Rig::with_devices(1);
    let (stream, memory) = (rig.stream(), rig.device_memory(SIZE, 0));
    for row in 0..64 {
        fill(memory.wrapping_add(row * 64), 32, row as u8 + 1);
    }
    let beside = copy(memory.wrapping_add(32), memory, [64, 0, 64, 0, 32, 64, 1]);
    enqueue(rig, &beside, stream, CopyFlags::NONE).expect("queued");
    rig.wait(0, stream);
    let rows: Vec<u8> = (0..SIZE).map(|index| (index / 64) as u8 + 1).collect();
    assert_eq!(bytes(memory, SIZE), rows);
}

#[test]
fn a_pitched_copy_reads_pinned_memory_in_its_turn_and_pageable_memory_at_the_call() {
    let rig = Rig::with_devices(1);
    let (stream, (to, from)) = (rig.stream(), blocks(rig));
    let copy = copy(to, from, [20, 4, 24, 5, 16, 4, 3]);
    let pageable = CopyFlags::SOURCE_PAGEABLE;
    for (flags, seen) in
        [(CopyFlags::NONE, 2), (pageable, 1), (pageable.with(CopyFlags::HOST_BUFFER_PROMISED), 2)]
    {
        fill(from, SIZE, 1);
        fill(to, SIZE, 0);
        let gate = Gate::reached_on(rig, 0, stream);
        enqueue(rig, &copy, stream, flags).expect("queued");
        fill(from, SIZE, 2);
        assert_eq!(bytes(to, SIZE), [0; SIZE]);
        gate.open();
        rig.wait(0, stream);
        assert_eq!(bytes(to, 17), [vec![seen; 16], vec![0]].concat(), "{flags:?}");
    }
}

#[test]
fn a_pitched_copy_that_may_not_be_left_behind_returns_when_it_is_done() {
    let staging_bytes = 16 * 4 * 3 - 1;
    let small = Rig::with(Configuration { staging_bytes, ..Configuration::default() });
    let cases = [
        (Rig::with_devices(1), CopyFlags::DESTINATION_PAGEABLE),
        (small, CopyFlags::SOURCE_PAGEABLE),
    ];
    for (rig, flags) in cases {
        let (stream, other) = (rig.stream(), rig.stream());
        let gate = Gate::reached_on(rig, 0, stream);
        thread::scope(|scope| {
            let (done, is_done) = mpsc::channel();
            scope.spawn(move || {
                let (mut to, from) = (vec![0u8; SIZE], vec![1u8; SIZE]);
                let of = [20, 4, 24, 5, 16, 4, 3];
                let copy = copy(to.as_mut_ptr(), from.as_ptr(), of);
                enqueue(rig, &copy, stream, flags).expect("copied");
                done.send(to[..17].to_vec()).expect("the test is there");
            });
            for _ in 0..50 {
                rig.call(0, other, || ());
                rig.wait(0, other);
                assert_eq!(is_done.try_recv(), Err(TryRecvError::Empty), "too early");
            }
            gate.open();
            assert_eq!(is_done.recv().expect("it ran"), [vec![1; 16], vec![0]].concat());
        });
    }
}

#[test]
fn nothing_to_copy_is_no_error_and_null_is_one() {
    let rig = Rig::with_devices(1);
    let (stream, (to, from)) = (rig.stream(), blocks(rig));
    let null = std::ptr::null_mut::<u8>();
    for [width, height, depth] in [[0, 1, 1], [1, 0, 1], [1, 1, 0]] {
        let nothing = copy(null, null, [1, 1, 1, 1, width, height, depth]);
        enqueue(rig, &nothing, stream, CopyFlags::NONE).expect("nothing to do");
        let stale = Stream(usize::MAX as *mut _);
        let result = enqueue(rig, &nothing, stale, CopyFlags::NONE);
        assert_eq!(failure(result), Status::InvalidHandle);
    }
    for (dst, src) in [(null, from), (to, null)] {
        let result = enqueue(rig, &copy(dst, src, SHAPES[0]), stream, CopyFlags::NONE);
        assert_eq!(failure(result), Status::InvalidValue);
    }
    assert_eq!(bytes(to, SIZE), [0xee; SIZE]);
}
