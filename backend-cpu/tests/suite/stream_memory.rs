//! Memory that comes and goes in the order of a stream (contract M7).

use crate::gate::Gate;
use crate::rig::{Rig, bytes, eventually, failure};
use llaisys_backend_cpu::Configuration;
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{CopyFlags, RuntimeApi, Stream};
use std::thread;

const SIZE: usize = 1 << 16;
const ALL: u64 = 1 << 20;

fn limited() -> Rig {
    Rig::with(Configuration { devices: 2, memory_limit: Some(ALL), ..Configuration::default() })
}

fn free_bytes(rig: Rig) -> u64 {
    rig.0.get_memory_info(0).expect("information").free
}

fn allocate(rig: Rig, stream: Stream) -> *mut u8 {
    // SAFETY: stale handles are looked up only.
    unsafe { rig.0.malloc_async(0, SIZE, stream) }.expect("memory").cast()
}

#[test]
fn memory_allocated_behind_pending_work_can_be_used_by_the_stream_and_by_the_host() {
    let rig = limited();
    for stream in [rig.stream(), rig.non_blocking_stream(), Stream::DEFAULT] {
        let gate = Gate::reached_on(rig, 0, stream);
        let block = allocate(rig, stream);
        assert_eq!(block as usize % 256, 0);
        rig.fill_on(block, 3, SIZE, stream);
        gate.open();
        rig.wait(0, stream);
        assert_eq!(bytes(block, SIZE), [3; SIZE]);
        rig.free_on(block, stream);
        assert_eq!(free_bytes(rig), ALL);
    }
}

#[test]
fn a_free_in_order_waits_for_its_stream_and_for_no_other() {
    for is_blocking in [true, false] {
        let rig = limited();
        let stream = if is_blocking { rig.stream() } else { rig.non_blocking_stream() };
        let other = rig.stream();
        let _held = Gate::reached_on(rig, 0, other);
        let (block, to) = (allocate(rig, stream), rig.pinned_memory(SIZE, 0));
        let gate = Gate::reached_on(rig, 0, stream);
        rig.fill_on(block, 5, SIZE, stream);
        rig.copy(to, block, SIZE, stream, CopyFlags::NONE).expect("queued");
        rig.free_on(block, stream);
        assert_eq!(free_bytes(rig), ALL - SIZE as u64);
        for _ in 0..8 {
            assert_ne!(rig.device_memory(SIZE, 9), block, "handed out too early");
        }
        gate.open();
        rig.wait(0, stream);
        assert_eq!(bytes(to, SIZE), [5; SIZE]);
        eventually("the memory comes back", || free_bytes(rig) == ALL - 8 * SIZE as u64);
        // On an idle stream it comes back at once, though the other one is busy.
        let block = allocate(rig, stream);
        rig.free_on(block, stream);
        assert_eq!(free_bytes(rig), ALL - 8 * SIZE as u64);
    }
}

#[test]
fn a_free_in_order_of_an_idle_blocking_stream_waits_for_the_default_stream() {
    let rig = limited();
    let (stream, exempt) = (rig.stream(), rig.non_blocking_stream());
    let [block, exempt_block] = [stream, exempt].map(|stream| allocate(rig, stream));
    let gate = Gate::reached_on(rig, 0, Stream::DEFAULT);
    rig.free_on(block, stream);
    rig.free_on(exempt_block, exempt);
    assert_eq!(free_bytes(rig), ALL - SIZE as u64);
    assert!(rig.is_idle(stream), "a free is no work");
    gate.open();
    eventually("the memory comes back", || free_bytes(rig) == ALL);
}

#[test]
fn a_free_in_order_of_the_default_stream_waits_for_every_blocking_stream() {
    let rig = limited();
    let (stream, exempt) = (rig.stream(), rig.non_blocking_stream());
    let block = allocate(rig, Stream::DEFAULT);
    let gate = Gate::reached_on(rig, 0, stream);
    let _exempt = Gate::reached_on(rig, 0, exempt);
    rig.free_on(block, Stream::DEFAULT);
    assert_eq!(free_bytes(rig), ALL - SIZE as u64);
    gate.open();
    eventually("the memory comes back", || free_bytes(rig) == ALL);
}

#[test]
fn a_free_that_waits_for_long_does_not_hold_up_those_of_other_streams() {
    let rig = limited();
    let streams = [(); 4].map(|()| rig.stream());
    let gates = streams.map(|stream| Gate::reached_on(rig, 0, stream));
    rig.free(rig.device_memory(SIZE, 0));
    for stream in streams {
        rig.free_on(allocate(rig, stream), stream);
    }
    assert_eq!(free_bytes(rig), ALL - 5 * SIZE as u64);
    for (opened, gate) in [2usize, 0, 3].into_iter().enumerate() {
        gates[gate].open();
        let waiting = (4 - opened) * SIZE;
        eventually("the memory comes back", || free_bytes(rig) == ALL - waiting as u64);
    }
    gates[1].open();
    eventually("the memory comes back", || free_bytes(rig) == ALL);
}

#[test]
fn when_memory_is_short_whichever_stream_passes_first_gives_what_is_needed() {
    let rig = limited();
    let (slow, quick) = (rig.stream(), rig.stream());
    let half = ALL as usize / 2;
    let blocks = [(); 2].map(|()| rig.device_memory(half, 0));
    let _slow_gate = Gate::reached_on(rig, 0, slow);
    let quick_gate = Gate::reached_on(rig, 0, quick);
    rig.free_on(blocks[0], slow);
    rig.free_on(blocks[1], quick);
    thread::scope(|scope| {
        let allocating = scope.spawn(move || {
            let block = rig.0.malloc_device(0, half).expect("memory");
            rig.free_on(block.cast(), quick);
        });
        quick_gate.open();
        allocating.join().expect("no panic");
    });
    eventually("one half is back", || free_bytes(rig) == ALL / 2);
}

#[test]
fn what_is_held_counts_what_waits_and_only_that_of_the_device() {
    let rig = limited();
    let held = |device| rig.0.get_reserved_memory(device).expect("a number");
    let (stream, block, pinned) =
        (rig.stream(), rig.device_memory(SIZE, 0), rig.pinned_memory(SIZE, 0));
    let managed = rig.0.malloc_managed(1, 100).expect("memory");
    assert_eq!((held(0), held(1)), (SIZE as u64, 100));
    let gate = Gate::reached_on(rig, 0, stream);
    rig.free_on(block, stream);
    rig.0.trim_memory(0, 0).expect("trimmed");
    assert_eq!((held(0), held(1)), (SIZE as u64, 100));
    gate.open();
    eventually("the memory comes back", || held(0) == 0);
    rig.0.trim_memory(0, u64::MAX).expect("trimmed");
    // SAFETY: freed once.
    unsafe {
        rig.0.free_managed(1, managed).expect("freed");
        rig.0.free_host(0, pinned.cast()).expect("freed");
    }
    assert_eq!(held(1), 0);
    assert_eq!(failure(rig.0.get_reserved_memory(2)), Status::InvalidDevice);
    assert_eq!(failure(rig.0.trim_memory(-1, 0)), Status::InvalidDevice);
}

#[test]
fn wrong_frees_in_order_are_errors_and_change_nothing() {
    let rig = limited();
    let (stream, block, pinned) =
        (rig.stream(), rig.device_memory(SIZE, 5), rig.pinned_memory(64, 6));
    let stale = Stream(usize::MAX as *mut _);
    let elsewhere = rig.0.create_stream(1).expect("a stream");
    // SAFETY: pointers and handles are looked up only, which is what is tested.
    unsafe {
        let api = rig.0;
        for wrong in [block.wrapping_add(16), 8 as *mut u8, pinned] {
            assert_eq!(failure(api.free_async(0, wrong.cast(), stream)), Status::InvalidValue);
        }
        assert_eq!(failure(api.free_async(1, block.cast(), elsewhere)), Status::InvalidValue);
        for wrong in [stale, elsewhere] {
            assert_eq!(failure(api.free_async(0, block.cast(), wrong)), Status::InvalidHandle);
            assert_eq!(failure(api.malloc_async(0, 1, wrong)), Status::InvalidHandle);
        }
        assert_eq!(bytes(block, SIZE), [5; SIZE]);
        api.free_async(0, std::ptr::null_mut(), stream).expect("nothing to do");
        assert!(api.malloc_async(0, 0, stream).expect("nothing to do").is_null());
        let _gate = Gate::reached_on(rig, 0, stream);
        rig.free_on(block, stream);
        assert_eq!(failure(api.free_async(0, block.cast(), stream)), Status::InvalidValue);
        let absurd = api.malloc_async(0, usize::MAX, stream);
        assert_eq!(failure(absurd), Status::OutOfMemory);
    }
}
