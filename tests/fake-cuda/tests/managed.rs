//! Stories about managed memory: one address, and the waits that it does not spare anybody.

mod support;

use support::asker::pageable;
use support::{Driver, Gate, Word, bytes, count};

const CPU: usize = -1i32 as u32 as usize;

/// What `cuMemRangeGetAttribute` says: read mostly 1, preferred 2, last prefetched to 4.
fn said(d: &Driver, attribute: usize, at: usize, size: usize) -> i32 {
    let mut w = Word::default();
    d.must("cuMemRangeGetAttribute", &[w.at(), 4, attribute, at, size]);
    w.int()
}

fn accessed_by(d: &Driver, at: usize, size: usize) -> [i32; 3] {
    let room = [77i32; 3];
    d.must("cuMemRangeGetAttribute", &[room.as_ptr() as usize, 12, 3, at, size]);
    // SAFETY: the array is live; the driver wrote it through its address.
    unsafe { std::ptr::read_volatile(&raw const room) }
}

stories! {
    one_address_is_read_and_written_by_host_and_device [] |d: &Driver| {
        d.primary();
        let managed = d.make("cuMemAllocManaged", &[100_000, 1]);
        let device = d.make("cuMemAlloc_v2", &[100_000]);
        bytes(managed, 100_000).fill(3);
        d.must("cuMemcpyDtoD_v2", &[device, managed, 100_000]);
        d.must("cuMemsetD8_v2", &[managed, 4, 100_000]);
        d.must("cuCtxSynchronize", &[]);
        assert!(bytes(managed, 100_000).iter().all(|byte| *byte == 4));
        d.must("cuMemcpyDtoH_v2", &[managed, device, 100_000]);
        d.must("cuCtxSynchronize", &[]);
        assert!(bytes(managed, 100_000).iter().all(|byte| *byte == 3));
        d.must("cuMemFree_v2", &[managed]);
        assert_eq!(count(d, "fakecuda_live_allocations"), 1);
    };

    host_that_reads_managed_memory_without_a_wait_reads_old_bytes [] |d: &Driver| {
        d.primary();
        let stream = d.make("cuStreamCreate", &[1]);
        let managed = d.make("cuMemAllocManaged", &[4096, 1]);
        bytes(managed, 4096).fill(3);
        let gate = Gate::on(d, stream);
        d.must("cuMemsetD8Async", &[managed, 4, 4096, stream]);
        assert!(bytes(managed, 4096).iter().all(|byte| *byte == 3));
        gate.open();
        d.must("cuStreamSynchronize", &[stream]);
        assert!(bytes(managed, 4096).iter().all(|byte| *byte == 4));
    };

    fresh_managed_memory_is_garbage_and_freed_memory_is_gone [] |d: &Driver| {
        d.primary();
        let managed = d.make("cuMemAllocManaged", &[70 << 20, 1]);
        assert_eq!((bytes(managed, 1)[0], bytes(managed + (70 << 20) - 1, 1)[0]), (0xcd, 0xcd));
        d.must("cuMemFree_v2", &[managed]);
        let mut page = 0u8;
        // SAFETY: mincore reads no memory of the range.
        let mapped = unsafe { libc::mincore(managed as *mut libc::c_void, 4096, &raw mut page) };
        assert_ne!(mapped, 0, "a host that still reads it is to crash");
        assert_eq!(d.call("cuMemFree_v2", &[managed]), 1);
    };

    odd_requests_for_managed_memory_are_refused [] |d: &Driver| {
        d.primary();
        let mut w = Word::default();
        for (size, flags, code) in [(0, 1, 1), (16, 0, 1), (16, 3, 1), (16, 4, 1), (16, 2, 0), (1 << 60, 1, 2), (usize::MAX, 1, 2)] {
            assert_eq!(d.call("cuMemAllocManaged", &[w.at(), size, flags]), code, "{size} {flags}");
        }
        assert_eq!(d.call("cuMemAllocManaged", &[0, 16, 1]), 1);
    };

    free_of_managed_memory_waits_for_its_context_and_only_cumemfree_frees_it [] |d: &Driver| {
        let context = d.primary();
        let stream = d.make("cuStreamCreate", &[1]);
        let managed = d.make("cuMemAllocManaged", &[4096, 1]);
        assert_eq!(d.call("cuMemFreeAsync", &[managed, stream]), 1);
        assert_eq!(d.call("cuMemFreeHost", &[managed]), 1);
        assert_eq!(d.call("cuMemHostUnregister", &[managed]), 1);
        let gate = Gate::on(d, stream);
        assert!(gate.reached());
        let late = d.blocks(context, "of managed memory", "cuMemFree_v2", &[managed]);
        assert!(late.is_late());
        gate.open();
        assert_eq!(late.code(), Some(0));
    };

    managed_memory_freed_under_a_stream_of_another_device_breaks_it [] |d: &Driver| {
        let a = d.primary();
        let b = d.make("cuDevicePrimaryCtxRetain", &[1]);
        let managed = d.make("cuMemAllocManaged", &[4096, 1]);
        d.must("cuCtxSetCurrent", &[b]);
        let stream = d.make("cuStreamCreate", &[1]);
        let gate = Gate::on(d, stream);
        d.must("cuMemsetD8Async", &[managed, 1, 4096, stream]);
        d.must("cuCtxSetCurrent", &[a]);
        d.must("cuMemFree_v2", &[managed]);
        gate.open();
        assert_eq!(d.call("cuStreamSynchronize", &[stream]), 700);
    };

    pointer_says_that_it_is_managed_and_of_which_device [] |d: &Driver| {
        d.primary();
        let context = d.make("cuDevicePrimaryCtxRetain", &[1]);
        d.must("cuCtxSetCurrent", &[context]);
        let managed = d.make("cuMemAllocManaged", &[5000, 1]);
        let device = d.make("cuMemAlloc_v2", &[5000]);
        let ask = |attribute, pointer| {
            let mut w = Word::default();
            d.must("cuPointerGetAttribute", &[w.at(), attribute, pointer]);
            w.get()
        };
        assert_eq!([8, 2, 9, 10, 12].map(|a| ask(a, managed + 8)), [1, 2, 1, 0, 5000]);
        assert_eq!([1, 3, 4, 11].map(|a| ask(a, managed + 8)), [context, managed + 8, managed + 8, managed]);
        assert_eq!(ask(8, device), 0);
        let mut w = Word::default();
        assert_eq!(d.call("cuPointerGetAttribute", &[w.at(), 8, pageable(16)]), 1);
    };

    last_prefetch_is_known_for_pages_that_agree_and_only_for_them [] |d: &Driver| {
        d.primary();
        let stream = d.make("cuStreamCreate", &[1]);
        let size = 16 * 4096;
        let m = d.make("cuMemAllocManaged", &[size, 1]);
        assert_eq!(said(d, 4, m, size), -2);
        d.must("cuMemPrefetchAsync", &[m, size, 1, stream]);
        assert_eq!(said(d, 4, m, size), 1);
        d.must("cuMemPrefetchAsync_v2", &[m + 4096 + 10, 1, 2, 0, stream]);
        assert_eq!(said(d, 4, m, size), -2, "a page went to the host");
        assert_eq!([0, 4096, 8192].map(|at| said(d, 4, m + at, 4096)), [1, -1, 1]);
        assert_eq!(said(d, 4, m + 4095, 2), -2);
        d.must("cuMemPrefetchAsync", &[m, size, CPU, 0]);
        assert_eq!((said(d, 4, m, size), said(d, 7, m, size)), (-1, 2));
    };

    prefetch_keeps_the_order_of_its_stream_and_does_not_wait [] |d: &Driver| {
        d.primary();
        let stream = d.make("cuStreamCreate", &[1]);
        let m = d.make("cuMemAllocManaged", &[4096, 1]);
        let gate = Gate::on(d, stream);
        d.must("cuMemPrefetchAsync", &[m, 4096, 0, stream]);
        assert_eq!(d.call("cuStreamQuery", &[stream]), 600);
        assert_eq!(said(d, 4, m, 4096), 0, "what was asked for, whether or not it happened");
        gate.open();
        d.must("cuStreamSynchronize", &[stream]);
    };

    prefetch_of_what_is_not_managed_or_to_nowhere_is_refused [] |d: &Driver| {
        d.primary();
        let m = d.make("cuMemAllocManaged", &[4096, 1]);
        let device = d.make("cuMemAlloc_v2", &[4096]);
        let pinned = d.make("cuMemAllocHost_v2", &[4096]);
        for other in [device, pinned, pageable(4096), 0] {
            assert_eq!(d.call("cuMemPrefetchAsync", &[other, 4096, 0, 0]), 1);
            assert_eq!(d.call("cuMemAdvise", &[other, 4096, 1, 0]), 1);
        }
        for (size, to, code) in [(0, 0, 1), (4097, 0, 1), (4096, 2, 101), (4096, -2i32 as u32 as usize, 101)] {
            assert_eq!(d.call("cuMemPrefetchAsync", &[m, size, to, 0]), code, "{size} {to}");
        }
        for (location, flags, code) in [(1 | 9 << 32, 0, 101), (0, 0, 1), (9, 0, 1), (1, 1, 1), (2 | 9 << 32, 0, 0), (3, 0, 0)] {
            assert_eq!(d.call("cuMemPrefetchAsync_v2", &[m, 4096, location, flags, 0]), code, "{location:x}");
        }
    };

    advice_is_remembered_and_taken_back [] |d: &Driver| {
        d.primary();
        let m = d.make("cuMemAllocManaged", &[8192, 1]);
        for (advice, device) in [(1, 99), (3, 1), (5, 0), (5, CPU)] {
            d.must("cuMemAdvise", &[m, 8192, advice, device]);
        }
        assert_eq!((said(d, 1, m, 8192), said(d, 2, m, 8192)), (1, 1));
        assert_eq!(accessed_by(d, m, 8192), [-1, 0, -2]);
        d.must("cuMemAdvise_v2", &[m, 1, 6, 1]);
        assert_eq!(accessed_by(d, m, 8192), [-1, -2, -2], "one page is no longer accessed by device 0");
        for (advice, location) in [(2, 0), (4, 0), (6, 2), (6, 1)] {
            d.must("cuMemAdvise_v2", &[m, 8192, advice, location]);
        }
        assert_eq!((said(d, 1, m, 8192), said(d, 2, m, 8192)), (0, -2));
        assert_eq!(accessed_by(d, m, 8192), [-2; 3]);
        for (advice, device, code) in [(0, 0, 1), (7, 0, 1), (3, 9, 101), (5, 9, 101)] {
            assert_eq!(d.call("cuMemAdvise", &[m, 8192, advice, device]), code, "{advice} {device}");
        }
    };

    several_range_attributes_are_answered_at_once_and_sizes_are_checked [] |d: &Driver| {
        d.primary();
        let m = d.make("cuMemAllocManaged", &[4096, 1]);
        d.must("cuMemAdvise_v2", &[m, 4096, 3, 1 | 1 << 32]);
        let (mut kind, mut id) = (Word::default(), Word::default());
        let (places, sizes, attributes) = ([kind.at(), id.at()], [4usize, 4], [5i32, 6]);
        d.must(
            "cuMemRangeGetAttributes",
            &[places.as_ptr() as usize, sizes.as_ptr() as usize, attributes.as_ptr() as usize, 2, m, 4096],
        );
        assert_eq!((kind.int(), id.int()), (1, 1));
        let mut w = Word::default();
        for (size, attribute) in [(8, 1), (0, 3), (6, 3), (4, 99)] {
            assert_eq!(d.call("cuMemRangeGetAttribute", &[w.at(), size, attribute, m, 4096]), 1);
        }
    };

    device_without_managed_memory_says_so_everywhere ["FAKE_CUDA_NO_MANAGED" = "1"] |d: &Driver| {
        d.primary();
        let mut w = Word::default();
        for attribute in [83, 89] {
            *w.0 = 9;
            d.must("cuDeviceGetAttribute", &[w.at(), attribute, 0]);
            assert_eq!(w.int(), 0);
        }
        assert_eq!(d.call("cuMemAllocManaged", &[w.at(), 16, 1]), 801);
    };

    device_without_concurrent_access_refuses_to_prefetch ["FAKE_CUDA_NO_CONCURRENT_MANAGED" = "1"] |d: &Driver| {
        d.primary();
        let (mut managed, mut concurrent) = (Word::default(), Word::default());
        d.must("cuDeviceGetAttribute", &[managed.at(), 83, 0]);
        d.must("cuDeviceGetAttribute", &[concurrent.at(), 89, 0]);
        assert_eq!((managed.int(), concurrent.int()), (1, 0));
        let m = d.make("cuMemAllocManaged", &[4096, 1]);
        assert_eq!(d.call("cuMemPrefetchAsync", &[m, 4096, 0, 0]), 101);
        assert_eq!(d.call("cuMemAdvise", &[m, 4096, 3, 0]), 101);
        assert_eq!(d.call("cuMemAdvise", &[m, 4096, 1, 0]), 0);
    };
}
