//! Stories about the life of a process, and about machines of other shapes.

mod support;

use support::{Driver, Gate, Word};

fn uuid(d: &Driver, device: usize) -> [u8; 16] {
    let mut uuid = [0u8; 16];
    d.must("cuDeviceGetUuid_v2", &[uuid.as_mut_ptr() as usize, device]);
    uuid
}

fn devices(d: &Driver) -> i32 {
    let mut w = Word::default();
    d.must("cuInit", &[0]);
    d.must("cuDeviceGetCount", &[w.at()]);
    w.int()
}

stories! {
    process_that_ends_with_everything_alive_ends_well ["FAKE_CUDA_LATENCY_US" = "500"] |d: &Driver| {
        d.primary();
        let memory = d.make("cuMemAlloc_v2", &[4096]);
        for flags in 0..2 {
            let stream = d.make("cuStreamCreate", &[flags]);
            for _ in 0..500 {
                d.must("cuMemsetD8Async", &[memory, 1, 4096, stream]);
            }
        }
        std::mem::forget(Gate::on(d, d.make("cuStreamCreate", &[1])));
    };

    child_of_a_process_that_used_the_driver_is_told_so [] |d: &Driver| {
        d.primary();
        let stream = d.make("cuStreamCreate", &[0]);
        // SAFETY: the child calls the fake and leaves by _exit.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let mut w = Word::default();
            let codes = [
                d.call("cuStreamSynchronize", &[stream]),
                d.call("cuMemAlloc_v2", &[w.at(), 16]),
                d.call("cuMemFree_v2", &[0]),
                d.call("cuInit", &[0]),
            ];
            let version = d.call("cuDriverGetVersion", &[w.at()]);
            // SAFETY: _exit has no preconditions.
            unsafe { libc::_exit(i32::from(codes != [3; 4] || version != 0)) };
        }
        let mut status = -1;
        // SAFETY: the child is ours and the status is a local.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(status, 0);
        d.must("cuStreamSynchronize", &[stream]);
    };

    devices_are_as_many_as_asked_for ["FAKE_CUDA_DEVICES" = "5"] |d: &Driver| {
        assert_eq!(devices(d), 5);
    };

    machine_without_devices_has_none ["FAKE_CUDA_DEVICES" = "0"] |d: &Driver| {
        assert_eq!(d.call("cuInit", &[0]), 100);
    };

    list_of_visible_devices_is_their_order ["CUDA_VISIBLE_DEVICES" = "2,0,9,1", "FAKE_CUDA_DEVICES" = "3"] |d: &Driver| {
        assert_eq!(devices(d), 2);
        assert_eq!((uuid(d, 0)[15], uuid(d, 1)[15]), (2, 0));
    };

    device_is_named_by_its_uuid ["CUDA_VISIBLE_DEVICES" = "GPU-fa4ecda0-11a1-55e5-8000-000000000001"] |d: &Driver| {
        assert_eq!((devices(d), uuid(d, 0)[15]), (1, 1));
    };

    uuid_that_fits_two_devices_names_none ["CUDA_VISIBLE_DEVICES" = "GPU-fa4e"] |d: &Driver| {
        assert_eq!(d.call("cuInit", &[0]), 100);
    };

    memory_is_as_much_as_asked_for ["FAKE_CUDA_DEVICE_MEMORY" = "512m"] |d: &Driver| {
        d.must("cuInit", &[0]);
        let mut w = Word::default();
        d.must("cuDeviceTotalMem_v2", &[w.at(), 0]);
        assert_eq!(w.get(), 512 << 20);
    };

    without_a_peer_path_copies_still_work ["FAKE_CUDA_NO_PEER" = "1"] |d: &Driver| {
        let a = d.primary();
        let b = d.make("cuDevicePrimaryCtxRetain", &[1]);
        let mut w = Word::default();
        d.must("cuDeviceCanAccessPeer", &[w.at(), 0, 1]);
        assert_eq!(w.int(), 0);
        assert_eq!(d.call("cuCtxEnablePeerAccess", &[b, 0]), 217);
        let memory = d.make("cuMemAlloc_v2", &[4096]);
        d.must("cuCtxSetCurrent", &[b]);
        let copy = d.make("cuMemAlloc_v2", &[4096]);
        d.must("cuMemcpyPeer", &[copy, b, memory, a, 4096]);
        d.must("cuCtxSynchronize", &[]);
    };

    without_pools_stream_ordered_memory_is_not_supported ["FAKE_CUDA_NO_MEMPOOLS" = "1"] |d: &Driver| {
        d.primary();
        let mut w = Word::default();
        d.must("cuDeviceGetAttribute", &[w.at(), 115, 0]);
        assert_eq!(w.int(), 0);
        assert_eq!(d.call("cuMemAllocAsync", &[w.at(), 16, 0]), 801);
        assert_eq!(d.call("cuDeviceGetDefaultMemPool", &[w.at(), 0]), 801);
    };

    thousands_of_streams_and_events_come_and_go [] |d: &Driver| {
        d.primary();
        let memory = d.make("cuMemAlloc_v2", &[64]);
        for round in 0..3000 {
            let (stream, event) = (d.make("cuStreamCreate", &[round % 2]), d.make("cuEventCreate", &[2]));
            d.must("cuMemsetD8Async", &[memory, 1, 64, stream]);
            d.must("cuEventRecord", &[event, stream]);
            d.must("cuStreamWaitEvent", &[0, event, 0]);
            d.must("cuStreamDestroy_v2", &[stream]);
            d.must("cuEventDestroy_v2", &[event]);
        }
        d.must("cuCtxSynchronize", &[]);
        assert_eq!((d.call("fakecuda_live_streams", &[]), d.call("fakecuda_live_events", &[])), (0, 0));
    };
}
