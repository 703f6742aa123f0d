//! Managed memory, which on a CPU is memory.

use crate::gate::Gate;
use crate::rig::{Rig, bytes, eventually, failure, fill};
use llaisys_backend_cpu::Configuration;
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{LOCATION_HOST, MemoryAdvice, RuntimeApi, Stream};

const SIZE: usize = 1 << 16;
const ALL: u64 = 1 << 20;

fn limited() -> Rig {
    Rig::with(Configuration { devices: 2, memory_limit: Some(ALL), ..Configuration::default() })
}

#[test]
fn managed_memory_is_written_by_a_stream_and_read_by_the_host() {
    let rig = limited();
    let memory = rig.0.malloc_managed(1, SIZE).expect("memory").cast::<u8>();
    assert_eq!(memory as usize % 256, 0);
    fill(memory, SIZE, 1);
    let stream = rig.stream();
    rig.fill_on(memory, 2, SIZE / 2, stream);
    rig.wait(0, stream);
    assert_eq!(bytes(memory, SIZE), [[2; SIZE / 2], [1; SIZE / 2]].concat());
    // SAFETY: freed once.
    unsafe { rig.0.free_managed(1, memory.cast()) }.expect("freed");
    assert_eq!(rig.0.get_memory_info(0).expect("information").free, ALL);
}

#[test]
fn a_prefetch_and_an_advice_change_nothing_but_are_checked() {
    let rig = limited();
    let stream = rig.stream();
    let memory = rig.0.malloc_managed(0, SIZE).expect("memory");
    let device = rig.0.malloc_device(0, SIZE).expect("memory");
    fill(memory.cast(), SIZE, 7);
    let prefetch = |pointer, size, location, stream| {
        // SAFETY: all of it is looked up, which is what is tested.
        unsafe { rig.0.prefetch_managed(0, pointer, size, location, stream) }
    };
    let advise = |pointer, size, location| {
        let advice = MemoryAdvice::SetPreferredLocation;
        // SAFETY: as above.
        unsafe { rig.0.advise_managed(0, pointer, size, advice, location) }
    };
    let _gate = Gate::reached_on(rig, 0, stream);
    for location in [LOCATION_HOST, 0, 1] {
        for (offset, size) in [(0, SIZE), (1, SIZE - 1), (4095, 2), (SIZE - 1, 1)] {
            let part = memory.wrapping_byte_add(offset);
            prefetch(part, size, location, stream).expect("nothing is wrong");
            prefetch(part, size, location, Stream::DEFAULT).expect("nothing is wrong");
            advise(part, size, location).expect("nothing is wrong");
        }
    }
    assert_eq!(bytes(memory.cast(), SIZE), [7; SIZE]);
    for (pointer, size) in
        [(memory, SIZE + 1), (memory.wrapping_byte_add(1), SIZE), (device, 1), (8 as *mut _, 1)]
    {
        assert_eq!(failure(prefetch(pointer, size, 0, stream)), Status::InvalidValue);
        assert_eq!(failure(advise(pointer, size, 0)), Status::InvalidValue);
    }
    assert_eq!(failure(prefetch(memory, SIZE, 2, stream)), Status::InvalidDevice);
    assert_eq!(failure(advise(memory, SIZE, -2)), Status::InvalidDevice);
    let stale = Stream(usize::MAX as *mut _);
    assert_eq!(failure(prefetch(memory, SIZE, 0, stale)), Status::InvalidHandle);
}

#[test]
fn managed_memory_is_freed_as_such_only_and_not_under_pending_work() {
    let rig = limited();
    let (memory, device) =
        (rig.0.malloc_managed(1, SIZE).expect("memory"), rig.0.malloc_device(0, SIZE));
    let device = device.expect("memory");
    // SAFETY: pointers to free are looked up only, which is what is tested.
    unsafe {
        assert_eq!(failure(rig.0.free_device(1, memory)), Status::InvalidValue);
        assert_eq!(failure(rig.0.free_host(1, memory)), Status::InvalidValue);
        assert_eq!(failure(rig.0.free_async(1, memory, Stream::DEFAULT)), Status::InvalidValue);
        assert_eq!(failure(rig.0.free_managed(0, device)), Status::InvalidValue);
        let stream = rig.stream();
        let gate = Gate::reached_on(rig, 0, stream);
        rig.0.free_managed(1, memory).expect("freed");
        assert_eq!(failure(rig.0.free_managed(1, memory)), Status::InvalidValue);
        assert_eq!(rig.0.get_memory_info(1).expect("information").free, ALL - 2 * SIZE as u64);
        gate.open();
    }
    let free = || rig.0.get_memory_info(1).expect("information").free;
    eventually("the memory comes back", || free() == ALL - SIZE as u64);
    let absurd = rig.0.malloc_managed(1, usize::MAX).expect_err("must fail");
    assert_eq!(absurd.status(), Status::OutOfMemory);
    assert!(absurd.message().contains("managed memory on CPU device 1"), "{absurd}");
    assert!(rig.0.malloc_managed(0, 0).expect("nothing to do").is_null());
}
