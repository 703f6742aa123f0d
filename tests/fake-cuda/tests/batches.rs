//! Stories about batches of copies: what the driver leaves open goes against who relies on it.

mod support;

#[path = "../examples/ask/batches.rs"]
#[expect(dead_code, reason = "the arguments are built here too, the questions are for `ask`")]
mod batches;

use batches::Batch;
use support::asker::pageable;
use support::{Driver, Gate, Word, asker, bytes};

const STREAM: u32 = 1;
const CALL: u32 = 2;
const ANY: u32 = 3;

/// What a device holds, once a stream is done.
fn held(d: &Driver, stream: usize, at: usize, length: usize) -> Vec<u8> {
    d.must("cuStreamSynchronize", &[stream]);
    let host = pageable(length);
    d.must("cuMemcpyDtoH_v2", &[host, at, length]);
    bytes(host, length).to_vec()
}

/// A copy of 64 bytes behind a gate, whose source changes from 3 to 9 after the call.
fn changed(d: &Driver, from: usize, order: u32) -> Vec<u8> {
    let stream = d.make("cuStreamCreate", &[1]);
    let memory = d.make("cuMemAlloc_v2", &[64]);
    bytes(from, 64).fill(3);
    let gate = Gate::on(d, stream);
    d.must("cuMemcpyBatchAsync_v2", &Batch::new(&[(memory, from, 64)], order).arguments(stream));
    bytes(from, 64).fill(9);
    gate.open();
    held(d, stream, memory, 64)
}

fn look_up(d: &Driver, version: usize) -> (usize, i32) {
    let (mut at, mut status) = (Word::default(), Word::default());
    let name = c"cuMemcpyBatchAsync".as_ptr() as usize;
    d.must("cuGetProcAddress_v2", &[name, at.at(), version, 0, status.at()]);
    (at.get(), status.int())
}

stories! {
    many_ranges_are_copied_with_one_call_in_either_form [] |d: &Driver| {
        d.primary();
        let stream = d.make("cuStreamCreate", &[1]);
        let (memory, pinned) = (d.make("cuMemAlloc_v2", &[64 << 10]), d.make("cuMemAllocHost_v2", &[64 << 10]));
        for (index, byte) in bytes(pinned, 64 << 10).iter_mut().enumerate() {
            *byte = (index / 64) as u8;
        }
        let there: Vec<_> = (0..512).map(|n| (memory + n * 128, pinned + n * 128, 100)).collect();
        let mut failed = Word::default();
        for older in [false, true] {
            d.must("cuMemsetD8Async", &[memory, 0xaa, 64 << 10, stream]);
            let batch = Batch::new(&there, STREAM);
            if older {
                d.must("cuMemcpyBatchAsync", &batch.older_arguments(failed.at(), stream));
            } else {
                d.must("cuMemcpyBatchAsync_v2", &batch.arguments(stream));
            }
            let seen = held(d, stream, memory, 64 << 10);
            for (index, byte) in seen.iter().enumerate() {
                let copied = index % 128 < 100;
                assert_eq!(*byte, if copied { (index / 64) as u8 } else { 0xaa });
            }
        }
    };

    source_in_stream_order_has_to_stay_until_the_stream_has_passed [] |d: &Driver| {
        d.primary();
        assert_eq!(changed(d, pageable(64), STREAM), [9; 64]);
        assert_eq!(changed(d, d.make("cuMemAllocHost_v2", &[64]), STREAM), [9; 64]);
    };

    source_during_the_call_may_be_reused_at_once [] |d: &Driver| {
        d.primary();
        assert_eq!(changed(d, pageable(64), CALL), [3; 64]);
        assert_eq!(changed(d, d.make("cuMemAllocHost_v2", &[64]), CALL), [3; 64]);
    };

    source_at_any_time_must_not_change_at_all [] |d: &Driver| {
        d.primary();
        assert_eq!(changed(d, pageable(64), ANY), [0xee; 64]);
        let stream = d.make("cuStreamCreate", &[1]);
        let (memory, host) = (d.make("cuMemAlloc_v2", &[64]), pageable(64));
        bytes(host, 64).fill(3);
        d.must("cuMemcpyBatchAsync_v2", &Batch::new(&[(memory, host, 64)], ANY).arguments(stream));
        assert_eq!(held(d, stream, memory, 64), [3; 64]);
    };

    source_that_earlier_work_writes_is_read_too_early_unless_in_order [] |d: &Driver| {
        d.primary();
        let stream = d.make("cuStreamCreate", &[1]);
        let (source, to) = (d.make("cuMemAlloc_v2", &[64]), d.make("cuMemAlloc_v2", &[64]));
        for (order, byte) in [(STREAM, 9), (CALL, 3), (ANY, 0xee)] {
            d.must("cuMemsetD8Async", &[source, 3, 64, stream]);
            d.must("cuStreamSynchronize", &[stream]);
            let gate = Gate::on(d, stream);
            d.must("cuMemsetD8Async", &[source, 9, 64, stream]);
            d.must("cuMemcpyBatchAsync_v2", &Batch::new(&[(to, source, 64)], order).arguments(stream));
            gate.open();
            assert_eq!(held(d, stream, to, 64), [byte; 64]);
        }
    };

    pageable_destination_is_written_after_the_call_returned [] |d: &Driver| {
        d.primary();
        let stream = d.make("cuStreamCreate", &[1]);
        let (memory, host) = (d.make("cuMemAlloc_v2", &[64]), pageable(64));
        d.must("cuMemsetD8Async", &[memory, 9, 64, stream]);
        bytes(host, 64).fill(3);
        let gate = Gate::on(d, stream);
        d.must("cuMemcpyBatchAsync_v2", &Batch::new(&[(host, memory, 64)], STREAM).arguments(stream));
        assert_eq!(bytes(host, 64), [3; 64]);
        gate.open();
        d.must("cuStreamSynchronize", &[stream]);
        assert_eq!(bytes(host, 64), [9; 64]);
    };

    copies_that_depend_on_each_other_do_not_find_each_other [] |d: &Driver| {
        d.primary();
        let stream = d.make("cuStreamCreate", &[1]);
        let (a, b) = (d.make("cuMemAlloc_v2", &[64]), d.make("cuMemAlloc_v2", &[64]));
        let pinned = d.make("cuMemAllocHost_v2", &[64]);
        bytes(pinned, 64).fill(3);
        d.must("cuMemsetD8Async", &[a, 1, 64, stream]);
        d.must("cuMemcpyBatchAsync_v2", &Batch::new(&[(a, pinned, 64), (b, a, 64)], STREAM).arguments(stream));
        assert_eq!(held(d, stream, b, 64), [1; 64]);
    };

    each_kind_of_attributes_is_for_its_own_copies [] |d: &Driver| {
        d.primary();
        let stream = d.make("cuStreamCreate", &[1]);
        let (memory, host) = (d.make("cuMemAlloc_v2", &[192]), pageable(192));
        bytes(host, 192).fill(3);
        let copies: Vec<_> = (0..3).map(|n| (memory + n * 64, host + n * 64, 64)).collect();
        let batch = Batch::new(&copies, CALL).with(|b| {
            b.attributes.push([STREAM, 0, 0, 0, 0, 1]);
            b.firsts.push(1);
        });
        let gate = Gate::on(d, stream);
        d.must("cuMemcpyBatchAsync_v2", &batch.arguments(stream));
        bytes(host, 192).fill(9);
        gate.open();
        assert_eq!(held(d, stream, memory, 192), [vec![3; 64], vec![9; 128]].concat());
    };

    null_stream_is_refused_by_every_name_and_the_per_thread_stream_is_not [] |d: &Driver| {
        let context = d.primary();
        let (memory, pinned) = (d.make("cuMemAlloc_v2", &[64]), d.make("cuMemAllocHost_v2", &[64]));
        let batch = Batch::new(&[(memory, pinned, 64)], STREAM);
        let mut failed = Word::default();
        for stream in [0, 1] {
            *failed.0 = 77;
            assert_eq!(d.call("cuMemcpyBatchAsync_v2", &batch.arguments(stream)), 1);
            assert_eq!(d.call("cuMemcpyBatchAsync", &batch.older_arguments(failed.at(), stream)), 1);
            assert_eq!(failed.get(), 77);
        }
        d.must("cuMemcpyBatchAsync_v2", &batch.arguments(2));
        let stream = d.make("cuStreamCreate", &[0]);
        d.must("cuCtxSetCurrent", &[0]);
        d.must("cuMemcpyBatchAsync_v2", &batch.arguments(stream));
        d.must("cuCtxSetCurrent", &[context]);
        d.must("cuStreamDestroy_v2", &[stream]);
        assert_eq!(d.call("cuMemcpyBatchAsync_v2", &batch.arguments(stream)), 400);
    };

    refused_batch_names_the_copy_and_does_none_of_them [] |d: &Driver| {
        d.primary();
        let stream = d.make("cuStreamCreate", &[1]);
        let (memory, pinned) = (d.make("cuMemAlloc_v2", &[256]), d.make("cuMemAllocHost_v2", &[256]));
        let host = pageable(16 << 10);
        d.must("cuMemHostRegister_v2", &[host + 4096, 4096, 0]);
        bytes(pinned, 256).fill(3);
        d.must("cuMemsetD8Async", &[memory, 0xaa, 256, stream]);
        let copies = [(memory, pinned, 64), (memory + 64, pinned, 64), (memory + 128, pinned, 64)];
        let good = Batch::new(&copies, STREAM);
        let none = -1i64 as usize;
        let mut failed = Word::default();
        let pushed = |b: &mut Batch, first| {
            b.attributes.push([STREAM, 0, 0, 0, 0, 0]);
            b.firsts.push(first);
        };
        for (what, batch, index) in [
            ("no bytes", good.clone().with(|b| b.sizes[1] = 0), 1),
            ("null source", good.clone().with(|b| b.from[2] = 0), 2),
            ("null destination", good.clone().with(|b| b.to[0] = 0), 0),
            ("past the end", good.clone().with(|b| b.sizes[2] = 129), 2),
            ("half registered", good.clone().with(|b| b.from[1] = host + 4090), 1),
            ("order 0", good.clone().with(|b| b.attributes[0][0] = 0), none),
            ("order 4", good.clone().with(|b| b.attributes[0][0] = 4), none),
            ("flags 2", good.clone().with(|b| b.attributes[0][5] = 2), none),
            ("first not 0", good.clone().with(|b| b.firsts[0] = 1), none),
            ("first twice", good.clone().with(|b| pushed(b, 0)), none),
            ("first beyond", good.clone().with(|b| pushed(b, 3)), none),
            ("no attributes", good.clone().with(|b| b.attributes.clear()), none),
            ("no copies", Batch::new(&[], STREAM), none),
        ] {
            *failed.0 = 77;
            assert_eq!(d.call("cuMemcpyBatchAsync", &batch.older_arguments(failed.at(), stream)), 1, "{what}");
            assert_eq!(failed.get(), index, "{what}");
            assert_eq!(d.call("cuMemcpyBatchAsync", &batch.older_arguments(0, stream)), 1, "{what}");
            assert_eq!(d.call("cuMemcpyBatchAsync_v2", &batch.arguments(stream)), 1, "{what}");
        }
        assert_eq!(held(d, stream, memory, 256), [0xaa; 256]);
    };

    older_driver_gives_the_older_form_whatever_is_asked_for ["FAKE_CUDA_DRIVER_VERSION" = "12080"] |d: &Driver| {
        d.primary();
        let older = d.address("cuMemcpyBatchAsync");
        assert_eq!([12000, 12080, 13000].map(|version| look_up(d, version)), [(0, 2), (older, 0), (older, 0)]);
    };

    old_driver_has_no_batches ["FAKE_CUDA_DRIVER_VERSION" = "12040"] |d: &Driver| {
        d.primary();
        assert_eq!([12000, 12080, 13000].map(|version| look_up(d, version)), [(0, 1); 3]);
    };

    newest_form_is_given_to_who_asks_for_it [] |d: &Driver| {
        d.primary();
        let (older, newer) = (d.address("cuMemcpyBatchAsync"), d.address("cuMemcpyBatchAsync_v2"));
        assert_eq!([12080, 12090, 13000].map(|version| look_up(d, version)), [(older, 0), (older, 0), (newer, 0)]);
    };

    missing_batches_are_not_found ["FAKE_CUDA_MISSING" = "cuMemcpyBatchAsync"] |d: &Driver| {
        d.primary();
        assert_eq!(look_up(d, 13000), (0, 1));
    };

    batch_fails_on_demand_by_its_plain_name ["FAKE_CUDA_FAIL" = "cuMemcpyBatchAsync:2=2"] |d: &Driver| {
        d.primary();
        let stream = d.make("cuStreamCreate", &[1]);
        let (memory, pinned) = (d.make("cuMemAlloc_v2", &[64]), d.make("cuMemAllocHost_v2", &[64]));
        let batch = Batch::new(&[(memory, pinned, 64)], STREAM);
        let codes = [(); 3].map(|()| d.call("cuMemcpyBatchAsync_v2", &batch.arguments(stream)));
        assert_eq!(codes, [0, 2, 0]);
    };

    pool_memory_of_a_batch_that_is_not_there_yet_breaks_the_context [] |d: &Driver| {
        d.primary();
        let (a, b) = (d.make("cuStreamCreate", &[1]), d.make("cuStreamCreate", &[1]));
        let gate = Gate::on(d, a);
        let (memory, pool) = (d.make("cuMemAlloc_v2", &[64]), d.make("cuMemAllocAsync", &[64, a]));
        d.must("cuMemcpyBatchAsync_v2", &Batch::new(&[(memory, pool, 64)], STREAM).arguments(b));
        assert_eq!(d.call("cuStreamSynchronize", &[b]), 700);
        gate.open();
    };
}
