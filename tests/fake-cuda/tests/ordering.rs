//! Stories about order and waiting: what a runtime that forgets a wait gets to see.

mod support;

use std::time::{Duration, Instant};
use support::asker::pageable;
use support::{Driver, Gate, Word, bytes};

stories! {
    pageable_copy_returns_before_a_non_blocking_stream_may_read_it ["FAKE_CUDA_LATENCY_US" = "60000"] |d: &Driver| {
        d.primary();
        let (memory, copy) = (d.make("cuMemAlloc_v2", &[4096]), d.make("cuMemAlloc_v2", &[4096]));
        let stream = d.make("cuStreamCreate", &[1]);
        let (from, to) = (pageable(4096), d.make("cuMemAllocHost_v2", &[4096]));
        bytes(from, 4096).fill(3);
        d.must("cuMemcpyHtoD_v2", &[memory, from, 4096]);
        bytes(from, 4096).fill(9);
        assert_eq!(d.call("cuStreamQuery", &[0]), 600, "the last part of the copy is still on its way");
        d.must("cuStreamSynchronize", &[0]);
        d.must("cuMemcpyDtoDAsync_v2", &[copy, memory, 4096, stream]);
        d.must("cuMemcpyDtoHAsync_v2", &[to, copy, 4096, stream]);
        d.must("cuStreamSynchronize", &[stream]);
        assert!(bytes(to, 4096).iter().all(|byte| *byte == 3), "the source was read before the call returned");
    };

    large_pageable_copy_is_late_in_its_last_part_only ["FAKE_CUDA_LATENCY_US" = "60000"] |d: &Driver| {
        d.primary();
        let memory = d.make("cuMemAlloc_v2", &[1 << 20]);
        let stream = d.make("cuStreamCreate", &[1]);
        let (from, to) = (pageable(1 << 20), d.make("cuMemAllocHost_v2", &[1 << 20]));
        bytes(from, 1 << 20).fill(3);
        d.must("cuMemcpyHtoD_v2", &[memory, from, 1 << 20]);
        d.must("cuMemcpyDtoHAsync_v2", &[to, memory, (1 << 20) - (64 << 10), stream]);
        d.must("cuStreamSynchronize", &[stream]);
        assert!(bytes(to, (1 << 20) - (64 << 10)).iter().all(|byte| *byte == 3));
    };

    device_to_device_copy_returns_before_it_is_done [] |d: &Driver| {
        d.primary();
        let (a, b) = (d.make("cuMemAlloc_v2", &[4096]), d.make("cuMemAlloc_v2", &[4096]));
        let gate = Gate::on(d, d.make("cuStreamCreate", &[0]));
        d.must("cuMemcpyDtoD_v2", &[a, b, 4096]);
        assert_eq!(d.call("cuStreamQuery", &[0]), 600);
        gate.open();
        d.must("cuStreamSynchronize", &[0]);
    };

    null_stream_and_blocking_streams_wait_for_each_other_and_others_do_not [] |d: &Driver| {
        d.primary();
        let (blocking, free) = (d.make("cuStreamCreate", &[0]), d.make("cuStreamCreate", &[1]));
        let memory = d.make("cuMemAlloc_v2", &[4096]);
        for (held, waits) in [(0, blocking), (blocking, 0), (1, blocking), (blocking, 1)] {
            let gate = Gate::on(d, held);
            d.must("cuMemsetD8Async", &[memory, 1, 16, waits]);
            d.must("cuMemsetD8Async", &[memory, 1, 16, free]);
            d.must("cuStreamSynchronize", &[free]);
            std::thread::sleep(Duration::from_millis(50));
            assert_eq!(d.call("cuStreamQuery", &[waits]), 600);
            gate.open();
            d.must("cuStreamSynchronize", &[waits]);
        }
    };

    local_vector_copied_behind_a_busy_stream_keeps_its_old_bytes [] |d: &Driver| {
        d.primary();
        let memory = d.make("cuMemAlloc_v2", &[4096]);
        let stream = d.make("cuStreamCreate", &[1]);
        let (from, to) = (pageable(4096), pageable(4096));
        bytes(from, 4096).fill(3);
        let gate = Gate::on(d, stream);
        d.must("cuMemcpyHtoDAsync_v2", &[memory, from, 4096, stream]);
        bytes(from, 4096).fill(9);
        gate.open();
        d.must("cuMemcpyDtoHAsync_v2", &[to, memory, 4096, stream]);
        assert!(bytes(to, 4096).iter().all(|byte| *byte == 3));
    };

    pinned_buffer_overwritten_too_early_is_seen_to_be [] |d: &Driver| {
        d.primary();
        let memory = d.make("cuMemAlloc_v2", &[4096]);
        let stream = d.make("cuStreamCreate", &[1]);
        let (from, to) = (d.make("cuMemAllocHost_v2", &[4096]), pageable(4096));
        bytes(from, 4096).fill(3);
        let gate = Gate::on(d, stream);
        d.must("cuMemcpyHtoDAsync_v2", &[memory, from, 4096, stream]);
        bytes(from, 4096).fill(9);
        gate.open();
        d.must("cuMemcpyDtoHAsync_v2", &[to, memory, 4096, stream]);
        assert!(bytes(to, 4096).iter().all(|byte| *byte == 9));
    };

    registered_memory_is_as_asynchronous_as_pinned [] |d: &Driver| {
        d.primary();
        let memory = d.make("cuMemAlloc_v2", &[4096]);
        let stream = d.make("cuStreamCreate", &[1]);
        let page = pageable(8192);
        d.must("cuMemHostRegister_v2", &[page, 8192, 0]);
        let gate = Gate::on(d, stream);
        d.must("cuMemcpyDtoHAsync_v2", &[page, memory, 4096, stream]);
        assert_eq!(d.call("cuStreamQuery", &[stream]), 600);
        gate.open();
        d.must("cuStreamSynchronize", &[stream]);
        d.must("cuMemHostUnregister", &[page]);
    };

    wait_takes_the_record_that_was_there_when_it_was_asked_for [] |d: &Driver| {
        d.primary();
        let (a, b, c) = (d.make("cuStreamCreate", &[1]), d.make("cuStreamCreate", &[1]), d.make("cuStreamCreate", &[1]));
        let event = d.make("cuEventCreate", &[2]);
        d.must("cuEventRecord", &[event, a]);
        d.must("cuStreamWaitEvent", &[b, event, 0]);
        let gate = Gate::on(d, c);
        d.must("cuEventRecord", &[event, c]);
        assert_eq!(d.call("cuEventQuery", &[event]), 600);
        d.must("cuStreamSynchronize", &[b]);
        gate.open();
        d.must("cuEventSynchronize", &[event]);
    };

    event_orders_streams_of_two_devices [] |d: &Driver| {
        let a = d.primary();
        let b = d.make("cuDevicePrimaryCtxRetain", &[1]);
        let stream = d.make("cuStreamCreate", &[1]);
        let event = d.make("cuEventCreate", &[2]);
        let memory = d.make("cuMemAlloc_v2", &[1 << 20]);
        d.must("cuCtxSetCurrent", &[b]);
        let other = d.make("cuStreamCreate", &[1]);
        let copy = d.make("cuMemAlloc_v2", &[1 << 20]);
        let gate = Gate::on(d, stream);
        d.must("cuMemsetD8Async", &[memory, 4, 1 << 20, stream]);
        d.must("cuEventRecord", &[event, stream]);
        d.must("cuStreamWaitEvent", &[other, event, 0]);
        d.must("cuMemcpyPeerAsync", &[copy, b, memory, a, 1 << 20, other]);
        assert_eq!(d.call("cuStreamQuery", &[other]), 600);
        gate.open();
        let host = pageable(1 << 20);
        d.must("cuMemcpyDtoHAsync_v2", &[host, copy, 1 << 20, other]);
        assert!(bytes(host, 1 << 20).iter().all(|byte| *byte == 4));
    };

    busy_stream_that_is_destroyed_still_does_its_work [] |d: &Driver| {
        d.primary();
        let stream = d.make("cuStreamCreate", &[1]);
        let memory = d.make("cuMemAlloc_v2", &[4096]);
        let gate = Gate::on(d, stream);
        d.must("cuMemsetD8Async", &[memory, 6, 4096, stream]);
        let start = Instant::now();
        d.must("cuStreamDestroy_v2", &[stream]);
        assert!(start.elapsed() < Duration::from_millis(500));
        gate.open();
        d.must("cuCtxSynchronize", &[]);
        let host = pageable(4096);
        d.must("cuMemcpyDtoH_v2", &[host, memory, 4096]);
        assert!(bytes(host, 4096).iter().all(|byte| *byte == 6));
    };

    operations_of_a_stream_are_done_in_order [] |d: &Driver| {
        d.primary();
        let stream = d.make("cuStreamCreate", &[1]);
        let memory = d.make("cuMemAlloc_v2", &[4096]);
        let host = pageable(4096);
        for round in 0..20_000usize {
            d.must("cuMemsetD32Async", &[memory, round, 1024, stream]);
        }
        d.must("cuMemcpyDtoHAsync_v2", &[host, memory, 4096, stream]);
        assert_eq!(bytes(host, 4)[..], 19_999u32.to_ne_bytes());
    };

    host_functions_of_a_context_run_one_at_a_time [] |d: &Driver| {
        d.primary();
        let (a, b) = (d.make("cuStreamCreate", &[1]), d.make("cuStreamCreate", &[1]));
        let first = Gate::on(d, a);
        assert!(first.reached());
        let second = Gate::on(d, b);
        assert!(!second.reached(), "a second gate deadlocks here as on the device");
        first.open();
        assert!(second.reached());
        second.open();
        d.must("cuCtxSynchronize", &[]);
    };

    full_queue_makes_the_caller_wait ["FAKE_CUDA_QUEUE_DEPTH" = "4"] |d: &Driver| {
        let context = d.primary();
        let stream = d.make("cuStreamCreate", &[1]);
        let memory = d.make("cuMemAlloc_v2", &[4096]);
        let gate = Gate::on(d, stream);
        for _ in 0..4 {
            d.must("cuMemsetD8Async", &[memory, 1, 16, stream]);
        }
        let late = d.blocks(context, "a fifth", "cuMemsetD8Async", &[memory, 1, 16, stream]);
        assert!(late.is_late());
        gate.open();
        late.end();
        d.must("cuStreamSynchronize", &[stream]);
    };

    per_thread_default_streams_are_two_in_two_threads [] |d: &Driver| {
        let context = d.primary();
        let gate = Gate::on(d, 2);
        assert_eq!(d.call("cuStreamQuery", &[2]), 600);
        let other = d.again();
        let elsewhere = std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                other.must("cuCtxSetCurrent", &[context]);
                other.call("cuStreamQuery", &[2])
            });
            thread.join().expect("the thread asks one question")
        });
        assert_eq!(elsewhere, 0);
        gate.open();
        d.must("cuStreamSynchronize", &[2]);
    };

    elapsed_time_is_that_of_the_work_between ["FAKE_CUDA_LATENCY_US" = "20000"] |d: &Driver| {
        d.primary();
        let stream = d.make("cuStreamCreate", &[1]);
        let (start, end) = (d.make("cuEventCreate", &[0]), d.make("cuEventCreate", &[0]));
        let memory = d.make("cuMemAlloc_v2", &[4096]);
        d.must("cuEventRecord", &[start, stream]);
        d.must("cuMemsetD8Async", &[memory, 1, 16, stream]);
        d.must("cuEventRecord", &[end, stream]);
        d.must("cuEventSynchronize", &[end]);
        let mut w = Word::default();
        d.must("cuEventElapsedTime", &[w.at(), start, end]);
        let milliseconds = f32::from_bits(w.get() as u32);
        assert!((20.0..5000.0).contains(&milliseconds), "{milliseconds}");
    };

    sixteen_threads_on_sixteen_streams_do_not_disturb_each_other [] |d: &Driver| {
        let context = d.primary();
        std::thread::scope(|scope| {
            for thread in 0..16u8 {
                let d = d.again();
                scope.spawn(move || {
                    d.must("cuCtxSetCurrent", &[context]);
                    let stream = d.make("cuStreamCreate", &[usize::from(thread % 2)]);
                    let host = pageable(10_000);
                    for round in 0..100u8 {
                        let memory = d.make("cuMemAllocAsync", &[10_000, stream]);
                        d.must("cuMemsetD8Async", &[memory, usize::from(thread ^ round), 10_000, stream]);
                        d.must("cuMemcpyDtoHAsync_v2", &[host, memory, 10_000, stream]);
                        d.must("cuMemFreeAsync", &[memory, stream]);
                        assert!(bytes(host, 10_000).iter().all(|byte| *byte == thread ^ round));
                    }
                    d.must("cuStreamDestroy_v2", &[stream]);
                });
            }
        });
        d.must("cuCtxSynchronize", &[]);
    };
}
