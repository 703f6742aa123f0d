//! Sixteen threads allocate and free on four streams, each other's blocks too, in every way that there is, with
//! work pending that still writes into what is freed. Each block carries a canary of its own.
//!
//! Rule: a block is its owner's from the allocation to the free. So a canary that changes means that two have a
//! block at once, or that a freed one was handed out before the work before its free was done (M4).
//!
//! `LLAISYS_STORM_OPERATIONS` is the number of operations of a thread; a million takes half a minute with
//! `--release`.

use llaisys_backend_cpu::Cpu;
use llaisys_runtime_core::api::{CopyFlags, MemcpyKind, Pattern, RuntimeApi, Stream};
use llaisys_runtime_core::device_type;
use llaisys_runtime_core::lock::Mutex;
use llaisys_runtime_core::managed::Managed;
use std::ffi::c_void;
use std::thread;

const THREADS: u64 = 16;
const STREAMS: usize = 4;
/// Places where blocks change hands.
const PLACES: usize = 256;
/// The bytes of a block that carry its canary: these first ones, and as many last ones.
const MARKED: usize = 256;

/// Who has it owns the block.
struct Owned {
    pointer: *mut c_void,
    size: usize,
    canary: u64,
    /// It was allocated on this stream, where its canary was written.
    stream: Option<usize>,
}

// SAFETY: device memory, which any thread may use and free.
unsafe impl Send for Owned {}

struct Storm {
    api: &'static Managed<Cpu>,
    streams: [Stream; STREAMS],
    places: Vec<Mutex<Option<Owned>>>,
}

// SAFETY: streams may be named by any thread.
unsafe impl Sync for Storm {}

struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) as usize % limit
    }
}

/// The two ends of a block, which may overlap.
fn ends(size: usize) -> [(usize, usize); 2] {
    let marked = size.min(MARKED) / 8 * 8;
    [(0, marked), ((size - marked) / 8 * 8, marked)]
}

impl Owned {
    fn write(&self) {
        for (offset, length) in ends(self.size) {
            // SAFETY: inside the block, which is host memory and its owner's.
            let words = unsafe { self.pointer.byte_add(offset) }.cast::<u64>();
            // SAFETY: as above.
            (0..length / 8).for_each(|index| unsafe { words.add(index).write(self.canary) });
        }
    }

    fn check(&self) {
        for (offset, length) in ends(self.size) {
            // SAFETY: inside the block, which is host memory and its owner's.
            let words = unsafe { self.pointer.byte_add(offset) }.cast::<u64>();
            for index in 0..length / 8 {
                // SAFETY: as above.
                let found = unsafe { words.add(index).read() };
                assert_eq!(
                    found,
                    self.canary,
                    "byte {} of {} at {:p}, stream {:?}",
                    offset + index * 8,
                    self.size,
                    self.pointer,
                    self.stream
                );
            }
        }
    }
}

impl Storm {
    fn fill(&self, block: &Owned, value: u64, stream: usize) {
        let bytes = value.to_ne_bytes();
        let pattern = Pattern::new(&bytes).expect("eight bytes");
        for (offset, length) in ends(block.size).into_iter().filter(|(_, length)| *length != 0) {
            // SAFETY: inside the block, which is freed only behind this.
            unsafe {
                let at = block.pointer.byte_add(offset);
                self.api.memset_async(0, at, pattern, length, self.streams[stream])
            }
            .expect("queued");
        }
    }

    fn allocate(&self, numbers: &mut Numbers) -> Owned {
        let most = if numbers.below(200) == 0 { 23 } else { 17 };
        let magnitude = numbers.below(most);
        let size = (1 << magnitude) + numbers.below(1 << magnitude);
        let canary = numbers.0 | 1;
        if numbers.below(4) == 0 {
            let stream = numbers.below(STREAMS);
            // SAFETY: the streams live as long as the storm.
            let pointer = unsafe { self.api.malloc_async(0, size, self.streams[stream]) };
            let pointer = pointer.expect("memory");
            let block = Owned { pointer, size, canary, stream: Some(stream) };
            self.fill(&block, canary, stream);
            return block;
        }
        let pointer = self.api.malloc_device(0, size).expect("memory");
        let block = Owned { pointer, size, canary, stream: None };
        block.write();
        block
    }

    fn check_and_free(&self, block: Owned, numbers: &mut Numbers) {
        if let Some(stream) = block.stream {
            // SAFETY: as in `allocate`.
            unsafe { self.api.stream_synchronize(0, self.streams[stream]) }.expect("waited for");
        }
        if block.size <= MARKED && numbers.below(8) == 0 {
            let mut copy = [0_u64; MARKED / 8];
            let size = block.size / 8 * 8;
            // SAFETY: both have so many bytes.
            unsafe {
                let (dst, src) = (copy.as_mut_ptr().cast(), block.pointer.cast_const());
                self.api.memcpy_sync(0, dst, src, size, MemcpyKind::D2H, CopyFlags::NONE)
            }
            .expect("copied");
            assert!(
                copy[..size / 8].iter().all(|word| *word == block.canary),
                "{:p}",
                block.pointer
            );
        }
        block.check();
        // What is queued now comes after the free if the block is handed out too early.
        let stream = numbers.below(STREAMS);
        let is_used = numbers.below(3) == 0;
        if is_used {
            self.fill(&block, 0xDEAD_DEAD_DEAD_DEAD, stream);
        }
        // SAFETY: the block is its owner's, who gives it up; only this stream has work with it.
        let freed = unsafe {
            if is_used && numbers.below(2) == 0 {
                self.api.free_async(0, block.pointer, self.streams[stream])
            } else {
                self.api.free_device(0, block.pointer)
            }
        };
        freed.expect("freed");
    }

    fn run(&self, thread: u64, operations: usize) {
        let mut numbers = Numbers(thread * 0x9E37_79B9 + 7);
        for number in 0..operations / 2 {
            let block = self.allocate(&mut numbers);
            let place = &self.places[numbers.below(PLACES)];
            let before = place.lock().replace(block);
            if let Some(before) = before {
                self.check_and_free(before, &mut numbers);
            }
            if number % 10_000 == 5_000 {
                self.api.trim_memory(0, 1 << 20).expect("trimmed");
            }
        }
    }
}

#[test]
fn no_canary_changes_while_sixteen_threads_allocate_and_free_on_four_streams() {
    let operations = std::env::var("LLAISYS_STORM_OPERATIONS");
    let operations = operations.ok().and_then(|it| it.parse().ok()).unwrap_or(20_000);
    let api = Managed::install(Cpu::new(), device_type::CPU);
    let streams = std::array::from_fn(|_| api.create_stream(0).expect("a stream"));
    let storm = Storm { api, streams, places: (0..PLACES).map(|_| Mutex::new(None)).collect() };
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let storm = &storm;
            // In two lives, so that threads end with blocks in their caches.
            scope.spawn(move || {
                for life in 0..2 {
                    thread::scope(|scope| {
                        let life =
                            scope.spawn(move || storm.run(thread * 2 + life, operations / 2));
                        // A scope ends before its threads have given their caches back.
                        life.join().expect("no panic");
                    });
                }
            });
        }
    });
    let mut numbers = Numbers(1);
    for place in &storm.places {
        let left = place.lock().take();
        left.into_iter().for_each(|block| storm.check_and_free(block, &mut numbers));
    }
    api.device_synchronize(0).expect("waited for");
    let now = api.get_memory_statistics(0).expect("statistics");
    assert_eq!((now.used, now.live), (0, 0));
    assert_eq!(now.allocations, now.frees);
    for stream in storm.streams {
        // SAFETY: nobody uses it any more.
        unsafe { api.destroy_stream(0, stream) }.expect("destroyed");
    }
    api.trim_memory(0, 0).expect("trimmed");
    api.trim_memory(0, 0).expect("trimmed");
    let now = api.get_memory_statistics(0).expect("statistics");
    assert!(now.reserved_bytes <= 64 << 20, "{} bytes are held for nobody", now.reserved_bytes);
}
