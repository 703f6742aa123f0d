//! Fills with patterns of every size.

use crate::gate::Gate;
use crate::rig::{Rig, bytes, failure};
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{CopyFlags, Pattern, RuntimeApi, Stream};

const SIZE: usize = 4096;

#[test]
fn a_fill_runs_in_order_and_not_when_it_is_called() {
    let rig = Rig::with_devices(1);
    for stream in [rig.stream(), rig.non_blocking_stream(), Stream::DEFAULT] {
        let (memory, copy) = (rig.device_memory(SIZE, 0), rig.pinned_memory(SIZE, 0));
        let gate = Gate::reached_on(rig, 0, stream);
        rig.fill_on(memory, 1, SIZE, stream);
        rig.copy(copy, memory, SIZE, stream, CopyFlags::NONE).expect("queued");
        rig.fill_on(memory, 2, SIZE, stream);
        assert_eq!(bytes(memory, SIZE), [0; SIZE]);
        gate.open();
        rig.wait(0, stream);
        assert_eq!((bytes(copy, SIZE), bytes(memory, SIZE)), (vec![1; SIZE], vec![2; SIZE]));
    }
}

#[test]
fn patterns_of_every_size_fill_exactly_the_range_asked_for() {
    let rig = Rig::with_devices(1);
    let stream = rig.stream();
    for unit in [1usize, 2, 4, 8, 16] {
        let pattern: Vec<u8> = (1..=unit as u8).collect();
        for size in [unit, 2 * unit, 48, 64 + unit, SIZE] {
            let (memory, at) = (rig.device_memory(SIZE + 64, 0xee), 16 + unit);
            let dst = memory.wrapping_add(at).cast();
            let given = Pattern::new(&pattern).expect("a pattern");
            // SAFETY: inside the block, which is live.
            unsafe { rig.0.memset_async(0, dst, given, size, stream) }.expect("queued");
            rig.wait(0, stream);
            let mut expected = vec![0xee; SIZE + 64];
            for (index, byte) in expected[at..at + size].iter_mut().enumerate() {
                *byte = pattern[index % unit];
            }
            assert_eq!(bytes(memory, SIZE + 64), expected, "{size} bytes by {unit}");
            rig.free(memory);
        }
    }
}

#[test]
fn nothing_to_fill_is_no_error_and_null_is_one() {
    let rig = Rig::with_devices(1);
    let (stream, memory) = (rig.stream(), rig.device_memory(8, 1));
    let pattern = Pattern::new(&[9]).expect("a pattern");
    let fill = |dst: *mut u8, size, stream| {
        // SAFETY: live memory, or memory that is refused.
        unsafe { rig.0.memset_async(0, dst.cast(), pattern, size, stream) }
    };
    fill(std::ptr::null_mut(), 0, stream).expect("nothing to do");
    assert_eq!(failure(fill(std::ptr::null_mut(), 1, stream)), Status::InvalidValue);
    let stale = Stream(usize::MAX as *mut _);
    assert_eq!(failure(fill(memory, 0, stale)), Status::InvalidHandle);
    assert_eq!(failure(fill(memory, 8, stale)), Status::InvalidHandle);
    assert_eq!(bytes(memory, 8), [1; 8]);
}
