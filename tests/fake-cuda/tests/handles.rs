//! Stories about streams and events as the extended operations use them.

mod support;

use support::{Driver, Gate, Word};

fn priority(d: &Driver, stream: usize) -> i32 {
    let mut w = Word::default();
    d.must("cuStreamGetPriority", &[stream, w.at()]);
    w.int()
}

fn as_argument(number: i32) -> usize {
    number as u32 as usize
}

stories! {
    priorities_are_clamped_into_the_range_of_the_device [] |d: &Driver| {
        d.primary();
        let (mut least, mut greatest) = (Word::default(), Word::default());
        d.must("cuCtxGetStreamPriorityRange", &[least.at(), greatest.at()]);
        assert_eq!((least.int(), greatest.int()), (0, -5));
        for (asked, given) in [(-100, -5), (-5, -5), (-3, -3), (0, 0), (7, 0)] {
            let stream = d.make("cuStreamCreateWithPriority", &[1, as_argument(asked)]);
            assert_eq!(priority(d, stream), given);
        }
        assert_eq!(priority(d, 0), 0);
        let mut w = Word::default();
        assert_eq!(d.call("cuStreamCreate", &[w.at(), 2]), 1);
        assert_eq!(d.call("cuStreamCreateWithPriority", &[w.at(), 2, 0]), 1);
    };

    stream_of_another_module_says_what_it_is_without_a_context [] |d: &Driver| {
        // Another module opens the same file, has a context current in its own thread and makes a stream.
        let (context, stream) = std::thread::scope(|scope| {
            let foreign = scope.spawn(|| {
                let library = std::env::current_exe().expect("a path").with_file_name("libcuda.so");
                let other = Driver::open(&library.to_string_lossy());
                other.must("cuInit", &[0]);
                let context = other.make("cuDevicePrimaryCtxRetain", &[1]);
                other.must("cuCtxSetCurrent", &[context]);
                (context, other.make("cuStreamCreateWithPriority", &[1, as_argument(-2)]))
            });
            foreign.join().expect("the other module makes a stream")
        });
        let ask = |name, stream| {
            let mut w = Word::default();
            d.must(name, &[stream, w.at()]);
            w.get()
        };
        assert_eq!(ask("cuStreamGetDevice", stream), 1);
        assert_eq!(ask("cuStreamGetCtx", stream), context);
        assert_eq!(ask("cuStreamGetFlags", stream), 1);
        assert_eq!(priority(d, stream), -2);
        let gate = Gate::on(d, stream);
        assert_eq!(d.call("cuStreamQuery", &[stream]), 600);
        gate.open();
        d.must("cuStreamSynchronize", &[stream]);
        let mut w = Word::default();
        assert_eq!(d.call("cuStreamGetDevice", &[stream + 64 * 1000, w.at()]), 400, "no stream");
        assert_eq!(d.call("cuStreamGetDevice", &[0, w.at()]), 201, "the null stream is of the current context");
    };

    event_flags_that_do_not_go_together_are_refused [] |d: &Driver| {
        d.primary();
        let mut w = Word::default();
        for (flags, code) in [(0, 0), (1, 0), (2, 0), (3, 0), (4, 1), (5, 1), (6, 0), (7, 0), (8, 1), (16, 1)] {
            assert_eq!(d.call("cuEventCreate", &[w.at(), flags]), code, "{flags}");
        }
        assert_eq!(d.call("cuEventCreate", &[0, 0]), 1);
    };

    elapsed_time_is_refused_for_each_reason_that_there_is [] |d: &Driver| {
        d.primary();
        let stream = d.make("cuStreamCreate", &[1]);
        let (start, end) = (d.make("cuEventCreate", &[0]), d.make("cuEventCreate", &[0]));
        let untimed = d.make("cuEventCreate", &[2]);
        let mut w = Word::default();
        let mut elapsed = |start, end| d.call("cuEventElapsedTime", &[w.at(), start, end]);
        assert_eq!(elapsed(start, end), 400, "never recorded");
        d.must("cuEventRecord", &[start, stream]);
        d.must("cuEventRecord", &[untimed, stream]);
        d.must("cuStreamSynchronize", &[stream]);
        assert_eq!(elapsed(start, end), 400, "one never recorded");
        assert_eq!(elapsed(start, untimed), 400, "no timing");
        assert_eq!(elapsed(untimed, start), 400, "no timing");
        let gate = Gate::on(d, stream);
        d.must("cuEventRecord", &[end, stream]);
        assert_eq!(elapsed(start, end), 600);
        assert_eq!(d.call("cuEventQuery", &[end]), 600);
        gate.open();
        d.must("cuEventSynchronize", &[end]);
        assert_eq!(elapsed(start, end), 0);
        assert_eq!(elapsed(end, start), 0, "backwards is negative and no error");
        assert!(f32::from_bits(w.get() as u32) <= 0.0);
    };

    peers_are_enabled_once_and_their_links_are_told [] |d: &Driver| {
        d.primary();
        let peer = d.make("cuDevicePrimaryCtxRetain", &[1]);
        assert_eq!([(); 2].map(|()| d.call("cuCtxEnablePeerAccess", &[peer, 0])), [0, 704]);
        assert_eq!([(); 2].map(|()| d.call("cuCtxDisablePeerAccess", &[peer])), [0, 705]);
        let mut w = Word::default();
        for (attribute, value) in [(1, 0), (2, 1), (3, 1), (4, 1)] {
            *w.0 = 77;
            d.must("cuDeviceGetP2PAttribute", &[w.at(), attribute, 0, 1]);
            assert_eq!(w.int(), value);
        }
        assert_eq!(d.call("cuDeviceGetP2PAttribute", &[w.at(), 1, 0, 0]), 101);
        assert_eq!(d.call("cuDeviceGetP2PAttribute", &[w.at(), 9, 0, 1]), 1);
    };

    host_memory_is_registered_once_and_unregistered_once [] |d: &Driver| {
        d.primary();
        let page = support::asker::pageable(64 << 10);
        let register = |at, size| d.call("cuMemHostRegister_v2", &[at, size, 1]);
        assert_eq!(register(page + 8192, 8192), 0);
        for (at, size) in [(page + 8192, 8192), (page, 8193), (page + 12288, 65), (page, 64 << 10), (page + 9000, 1)] {
            assert_eq!(register(at, size), 712, "{at:x} {size}");
        }
        assert_eq!(d.call("cuMemHostUnregister", &[page + 9000]), 1);
        assert_eq!([(); 2].map(|()| d.call("cuMemHostUnregister", &[page + 8192])), [0, 713]);
        assert_eq!(d.call("cuMemHostUnregister", &[page]), 713);
        let managed = d.make("cuMemAllocManaged", &[8192, 1]);
        let pinned = d.make("cuMemAllocHost_v2", &[8192]);
        assert_eq!([managed, pinned].map(|at| register(at, 4096)), [1, 1]);
    };

    trim_keeps_what_it_is_told_to_and_leaves_what_is_used [] |d: &Driver| {
        d.primary();
        let stream = d.make("cuStreamCreate", &[1]);
        let pool = d.make("cuDeviceGetDefaultMemPool", &[0]);
        let mut w = Word::default();
        *w.0 = u64::MAX;
        d.must("cuMemPoolSetAttribute", &[pool, 4, w.at()]);
        let marks = || [5, 6, 7, 8].map(|attribute| {
            let mut w = Word::default();
            d.must("cuMemPoolGetAttribute", &[pool, attribute, w.at()]);
            w.get() >> 20
        });
        let blocks: Vec<usize> = (0..3).map(|_| d.make("cuMemAllocAsync", &[32 << 20, stream])).collect();
        assert_eq!(marks(), [96, 96, 96, 96]);
        let gate = Gate::on(d, stream);
        d.must("cuMemFreeAsync", &[blocks[0], stream]);
        d.must("cuMemFreeAsync", &[blocks[1], stream]);
        assert_eq!(marks(), [96, 96, 32, 96]);
        d.must("cuMemPoolTrimTo", &[pool, 0]);
        assert_eq!(marks()[0], 96, "the stream has not come to the frees");
        gate.open();
        d.must("cuStreamSynchronize", &[stream]);
        for (keep, reserved) in [(200 << 20, 96), ((64 << 20) + 1, 96), (64 << 20, 64), (1, 32), (0, 32)] {
            d.must("cuMemPoolTrimTo", &[pool, keep]);
            assert_eq!(marks()[0], reserved, "{keep}");
        }
        *w.0 = 0;
        d.must("cuMemPoolSetAttribute", &[pool, 6, w.at()]);
        d.must("cuMemPoolSetAttribute", &[pool, 8, w.at()]);
        assert_eq!(marks(), [32, 32, 32, 32]);
        d.must("cuMemFreeAsync", &[blocks[2], stream]);
        d.must("cuStreamSynchronize", &[stream]);
        d.must("cuMemPoolTrimTo", &[pool, 1]);
        assert_eq!(marks()[0], 32, "at least a byte is kept");
        d.must("cuMemPoolTrimTo", &[pool, 0]);
        assert_eq!(marks(), [0, 32, 0, 32]);
    };
}
