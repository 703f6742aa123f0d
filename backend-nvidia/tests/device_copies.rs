//! Copies in every direction, seen through the plugin's own table: on the fake driver by default, on
//! a real one with `LLAISYS_TEST_DRIVER=""`.

mod support;

use llaisys_runtime_core::api::{CopyFlags, Stream};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::Plugin;
use support::on_device::*;

on_a_device! {
    fn every_size_copies_exactly_in_every_direction(plugin) {
        for size in SIZES {
            let (a, b) = (plugin.device_memory(size + 2), plugin.device_memory(size + 2));
            let data = pattern(size as u8, size);
            plugin.fill(a, &vec![0x11; size + 2]);
            plugin.fill(b, &vec![0x22; size + 2]);
            plugin.fill(a.wrapping_byte_add(1), &data);
            plugin.copy(b.wrapping_byte_add(1), a.wrapping_byte_add(1), size, D2D);
            let read = plugin.read(b, size + 2);
            assert_eq!((read[0], read[size + 1]), (0x22, 0x22), "{size}");
            assert!(read[1..=size] == data, "{size}");
            let mut host = vec![0_u8; size];
            plugin.copy(host.as_mut_ptr().cast(), data.as_ptr().cast(), size, H2H);
            assert!(host == data, "{size}");
            plugin.free(a).expect("a free");
            plugin.free(b).expect("a free");
        }
    }

    /// C2, case 16: a synchronous copy comes after what blocking streams were given before.
    fn a_synchronous_copy_waits_for_earlier_work_of_blocking_streams(plugin) {
        for kind in [D2H, D2D, H2D, H2H] {
            let size = 1 << 20;
            let stream = plugin.new_stream();
            let block = plugin.device_memory(size);
            let other = plugin.device_memory(size);
            let pinned = plugin.pinned(size);
            let landing = plugin.pinned(size);
            pinned.copy_from_slice(&pattern(8, size));
            plugin.fill(block, &vec![0; size]);
            let gate = Gate::on(plugin, stream);
            plugin.copy_in(stream, block, pinned.as_ptr().cast(), size, H2D, CopyFlags::NONE);
            plugin.copy_in(stream, landing.as_mut_ptr().cast(), block, size, D2H, CopyFlags::NONE);
            let opener = std::thread::spawn({
                let open = &raw const *gate.open as usize;
                move || {
                    std::thread::sleep(Duration::from_millis(50));
                    // SAFETY: the gate lives until the join below.
                    unsafe { &*(open as *const AtomicBool) }.store(true, Ordering::Release);
                }
            });
            let host = match kind {
                D2H => plugin.read(block, size),
                D2D => {
                    plugin.copy(other, block, size, D2D);
                    plugin.read(other, size)
                }
                H2D => {
                    // Comes last, so it is what stays.
                    plugin.fill(block, &pattern(9, size));
                    plugin.read(block, size)
                }
                _ => {
                    let mut host = vec![0; size];
                    plugin.copy(host.as_mut_ptr().cast(), landing.as_ptr().cast(), size, H2H);
                    host
                }
            };
            opener.join().expect("no panic");
            gate.open(plugin);
            assert!(host == pattern(if kind == H2D { 9 } else { 8 }, size), "kind {kind}");
            plugin.destroy(stream).expect("a stream");
            plugin.free(block).expect("a free");
            plugin.free(other).expect("a free");
        }
    }

    /// C3: the source of a pageable copy may go as soon as the call returns.
    fn a_pageable_source_is_read_when_the_call_returns(plugin) {
        for size in SIZES {
            let stream = plugin.new_stream();
            let block = plugin.device_memory(size);
            let mut source = pattern(1, size);
            let flags = CopyFlags::SOURCE_PAGEABLE;
            plugin.copy_in(stream, block, source.as_ptr().cast(), size, H2D, flags);
            source.fill(0xBD);
            plugin.wait(stream);
            assert!(plugin.read(block, size) == pattern(1, size), "{size}");
            // The same while the stream is held, or the default stream that it follows, from the
            // thread that will open the gate: the call must not wait for its turn.
            for held in [stream, Stream::DEFAULT] {
                for seed in 2..5 {
                    let data = pattern(seed, size);
                    source.copy_from_slice(&data);
                    let gate = Gate::on(plugin, held);
                    plugin.copy_in(stream, block, source.as_ptr().cast(), size, H2D, flags);
                    source.fill(0xBD);
                    gate.open(plugin);
                    assert!(plugin.read(block, size) == data, "{size}");
                }
            }
            plugin.free(block).expect("a free");
            plugin.destroy(stream).expect("a stream");
        }
    }

    /// C3: a promised buffer is not waited for in either direction.
    fn a_promised_pageable_buffer_is_asynchronous(plugin) {
        for size in SIZES {
            let stream = plugin.new_stream();
            let block = plugin.device_memory(size);
            let (source, mut target) = (pattern(8, size), vec![0_u8; size]);
            let promised = CopyFlags::HOST_BUFFER_PROMISED;
            let gate = Gate::on(plugin, stream);
            plugin.copy_in(stream, block, source.as_ptr().cast(), size, H2D, promised);
            plugin.copy_in(stream, target.as_mut_ptr().cast(), block, size, D2H, promised);
            assert!(target.iter().all(|&byte| byte == 0), "{size}: copied before its turn");
            gate.open(plugin);
            assert!(target == source, "{size}");
            plugin.free(block).expect("a free");
            plugin.destroy(stream).expect("a stream");
        }
    }

    /// C3, case 44: into pageable memory the data is there when the call returns.
    fn a_pageable_destination_is_written_when_the_call_returns(plugin) {
        for size in SIZES {
            let stream = plugin.new_stream();
            let block = plugin.device_memory(size);
            plugin.fill(block, &pattern(4, size));
            let mut host = vec![0_u8; size];
            let flags = CopyFlags::DESTINATION_PAGEABLE;
            plugin.copy_in(stream, host.as_mut_ptr().cast(), block, size, D2H, flags);
            assert!(host == pattern(4, size), "{size}");
            let (source, mut host) = (pattern(6, size), vec![0_u8; size]);
            let flags = flags.with(CopyFlags::SOURCE_PAGEABLE);
            let (to, from) = (host.as_mut_ptr().cast(), source.as_ptr().cast());
            plugin.copy_in(stream, to, from, size, H2H, flags);
            assert!(host == source, "{size}");
            plugin.free(block).expect("a free");
            plugin.destroy(stream).expect("a stream");
        }
    }

    fn host_to_host_keeps_the_streams_order_and_reads_a_pageable_source_at_once(plugin) {
        let size = 100_000;
        let stream = plugin.new_stream();
        let (first, second) = (plugin.pinned(size), plugin.pinned(size));
        let mut source = pattern(1, size);
        let gate = Gate::on(plugin, stream);
        let flags = CopyFlags::SOURCE_PAGEABLE;
        let to = first.as_mut_ptr().cast();
        plugin.copy_in(stream, to, source.as_ptr().cast(), size, H2H, flags);
        source.fill(0xBD);
        let to = second.as_mut_ptr().cast();
        plugin.copy_in(stream, to, first.as_ptr().cast(), size, H2H, CopyFlags::NONE);
        assert!(first.iter().all(|&byte| byte == 0), "copied before its turn");
        gate.open(plugin);
        assert!(*second == *pattern(1, size));
        plugin.destroy(stream).expect("a stream");
    }

    /// S4: a stream may copy between the host and the memory of another device, in its order, and
    /// that memory is not handed out again before the stream is done (M4).
    fn a_stream_copies_to_and_from_another_devices_memory_in_its_order(plugin) {
        if plugin.device_count().expect("devices") < 2 {
            println!("skipped: one device");
            return;
        }
        for size in SIZES {
            let stream = plugin.new_stream();
            let far = memory_of(plugin, 1);
            let mut source = pattern(9, size);
            let landing = plugin.pinned(size);
            let gate = Gate::on(plugin, stream);
            let flags = CopyFlags::SOURCE_PAGEABLE;
            plugin.copy_in(stream, far, source.as_ptr().cast(), size, H2D, flags);
            source.fill(0xBD);
            let to = landing.as_mut_ptr().cast();
            plugin.copy_in(stream, to, far, size, D2H, CopyFlags::NONE);
            // SAFETY: freed once, on its device.
            let freed = unsafe { (plugin.api.free_device)(plugin.api.self_, 1, far) };
            plugin.result(freed).expect("a free");
            for _ in 0..3 {
                assert_ne!(memory_of(plugin, 1), far, "{size}: handed out before its turn");
            }
            assert!(landing.iter().all(|&byte| byte == 0), "{size}: copied before its turn");
            gate.open(plugin);
            assert!(*landing == *pattern(9, size), "{size}");
            plugin.destroy(stream).expect("a stream");
        }
    }

    /// C5, case 49: between every pair of devices, by whichever path there is.
    fn two_devices_copy_between_each_other(plugin) {
        let count = plugin.device_count().expect("devices");
        if count < 2 {
            println!("skipped: {count} device");
            return;
        }
        // The first of a pair has its pool before the other is in use, and the other way round.
        for (from, to) in [(0, 1), (1, 0)] {
            let (source, target) = (memory_of(plugin, from), memory_of(plugin, to));
            for size in SIZES.into_iter().chain([PEER_BLOCK]) {
                for runs_on in [from, to] {
                    for wait in [true, false] {
                        let data = pattern(size as u8 ^ from as u8 ^ u8::from(wait), size);
                        copy_on(plugin, from, source, data.as_ptr().cast(), size, H2D, true);
                        copy_on(plugin, runs_on, target, source, size, D2D, wait);
                        let mut read = vec![0_u8; size];
                        copy_on(plugin, to, read.as_mut_ptr().cast(), target, size, D2H, true);
                        assert!(read == data, "{from} to {to} on {runs_on}, {size}, wait {wait}");
                    }
                }
            }
        }
    }
}

/// More than is taken through the host at a time.
const PEER_BLOCK: usize = 9 << 20;

fn memory_of(plugin: &Plugin, device: i32) -> *mut c_void {
    let mut pointer = std::ptr::null_mut();
    let size = PEER_BLOCK as u64;
    // SAFETY: `pointer` is writable.
    let status =
        unsafe { (plugin.api.malloc_device)(plugin.api.self_, device, size, &mut pointer) };
    plugin.result(status).expect("device memory");
    pointer
}

/// A copy on a device; without `wait`, on its default stream and waited for there.
fn copy_on(
    plugin: &Plugin,
    device: i32,
    dst: *mut c_void,
    src: *const c_void,
    size: usize,
    kind: u32,
    wait: bool,
) {
    let (table, size, flags) = (plugin.api, size as u64, CopyFlags::NONE);
    let this = table.self_;
    // SAFETY: the story gives ranges that fit and live until the device is waited for.
    let status = unsafe {
        if wait {
            (table.memcpy_sync)(this, device, dst, src, size, kind, flags)
        } else {
            let stream = Stream::DEFAULT;
            plugin
                .result((table.memcpy_async)(this, device, dst, src, size, kind, stream, flags))
                .expect("a copy");
            (table.device_synchronize)(this, device)
        }
    };
    plugin.result(status).expect("a copy");
}
