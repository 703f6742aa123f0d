//! Memory of other kinds: in a stream's order, managed, the user's own; what is known of an address, and
//! what is held. On the fake driver by default, on a real one with `LLAISYS_TEST_DRIVER=""`.

mod support;

use llaisys_runtime_core::api::{
    Capabilities, CopyFlags, LOCATION_HOST, LlaisysPointerAttributes, MEMORY_DEVICE,
    MEMORY_MANAGED, MEMORY_PINNED, Stream, StreamFlags,
};
use llaisys_runtime_core::status::Status;
use std::ffi::c_void;
use std::time::{Duration, Instant};
use support::Plugin;
use support::extended::*;
use support::on_device::*;

const MIB: usize = 1 << 20;

fn streams(plugin: &Plugin) -> [Stream; 3] {
    let non_blocking = plugin.stream_with(0, StreamFlags::NON_BLOCKING, 0).expect("a stream");
    [Stream::DEFAULT, plugin.new_stream(), non_blocking]
}

/// Fills a block in a stream's order and reads it back there.
fn use_in(plugin: &Plugin, stream: Stream, block: *mut c_void, size: usize) {
    let landing = plugin.pinned(size);
    plugin.set(stream, block, &[0x5A, 0xA5], size as u64).expect("a fill");
    let to = landing.as_mut_ptr().cast();
    plugin.copy_in(stream, to, block, size, D2H, CopyFlags::NONE);
    plugin.wait(stream);
    assert!(landing.chunks(2).all(|pair| pair == [0x5A, 0xA5]));
    plugin.free_pinned(landing.as_mut_ptr()).expect("a free");
}

/// Memory made and freed in each of the ways there are, in each combination.
fn every_way_to_allocate_goes_with_every_way_to_free(plugin: &Plugin) {
    let size = MIB;
    for stream in streams(plugin) {
        for ordered_free in [true, false] {
            let block = plugin.memory_in(stream, size as u64).expect("memory");
            assert_eq!(block as usize % 256, 0, "M2");
            use_in(plugin, stream, block, size);
            if ordered_free {
                plugin.free_in(stream, block).expect("a free");
            } else {
                plugin.free(block).expect("a free");
            }
        }
        let block = plugin.device_memory(size);
        use_in(plugin, stream, block, size);
        plugin.free_in(stream, block).expect("a free");
    }
}

on_a_device! {
    fn memory_of_either_kind_is_freed_either_way(plugin) {
        every_way_to_allocate_goes_with_every_way_to_free(plugin);
    }

    /// M7, M4: while the stream is held, memory in its order is there at once for what comes later on the
    /// stream, and what was freed in its order is not handed out to anyone else.
    fn memory_in_the_order_of_a_held_stream_comes_and_goes_without_waiting(plugin) {
        let size = MIB;
        for held in streams(plugin) {
            let landing = plugin.pinned(size);
            let old = plugin.device_memory(size);
            plugin.fill(old, &pattern(3, size));
            let target = plugin.device_memory(size);
            let gate = Gate::on(plugin, held);
            let start = Instant::now();
            let block = plugin.memory_in(held, size as u64).expect("memory");
            plugin.copy_in(held, block, old, size, D2D, CopyFlags::NONE);
            plugin.copy_in(held, target, block, size, D2D, CopyFlags::NONE);
            plugin.free_in(held, old).expect("a free");
            plugin.free_in(held, block).expect("a free");
            let again = plugin.memory_in(held, size as u64).expect("memory");
            // A real pool may have other memory that fits.
            assert!(is_real() || again == old || again == block, "the stream has it back at once");
            let to = landing.as_mut_ptr().cast();
            plugin.copy_in(held, to, target, size, D2H, CopyFlags::NONE);
            assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
            let other = plugin.stream_with(0, StreamFlags::NON_BLOCKING, 0).expect("a stream");
            for _ in 0..3 {
                let fresh = plugin.memory_in(other, size as u64).expect("memory");
                assert!(fresh != old && fresh != block, "handed out before its turn");
                plugin.set(other, fresh, &[0xBD], size as u64).expect("a fill");
                plugin.wait(other);
            }
            gate.open(plugin);
            assert!(*landing == *pattern(3, size));
        }
    }

    /// M4 also for `free_device` of memory that its stream has not come to yet.
    fn a_plain_free_of_memory_in_a_streams_order_comes_after_the_stream(plugin) {
        let size = MIB;
        for held in streams(plugin) {
            let target = plugin.device_memory(size);
            let gate = Gate::on(plugin, held);
            let block = plugin.memory_in(held, size as u64).expect("memory");
            plugin.set(held, block, &[7], size as u64).expect("a fill");
            plugin.copy_in(held, target, block, size, D2D, CopyFlags::NONE);
            plugin.free(block).expect("a free");
            for _ in 0..3 {
                assert_ne!(plugin.device_memory(size), block, "handed out before its turn");
            }
            gate.open(plugin);
            assert!(plugin.read(target, size).iter().all(|&byte| byte == 7));
        }
    }

    /// One address for both sides; where it is and how it is used can be told.
    fn managed_memory_is_used_by_the_host_and_the_device(plugin) {
        plugin.initialize().expect("devices");
        if !plugin.has(0, Capabilities::MANAGED_MEMORY) {
            assert!(plugin.managed(64).is_err());
            println!("skipped: no managed memory");
            return;
        }
        let size = 4 * MIB;
        let block = plugin.managed(size as u64).expect("memory");
        // SAFETY: the block is ours, and the device does nothing with it now.
        let bytes = unsafe { std::slice::from_raw_parts_mut(block.cast::<u8>(), size) };
        bytes.copy_from_slice(&pattern(6, size));
        for place in [0, LOCATION_HOST, 0] {
            match plugin.prefetch(block, size as u64, place) {
                Ok(()) => plugin.wait(Stream::DEFAULT),
                Err(failure) => assert_eq!(failure.status, Status::NotSupported.code(), "{failure:?}"),
            }
        }
        for advice in 1..=6 {
            for place in [0, LOCATION_HOST] {
                if let Err(failure) = plugin.advise(block, size as u64, advice, place) {
                    assert_eq!(failure.status, Status::NotSupported.code(), "{failure:?}");
                }
            }
        }
        let copy = plugin.device_memory(size);
        plugin.copy(copy, block, size, D2D);
        assert!(plugin.read(copy, size) == pattern(6, size));
        plugin.set(Stream::DEFAULT, block, &[9], size as u64).expect("a fill");
        plugin.wait(Stream::DEFAULT);
        assert!(bytes.iter().all(|&byte| byte == 9));
        let known = plugin.attributes(block.wrapping_byte_add(100)).expect("an answer");
        assert_eq!((known.kind, known.device_type, known.device), (MEMORY_MANAGED, 1, 0));
        assert_eq!(known.base, block as u64);
        assert!(known.size >= size as u64);
        assert!(plugin.reserved() >= size as u64);
        plugin.free_managed(block).expect("a free");
        let failure = plugin.managed(1 << 60).expect_err("more than there is");
        assert_eq!(failure.status, Status::OutOfMemory.code(), "{failure:?}");
    }

    /// M6, C3: what the user has pinned is copied from and to without waiting, with every device.
    fn registered_memory_is_pinned_memory(plugin) {
        let size = 2 * MIB;
        let mut memory = vec![0_u8; size + 4096];
        let start = memory.as_ptr().align_offset(4096);
        let memory = &mut memory[start..start + size];
        memory.copy_from_slice(&pattern(2, size));
        plugin.register(memory).expect("registered");
        let failure = plugin.register(memory).expect_err("twice");
        assert_eq!(failure.status, Status::InvalidValue.code(), "{failure:?}");
        let known = plugin.attributes(memory.as_ptr().cast()).expect("an answer");
        assert_eq!((known.kind, known.base), (MEMORY_PINNED, memory.as_ptr() as u64));
        let stream = plugin.new_stream();
        let block = plugin.device_memory(size);
        let gate = Gate::on(plugin, stream);
        let start = Instant::now();
        // Even where nobody has told this backend that it is not pageable.
        let (from, flags) = (memory.as_ptr().cast(), CopyFlags::HOST_BUFFER_PROMISED);
        plugin.copy_in(stream, block, from, size, H2D, flags);
        plugin.set(stream, block, &[1], 16).expect("a fill");
        plugin.copy_in(stream, memory.as_mut_ptr().cast(), block, size, D2H, CopyFlags::NONE);
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        assert!(*memory == *pattern(2, size), "copied before its turn");
        gate.open(plugin);
        assert_eq!(memory[..16], [1; 16]);
        assert!(memory[16..] == pattern(2, size)[16..]);
        plugin.unregister(memory).expect("let go");
        let failure = plugin.unregister(memory).expect_err("twice");
        assert_eq!(failure.status, Status::InvalidValue.code(), "{failure:?}");
        assert_eq!(
            plugin.attributes(memory.as_ptr().cast()).expect("an answer"),
            LlaisysPointerAttributes::pageable()
        );
    }

    fn what_the_driver_knows_of_foreign_memory_is_told(plugin) {
        plugin.initialize().expect("devices");
        let cuda = Cuda::open();
        let pageable = LlaisysPointerAttributes::pageable();
        let local = [0_u8; 64];
        assert_eq!(plugin.attributes(local.as_ptr().cast()).expect("an answer"), pageable);
        assert!(cuda.count("contexts_created").is_none_or(|made| made == 0), "D4");
        plugin.bind(0);
        let size = 3 * MIB;
        let block = cuda.memory(size);
        let at = block.wrapping_byte_add(12345);
        let known = plugin.attributes(at).expect("an answer");
        assert_eq!((known.kind, known.device_type, known.device), (MEMORY_DEVICE, 1, 0));
        assert_eq!((known.base, known.size, known.ours), (block as u64, size as u64, 0));
        let allocate: unsafe extern "C" fn(*mut *mut c_void, usize, u32) -> i32 =
            cuda.function("cuMemHostAlloc");
        let mut pinned = std::ptr::null_mut();
        // SAFETY: `pinned` is writable.
        assert_eq!(unsafe { allocate(&mut pinned, size, 0) }, 0);
        let known = plugin.attributes(pinned.wrapping_byte_add(5)).expect("an answer");
        assert_eq!((known.kind, known.base, known.size), (MEMORY_PINNED, pinned as u64, size as u64));
        for nothing in [local.as_ptr().cast(), std::ptr::without_provenance(0x1000)] {
            assert_eq!(plugin.attributes(nothing).expect("an answer"), pageable);
        }
        assert_eq!(cuda.call("cuMemFree_v2", block), 0);
    }

    /// Held memory is counted, used or cached, and what is cached can be given back.
    fn what_is_held_is_told_and_what_is_cached_is_given_back(plugin) {
        plugin.initialize().expect("devices");
        assert_eq!(plugin.reserved(), 0);
        plugin.trim(0).expect("nothing to give back");
        assert!(Cuda::open().count("contexts_created").is_none_or(|made| made == 0), "D4");
        let size = 256 * MIB;
        let [kept, freed] = [(); 2].map(|()| plugin.device_memory(size));
        assert!(plugin.reserved() >= 2 * size as u64);
        plugin.free(freed).expect("a free");
        let cached = || plugin.reserved() - size as u64;
        assert!(cached() >= size as u64, "it is cached");
        plugin.trim(u64::MAX).expect("nothing to do");
        plugin.trim(size as u64).expect("nothing to do");
        assert!(cached() >= size as u64, "as much may stay");
        let start = Instant::now();
        while cached() >= size as u64 {
            plugin.trim(0).expect("given back");
            assert!(start.elapsed() < Duration::from_secs(5), "{} bytes stay", cached());
        }
        use_in(plugin, Stream::DEFAULT, kept, MIB);
        plugin.free(kept).expect("a free");
    }
}

#[test]
fn without_pools_memory_in_a_streams_order_comes_at_once_and_is_counted() {
    let name = "without_pools_memory_in_a_streams_order_comes_at_once_and_is_counted";
    on_a_fake(name, &[("FAKE_CUDA_NO_MEMPOOLS", "1")], |plugin| {
        plugin.initialize().expect("devices");
        let pools = Capabilities::STREAM_ORDERED_MEMORY.with(Capabilities::MEMORY_POOL);
        assert!(Capabilities(plugin.properties(0).capabilities).0 & pools.0 == 0);
        every_way_to_allocate_goes_with_every_way_to_free(plugin);
        plugin.trim(0).expect("given back");
        assert_eq!(plugin.reserved(), 0);
        let block = plugin.device_memory(MIB);
        let held = plugin.stream_with(0, StreamFlags::NON_BLOCKING, 0).expect("a stream");
        let gate = Gate::on(plugin, held);
        let target = plugin.device_memory(MIB);
        plugin.copy_in(held, target, block, MIB, D2D, CopyFlags::NONE);
        let start = Instant::now();
        plugin.free_in(held, block).expect("a free that does not wait");
        plugin.trim(0).expect("nothing that is in use");
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        assert_eq!(plugin.reserved(), 2 * MIB as u64, "the one is kept until its turn");
        gate.open(plugin);
        plugin.trim(0).expect("given back");
        assert_eq!(plugin.reserved(), MIB as u64);
    });
}

/// E4, in a stream's order too.
#[test]
fn out_of_memory_in_a_streams_order_is_told_only_after_a_second_try() {
    let name = "out_of_memory_in_a_streams_order_is_told_only_after_a_second_try";
    let failures = "cuMemAllocFromPoolAsync:1=2,cuMemFreeAsync:1=700";
    let environment = [("FAKE_CUDA_FAIL", failures), ("FAKE_CUDA_CONTAINED_FAULTS", "1")];
    on_a_fake(name, &environment, |plugin| {
        let stream = plugin.new_stream();
        let block = plugin.memory_in(stream, 64).expect("the second try, unseen");
        let failure = plugin.memory_in(stream, 1 << 60).expect_err("more than there is");
        assert_eq!(failure.status, Status::OutOfMemory.code(), "{failure:?}");
        let failure = plugin.free_in(stream, block).expect_err("the device is lost");
        assert_eq!(failure.status, Status::DeviceLost.code(), "{failure:?}");
    });
}

/// The driver would hand out any amount of it; this backend does not.
#[test]
fn no_more_managed_memory_is_handed_out_than_the_card_has_room_for() {
    let name = "no_more_managed_memory_is_handed_out_than_the_card_has_room_for";
    on_a_fake(name, &[("FAKE_CUDA_DEVICE_MEMORY", "1g")], |plugin| {
        let gib = 1024 * MIB as u64;
        let refused = |size| {
            let failure = plugin.managed(size).expect_err("no room");
            assert_eq!(failure.status, Status::OutOfMemory.code(), "{failure:?}");
            assert!(failure.message.contains("there is room for"), "{failure:?}");
        };
        refused(gib + 1);
        let half = plugin.managed(gib / 2).expect("memory");
        refused(gib / 2 + 1);
        let plain = plugin.device_memory(gib as usize / 4);
        refused(gib / 2 - gib / 8);
        let quarter = plugin.managed(gib / 8).expect("memory");
        for block in [half, quarter] {
            plugin.free_managed(block).expect("a free");
        }
        plugin.free(plain).expect("a free");
        let start = Instant::now();
        while plugin.reserved() > 0 {
            // The free has to pass first.
            plugin.trim(0).expect("given back");
            assert!(start.elapsed() < Duration::from_secs(5), "{} bytes stay", plugin.reserved());
        }
        let block = plugin.managed(gib - gib / 8).expect("there is room again");
        plugin.free_managed(block).expect("a free");
    });
}

const OLDER: [&str; 2] = ["cuMemPrefetchAsync", "cuMemAdvise"];

/// Places are told as the driver's version wants them.
#[test]
fn managed_memory_is_moved_by_the_older_entry_points_on_an_older_driver() {
    let name = "managed_memory_is_moved_by_the_older_entry_points_on_an_older_driver";
    let version = ("FAKE_CUDA_DRIVER_VERSION", "12080");
    on_a_fake(name, &[version], |plugin| places_are_told(plugin, OLDER));
}

#[test]
fn managed_memory_is_moved_by_the_older_entry_points_where_the_newer_are_missing() {
    let name = "managed_memory_is_moved_by_the_older_entry_points_where_the_newer_are_missing";
    let missing = ("FAKE_CUDA_MISSING", "cuMemPrefetchAsync,cuMemAdvise");
    on_a_fake(name, &[missing], |plugin| places_are_told(plugin, OLDER));
}

#[test]
fn managed_memory_is_moved_by_location_on_a_driver_of_cuda_13() {
    let name = "managed_memory_is_moved_by_location_on_a_driver_of_cuda_13";
    on_a_fake(name, &[], |plugin| {
        places_are_told(plugin, ["cuMemPrefetchAsync_v2", "cuMemAdvise_v2"]);
    });
}

fn places_are_told(plugin: &Plugin, [prefetch, advise]: [&str; 2]) {
    let cuda = Cuda::open();
    let size = MIB as u64;
    plugin.bind(0);
    let block = plugin.managed(size).expect("memory");
    let attribute: unsafe extern "C" fn(*mut i32, usize, u32, *mut c_void, usize) -> i32 =
        cuda.function("cuMemRangeGetAttribute");
    let ask = |which| {
        let mut value = -77;
        // SAFETY: `value` has the four bytes that these attributes are documented with.
        assert_eq!(unsafe { attribute(&mut value, 4, which, block, MIB) }, 0);
        value
    };
    let [preferred, last_prefetch] = [2, 4];
    for (place, number) in [(1, 1), (LOCATION_HOST, -1), (0, 0)] {
        plugin.advise(block, size, 3, place).expect("advice");
        assert_eq!(ask(preferred), number);
        plugin.prefetch(block, size, place).expect("a prefetch");
        assert_eq!(ask(last_prefetch), number);
    }
    assert_eq!((cuda.calls(prefetch), cuda.calls(advise)), (Some(3), Some(3)));
    plugin.advise(block, size, 1, 0).expect("advice");
    assert_eq!(ask(1), 1, "read mostly");
    plugin.advise(block, size, 2, 0).expect("advice");
    assert_eq!(ask(1), 0, "no longer so");
    plugin.free_managed(block).expect("a free");
}

#[test]
fn a_device_without_managed_memory_says_so() {
    let name = "a_device_without_managed_memory_says_so";
    on_a_fake(name, &[("FAKE_CUDA_NO_MANAGED", "1")], |plugin| {
        plugin.initialize().expect("devices");
        assert!(!plugin.has(0, Capabilities::MANAGED_MEMORY));
        let failure = plugin.managed(64).expect_err("none");
        assert_eq!(failure.status, Status::NotSupported.code(), "{failure:?}");
    });
}

#[test]
fn a_device_that_moves_no_pages_on_request_says_so() {
    let name = "a_device_that_moves_no_pages_on_request_says_so";
    on_a_fake(name, &[("FAKE_CUDA_NO_CONCURRENT_MANAGED", "1")], |plugin| {
        let block = plugin.managed(MIB as u64).expect("memory");
        for failure in [
            plugin.prefetch(block, MIB as u64, 0).expect_err("refused"),
            plugin.advise(block, MIB as u64, 3, 0).expect_err("refused"),
        ] {
            assert_eq!(failure.status, Status::NotSupported.code(), "{failure:?}");
            assert_eq!(failure.native_code, 101);
        }
        plugin.free_managed(block).expect("a free");
    });
}

#[test]
fn what_the_driver_answers_about_memory_is_told_with_what_was_asked() {
    let name = "what_the_driver_answers_about_memory_is_told_with_what_was_asked";
    let failures = "cuMemAllocManaged:1=2,cuMemHostRegister_v2=801,cuMemPoolTrimTo=1,\
                    cuPointerGetAttributes=999,cuMemPrefetchAsync=1,cuMemFree_v2=1";
    on_a_fake(name, &[("FAKE_CUDA_FAIL", failures)], |plugin| {
        let told = |result: Answer<()>, status: Status, word: &str| {
            let failure = result.expect_err("refused");
            assert_eq!(failure.status, status.code(), "{failure:?}");
            assert!(failure.message.contains(word), "{failure:?}");
        };
        let block = plugin.device_memory(64);
        told(plugin.managed(64).map(drop), Status::OutOfMemory, "64 bytes of managed memory");
        let managed = plugin.managed(64).expect("the second time");
        told(plugin.prefetch(managed, 64, -1), Status::InvalidValue, "to the host");
        told(plugin.free_managed(managed), Status::InvalidValue, "free managed memory");
        told(plugin.register(&mut [0; 64]), Status::NotSupported, "pin 64 bytes");
        told(plugin.trim(0), Status::InvalidValue, "memory pool of device 0");
        told(plugin.attributes(block).map(drop), Status::DriverError, "what the memory at");
    });
}
