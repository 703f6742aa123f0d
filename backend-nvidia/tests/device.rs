//! Devices, contexts, memory and streams, seen through the plugin's own table: on the fake driver by
//! default, on a real one with `LLAISYS_TEST_DRIVER=""`.

mod support;

use libloading::os::unix::Library;
use llaisys_runtime_core::api::{
    Capabilities, CopyFlags, LlaisysDeviceProperties, LlaisysMemoryInfo, Stream, UNKNOWN_BYTES,
    read_text,
};
use llaisys_runtime_core::status::Status;
use std::ffi::c_void;
use std::time::{Duration, Instant};
use support::Plugin;
use support::extended::Extended;
use support::on_device::*;

/// The driver itself, for what the table does not show; the library that the plugin has open.
fn driver_function(name: &[u8]) -> unsafe extern "C" fn(*mut *mut c_void) -> i32 {
    let named = std::env::var("LLAISYS_CUDA_DRIVER").unwrap_or_default();
    let file = if named.is_empty() { "libcuda.so.1" } else { named.as_str() };
    // SAFETY: the library is open already.
    let library = unsafe { Library::new(file) }.expect("the driver is open");
    // SAFETY: the stories ask for functions of this signature.
    let function = *unsafe { library.get(name) }.expect("the driver has it");
    std::mem::forget(library);
    function
}

fn current_context() -> *mut c_void {
    let mut context = std::ptr::null_mut();
    // SAFETY: `context` is writable.
    assert_eq!(unsafe { driver_function(b"cuCtxGetCurrent\0")(&mut context) }, 0);
    context
}

on_a_device! {
    fn the_device_says_what_it_is_and_gets_no_context_for_it(plugin) {
        assert!(plugin.device_count().expect("devices") >= 1);
        let mut properties = LlaisysDeviceProperties::new();
        let mut memory = LlaisysMemoryInfo::new(0, 0);
        // SAFETY: both are writable and tell their sizes.
        let status = unsafe {
            plugin.result((plugin.api.get_device_properties)(plugin.api.self_, 0, &mut properties))
                .expect("properties");
            (plugin.api.get_memory_info)(plugin.api.self_, 0, &mut memory)
        };
        plugin.result(status).expect("memory");
        println!(
            "{} {} driver {} cc {}.{} sm {} uuid {:x?} memory {memory:?}",
            read_text(&properties.name),
            read_text(&properties.pci_address),
            properties.driver_version,
            properties.compute_capability_major,
            properties.compute_capability_minor,
            properties.processor_count,
            properties.uuid,
        );
        assert_eq!(read_text(&properties.vendor), "NVIDIA");
        assert!(!read_text(&properties.name).is_empty());
        assert!(properties.driver_version >= 11020 && properties.total_memory > 0);
        println!(
            "L2 {} clock {} kHz integrated {} runtime {} capabilities {:#x}",
            properties.l2_cache_size,
            properties.clock_rate,
            properties.integrated,
            properties.runtime_version,
            properties.capabilities,
        );
        assert!(properties.l2_cache_size > 0 && properties.clock_rate > 100_000);
        assert_eq!((properties.integrated, properties.runtime_version), (0, 0));
        assert_eq!(read_text(&properties.cpu_features), "");
        let events = Capabilities::EVENTS.with(Capabilities::STREAM_ORDERED_MEMORY);
        assert!(Capabilities(properties.capabilities).contains(events));
        assert!(
            Capabilities(plugin.descriptor.capabilities)
                .contains(Capabilities(properties.capabilities)),
            "no device has what the backend has not"
        );
        assert_eq!((memory.free, memory.total), (UNKNOWN_BYTES, properties.total_memory));
        assert!(current_context().is_null());
        // In use, the device tells what is free; what a free leaves in the pool is free.
        let block = plugin.device_memory(1 << 20);
        let free_bytes = || {
            let mut memory = LlaisysMemoryInfo::new(0, 0);
            // SAFETY: writable, and tells its size.
            let status = unsafe { (plugin.api.get_memory_info)(plugin.api.self_, 0, &mut memory) };
            plugin.result(status).expect("memory");
            memory.free
        };
        let before = free_bytes();
        assert!(before > 0 && before < memory.total);
        plugin.free(block).expect("a free");
        let start = Instant::now();
        while free_bytes() <= before {
            assert!(start.elapsed() < Duration::from_secs(5), "{} after {before}", free_bytes());
        }
    }

    /// The runtime of another library is looked at where it is loaded, and never loaded.
    fn the_version_of_a_runtime_that_another_library_brought_along_is_told(plugin) {
        plugin.initialize().expect("devices");
        assert_eq!(plugin.properties(0).runtime_version, 0);
        let source = "int cudaRuntimeGetVersion(int *version) { *version = 12090; return 0; }";
        let runtime = support::library_from("cudart", "libcudart.so.12", source);
        // SAFETY: it has no constructor.
        std::mem::forget(unsafe { Library::new(runtime) }.expect("it loads"));
        assert_eq!(plugin.properties(0).runtime_version, 12090);
    }

    fn the_threads_context_is_left_as_it_was_and_set_device_binds_it(plugin) {
        let stream = plugin.new_stream();
        let block = plugin.device_memory(64);
        plugin.fill(block, &[7; 64]);
        assert!(current_context().is_null(), "no call but set_device changes it");
        // SAFETY: takes numbers alone.
        plugin.result(unsafe { (plugin.api.set_device)(plugin.api.self_, 0) }).expect("bound");
        let ours = current_context();
        assert!(!ours.is_null());
        plugin.copy_in(stream, block, [9_u8; 64].as_ptr().cast(), 64, H2D, CopyFlags::SOURCE_PAGEABLE);
        plugin.wait(stream);
        assert_eq!(current_context(), ours);
        // SAFETY: takes numbers alone.
        let failure = plugin.result(unsafe { (plugin.api.set_device)(plugin.api.self_, 99) });
        assert_eq!(failure.expect_err("no such device").status, Status::InvalidDevice.code());
        assert_eq!(current_context(), ours);
        plugin.free(block).expect("a free");
        plugin.destroy(stream).expect("a stream");
    }

    /// M4, case 45: a copy that is still waiting keeps its source although that was freed.
    fn freed_memory_is_not_handed_out_before_earlier_work_is_done_and_the_free_does_not_wait(plugin) {
        let size = 4 << 20;
        let (stream, other) = (plugin.new_stream(), plugin.new_stream());
        let (source, target) = (plugin.device_memory(size), plugin.device_memory(size));
        let data = pattern(3, size);
        plugin.fill(source, &data);
        let gate = Gate::on(plugin, stream);
        plugin.copy_in(stream, target, source, size, D2D, CopyFlags::NONE);
        let start = Instant::now();
        plugin.free(source).expect("a free that does not wait");
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        assert!(!plugin.is_ready(stream));
        // Blocks of the same size, overwritten as soon as the streams allow.
        let garbage = plugin.pinned(size);
        garbage.fill(0xBD);
        let fresh: Vec<_> = (0..3).map(|_| plugin.device_memory(size)).collect();
        assert!(!fresh.contains(&source), "handed out while the copy waits");
        for block in &fresh {
            plugin.copy_in(other, *block, garbage.as_ptr().cast(), size, H2D, CopyFlags::NONE);
        }
        gate.open(plugin);
        assert!(plugin.read(target, size) == data);
        for block in fresh.into_iter().chain([target]) {
            plugin.free(block).expect("a free");
        }
        // And afterwards it is: memory does not leak.
        let start = Instant::now();
        while plugin.device_memory(size) != source {
            assert!(start.elapsed() < Duration::from_secs(5), "{source:?} never comes back");
        }
    }

    /// M4: a free orders nothing: streams that have nothing to do with each other stay so.
    fn a_free_while_one_stream_is_held_does_not_hold_up_another(plugin) {
        let size = 1 << 20;
        let (held, other) = (plugin.new_stream(), plugin.new_stream());
        let target = plugin.device_memory(size);
        let source = plugin.pinned(size);
        source.copy_from_slice(&pattern(6, size));
        let gate = Gate::on(plugin, held);
        for _ in 0..10 {
            plugin.free(plugin.device_memory(size)).expect("a free");
            plugin.free_pinned(plugin.pinned(size).as_mut_ptr()).expect("a free");
            let busy = plugin.new_stream();
            plugin.copy_in(busy, target, source.as_ptr().cast(), size, H2D, CopyFlags::NONE);
            plugin.destroy(busy).expect("a stream");
            plugin.copy_in(other, target, source.as_ptr().cast(), size, H2D, CopyFlags::NONE);
            plugin.wait(other);
        }
        assert!(!plugin.is_ready(held));
        gate.open(plugin);
        assert!(plugin.read(target, size) == pattern(6, size));
    }

    /// M4: also work of the default stream, and of a stream that is gone, keeps what it uses.
    fn freed_memory_waits_for_the_default_stream_and_for_destroyed_streams(plugin) {
        let size = 1 << 20;
        let (source, target) = (plugin.device_memory(size), plugin.device_memory(size));
        for held_is_default in [true, false] {
            let source = plugin.device_memory(size);
            plugin.fill(source, &pattern(7, size));
            let held = if held_is_default { Stream::DEFAULT } else { plugin.new_stream() };
            let gate = Gate::on(plugin, held);
            plugin.copy_in(held, target, source, size, D2D, CopyFlags::NONE);
            plugin.destroy(held).expect("a stream, or nothing");
            plugin.free(source).expect("a free");
            for _ in 0..3 {
                assert_ne!(plugin.device_memory(size), source, "default: {held_is_default}");
            }
            gate.open(plugin);
            assert!(plugin.read(target, size) == pattern(7, size));
        }
        plugin.free(source).expect("a free");
    }

    fn memory_is_usable_from_every_stream_at_once(plugin) {
        let gate = Gate::on(plugin, Stream::DEFAULT);
        // While the default stream is held, an allocation must neither wait for it nor depend on it.
        let start = Instant::now();
        let block = plugin.device_memory(1 << 20);
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
        gate.open(plugin);
        plugin.fill(block, &[1; 1 << 20]);
        plugin.free(block).expect("a free");
    }

    /// Case 45 for pinned memory.
    fn pinned_memory_that_was_freed_is_kept_until_the_copy_has_read_it(plugin) {
        let size = 1 << 20;
        let stream = plugin.new_stream();
        let target = plugin.device_memory(size);
        let pinned = plugin.pinned(size);
        let data = pattern(5, size);
        pinned.copy_from_slice(&data);
        let gate = Gate::on(plugin, stream);
        plugin.copy_in(stream, target, pinned.as_ptr().cast(), size, H2D, CopyFlags::NONE);
        let start = Instant::now();
        plugin.free_pinned(pinned.as_mut_ptr()).expect("a free");
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        for _ in 0..3 {
            plugin.pinned(size).fill(0xBD);
        }
        // A block that nobody uses any more is handed out again without a wait for the busy device.
        let start = Instant::now();
        for _ in 0..4 {
            let block = plugin.pinned(size / 2);
            plugin.free_pinned(block.as_mut_ptr()).expect("a free");
        }
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
        gate.open(plugin);
        assert!(plugin.read(target, size) == data);
        // The next call gives the kept blocks back; a block that is none of ours is refused.
        let one = plugin.pinned(64);
        plugin.free_pinned(one.as_mut_ptr()).expect("a free");
        let failure = plugin.free_pinned([0_u8; 64].as_mut_ptr()).expect_err("not pinned memory");
        assert_eq!(failure.status, Status::InvalidValue.code());
    }

    /// S2: what blocking streams are given later waits for the default stream, and the other way.
    fn the_default_stream_and_blocking_streams_wait_for_each_other(plugin) {
        let stream = plugin.new_stream();
        let gate = Gate::on(plugin, Stream::DEFAULT);
        let block = plugin.device_memory(64);
        let pinned = plugin.pinned(64);
        plugin.copy_in(stream, block, pinned.as_ptr().cast(), 64, H2D, CopyFlags::NONE);
        std::thread::sleep(Duration::from_millis(20));
        assert!(!plugin.is_ready(stream));
        gate.open(plugin);
        assert!(plugin.is_ready(stream));
        let gate = Gate::on(plugin, stream);
        let ready = plugin.is_ready(Stream::DEFAULT);
        println!("the default stream is ready while a blocking stream is held: {ready}");
        plugin.copy_in(Stream::DEFAULT, block, pinned.as_ptr().cast(), 64, H2D, CopyFlags::NONE);
        std::thread::sleep(Duration::from_millis(20));
        assert!(!plugin.is_ready(Stream::DEFAULT));
        gate.open(plugin);
        plugin.destroy(stream).expect("a stream");
    }

    /// S3, case 46.
    fn destroying_a_busy_stream_returns_at_once_and_its_work_completes(plugin) {
        let size = 1 << 20;
        let stream = plugin.new_stream();
        let block = plugin.device_memory(size);
        let pinned = plugin.pinned(size);
        pinned.copy_from_slice(&pattern(2, size));
        let gate = Gate::on(plugin, stream);
        plugin.copy_in(stream, block, pinned.as_ptr().cast(), size, H2D, CopyFlags::NONE);
        let start = Instant::now();
        plugin.destroy(stream).expect("destroyed");
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        gate.open(plugin);
        assert!(plugin.read(block, size) == pattern(2, size));
        plugin.destroy(Stream::DEFAULT).expect("nothing to destroy");
    }

    /// E4, case 38: the message says how much, and a smaller request works.
    fn out_of_memory_is_told_with_numbers_and_a_smaller_request_works(plugin) {
        let mut memory = LlaisysMemoryInfo::new(0, 0);
        let first = plugin.device_memory(1 << 20);
        // SAFETY: writable, and tells its size.
        let status = unsafe { (plugin.api.get_memory_info)(plugin.api.self_, 0, &mut memory) };
        plugin.result(status).expect("memory");
        for size in [memory.total, memory.total + 1, 1 << 60, (1 << 63) - 1] {
            let mut pointer = std::ptr::dangling_mut::<c_void>();
            // SAFETY: `pointer` is writable.
            let status =
                unsafe { (plugin.api.malloc_device)(plugin.api.self_, 0, size, &mut pointer) };
            let failure = plugin.result(status).expect_err("more than there is");
            assert_eq!(failure.status, Status::OutOfMemory.code(), "{failure:?}");
            assert_eq!(pointer, std::ptr::dangling_mut(), "an output is written on success only");
            assert!(failure.message.contains(&size.to_string()), "{failure:?}");
            assert_eq!(failure.native_name, "CUDA_ERROR_OUT_OF_MEMORY");
        }
        // Half the device, freed, is there again in another shape.
        let half = memory.free / 2;
        for parts in [1, 2, 4] {
            let size = half as usize / parts;
            let blocks: Vec<_> = (0..parts).map(|_| plugin.device_memory(size)).collect();
            for block in blocks {
                plugin.free(block).expect("a free");
            }
        }
        let most = (memory.free - memory.free / 8) as usize;
        let block = plugin.device_memory(most);
        plugin.free(block).expect("a free");
        plugin.free(first).expect("a free");
    }

    fn an_address_is_device_memory_or_it_is_not(plugin) {
        let ask = |address: usize| {
            let mut answer = -1;
            // SAFETY: `answer` is writable.
            let status = unsafe {
                (plugin.api.is_device_memory)(plugin.api.self_, 0, address as _, &mut answer)
            };
            plugin.result(status).expect("an answer");
            answer == 1
        };
        let local = [0_u8; 64];
        assert!(!ask(local.as_ptr() as usize), "and no context was made to find out");
        assert!(current_context().is_null());
        let block = plugin.device_memory(4096);
        let pinned = plugin.pinned(4096);
        assert!(ask(block as usize) && ask(block as usize + 4095));
        assert!(!ask(pinned.as_ptr() as usize) && !ask(local.as_ptr() as usize) && !ask(0x1000));
        plugin.free(block).expect("a free");
    }

    /// Not a test: what the operations cost on a real device. Run with `--ignored --nocapture`.
    #[ignore = "a measurement, which means something on a real device only"]
    fn what_the_operations_cost(plugin) {
        // SAFETY: takes numbers alone.
        plugin.result(unsafe { (plugin.api.set_device)(plugin.api.self_, 0) }).expect("bound");
        let stream = plugin.new_stream();
        let block = plugin.device_memory(1 << 20);
        let pinned = plugin.pinned(1 << 20);
        let from = pinned.as_ptr().cast();
        let per_call = |what: &str, times: u32, call: &dyn Fn()| {
            call();
            let start = Instant::now();
            (0..times).for_each(|_| call());
            println!("{what}: {:?}", start.elapsed() / times);
        };
        per_call("stream_query", 10_000, &|| assert!(plugin.is_ready(stream)));
        per_call("stream_synchronize, idle", 10_000, &|| plugin.wait(stream));
        per_call("malloc_device + free_device 64 KiB", 2_000, &|| {
            plugin.free(plugin.device_memory(64 << 10)).expect("a free");
        });
        per_call("malloc_host + free_host 64 KiB", 200, &|| {
            plugin.free_pinned(plugin.pinned(64 << 10).as_mut_ptr()).expect("a free");
        });
        per_call("memcpy_async H2D pinned 4 KiB + synchronize", 2_000, &|| {
            plugin.copy_in(stream, block, from, 4096, H2D, CopyFlags::NONE);
            plugin.wait(stream);
        });
        per_call("memcpy_sync H2D pinned 4 KiB", 2_000, &|| plugin.copy(block, from, 4096, H2D));
        let to = block.wrapping_byte_add(4096);
        per_call("memcpy_sync D2D 4 KiB", 2_000, &|| plugin.copy(to, block, 4096, D2D));
        per_call("memcpy_async H2D pinned 4 KiB, enqueue", 500, &|| {
            plugin.copy_in(stream, block, from, 4096, H2D, CopyFlags::NONE);
        });
        plugin.wait(stream);
    }

    /// L4: every operation from every thread, with the main thread's device bound or not.
    fn eight_threads_allocate_copy_and_free_at_once(plugin) {
        std::thread::scope(|scope| {
            for thread in 0..8_u8 {
                scope.spawn(move || {
                    let stream = plugin.new_stream();
                    for round in 0..50_usize {
                        let size = 1 + (round * 7919) % 200_000;
                        let block = plugin.device_memory(size);
                        let pinned = plugin.pinned(size);
                        pinned.copy_from_slice(&pattern(thread, size));
                        let from = pinned.as_ptr().cast();
                        plugin.copy_in(stream, block, from, size, H2D, CopyFlags::NONE);
                        pinned_is_back(plugin, stream, block, pinned, thread);
                        plugin.free_pinned(pinned.as_mut_ptr()).expect("a free");
                        plugin.free(block).expect("a free");
                    }
                    plugin.destroy(stream).expect("a stream");
                });
            }
        });
    }
}

/// Reads a block back in the stream's order and compares.
fn pinned_is_back(
    plugin: &Plugin,
    stream: Stream,
    block: *mut c_void,
    pinned: &mut [u8],
    seed: u8,
) {
    plugin.wait(stream);
    pinned.fill(0);
    let to = pinned.as_mut_ptr().cast();
    plugin.copy_in(stream, to, block, pinned.len(), D2H, CopyFlags::NONE);
    plugin.wait(stream);
    assert!(*pinned == *pattern(seed, pinned.len()));
}
