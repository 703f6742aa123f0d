//! Backends that are each wrong in one way, to test the suite with (`tests/mutants.rs`).
//!
//! A plugin around the CPU backend. `LLAISYS_MUTANT` says what is wrong; without it nothing is, and the
//! whole suite passes on it. A mutant's fault is one `if` in the operation that it concerns.

use llaisys_backend_cpu::Cpu;
use llaisys_runtime_core::api::{
    Capabilities, CopyFlags, Event, EventFlags, HostFunction, LlaisysCopy3D, LlaisysCopyRange,
    LlaisysDeviceProperties, LlaisysMemoryInfo, MemcpyKind, Ordinal, Pattern, PriorityRange,
    RuntimeApi, Stream, StreamFlags,
};
use llaisys_runtime_core::{Error, Result, Status};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// What the CPU backend is able to do.
const CAPABILITIES: Capabilities = Capabilities::DEVICE_MEMORY_IS_HOST_MEMORY
    .with(Capabilities::DEVICE_INFORMATION)
    .with(Capabilities::STREAM_QUERY)
    .with(Capabilities::HOST_FUNCTIONS)
    .with(Capabilities::STREAM_OPTIONS)
    .with(Capabilities::EVENTS)
    .with(Capabilities::STREAM_ORDERED_MEMORY)
    .with(Capabilities::HOST_REGISTRATION)
    .with(Capabilities::FILL)
    .with(Capabilities::PITCHED_COPIES)
    .with(Capabilities::BATCHED_COPIES)
    .with(Capabilities::MEMORY_POOL);

/// The CPU backend with a fault.
struct Mutant {
    cpu: Cpu,
    fault: OnceLock<String>,
    /// Blocks that `hands_out_at_once` has been given back.
    freed: Mutex<Vec<usize>>,
    /// The sizes of all its blocks; `None` before the first.
    sizes: Mutex<Option<HashMap<usize, usize>>>,
    /// For faults that come now and then.
    counted: Mutex<i32>,
}

impl Mutant {
    const fn new() -> Mutant {
        Mutant {
            cpu: Cpu::new(),
            fault: OnceLock::new(),
            freed: Mutex::new(Vec::new()),
            sizes: Mutex::new(None),
            counted: Mutex::new(0),
        }
    }

    fn is(&self, fault: &str) -> bool {
        let own = || std::env::var("LLAISYS_MUTANT").unwrap_or_default();
        self.fault.get_or_init(own) == fault
    }

    /// A stream of the mutant's own, in which things go wrong.
    fn other(&self, device: Ordinal) -> Result<Stream> {
        static OTHER: OnceLock<Stream> = OnceLock::new();
        match OTHER.get() {
            Some(stream) => Ok(*stream),
            None => {
                let stream = self.cpu.create_stream(device)?;
                Ok(*OTHER.get_or_init(|| stream))
            }
        }
    }

    /// Keeps a stream busy for a while, so that what comes behind is not there at once.
    fn delay(&self, device: Ordinal, stream: Stream) -> Result<()> {
        unsafe extern "C" fn sleep(_: *mut c_void) {
            std::thread::sleep(Duration::from_millis(50));
        }
        // SAFETY: the function follows no pointer; the stream is the caller's, live.
        unsafe { self.cpu.launch_host_function(device, stream, sleep, std::ptr::null_mut()) }
    }

    /// The size of a live block.
    fn with_sizes<T>(&self, look: impl FnOnce(&mut HashMap<usize, usize>) -> T) -> T {
        let mut sizes = self.sizes.lock().unwrap_or_else(PoisonError::into_inner);
        look(sizes.get_or_insert_with(HashMap::new))
    }
}

impl RuntimeApi for Mutant {
    fn get_device_count(&self) -> Result<i32> {
        let count = self.cpu.get_device_count()?;
        if self.is("count_changes") {
            let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
            *counted += 1;
            return Ok(count + *counted % 2);
        }
        Ok(count)
    }

    fn set_device(&self, device: Ordinal) -> Result<()> {
        self.cpu.set_device(device)
    }

    fn device_synchronize(&self, device: Ordinal) -> Result<()> {
        if self.is("device_synchronize_returns_at_once") {
            return Ok(());
        }
        self.cpu.device_synchronize(device)
    }

    fn create_stream(&self, device: Ordinal) -> Result<Stream> {
        if self.is("every_stream_is_the_same") {
            return self.other(device);
        }
        self.cpu.create_stream(device)
    }

    unsafe fn destroy_stream(&self, device: Ordinal, stream: Stream) -> Result<()> {
        if self.is("destroying_waits") {
            // SAFETY: the caller keeps the contract of both.
            unsafe { self.cpu.stream_synchronize(device, stream)? };
        }
        if self.is("every_stream_is_the_same") {
            return Ok(());
        }
        // SAFETY: the caller keeps the contract.
        unsafe { self.cpu.destroy_stream(device, stream) }
    }

    unsafe fn stream_synchronize(&self, device: Ordinal, stream: Stream) -> Result<()> {
        if self.is("stream_synchronize_returns_at_once") {
            return Ok(());
        }
        if self.is("stream_synchronize_waits_for_the_device") {
            return self.cpu.device_synchronize(device);
        }
        // SAFETY: the caller keeps the contract.
        unsafe { self.cpu.stream_synchronize(device, stream) }
    }

    fn malloc_device(&self, device: Ordinal, size: usize) -> Result<*mut c_void> {
        if self.is("too_large_is_an_invalid_value") && size > 1 << 48 {
            return Err(Error::new(Status::InvalidValue, "too large"));
        }
        if self.is("too_large_is_an_abort") && size > 1 << 48 {
            std::process::abort();
        }
        if self.is("hands_out_at_once") {
            let mut freed = self.freed.lock().unwrap_or_else(PoisonError::into_inner);
            let fits = |at: &usize| self.with_sizes(|sizes| sizes.get(at) == Some(&size));
            if let Some(index) = freed.iter().position(fits) {
                return Ok(std::ptr::with_exposed_provenance_mut(freed.swap_remove(index)));
            }
        }
        let shift = usize::from(self.is("aligned_to_64_only")) * 64;
        let pointer = self.cpu.malloc_device(device, size + shift)?;
        // SAFETY: inside the block.
        let pointer = unsafe { pointer.cast::<u8>().add(shift) }.cast::<c_void>();
        if self.is("hands_out_at_once") {
            self.with_sizes(|sizes| sizes.insert(pointer.expose_provenance(), size));
        }
        Ok(pointer)
    }

    unsafe fn free_device(&self, device: Ordinal, pointer: *mut c_void) -> Result<()> {
        if self.is("freeing_waits") {
            self.cpu.device_synchronize(device)?;
        }
        if self.is("never_frees") {
            return Ok(());
        }
        if self.is("hands_out_at_once") {
            let mut freed = self.freed.lock().unwrap_or_else(PoisonError::into_inner);
            freed.push(pointer.expose_provenance());
            return Ok(());
        }
        let shift = usize::from(self.is("aligned_to_64_only")) * 64;
        // SAFETY: `malloc_device` went as far the other way.
        let pointer = unsafe { pointer.cast::<u8>().sub(shift) }.cast();
        // SAFETY: the caller keeps the contract.
        unsafe { self.cpu.free_device(device, pointer) }
    }

    fn malloc_host(&self, device: Ordinal, size: usize) -> Result<*mut c_void> {
        self.cpu.malloc_host(device, size)
    }

    unsafe fn free_host(&self, device: Ordinal, pointer: *mut c_void) -> Result<()> {
        if self.is("freeing_pinned_memory_waits") {
            self.cpu.device_synchronize(device)?;
        }
        // SAFETY: the caller keeps the contract.
        unsafe { self.cpu.free_host(device, pointer) }
    }

    unsafe fn memcpy_sync(
        &self,
        device: Ordinal,
        dst: *mut c_void,
        src: *const c_void,
        size: usize,
        kind: MemcpyKind,
        flags: CopyFlags,
    ) -> Result<()> {
        if self.is("memcpy_sync_follows_nothing") {
            // SAFETY: the caller keeps the contract.
            unsafe { src.cast::<u8>().copy_to_nonoverlapping(dst.cast(), size) };
            return Ok(());
        }
        if self.is("memcpy_sync_returns_early") {
            self.delay(device, Stream::DEFAULT)?;
            let flags = CopyFlags::HOST_BUFFER_PROMISED;
            // SAFETY: the caller keeps it valid until the return; longer is the fault.
            return unsafe {
                self.cpu.memcpy_async(device, dst, src, size, kind, Stream::DEFAULT, flags)
            };
        }
        let size = if self.is("memcpy_sync_loses_the_last_byte") { size - 1 } else { size };
        // SAFETY: the caller keeps the contract.
        unsafe { self.cpu.memcpy_sync(device, dst, src, size, kind, flags) }
    }

    unsafe fn memcpy_async(
        &self,
        device: Ordinal,
        dst: *mut c_void,
        src: *const c_void,
        size: usize,
        kind: MemcpyKind,
        stream: Stream,
        flags: CopyFlags,
    ) -> Result<()> {
        if self.is("copies_do_not_wait_for_their_turn") {
            // SAFETY: the caller keeps the contract.
            unsafe { src.cast::<u8>().copy_to_nonoverlapping(dst.cast(), size) };
            return Ok(());
        }
        let mut flags = flags;
        if self.is("pageable_sources_are_read_late") {
            flags = flags.without(CopyFlags::SOURCE_PAGEABLE);
        }
        if self.is("pageable_destinations_are_written_late") {
            flags = flags.without(CopyFlags::DESTINATION_PAGEABLE);
        }
        if self.is("idle_streams_are_no_exception") && flags.contains(CopyFlags::AT_ONCE_IF_IDLE) {
            self.delay(device, stream)?;
            flags = flags.without(CopyFlags::AT_ONCE_IF_IDLE);
        }
        if self.is("promises_are_waited_for") && flags.contains(CopyFlags::HOST_BUFFER_PROMISED) {
            // SAFETY: the caller keeps the contract.
            unsafe { self.cpu.stream_synchronize(device, stream)? };
        }
        let stream = match () {
            () if self.is("all_copies_are_in_one_stream") => self.other(device)?,
            () if self.is("the_default_stream_is_one_like_others") && stream.is_default() => {
                self.other(device)?
            }
            () => stream,
        };
        let size = if self.is("memcpy_async_loses_the_last_byte") { size - 1 } else { size };
        if size == 0 {
            return Ok(());
        }
        // SAFETY: the caller keeps the contract.
        unsafe { self.cpu.memcpy_async(device, dst, src, size, kind, stream, flags) }
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn get_device_properties(&self, device: Ordinal) -> Result<LlaisysDeviceProperties> {
        let mut properties = self.cpu.get_device_properties(device)?;
        if self.is("memory_of_two_sizes") {
            properties.total_memory /= 2;
        }
        Ok(properties)
    }

    fn get_memory_info(&self, device: Ordinal) -> Result<LlaisysMemoryInfo> {
        self.cpu.get_memory_info(device)
    }

    unsafe fn stream_query(&self, device: Ordinal, stream: Stream) -> Result<bool> {
        if self.is("always_ready") {
            return Ok(true);
        }
        if self.is("never_ready") {
            return Ok(false);
        }
        if self.is("the_capability_to_query_is_a_lie") {
            return Err(Error::new(Status::NotSupported, "not after all"));
        }
        if self.is("querying_waits") {
            // SAFETY: the caller keeps the contract of both.
            unsafe { self.cpu.stream_synchronize(device, stream)? };
        }
        // SAFETY: the caller keeps the contract.
        unsafe { self.cpu.stream_query(device, stream) }
    }

    unsafe fn launch_host_function(
        &self,
        device: Ordinal,
        stream: Stream,
        function: HostFunction,
        data: *mut c_void,
    ) -> Result<()> {
        if self.is("functions_run_in_the_caller") {
            // SAFETY: the caller keeps the contract.
            unsafe { function(data) };
            return Ok(());
        }
        if self.is("functions_run_in_any_order") {
            let data = data.expose_provenance();
            std::thread::spawn(move || {
                // SAFETY: the caller allowed this call from any thread, once.
                unsafe { function(std::ptr::with_exposed_provenance_mut(data)) }
            });
            return Ok(());
        }
        if self.is("functions_are_forgotten_now_and_then") {
            let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
            *counted += 1;
            if *counted % 7 == 0 {
                return Ok(());
            }
        }
        // SAFETY: the caller keeps the contract.
        unsafe { self.cpu.launch_host_function(device, stream, function, data) }
    }

    fn create_stream_with(
        &self,
        device: Ordinal,
        flags: StreamFlags,
        priority: i32,
    ) -> Result<Stream> {
        let flags = if self.is("all_streams_are_blocking") { StreamFlags::BLOCKING } else { flags };
        if self.is("priorities_are_not_clamped") && !(-5..=0).contains(&priority) {
            return Err(Error::new(Status::InvalidValue, "no such priority"));
        }
        self.cpu.create_stream_with(device, flags, priority)
    }

    fn get_stream_priority_range(&self, device: Ordinal) -> Result<PriorityRange> {
        self.cpu.get_stream_priority_range(device)
    }

    fn create_event(&self, device: Ordinal, flags: EventFlags) -> Result<Event> {
        if self.is("the_capability_of_events_is_a_lie") {
            return Err(Error::new(Status::NotSupported, "not after all"));
        }
        self.cpu.create_event(device, flags)
    }

    unsafe fn destroy_event(&self, device: Ordinal, event: Event) -> Result<()> {
        if self.is("a_pending_event_is_waited_for") {
            // SAFETY: the caller keeps the contract of both.
            unsafe { self.cpu.event_synchronize(device, event)? };
        }
        // SAFETY: the caller keeps the contract.
        unsafe { self.cpu.destroy_event(device, event) }
    }

    unsafe fn record_event(&self, device: Ordinal, event: Event, stream: Stream) -> Result<()> {
        let stream = if self.is("records_are_elsewhere") { self.other(device)? } else { stream };
        // SAFETY: the caller keeps the contract.
        unsafe { self.cpu.record_event(device, event, stream) }
    }

    unsafe fn stream_wait_event(
        &self,
        device: Ordinal,
        stream: Stream,
        event: Event,
    ) -> Result<()> {
        if self.is("waits_are_ignored") {
            return Ok(());
        }
        // SAFETY: the caller keeps the contract.
        unsafe { self.cpu.stream_wait_event(device, stream, event) }
    }

    unsafe fn event_query(&self, device: Ordinal, event: Event) -> Result<bool> {
        if self.is("events_are_reached_at_once") {
            return Ok(true);
        }
        // SAFETY: the caller keeps the contract.
        unsafe { self.cpu.event_query(device, event) }
    }

    unsafe fn event_synchronize(&self, device: Ordinal, event: Event) -> Result<()> {
        if self.is("event_synchronize_returns_at_once") {
            return Ok(());
        }
        // SAFETY: the caller keeps the contract.
        unsafe { self.cpu.event_synchronize(device, event) }
    }

    unsafe fn event_elapsed(&self, device: Ordinal, start: Event, end: Event) -> Result<i64> {
        if self.is("times_are_stale") {
            static FIRST: OnceLock<i64> = OnceLock::new();
            // SAFETY: the caller keeps the contract.
            let time = unsafe { self.cpu.event_elapsed(device, start, end)? };
            return Ok(*FIRST.get_or_init(|| time));
        }
        // SAFETY: the caller keeps the contract.
        let time = unsafe { self.cpu.event_elapsed(device, start, end)? };
        Ok(if self.is("times_have_no_sign") { time.abs() } else { time })
    }

    unsafe fn malloc_async(
        &self,
        device: Ordinal,
        size: usize,
        stream: Stream,
    ) -> Result<*mut c_void> {
        if self.is("frees_in_a_stream_are_at_once") {
            let mut freed = self.freed.lock().unwrap_or_else(PoisonError::into_inner);
            let fits = |at: &usize| self.with_sizes(|sizes| sizes.get(at) == Some(&size));
            if let Some(index) = freed.iter().position(fits) {
                return Ok(std::ptr::with_exposed_provenance_mut(freed.swap_remove(index)));
            }
        }
        // SAFETY: the caller keeps the contract.
        let pointer = unsafe { self.cpu.malloc_async(device, size, stream)? };
        self.with_sizes(|sizes| sizes.insert(pointer.expose_provenance(), size));
        Ok(pointer)
    }

    unsafe fn free_async(
        &self,
        device: Ordinal,
        pointer: *mut c_void,
        stream: Stream,
    ) -> Result<()> {
        if self.is("frees_in_a_stream_are_at_once") {
            let mut freed = self.freed.lock().unwrap_or_else(PoisonError::into_inner);
            freed.push(pointer.expose_provenance());
            return Ok(());
        }
        if self.is("frees_in_a_stream_wait") {
            // SAFETY: the caller keeps the contract of both.
            unsafe { self.cpu.stream_synchronize(device, stream)? };
        }
        // SAFETY: the caller keeps the contract.
        unsafe { self.cpu.free_async(device, pointer, stream) }
    }

    unsafe fn register_host(
        &self,
        device: Ordinal,
        pointer: *mut c_void,
        size: usize,
    ) -> Result<()> {
        // SAFETY: the caller keeps the contract.
        unsafe { self.cpu.register_host(device, pointer, size) }
    }

    unsafe fn unregister_host(&self, device: Ordinal, pointer: *mut c_void) -> Result<()> {
        // SAFETY: the caller keeps the contract.
        unsafe { self.cpu.unregister_host(device, pointer) }
    }

    unsafe fn memset_async(
        &self,
        device: Ordinal,
        dst: *mut c_void,
        pattern: Pattern,
        size: usize,
        stream: Stream,
    ) -> Result<()> {
        let unit = pattern.bytes().len();
        let size = if self.is("fills_lose_the_last_pattern") { size - unit } else { size };
        if size == 0 {
            return Ok(());
        }
        let pattern = if self.is("fills_know_their_first_byte_only") {
            Pattern::new(&pattern.bytes()[..1])?
        } else {
            pattern
        };
        let stream = if self.is("fills_are_elsewhere") { self.other(device)? } else { stream };
        // SAFETY: the caller keeps the contract.
        unsafe { self.cpu.memset_async(device, dst, pattern, size, stream) }
    }

    unsafe fn memcpy_3d_async(
        &self,
        device: Ordinal,
        copy: &LlaisysCopy3D,
        stream: Stream,
        flags: CopyFlags,
    ) -> Result<()> {
        let mut copy = *copy;
        if self.is("pitches_are_ignored") {
            copy.dst_pitch = copy.width;
        }
        if self.is("slice_heights_are_ignored") {
            copy.src_slice_height = copy.height;
        }
        // SAFETY: the caller keeps the contract; the faults stay inside the extents.
        unsafe { self.cpu.memcpy_3d_async(device, &copy, stream, flags) }
    }

    unsafe fn memcpy_batch_async(
        &self,
        device: Ordinal,
        ranges: &[LlaisysCopyRange],
        kind: MemcpyKind,
        stream: Stream,
        flags: CopyFlags,
    ) -> Result<()> {
        let short = usize::from(self.is("batches_lose_their_last_range"));
        let ranges = &ranges[..ranges.len() - short];
        // SAFETY: the caller keeps the contract.
        unsafe { self.cpu.memcpy_batch_async(device, ranges, kind, stream, flags) }
    }

    fn get_reserved_memory(&self, device: Ordinal) -> Result<u64> {
        self.cpu.get_reserved_memory(device)
    }

    fn trim_memory(&self, device: Ordinal, keep: u64) -> Result<()> {
        if self.is("trimming_is_not_there_after_all") {
            return Err(Error::new(Status::NotSupported, "not after all"));
        }
        self.cpu.trim_memory(device, keep)
    }
}

llaisys_runtime_core::export_backend! {
    backend: Mutant = Mutant::new(),
    device_type: -1,
    name: c"mutant",
    vendor: c"nobody",
    capabilities: CAPABILITIES,
}
