//! Fills, pitched copies and batches, seen through the plugin's own table: on the fake driver by default, on
//! a real one with `LLAISYS_TEST_DRIVER=""`.

mod support;

use llaisys_runtime_core::api::{
    Capabilities, CopyFlags, LlaisysCopy3D, LlaisysCopyRange, Stream, StreamFlags,
};
use llaisys_runtime_core::status::Status;
use std::ffi::c_void;
use std::time::{Duration, Instant};
use support::Plugin;
use support::extended::*;
use support::on_device::*;

/// The patterns of every length.
fn patterns() -> impl Iterator<Item = Vec<u8>> {
    [1, 2, 4, 8, 16]
        .into_iter()
        .map(|size| (0..size as u8).map(|i| i.wrapping_mul(17) ^ 3).collect())
}

/// A pitched copy: on each side the first byte, the pitch and the slice's height; then what is copied.
fn rows(
    kind: u32,
    (dst, dst_pitch, dst_slice_height): (*mut c_void, u64, u64),
    (src, src_pitch, src_slice_height): (*const c_void, u64, u64),
    [width, height, depth]: [u64; 3],
) -> LlaisysCopy3D {
    LlaisysCopy3D {
        struct_size: size_of::<LlaisysCopy3D>() as u32,
        kind,
        dst,
        dst_pitch,
        dst_slice_height,
        src,
        src_pitch,
        src_slice_height,
        width,
        height,
        depth,
    }
}

/// What a pitched copy makes of the bytes of its destination.
fn expected(copy: &LlaisysCopy3D, before: &[u8], source: &[u8]) -> Vec<u8> {
    let mut after = before.to_vec();
    for z in 0..copy.depth {
        for y in 0..copy.height {
            let at = |pitch: u64, slice: u64| ((z * slice + y) * pitch) as usize;
            let (to, from) = (
                at(copy.dst_pitch, copy.dst_slice_height),
                at(copy.src_pitch, copy.src_slice_height),
            );
            let width = copy.width as usize;
            after[to..to + width].copy_from_slice(&source[from..from + width]);
        }
    }
    after
}

const SIDE: usize = 1 << 20;

/// Pitch and slice height of the destination and of the source, and what is copied.
type Layout = ((u64, u64), (u64, u64), [u64; 3]);

/// Pitches, slice heights and extents that fit in `SIDE`: two and three dimensions, without gaps too.
const LAYOUTS: [Layout; 6] = [
    ((64, 0), (80, 0), [48, 100, 1]),
    ((4096, 0), (3, 0), [3, 200, 1]),
    ((512, 7), (640, 9), [500, 7, 40]),
    ((1000, 20), (1000, 10), [1000, 10, 40]),
    ((333, 11), (333, 11), [333, 11, 50]),
    ((0, 0), (0, 0), [70_000, 1, 1]),
];

on_a_device! {
    fn every_pattern_fills_exactly_the_range(plugin) {
        let block = plugin.device_memory(3 * SIDE);
        for pattern in patterns() {
            let unit = pattern.len();
            for count in [1, 2, 3, 4096, 8191, 20_000, 65_537] {
                let (offset, size) = (16 * 3, count * unit);
                plugin.fill(block, &vec![0x11; size + 2 * offset]);
                plugin.set(Stream::DEFAULT, block.wrapping_byte_add(offset), &pattern, size as u64)
                    .expect("a fill");
                plugin.wait(Stream::DEFAULT);
                let read = plugin.read(block, size + 2 * offset);
                assert!(read[..offset].iter().all(|&byte| byte == 0x11), "{unit} x {count}: before");
                assert!(read[offset + size..].iter().all(|&byte| byte == 0x11), "{unit} x {count}: behind");
                assert!(read[offset..offset + size].chunks(unit).all(|part| part == pattern), "{unit} x {count}");
            }
        }
    }

    /// S1: in the order of its stream, whichever that is.
    fn a_fill_waits_for_its_turn(plugin) {
        let non_blocking = plugin.stream_with(0, StreamFlags::NON_BLOCKING, 0).expect("a stream");
        for stream in [Stream::DEFAULT, plugin.new_stream(), non_blocking] {
            for pattern in patterns() {
                let (block, landing) = (plugin.device_memory(SIDE), plugin.pinned(SIDE));
                plugin.fill(block, &vec![0x22; SIDE]);
                let gate = Gate::on(plugin, stream);
                let to = landing.as_mut_ptr().cast();
                plugin.copy_in(stream, to, block, SIDE, D2H, CopyFlags::NONE);
                let start = Instant::now();
                plugin.set(stream, block, &pattern, SIDE as u64).expect("a fill");
                assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
                gate.open(plugin);
                assert!(landing.iter().all(|&byte| byte == 0x22), "filled before its turn");
                assert!(plugin.read(block, SIDE).chunks(pattern.len()).all(|part| part == pattern));
                plugin.free(block).expect("a free");
                plugin.free_pinned(landing.as_mut_ptr()).expect("a free");
            }
        }
    }

    /// S4: the memory is another device's, the order the stream's.
    fn a_stream_fills_another_devices_memory_in_its_order(plugin) {
        if plugin.device_count().expect("devices") < 2 {
            println!("skipped: one device");
            return;
        }
        fill_far_memory(plugin);
    }

    /// C4: each row where it belongs and nothing between them, in every direction.
    fn pitched_copies_touch_their_rows_and_nothing_else(plugin) {
        let stream = plugin.new_stream();
        for (index, &(to, from, extent)) in LAYOUTS.iter().enumerate() {
            for kind in [H2H, H2D, D2H, D2D] {
                for pageable in [false, true] {
                    let (source, before) = (pattern(index as u8, SIDE), vec![0x33; SIDE]);
                    let side = |on_host: bool, bytes: &[u8]| -> *mut c_void {
                        if !on_host {
                            let block = plugin.device_memory(SIDE);
                            plugin.fill(block, bytes);
                            block
                        } else if pageable {
                            bytes.to_vec().leak().as_mut_ptr().cast()
                        } else {
                            let block = plugin.pinned(SIDE);
                            block.copy_from_slice(bytes);
                            block.as_mut_ptr().cast()
                        }
                    };
                    let reads_host = matches!(kind, H2H | H2D);
                    let writes_host = matches!(kind, H2H | D2H);
                    let (dst, src) = (side(writes_host, &before), side(reads_host, &source));
                    let copy = rows(kind, (dst, to.0, to.1), (src, from.0, from.1), extent);
                    let mut flags = CopyFlags::NONE;
                    if pageable && reads_host {
                        flags = flags.with(CopyFlags::SOURCE_PAGEABLE);
                    }
                    if pageable && writes_host {
                        flags = flags.with(CopyFlags::DESTINATION_PAGEABLE);
                    }
                    plugin.pitched(stream, &copy, flags).expect("a copy");
                    let read = |pointer| {
                        if writes_host {
                            // SAFETY: the side is `SIDE` bytes of host memory that live.
                            unsafe { std::slice::from_raw_parts(dst.cast::<u8>(), SIDE) }.to_vec()
                        } else {
                            plugin.read(pointer, SIDE)
                        }
                    };
                    if !(pageable && writes_host) {
                        plugin.wait(stream);
                    }
                    assert!(read(dst) == expected(&normal(copy), &before, &source), "{copy:?} {flags:?}");
                }
            }
        }
    }

    /// C3: rows of a pageable source are read when the call returns, also while the stream is held.
    fn rows_of_a_pageable_source_are_read_at_once(plugin) {
        for kind in [H2D, H2H] {
            for &(to, from, extent) in &LAYOUTS {
                let stream = plugin.new_stream();
                let (block, pinned) = (plugin.device_memory(SIDE), plugin.pinned(SIDE));
                let dst = if kind == H2D { block } else { pinned.as_mut_ptr().cast() };
                plugin.fill(block, &vec![0; SIDE]);
                let mut source = pattern(5, SIDE);
                let copy = rows(kind, (dst, to.0, to.1), (source.as_ptr().cast(), from.0, from.1), extent);
                let wanted = expected(&normal(copy), &vec![0; SIDE], &source);
                let gate = Gate::on(plugin, stream);
                plugin.pitched(stream, &copy, CopyFlags::SOURCE_PAGEABLE).expect("a copy");
                source.fill(0xBD);
                gate.open(plugin);
                let found = if kind == H2D { plugin.read(block, SIDE) } else { pinned.to_vec() };
                assert!(found == wanted, "{copy:?}");
                plugin.free(block).expect("a free");
            }
        }
    }

    /// C3: rows of a promised buffer are not waited for in either direction.
    fn rows_of_a_promised_buffer_are_asynchronous(plugin) {
        for &(to, from, extent) in &LAYOUTS {
            let stream = plugin.new_stream();
            let block = plugin.device_memory(SIDE);
            plugin.fill(block, &vec![0; SIDE]);
            let (source, mut target) = (pattern(7, SIDE), vec![0; SIDE]);
            let promised = CopyFlags::HOST_BUFFER_PROMISED;
            let there = rows(H2D, (block, to.0, to.1), (source.as_ptr().cast(), from.0, from.1), extent);
            let back = rows(D2H, (target.as_mut_ptr().cast(), from.0, from.1), (block, to.0, to.1), extent);
            let gate = Gate::on(plugin, stream);
            plugin.pitched(stream, &there, promised).expect("a copy");
            plugin.pitched(stream, &back, promised).expect("a copy");
            assert!(target.iter().all(|&byte| byte == 0), "copied before its turn");
            gate.open(plugin);
            let on_device = expected(&normal(there), &vec![0; SIDE], &source);
            assert!(target == expected(&normal(back), &vec![0; SIDE], &on_device), "{there:?}");
            plugin.free(block).expect("a free");
        }
    }

    /// C5 for rows.
    fn rows_are_copied_between_two_devices(plugin) {
        if plugin.device_count().expect("devices") < 2 {
            println!("skipped: one device");
            return;
        }
        copy_rows_from_far(plugin);
    }

    /// Many ranges with one call, in every direction, on every kind of stream.
    fn a_batch_copies_every_range(plugin) {
        let non_blocking = plugin.stream_with(0, StreamFlags::NON_BLOCKING, 0).expect("a stream");
        for stream in [plugin.new_stream(), non_blocking, Stream::DEFAULT] {
            for kind in [H2D, D2H, D2D, H2H] {
                copy_a_batch(plugin, stream, kind, 300);
            }
        }
    }

    /// C3: as for a single copy.
    fn a_batch_from_pageable_memory_has_read_it_and_one_into_it_has_written_it(plugin) {
        let stream = plugin.new_stream();
        let size = 100_000;
        let block = plugin.device_memory(2 * size);
        let mut source = pattern(1, 2 * size);
        let range = |dst: *mut c_void, src: *const c_void, part: usize| LlaisysCopyRange {
            dst: dst.wrapping_byte_add(part * size),
            src: src.wrapping_byte_add(part * size),
            size: size as u64,
        };
        let gate = Gate::on(plugin, stream);
        let from = source.as_ptr().cast();
        let there = [range(block, from, 0), range(block, from, 1)];
        plugin.batch(stream, &there, H2D, CopyFlags::SOURCE_PAGEABLE).expect("a batch");
        source.fill(0xBD);
        gate.open(plugin);
        let mut target = vec![0; 2 * size];
        let to = target.as_mut_ptr().cast();
        let back = [range(to, block, 0), range(to, block, 1)];
        plugin.batch(stream, &back, D2H, CopyFlags::DESTINATION_PAGEABLE).expect("a batch");
        assert!(target == pattern(1, 2 * size));
        let nothing: [LlaisysCopyRange; 0] = [];
        plugin.batch(stream, &nothing, D2D, CopyFlags::NONE).expect("nothing to do");
    }

    /// Not a test: what the operations cost on a real device. Run with `--ignored --nocapture`.
    #[ignore = "a measurement, which means something on a real device only"]
    fn what_the_shapes_cost(plugin) {
        plugin.bind(0);
        let stream = plugin.new_stream();
        let (a, b) = (plugin.device_memory(1 << 30), plugin.device_memory(1 << 30));
        for pattern in patterns() {
            for size in [64_u64 << 10, 1 << 30] {
                plugin.set(stream, a, &pattern, size).expect("a fill");
                plugin.wait(stream);
                let start = Instant::now();
                plugin.set(stream, a, &pattern, size).expect("a fill");
                let enqueued = start.elapsed();
                plugin.wait(stream);
                println!("fill {size} by {}: {enqueued:?}, done {:?}", pattern.len(), start.elapsed());
            }
        }
        let ranges: Vec<_> = (0..100_usize)
            .map(|i| LlaisysCopyRange {
                dst: a.wrapping_byte_add(i * 4096),
                src: b.wrapping_byte_add(i * 4096),
                size: 4096,
            })
            .collect();
        for _ in 0..3 {
            let start = Instant::now();
            plugin.batch(stream, &ranges, D2D, CopyFlags::NONE).expect("a batch");
            let batched = start.elapsed();
            plugin.wait(stream);
            let start = Instant::now();
            for range in &ranges {
                plugin.copy_in(stream, range.dst, range.src, 4096, D2D, CopyFlags::NONE);
            }
            println!("100 copies of 4 KiB: {batched:?} batched, {:?} one by one", start.elapsed());
            plugin.wait(stream);
        }
    }
}

/// The same copy with the pitches that a single row does not need.
fn normal(copy: LlaisysCopy3D) -> LlaisysCopy3D {
    let slice = |given: u64| if copy.depth > 1 { given } else { copy.height };
    LlaisysCopy3D {
        dst_slice_height: slice(copy.dst_slice_height),
        src_slice_height: slice(copy.src_slice_height),
        ..copy
    }
}

fn memory_of(plugin: &Plugin, device: i32, size: usize) -> *mut c_void {
    let mut pointer = std::ptr::null_mut();
    let table = plugin.api;
    // SAFETY: `pointer` is writable.
    let status = unsafe { (table.malloc_device)(table.self_, device, size as u64, &mut pointer) };
    plugin.result(status).expect("device memory");
    pointer
}

fn fill_far_memory(plugin: &Plugin) {
    let far = memory_of(plugin, 1, SIDE);
    let stream = plugin.new_stream();
    let landing = plugin.pinned(SIDE);
    for pattern in patterns() {
        let gate = Gate::on(plugin, stream);
        plugin.set(stream, far, &pattern, SIDE as u64).expect("a fill");
        landing.fill(0);
        let to = landing.as_mut_ptr().cast();
        plugin.copy_in(stream, to, far, SIDE, D2H, CopyFlags::NONE);
        assert!(landing.iter().all(|&byte| byte == 0), "copied before its turn");
        gate.open(plugin);
        assert!(landing.chunks(pattern.len()).all(|part| part == pattern));
    }
}

fn copy_rows_from_far(plugin: &Plugin) {
    let (far, near) = (memory_of(plugin, 1, SIDE), plugin.device_memory(SIDE));
    let stream = plugin.new_stream();
    let source = pattern(8, SIDE);
    plugin.copy(near, source.as_ptr().cast(), SIDE, H2D);
    plugin.copy(far, near, SIDE, D2D);
    // Few rows: without a path each of them goes through the host by itself.
    for (to, from, extent) in [((64, 0), (80, 0), [48, 9, 1]), ((512, 7), (640, 9), [500, 3, 4])] {
        plugin.fill(near, &vec![0x44; SIDE]);
        let copy = rows(D2D, (near, to.0, to.1), (far, from.0, from.1), extent);
        plugin.pitched(stream, &copy, CopyFlags::NONE).expect("a copy");
        plugin.wait(stream);
        assert!(plugin.read(near, SIDE) == expected(&normal(copy), &vec![0x44; SIDE], &source));
        let mut host = vec![0x55; SIDE];
        let copy = rows(D2H, (host.as_mut_ptr().cast(), to.0, to.1), (far, from.0, from.1), extent);
        plugin.pitched(stream, &copy, CopyFlags::DESTINATION_PAGEABLE).expect("a copy");
        assert!(host == expected(&normal(copy), &vec![0x55; SIDE], &source));
    }
}

/// Ranges of different sizes, in pinned and device memory, with a byte between them that stays.
fn copy_a_batch(plugin: &Plugin, stream: Stream, kind: u32, count: usize) {
    let size = |index: usize| 1 + index * 37 % 3000;
    let offsets: Vec<usize> = (0..count)
        .scan(0, |end, index| {
            let start = *end;
            *end += size(index) + 1;
            Some(start)
        })
        .collect();
    let all = offsets[count - 1] + size(count - 1) + 1;
    let (pinned, landing) = (plugin.pinned(all), plugin.pinned(all));
    let [source, target] = [(); 2].map(|()| plugin.device_memory(all));
    let data = pattern(9, all);
    pinned.copy_from_slice(&data);
    landing.fill(0x66);
    plugin.fill(source, &data);
    plugin.fill(target, &vec![0x66; all]);
    let src: *const c_void =
        if matches!(kind, H2D | H2H) { pinned.as_ptr().cast() } else { source };
    let dst: *mut c_void =
        if matches!(kind, D2H | H2H) { landing.as_mut_ptr().cast() } else { target };
    let ranges: Vec<LlaisysCopyRange> = offsets
        .iter()
        .enumerate()
        .map(|(index, &at)| LlaisysCopyRange {
            dst: dst.wrapping_byte_add(at),
            src: src.wrapping_byte_add(at),
            size: size(index) as u64,
        })
        .collect();
    let gate = Gate::on(plugin, stream);
    let start = Instant::now();
    plugin.batch(stream, &ranges, kind, CopyFlags::NONE).expect("a batch");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert!(landing.iter().all(|&byte| byte == 0x66), "copied before its turn");
    gate.open(plugin);
    let found = if matches!(kind, D2H | H2H) { landing.to_vec() } else { plugin.read(target, all) };
    let mut wanted = vec![0x66; all];
    for (index, &at) in offsets.iter().enumerate() {
        wanted[at..at + size(index)].copy_from_slice(&data[at..at + size(index)]);
    }
    assert!(found == wanted, "kind {kind}");
}

/// The driver's own batch is really taken where it can be, and nowhere else.
#[test]
fn the_drivers_batch_is_taken_on_streams_that_it_takes() {
    let name = "the_drivers_batch_is_taken_on_streams_that_it_takes";
    on_a_fake(name, &[], |plugin| {
        let cuda = Cuda::open();
        plugin.initialize().expect("devices");
        assert!(plugin.has(0, Capabilities::BATCHED_COPIES));
        let stream = plugin.new_stream();
        copy_a_batch(plugin, stream, D2D, 300);
        assert_eq!(cuda.calls("cuMemcpyBatchAsync"), Some(3), "128 at a time");
        assert_eq!(cuda.calls("cuMemcpyDtoDAsync_v2"), Some(0));
        copy_a_batch(plugin, Stream::DEFAULT, D2D, 10);
        assert_eq!(cuda.calls("cuMemcpyBatchAsync"), Some(3));
        assert_eq!(cuda.calls("cuMemcpyDtoDAsync_v2"), Some(10));
    });
}

/// On a driver that lacks the batch.
fn one_copy_follows_the_other(plugin: &Plugin) {
    let cuda = Cuda::open();
    plugin.initialize().expect("devices");
    assert!(!plugin.has(0, Capabilities::BATCHED_COPIES));
    let stream = plugin.new_stream();
    for kind in [H2D, D2H, D2D, H2H] {
        copy_a_batch(plugin, stream, kind, 200);
    }
    assert_eq!(cuda.calls("cuMemcpyBatchAsync"), Some(0));
    assert_eq!(cuda.calls("cuMemcpyDtoDAsync_v2"), Some(200));
}

#[test]
fn without_the_drivers_batch_one_copy_follows_the_other() {
    let name = "without_the_drivers_batch_one_copy_follows_the_other";
    on_a_fake(name, &[("FAKE_CUDA_MISSING", "cuMemcpyBatchAsync")], one_copy_follows_the_other);
}

#[test]
fn before_cuda_12_8_one_copy_follows_the_other() {
    let name = "before_cuda_12_8_one_copy_follows_the_other";
    on_a_fake(name, &[("FAKE_CUDA_DRIVER_VERSION", "12060")], one_copy_follows_the_other);
}

#[test]
fn a_batch_that_the_driver_refuses_is_done_copy_by_copy_and_a_failure_is_told() {
    let name = "a_batch_that_the_driver_refuses_is_done_copy_by_copy_and_a_failure_is_told";
    on_a_fake(
        name,
        &[("FAKE_CUDA_FAIL", "cuMemcpyBatchAsync:1=1,cuMemcpyBatchAsync:2=900")],
        |plugin| {
            let stream = plugin.new_stream();
            copy_a_batch(plugin, stream, D2D, 100);
            let block = plugin.device_memory(128);
            let range = LlaisysCopyRange { dst: block, src: block.wrapping_byte_add(64), size: 64 };
            let failure = plugin.batch(stream, &[range], D2D, CopyFlags::NONE).expect_err("told");
            assert_eq!(failure.status, Status::NotPermitted.code(), "{failure:?}");
            assert!(failure.message.contains("a batch of 1 copies D2D"), "{failure:?}");
            plugin.batch(stream, &[range], D2D, CopyFlags::NONE).expect("the third time");
        },
    );
}

/// C5: without a path between the devices everything goes another way and is right.
#[test]
fn far_memory_without_a_path_is_filled_and_copied_from() {
    let name = "far_memory_without_a_path_is_filled_and_copied_from";
    on_a_fake(name, &[("FAKE_CUDA_NO_PEER", "1")], |plugin| {
        fill_far_memory(plugin);
        copy_rows_from_far(plugin);
        let (far, near) = (memory_of(plugin, 1, 256), plugin.device_memory(256));
        plugin.fill(near, &pattern(1, 256));
        let stream = plugin.new_stream();
        let range = |at: usize| LlaisysCopyRange {
            dst: far.wrapping_byte_add(at),
            src: near.wrapping_byte_add(at),
            size: 128,
        };
        plugin.batch(stream, &[range(0), range(128)], D2D, CopyFlags::NONE).expect("a batch");
        plugin.wait(stream);
        let mut host = vec![0; 256];
        let to = host.as_mut_ptr().cast();
        plugin.copy_in(stream, to, far, 256, D2H, CopyFlags::DESTINATION_PAGEABLE);
        assert!(host == pattern(1, 256));
    });
}

/// M3: rows further apart than the driver's largest pitch.
#[test]
fn rows_that_are_further_apart_than_a_driver_can_say_are_copied() {
    let name = "rows_that_are_further_apart_than_a_driver_can_say_are_copied";
    on_a_fake(name, &[], |plugin| {
        let pitch = (1_u64 << 31) + 512;
        let (far_apart, near) =
            (memory_of(plugin, 0, pitch as usize + 64), plugin.device_memory(128));
        plugin.fill(near, &pattern(3, 128));
        let stream = plugin.new_stream();
        let there = rows(D2D, (far_apart, pitch, 2), (near, 64, 2), [64, 2, 1]);
        plugin.pitched(stream, &there, CopyFlags::NONE).expect("a copy");
        plugin.wait(stream);
        for row in 0..2 {
            let at = far_apart.wrapping_byte_add(row * pitch as usize);
            assert!(plugin.read(at, 64) == pattern(3, 128)[row * 64..][..64]);
        }
    });
}

#[test]
fn what_the_driver_answers_about_fills_and_rows_is_told_with_what_was_asked() {
    let name = "what_the_driver_answers_about_fills_and_rows_is_told_with_what_was_asked";
    let failures = "cuMemsetD8Async=900,cuMemsetD2D32Async:2=999,cuMemcpy3DAsync_v2=900";
    on_a_fake(name, &[("FAKE_CUDA_FAIL", failures)], |plugin| {
        let stream = plugin.new_stream();
        let block = plugin.device_memory(4096);
        let failure = plugin.set(stream, block, &[1], 64).expect_err("told");
        assert_eq!(failure.status, Status::NotPermitted.code(), "{failure:?}");
        assert!(failure.message.contains("fill 64 bytes"), "{failure:?}");
        let failure = plugin.set(stream, block, &[1; 16], 64).expect_err("the second column");
        assert_eq!(failure.status, Status::DriverError.code(), "{failure:?}");
        let to = block.wrapping_byte_add(2048);
        let copy = rows(D2D, (to, 32, 0), (block, 64, 0), [16, 4, 1]);
        let failure = plugin.pitched(stream, &copy, CopyFlags::NONE).expect_err("told");
        assert_eq!(failure.status, Status::NotPermitted.code(), "{failure:?}");
        assert!(failure.message.contains("rows of 16 bytes D2D"), "{failure:?}");
        let failure = plugin.set(stream, std::ptr::without_provenance_mut(0x1000), &[1; 4], 64);
        assert_eq!(failure.expect_err("nobody's memory").status, Status::InvalidValue.code());
    });
}

/// Asked, driver 580 takes a stream's context from the stream; older ones are not asked.
#[test]
fn a_driver_that_wants_the_context_of_the_stream_current_gets_it() {
    let name = "a_driver_that_wants_the_context_of_the_stream_current_gets_it";
    let refusals = "cuMemcpyHtoDAsync_v2:1=201,cuMemcpyHtoDAsync_v2:3=400,cuMemsetD8Async:1=201";
    on_a_fake(name, &[("FAKE_CUDA_FAIL", refusals)], |plugin| {
        let (stream, block) = (plugin.new_stream(), plugin.device_memory(64));
        let host = pattern(5, 64);
        for _ in 0..2 {
            plugin.set(stream, block, &[7], 64).expect("a fill");
            plugin.copy_in(stream, block, host.as_ptr().cast(), 64, H2D, CopyFlags::NONE);
            plugin.wait(stream);
            assert!(plugin.read(block, 64) == host);
        }
    });
}
