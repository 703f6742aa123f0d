//! Allocation, free, and what may happen between them (contract M1 to M6, E4).

use crate::gate::Gate;
use crate::rig::{Rig, bytes, eventually, failure, fill};
use llaisys_backend_cpu::Configuration;
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{CopyFlags, RuntimeApi, Stream, read_text};
use std::sync::mpsc;
use std::thread;

const SIZE: usize = 1 << 16;

fn limited(memory_limit: u64) -> Rig {
    let memory_limit = Some(memory_limit);
    Rig::with(Configuration { devices: 2, memory_limit, ..Configuration::default() })
}

fn free_bytes(rig: Rig) -> u64 {
    rig.0.get_memory_info(0).expect("information").free
}

#[test]
fn memory_freed_under_a_pending_copy_is_not_handed_out_and_the_copy_is_intact() {
    for pinned in [false, true] {
        let rig = limited(64 << 20);
        let stream = rig.0.create_stream(1).expect("a stream");
        let to = rig.device_memory(SIZE, 0);
        let from = if pinned { rig.pinned_memory(SIZE, 1) } else { rig.device_memory(SIZE, 1) };
        let gate = Gate::reached_on(rig, 1, stream);
        let kind = llaisys_runtime_core::api::MemcpyKind::D2D;
        // SAFETY: the memory is live; that it is freed too early is what is tested.
        unsafe {
            let flags = CopyFlags::NONE;
            rig.0.memcpy_async(1, to.cast(), from.cast(), SIZE, kind, stream, flags)
        }
        .expect("queued");
        // The work is another device's; the free returns all the same, with the gate closed.
        // SAFETY: freed once.
        let freed = unsafe {
            if pinned { rig.0.free_host(0, from.cast()) } else { rig.0.free_device(0, from.cast()) }
        };
        freed.expect("freed");
        let mut vectors = Vec::new();
        for _ in 0..50 {
            // Ours, and those of the C library, which also must not get it.
            let block = rig.device_memory(SIZE, 9);
            assert_ne!(block, from);
            let vector = vec![9u8; SIZE];
            assert!((vector.as_ptr() as usize).abs_diff(from as usize) >= SIZE);
            vectors.push(vector);
        }
        gate.open();
        rig.wait(1, stream);
        assert_eq!(bytes(to, SIZE), [1; SIZE]);
    }
}

#[test]
fn freed_memory_counts_as_used_until_the_work_is_done_and_not_after() {
    let rig = limited(1 << 20);
    let stream = rig.stream();
    let blocks: Vec<_> = (0..8).map(|_| rig.device_memory(SIZE, 0)).collect();
    let before = free_bytes(rig);
    let gate = Gate::reached_on(rig, 0, stream);
    blocks.into_iter().for_each(|block| rig.free(block));
    assert_eq!(free_bytes(rig), before);
    gate.open();
    rig.wait(0, stream);
    eventually("the memory comes back", || free_bytes(rig) == 1 << 20);
    // With nothing pending it comes back at once.
    let block = rig.device_memory(SIZE, 0);
    assert_eq!(free_bytes(rig), (1 << 20) - SIZE as u64);
    rig.free(block);
    assert_eq!(free_bytes(rig), 1 << 20);
}

#[test]
fn a_free_does_not_wait_for_work_that_came_after_it() {
    let rig = limited(1 << 20);
    let (stream, other) = (rig.stream(), rig.stream());
    let first = Gate::reached_on(rig, 0, stream);
    rig.free(rig.device_memory(SIZE, 0));
    let _second = Gate::reached_on(rig, 0, other);
    let _third = Gate::on(rig, 0, stream);
    first.open();
    eventually("the memory comes back", || free_bytes(rig) == 1 << 20);
}

#[test]
fn when_memory_is_short_an_allocation_waits_for_what_was_freed() {
    let rig = limited(SIZE as u64);
    let stream = rig.stream();
    let block = rig.device_memory(SIZE, 0);
    let gate = Gate::reached_on(rig, 0, stream);
    rig.free(block);
    // What would not fit even then does not wait.
    assert_eq!(failure(rig.0.malloc_device(0, SIZE + 1)), Status::OutOfMemory);
    assert_eq!(failure(rig.0.malloc_device(0, usize::MAX)), Status::OutOfMemory);
    thread::scope(|scope| {
        let (got, has_got) = mpsc::channel();
        scope.spawn(move || {
            let block = rig.0.malloc_device(0, SIZE).expect("memory") as usize;
            got.send(block).expect("the test is there");
        });
        gate.open();
        rig.free(has_got.recv().expect("memory") as *mut u8);
    });
    assert_eq!(free_bytes(rig), SIZE as u64);
}

#[test]
fn an_allocation_in_a_host_function_that_would_have_to_wait_is_an_error() {
    let rig = limited(SIZE as u64);
    let stream = rig.stream();
    let (result, received) = mpsc::channel();
    let block = rig.device_memory(SIZE, 0);
    let gate = Gate::reached_on(rig, 0, stream);
    rig.call(0, stream, move || {
        let status = rig.0.malloc_device(0, SIZE).expect_err("must fail").status();
        result.send(status).expect("the test is there");
    });
    rig.free(block);
    gate.open();
    assert_eq!(received.recv().expect("it ran"), Status::NotPermitted);
}

#[test]
fn out_of_memory_says_what_was_asked_and_what_there_is_and_a_smaller_request_works() {
    let rig = limited(1 << 20);
    let block = rig.device_memory(1 << 19, 0);
    let error = rig.0.malloc_device(1, (1 << 19) + 1).expect_err("the limit is shared");
    assert_eq!(error.status(), Status::OutOfMemory);
    for number in ["524289 bytes requested", "524288 free", "of 1048576"] {
        assert!(error.message().contains(number), "{error}");
    }
    let rest = rig.device_memory(1 << 19, 0);
    assert_eq!(failure(rig.0.malloc_device(0, 1)), Status::OutOfMemory);
    rig.free(rest);
    rig.free(block);
    assert_eq!(free_bytes(rig), 1 << 20);
}

#[test]
fn absurd_sizes_are_out_of_memory_and_do_not_wrap() {
    let rig = Rig::with_devices(1);
    for size in [usize::MAX, usize::MAX - 255, usize::MAX - 4095, 1 << 63, 1 << 60] {
        assert_eq!(failure(rig.0.malloc_device(0, size)), Status::OutOfMemory);
        assert_eq!(failure(rig.0.malloc_host(0, size)), Status::OutOfMemory);
    }
    let information = rig.0.get_memory_info(0).expect("information");
    assert!(information.free <= information.total && information.total < 1 << 60);
}

#[test]
fn eight_threads_that_fill_the_memory_get_all_of_it_and_no_more() {
    const BLOCKS: usize = 64;
    let rig = limited((BLOCKS * SIZE) as u64);
    for _ in 0..20 {
        let blocks: Vec<usize> = thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(move || {
                        let more = || rig.0.malloc_device(0, SIZE).ok().map(|block| block as usize);
                        std::iter::from_fn(more).collect::<Vec<_>>()
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
        });
        assert_eq!(blocks.len(), BLOCKS);
        blocks.into_iter().for_each(|block| rig.free(block as *mut u8));
    }
}

#[test]
fn wrong_frees_are_errors_and_change_nothing() {
    let rig = Rig::with_devices(2);
    let block = rig.device_memory(64, 5);
    let pinned = rig.pinned_memory(64, 6);
    let mut local = [0u8; 64];
    // SAFETY: pointers to free are looked up only, which is what is tested.
    unsafe {
        let api = rig.0;
        for wrong in [block.wrapping_add(16), local.as_mut_ptr(), 8 as *mut u8, pinned] {
            assert_eq!(failure(api.free_device(0, wrong.cast())), Status::InvalidValue);
        }
        assert_eq!(failure(api.free_device(1, block.cast())), Status::InvalidValue);
        assert_eq!(failure(api.free_host(0, block.cast())), Status::InvalidValue);
        assert_eq!((bytes(block, 64), bytes(pinned, 64)), (vec![5; 64], vec![6; 64]));
        api.free_device(0, block.cast()).expect("freed");
        assert_eq!(failure(api.free_device(0, block.cast())), Status::InvalidValue);
        api.free_host(1, pinned.cast()).expect("pinned memory is every device's");
        api.free_device(0, std::ptr::null_mut()).expect("nothing to do");
        api.free_host(0, std::ptr::null_mut()).expect("nothing to do");
    }
    assert!(rig.0.malloc_device(0, 0).expect("nothing to do").is_null());
}

#[test]
fn a_double_free_is_found_while_the_memory_waits_for_its_stream() {
    let rig = Rig::with_devices(1);
    let block = rig.device_memory(64, 5);
    let _gate = Gate::reached_on(rig, 0, Stream::DEFAULT);
    rig.free(block);
    // SAFETY: looked up only.
    let again = unsafe { rig.0.free_device(0, block.cast()) };
    assert_eq!(failure(again), Status::InvalidValue);
}

#[test]
fn every_block_is_aligned_and_large_ones_to_a_huge_page() {
    let rig = Rig::with_devices(1);
    for size in (1..=1025).chain([2 << 20, (2 << 20) + 1, 5 << 20]) {
        let (device, pinned) = (rig.device_memory(size, 1), rig.pinned_memory(size, 1));
        let large = size >= 2 << 20;
        assert_eq!(device as usize % if large { 2 << 20 } else { 256 }, 0);
        assert_eq!(pinned as usize % if large { 2 << 20 } else { 64 }, 0);
        fill(device, size, 2);
        rig.free(device);
        // SAFETY: freed once.
        unsafe { rig.0.free_host(0, pinned.cast()) }.expect("freed");
    }
}

#[test]
fn the_properties_name_a_processor_and_the_memory_that_may_be_used() {
    let rig = limited(1 << 20);
    let properties = rig.0.get_device_properties(1).expect("properties");
    assert!(read_text(&properties.name).ends_with("(virtual device 1 of 2)"));
    assert!(!read_text(&properties.vendor).is_empty());
    assert!(properties.processor_count >= 1);
    assert_eq!(properties.total_memory, 1 << 20);
}
