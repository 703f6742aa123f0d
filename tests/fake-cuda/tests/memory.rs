//! Stories about memory that a runtime gets wrong on a real device.

mod support;

use support::asker::pageable;
use support::{Driver, Gate, Word, bytes, count};

fn status_of(body: impl FnOnce()) -> i32 {
    // SAFETY: the child does the one thing that it is for and leaves by _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        body();
        support::asker::leave();
    }
    let mut status = 0;
    // SAFETY: the child is ours and the status is a local.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    status
}

stories! {
    host_that_reads_device_memory_crashes [] |d: &Driver| {
        d.primary();
        let pointer = d.make("cuMemAlloc_v2", &[4096]);
        let status = status_of(|| {
            // SAFETY: none: that this read ends the process is what is tested.
            unsafe { std::ptr::read_volatile(pointer as *const u8) };
        });
        assert_eq!(status & 0x7f, libc::SIGSEGV);
    };

    fresh_memory_is_full_of_garbage_and_never_of_zeros [] |d: &Driver| {
        d.primary();
        let host = pageable(3 << 20);
        for size in [1usize, 4096, 1 << 20, 3 << 20] {
            let pointer = d.make("cuMemAlloc_v2", &[size]);
            d.must("cuMemsetD8_v2", &[pointer, 0, size]);
            d.must("cuMemFree_v2", &[pointer]);
            let pointer = d.make("cuMemAlloc_v2", &[size]);
            d.must("cuMemcpyDtoH_v2", &[host, pointer, size]);
            assert!(bytes(host, size).iter().all(|byte| *byte == 0xcd), "{size}");
        }
    };

    full_device_says_so_and_a_smaller_request_works ["FAKE_CUDA_DEVICE_MEMORY" = "256m"] |d: &Driver| {
        d.primary();
        let mut w = Word::default();
        let mut held = Vec::new();
        while d.call("cuMemAlloc_v2", &[w.at(), 64 << 20]) == 0 {
            held.push(w.get());
        }
        assert_eq!((held.len(), d.call("cuMemAlloc_v2", &[w.at(), 1])), (4, 2));
        d.must("cuMemFree_v2", &[held[1]]);
        assert_eq!(d.call("cuMemAlloc_v2", &[w.at(), 64 << 20]), 0);
    };

    sizes_that_wrap_are_out_of_memory_and_change_nothing [] |d: &Driver| {
        d.primary();
        let (mut free, mut after, mut w) = (Word::default(), Word::default(), Word::default());
        d.must("cuMemGetInfo_v2", &[free.at(), w.at()]);
        for size in [1usize << 63, usize::MAX, usize::MAX - 255, usize::MAX - 511] {
            assert_eq!(d.call("cuMemAlloc_v2", &[w.at(), size]), 2);
        }
        d.must("cuMemGetInfo_v2", &[after.at(), w.at()]);
        assert_eq!(free.get(), after.get());
    };

    a_device_of_gigabytes_costs_only_what_is_written ["FAKE_CUDA_DEVICE_MEMORY" = "140g"] |d: &Driver| {
        d.primary();
        let pointer = d.make("cuMemAlloc_v2", &[120 << 30]);
        d.must("cuMemsetD8_v2", &[pointer + (119 << 30), 7, 4096]);
        let host = pageable(4096);
        d.must("cuMemcpyDtoH_v2", &[host, pointer + (119 << 30), 4096]);
        assert!(bytes(host, 4096).iter().all(|byte| *byte == 7));
        d.must("cuMemFree_v2", &[pointer]);
    };

    pool_memory_that_another_stream_uses_too_early_breaks_the_context [] |d: &Driver| {
        d.primary();
        let (a, b) = (d.make("cuStreamCreate", &[1]), d.make("cuStreamCreate", &[1]));
        let gate = Gate::on(d, a);
        let memory = d.make("cuMemAllocAsync", &[4096, a]);
        d.must("cuMemsetD8Async", &[memory, 0, 4096, b]);
        assert_eq!(d.call("cuStreamSynchronize", &[b]), 700);
        gate.open();
    };

    pool_memory_that_waits_for_its_event_is_fine [] |d: &Driver| {
        d.primary();
        let (a, b) = (d.make("cuStreamCreate", &[1]), d.make("cuStreamCreate", &[1]));
        let event = d.make("cuEventCreate", &[2]);
        let gate = Gate::on(d, a);
        let memory = d.make("cuMemAllocAsync", &[4096, a]);
        d.must("cuEventRecord", &[event, a]);
        d.must("cuStreamWaitEvent", &[b, event, 0]);
        d.must("cuMemsetD8Async", &[memory, 0, 4096, b]);
        gate.open();
        assert_eq!(d.call("cuStreamSynchronize", &[b]), 0);
    };

    block_that_a_stream_still_reads_is_not_handed_to_another [] |d: &Driver| {
        d.primary();
        let (a, b) = (d.make("cuStreamCreate", &[1]), d.make("cuStreamCreate", &[1]));
        let source = d.make("cuMemAllocAsync", &[1 << 20, a]);
        let target = d.make("cuMemAllocAsync", &[1 << 20, a]);
        d.must("cuMemsetD8Async", &[source, 5, 1 << 20, a]);
        d.must("cuStreamSynchronize", &[a]);
        let gate = Gate::on(d, a);
        d.must("cuMemcpyDtoDAsync_v2", &[target, source, 1 << 20, a]);
        d.must("cuMemFreeAsync", &[source, a]);
        let other = d.make("cuMemAllocAsync", &[1 << 20, b]);
        assert_ne!(other, source);
        d.must("cuMemsetD8Async", &[other, 9, 1 << 20, b]);
        d.must("cuStreamSynchronize", &[b]);
        gate.open();
        d.must("cuStreamSynchronize", &[a]);
        let host = pageable(1 << 20);
        d.must("cuMemcpyDtoH_v2", &[host, target, 1 << 20]);
        assert!(bytes(host, 1 << 20).iter().all(|byte| *byte == 5));
    };

    pool_that_is_out_of_memory_waits_for_what_is_being_freed ["FAKE_CUDA_DEVICE_MEMORY" = "64m"] |d: &Driver| {
        d.primary();
        let (a, b) = (d.make("cuStreamCreate", &[1]), d.make("cuStreamCreate", &[1]));
        let first = d.make("cuMemAllocAsync", &[60 << 20, a]);
        let gate = Gate::on(d, a);
        d.must("cuMemFreeAsync", &[first, a]);
        assert_eq!(d.make("cuMemAllocAsync", &[60 << 20, b]), first);
        assert_eq!(d.call("cuStreamQuery", &[b]), 600);
        gate.open();
        d.must("cuStreamSynchronize", &[b]);
    };

    odd_sizes_and_offsets_copy_exactly_what_is_asked [] |d: &Driver| {
        d.primary();
        let memory = d.make("cuMemAlloc_v2", &[4096]);
        let (from, to) = (pageable(4096), pageable(4096));
        for (index, byte) in bytes(from, 4096).iter_mut().enumerate() {
            *byte = index as u8;
        }
        for offset in [0, 1, 3, 7] {
            for size in 1..=65 {
                d.must("cuMemsetD8_v2", &[memory, 0xaa, 4096]);
                d.must("cuMemcpyHtoD_v2", &[memory + 100 + offset, from + 1, size]);
                d.must("cuMemcpyDtoH_v2", &[to, memory, 4096]);
                let (start, seen) = (100 + offset, bytes(to, 4096));
                assert_eq!(seen[start..start + size], bytes(from, 4096)[1..=size]);
                assert!(seen[..start].iter().chain(&seen[start + size..]).all(|byte| *byte == 0xaa));
            }
        }
    };

    overlapping_copy_never_gives_what_one_hopes_for [] |d: &Driver| {
        d.primary();
        let (memory, host) = (d.make("cuMemAlloc_v2", &[4096]), pageable(4096));
        d.must("cuMemsetD8_v2", &[memory, 1, 4096]);
        d.must("cuMemcpyDtoD_v2", &[memory + 1, memory, 64]);
        d.must("cuMemcpyDtoH_v2", &[host, memory, 4096]);
        assert_eq!(bytes(host, 4096)[1..65], [0xee; 64]);
    };

    rows_of_a_pitched_copy_leave_the_gaps_alone [] |d: &Driver| {
        d.primary();
        let (memory, host) = (d.make("cuMemAlloc_v2", &[4096]), pageable(4096));
        d.must("cuMemsetD8_v2", &[memory, 1, 4096]);
        d.must("cuMemsetD2D8_v2", &[memory, 64, 2, 32, 4]);
        d.must("cuMemcpyDtoH_v2", &[host, memory, 4096]);
        for (index, byte) in bytes(host, 4096).iter().enumerate() {
            assert_eq!(*byte, if index < 256 && index % 64 < 32 { 2 } else { 1 });
        }
    };

    allocations_are_counted_until_they_are_freed [] |d: &Driver| {
        d.primary();
        let pointers: Vec<usize> = (1..=100).map(|size| d.make("cuMemAlloc_v2", &[size * 100])).collect();
        let pinned = d.make("cuMemAllocHost_v2", &[100]);
        assert_eq!(count(d, "fakecuda_live_allocations"), 101);
        pointers.iter().for_each(|pointer| d.must("cuMemFree_v2", &[*pointer]));
        d.must("cuMemFreeHost", &[pinned]);
        assert_eq!(count(d, "fakecuda_live_allocations"), 0);
    };
}
