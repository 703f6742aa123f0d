//! Stories about failures on demand, and about what the fake counts.

mod support;

use support::asker::pageable;
use support::{Driver, Gate, Word, count};

stories! {
    third_allocation_fails_and_the_fourth_works ["FAKE_CUDA_FAIL" = "cuMemAlloc_v2:3=2,cuStreamCreate=999"] |d: &Driver| {
        d.primary();
        let mut w = Word::default();
        let codes: Vec<i32> = (0..4).map(|_| d.call("cuMemAlloc_v2", &[w.at(), 16])).collect();
        assert_eq!(codes, [0, 0, 2, 0]);
        assert_eq!(count(d, "fakecuda_live_allocations"), 3);
        assert_eq!(d.call("cuStreamCreate", &[w.at(), 0]), 999);
        assert_eq!(d.call("cuStreamCreate", &[w.at(), 0]), 999);
    };

    failure_is_asked_for_and_taken_back_while_running [] |d: &Driver| {
        d.primary();
        let mut w = Word::default();
        let name = c"cuMemAlloc".as_ptr() as usize;
        d.must("fakecuda_fail", &[name, 0, 2]);
        assert_eq!(d.call("cuMemAlloc_v2", &[w.at(), 16]), 2);
        d.must("fakecuda_fail", &[name, 0, 0]);
        assert_eq!(d.call("cuMemAlloc_v2", &[w.at(), 16]), 0);
        assert_eq!(d.call("fakecuda_call_count", &[name]), 2);
    };

    fatal_code_stays_and_takes_the_other_device_along ["FAKE_CUDA_FAIL" = "cuMemcpyAsync:1=719"] |d: &Driver| {
        d.primary();
        let other = d.make("cuDevicePrimaryCtxRetain", &[1]);
        let stream = d.make("cuStreamCreate", &[0]);
        let mut w = Word::default();
        assert_eq!(d.call("cuMemcpyAsync", &[pageable(16), pageable(16), 16, stream]), 719);
        assert_eq!(d.call("cuStreamSynchronize", &[stream]), 719);
        assert_eq!(d.call("cuMemAlloc_v2", &[w.at(), 16]), 719);
        d.must("cuCtxSetCurrent", &[other]);
        assert_eq!(d.call("cuMemAlloc_v2", &[w.at(), 16]), 719);
        assert_eq!(d.call("cuDeviceGetCount", &[w.at()]), 0);
    };

    contained_fault_leaves_the_other_device_alone ["FAKE_CUDA_CONTAINED_FAULTS" = "1"] |d: &Driver| {
        d.primary();
        let other = d.make("cuDevicePrimaryCtxRetain", &[1]);
        d.must("fakecuda_lose_device", &[0, 700]);
        let mut w = Word::default();
        assert_eq!(d.call("cuMemAlloc_v2", &[w.at(), 16]), 700);
        d.must("cuCtxSetCurrent", &[other]);
        assert_eq!(d.call("cuMemAlloc_v2", &[w.at(), 16]), 0);
        assert_eq!(d.call("cuCtxSynchronize", &[]), 0);
    };

    wait_for_a_device_that_is_lost_ends [] |d: &Driver| {
        let context = d.primary();
        let stream = d.make("cuStreamCreate", &[1]);
        let gate = Gate::on(d, stream);
        let late = d.blocks(context, "held", "cuStreamSynchronize", &[stream]);
        assert!(late.is_late());
        d.must("fakecuda_lose_device", &[0, 700]);
        assert_eq!(late.code(), Some(700));
        gate.open();
    };

    host_function_behind_a_fault_is_not_called [] |d: &Driver| {
        d.primary();
        let stream = d.make("cuStreamCreate", &[1]);
        let first = Gate::on(d, stream);
        assert!(first.reached());
        let second = Gate::on(d, stream);
        d.must("fakecuda_lose_device", &[0, 700]);
        first.open();
        assert!(!second.reached());
    };

    no_device_is_what_init_answers ["FAKE_CUDA_INIT_ERROR" = "100"] |d: &Driver| {
        let mut w = Word::default();
        assert_eq!(d.call("cuInit", &[0]), 100);
        assert_eq!(d.call("cuDeviceGetCount", &[w.at()]), 3);
        assert_eq!(d.call("cuDriverGetVersion", &[w.at()]), 0);
        assert_eq!(w.int(), 13000);
    };

    stub_library_is_what_init_answers ["FAKE_CUDA_INIT_ERROR" = "34", "FAKE_CUDA_DRIVER_VERSION" = "11040"] |d: &Driver| {
        let mut w = Word::default();
        assert_eq!(d.call("cuInit", &[0]), 34);
        d.must("cuDriverGetVersion", &[w.at()]);
        assert_eq!(w.int(), 11040);
    };

    stale_handles_are_counted_as_misuse [] |d: &Driver| {
        d.primary();
        let (stream, event) = (d.make("cuStreamCreate", &[0]), d.make("cuEventCreate", &[0]));
        d.must("cuStreamDestroy_v2", &[stream]);
        d.must("cuEventDestroy_v2", &[event]);
        assert_ne!(d.make("cuStreamCreate", &[0]), stream);
        assert_eq!(d.call("cuStreamQuery", &[stream]), 400);
        assert_eq!(d.call("cuStreamDestroy_v2", &[stream]), 400);
        assert_eq!(d.call("cuEventRecord", &[event, 0]), 400);
        assert_eq!(count(d, "fakecuda_misuses"), 3);
    };

    address_of_a_destroyed_stream_comes_back_for_a_new_one ["FAKE_CUDA_REUSE_HANDLES" = "1"] |d: &Driver| {
        d.primary();
        let stream = d.make("cuStreamCreate", &[0]);
        let gate = Gate::on(d, stream);
        d.must("cuStreamDestroy_v2", &[stream]);
        assert_eq!(d.make("cuStreamCreate", &[1]), stream);
        assert_eq!(d.call("cuStreamQuery", &[stream]), 0, "what the old one does is not the new one's");
        gate.open();
        d.must("cuCtxSynchronize", &[]);
        assert_eq!(count(d, "fakecuda_misuses"), 0);
    };

    function_that_the_driver_lacks_is_not_found ["FAKE_CUDA_MISSING" = "cuMemAllocAsync,cuMemFree_v2"] |d: &Driver| {
        d.must("cuInit", &[0]);
        let (mut found, mut status) = (Word::default(), Word::default());
        for (name, there) in [(c"cuMemAllocAsync", false), (c"cuMemFree", false), (c"cuMemFreeAsync", true)] {
            d.must("cuGetProcAddress_v2", &[name.as_ptr() as usize, found.at(), 12000, 0, status.at()]);
            assert_eq!((found.get() != 0, status.int()), (there, i32::from(!there)));
        }
    };

    contexts_and_resets_are_counted [] |d: &Driver| {
        d.must("cuInit", &[0]);
        let mut w = Word::default();
        d.must("cuDeviceGetCount", &[w.at()]);
        assert_eq!(count(d, "fakecuda_contexts_created"), 0);
        d.primary();
        d.primary();
        assert_eq!(count(d, "fakecuda_contexts_created"), 1);
        d.must("cuDevicePrimaryCtxReset_v2", &[0]);
        assert_eq!((count(d, "fakecuda_resets"), count(d, "fakecuda_live_contexts")), (1, 0));
    };
}
