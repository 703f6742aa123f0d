//! `RuntimeApi`: what a device backend can do. Read this first.
//!
//! The twelve required methods are LLAISYS's runtime table under LLAISYS's names; everything else
//! has a default that answers `NOT_SUPPORTED`, so an older backend still compiles and an older
//! plugin still loads. `abi` is this trait as a C struct; `export` and `import` turn one into the
//! other.
//!
//! # Who validates
//!
//! Clients reach a backend through [`Managed`](crate::managed::Managed), which checks: the device is
//! in `0..get_device_count()`; sizes are not zero; a stream is NULL or was made by `create_stream`
//! and not destroyed, and `device` is that stream's device; a pointer to free was allocated by the
//! same backend with the matching function; the kind is one of the four and fits what is known of
//! the pointers; the ranges of a copy lie inside the allocations they start in, do not wrap and do
//! not overlap. A backend may rely on all of that and must check only what it alone can know. It
//! must not rely on being called from one thread: every method may be called from any thread at any
//! time (contract L4).
//!
//! # Devices
//!
//! Every method that needs a device gets its ordinal. Which device is current on a thread is the
//! core's knowledge (`current`); a backend's `set_device` only binds the thread's *native* state,
//! because users' own kernels rely on it. Any other method leaves the thread's native state as it
//! found it.

use crate::error::{Error, Result};
use crate::status::Status;
use std::ffi::c_void;

pub use crate::copy::*;
pub use crate::device_info::*;
pub use crate::event::*;
pub use crate::memory::*;
pub use crate::stream::*;
pub use crate::support::*;

/// A function of the caller's that a stream runs in its order. It must not unwind.
pub type HostFunction = unsafe extern "C" fn(data: *mut c_void);

/// What a backend does. See the module text for who validates what.
///
/// The numbered promises (M4, C3, S2 …) are clauses of the contract, `docs/contract.md`.
pub trait RuntimeApi: Send + Sync {
    /// The number of devices; 0 devices is `Ok(0)`.
    ///
    /// Creates no context and touches no device (D1, D4).
    ///
    /// # Errors
    /// When the answer is 0 *for a reason that a user can mend* (no driver, too old, …): that reason.
    /// The doors answer 0 and keep the reason where it can be read.
    fn get_device_count(&self) -> Result<i32>;

    /// Binds the calling thread's native state to the device.
    fn set_device(&self, device: Ordinal) -> Result<()>;

    /// Waits until all work enqueued on the device before this call is done.
    fn device_synchronize(&self, device: Ordinal) -> Result<()>;

    /// Makes a blocking stream (S2): one that is ordered with the default stream. Never NULL.
    fn create_stream(&self, device: Ordinal) -> Result<Stream>;

    /// Destroys a stream. Returns at once; work already enqueued completes (S3). An adopted stream is
    /// only let go of: the backend forgets it and never touches it again.
    ///
    /// # Safety
    /// - `stream` was made or adopted by this backend on `device` and is not destroyed.
    /// - No other call on it is in progress (`Managed` sees to it).
    unsafe fn destroy_stream(&self, device: Ordinal, stream: Stream) -> Result<()>;

    /// Waits until all work enqueued on the stream before this call is done.
    ///
    /// # Safety
    /// - `stream` is NULL or a live stream of `device`.
    unsafe fn stream_synchronize(&self, device: Ordinal, stream: Stream) -> Result<()>;

    /// Allocates device memory, aligned to at least 256 bytes (M2). `size` is not 0.
    fn malloc_device(&self, device: Ordinal, size: usize) -> Result<*mut c_void>;

    /// Frees device memory. Does not stall the device, and the memory is not handed out again before
    /// work enqueued earlier is done (M4).
    ///
    /// # Safety
    /// - `pointer` came from `malloc_device` of this backend on `device` and is not freed.
    unsafe fn free_device(&self, device: Ordinal, pointer: *mut c_void) -> Result<()>;

    /// Allocates pinned host memory, aligned to at least 64 bytes, usable with every device of the
    /// backend (M2, M6). `size` is not 0.
    fn malloc_host(&self, device: Ordinal, size: usize) -> Result<*mut c_void>;

    /// Frees pinned host memory; it is not handed out again while a copy still uses it.
    ///
    /// # Safety
    /// - `pointer` came from `malloc_host` of this backend and is not freed.
    unsafe fn free_host(&self, device: Ordinal, pointer: *mut c_void) -> Result<()>;

    /// Copies and waits (C2): ordered after earlier work on blocking streams of the device; when it
    /// returns, the data is there for the host and for every stream, and the source may be reused.
    ///
    /// # Safety
    /// - `src` is readable and `dst` writable for `size` bytes, on the side that `kind` names.
    /// - The two ranges do not overlap.
    unsafe fn memcpy_sync(
        &self,
        device: Ordinal,
        dst: *mut c_void,
        src: *const c_void,
        size: usize,
        kind: MemcpyKind,
        flags: CopyFlags,
    ) -> Result<()>;

    /// Enqueues a copy on a stream (C3, S1). `flags` say whether host memory is pageable.
    ///
    /// # Safety
    /// - As for `memcpy_sync`, and pinned memory stays valid until the stream has passed.
    /// - `stream` is NULL or a live stream of `device`.
    #[expect(clippy::too_many_arguments, reason = "LLAISYS's five, the device and the flags")]
    unsafe fn memcpy_async(
        &self,
        device: Ordinal,
        dst: *mut c_void,
        src: *const c_void,
        size: usize,
        kind: MemcpyKind,
        stream: Stream,
        flags: CopyFlags,
    ) -> Result<()>;

    // What follows is optional.

    /// Which of the optional operations are there, and the nature of the memory.
    fn capabilities(&self) -> Capabilities {
        Capabilities::NONE
    }

    /// What the device is. Creates no context (D4).
    fn get_device_properties(&self, device: Ordinal) -> Result<LlaisysDeviceProperties> {
        let _ = device;
        Err(not_supported("get_device_properties"))
    }

    /// The device's memory now. Creates no context (D4): what would need one is `UNKNOWN_BYTES`.
    fn get_memory_info(&self, device: Ordinal) -> Result<LlaisysMemoryInfo> {
        let _ = device;
        Err(not_supported("get_memory_info"))
    }

    /// Whether all work enqueued on the stream is done (S5). Never waits, never runs work itself.
    ///
    /// # Safety
    /// - `stream` is NULL or a live stream of `device`.
    unsafe fn stream_query(&self, device: Ordinal, stream: Stream) -> Result<bool> {
        let _ = (device, stream);
        Err(not_supported("stream_query"))
    }

    /// Has the stream call `function(data)` once, in its order; what comes after on the stream waits
    /// for it (H1). The function must not call this runtime's blocking operations.
    ///
    /// # Safety
    /// - `stream` is NULL or a live stream of `device`.
    /// - `function` may be called with `data` from another thread, at any later time, and does not
    ///   unwind.
    unsafe fn launch_host_function(
        &self,
        device: Ordinal,
        stream: Stream,
        function: HostFunction,
        data: *mut c_void,
    ) -> Result<()> {
        let _ = (device, stream, function, data);
        Err(not_supported("launch_host_function"))
    }

    /// Whether the address is device memory of this backend's kind, whoever allocated it (PyTorch,
    /// say). Asked for addresses that the core does not know itself, so that a host pointer in the
    /// place of a device pointer is an error (C1).
    fn is_device_memory(&self, device: Ordinal, address: usize) -> Result<bool> {
        let _ = (device, address);
        Err(not_supported("is_device_memory"))
    }

    /// Makes the driver ready in this process and answers the number of devices; the first call of an
    /// operation on a device goes through here. `get_device_count` must leave a process that it only
    /// asks able to fork a child that starts the driver itself (case 4), so a driver whose
    /// initialisation cannot be undone is initialised here and not there. Creates no context.
    ///
    /// # Errors
    /// As for `get_device_count`.
    fn initialize(&self) -> Result<i32> {
        self.get_device_count()
    }

    // Devices and their links.

    /// How `device` reaches the memory of `peer`. Creates no context (D4).
    fn get_peer_link(&self, device: Ordinal, peer: Ordinal) -> Result<LlaisysPeerLink> {
        let _ = (device, peer);
        Err(not_supported("get_peer_link"))
    }

    /// Lets kernels on `device` read and write the memory of `peer`. Again is fine.
    fn enable_peer_access(&self, device: Ordinal, peer: Ordinal) -> Result<()> {
        let _ = (device, peer);
        Err(not_supported("enable_peer_access"))
    }

    // Streams of other kinds.

    /// Makes a stream, blocking or not, whose priority is clamped into the device's range.
    fn create_stream_with(
        &self,
        device: Ordinal,
        flags: StreamFlags,
        priority: i32,
    ) -> Result<Stream> {
        let _ = (device, flags, priority);
        Err(not_supported("create_stream_with"))
    }

    /// The priorities that streams of the device can have.
    fn get_stream_priority_range(&self, device: Ordinal) -> Result<PriorityRange> {
        let _ = device;
        Err(not_supported("get_stream_priority_range"))
    }

    /// Takes in a native stream of somebody else (PyTorch, say): answers its device. From then on it
    /// is used like a stream of ours; `destroy_stream` lets go of it and does not destroy it.
    ///
    /// # Safety
    /// - `native` is a live native stream of this kind of device and stays so while it is used here.
    unsafe fn adopt_stream(&self, native: *mut c_void) -> Result<Ordinal> {
        let _ = native;
        Err(not_supported("adopt_stream"))
    }

    // Events.

    /// Makes an event of the device, never recorded yet.
    fn create_event(&self, device: Ordinal, flags: EventFlags) -> Result<Event> {
        let _ = (device, flags);
        Err(not_supported("create_event"))
    }

    /// Destroys an event, also one that is not reached yet (V3).
    ///
    /// # Safety
    /// - `event` was made by `create_event` of this backend on `device` and is not destroyed; no
    ///   other call on it is in progress (`Managed` sees to it).
    unsafe fn destroy_event(&self, device: Ordinal, event: Event) -> Result<()> {
        let _ = (device, event);
        Err(not_supported("destroy_event"))
    }

    /// Puts the event behind the work that the stream has now. A new record replaces the old one.
    ///
    /// # Safety
    /// - `event` and `stream` are live and both of `device` (the stream may be NULL).
    unsafe fn record_event(&self, device: Ordinal, event: Event, stream: Stream) -> Result<()> {
        let _ = (device, event, stream);
        Err(not_supported("record_event"))
    }

    /// Has the stream wait for the record that the event has now (V1), also one of another device.
    ///
    /// # Safety
    /// - `stream` is NULL or a live stream of `device`; `event` is live and was recorded.
    unsafe fn stream_wait_event(
        &self,
        device: Ordinal,
        stream: Stream,
        event: Event,
    ) -> Result<()> {
        let _ = (device, stream, event);
        Err(not_supported("stream_wait_event"))
    }

    /// Whether handles of streams and events are numbers that every method checks itself, whatever their
    /// bits. Such a backend may be called with a stream or an event that is none, or that another thread is
    /// just destroying, so nothing is kept alive around a call. Not so by default.
    #[inline]
    fn checks_handles(&self) -> bool {
        false
    }

    /// The device that the bits of a stream's handle name, whether there is such a stream or not; only from
    /// a backend that [checks them](RuntimeApi::checks_handles), and not for the default stream.
    #[inline]
    fn device_in_handle(&self, stream: Stream) -> Option<Ordinal> {
        let _ = stream;
        None
    }

    /// Whether the event was reached; never recorded counts as reached (V1). Never waits.
    ///
    /// # Safety
    /// - `event` is a live event of `device`.
    unsafe fn event_query(&self, device: Ordinal, event: Event) -> Result<bool> {
        let _ = (device, event);
        Err(not_supported("event_query"))
    }

    /// Waits until the event is reached.
    ///
    /// # Safety
    /// - `event` is a live event of `device`.
    unsafe fn event_synchronize(&self, device: Ordinal, event: Event) -> Result<()> {
        let _ = (device, event);
        Err(not_supported("event_synchronize"))
    }

    /// Nanoseconds from one event to another, by a monotonic clock; negative when `end` was reached
    /// first (V2).
    ///
    /// # Safety
    /// - Both are live events of `device` with timing, recorded and reached.
    unsafe fn event_elapsed(&self, device: Ordinal, start: Event, end: Event) -> Result<i64> {
        let _ = (device, start, end);
        Err(not_supported("event_elapsed"))
    }

    // Memory of other kinds.

    /// Allocates device memory in the order of a stream: usable by what the stream does from now on
    /// (M7). `size` is not 0.
    ///
    /// # Safety
    /// - `stream` is NULL or a live stream of `device`.
    unsafe fn malloc_async(
        &self,
        device: Ordinal,
        size: usize,
        stream: Stream,
    ) -> Result<*mut c_void> {
        let _ = (device, size, stream);
        Err(not_supported("malloc_async"))
    }

    /// Frees memory of `malloc_async` or `malloc_device` in the order of a stream.
    ///
    /// # Safety
    /// - `pointer` is device memory of this backend on `device`, not freed.
    /// - `stream` is NULL or a live stream of `device`; other streams are done with the memory by
    ///   then.
    unsafe fn free_async(
        &self,
        device: Ordinal,
        pointer: *mut c_void,
        stream: Stream,
    ) -> Result<()> {
        let _ = (device, pointer, stream);
        Err(not_supported("free_async"))
    }

    /// Allocates managed memory: one address for the host and every device. `size` is not 0.
    fn malloc_managed(&self, device: Ordinal, size: usize) -> Result<*mut c_void> {
        let _ = (device, size);
        Err(not_supported("malloc_managed"))
    }

    /// Frees managed memory.
    ///
    /// # Safety
    /// - `pointer` came from `malloc_managed` of this backend and is not freed; nothing uses it.
    unsafe fn free_managed(&self, device: Ordinal, pointer: *mut c_void) -> Result<()> {
        let _ = (device, pointer);
        Err(not_supported("free_managed"))
    }

    /// Moves managed memory to a device, or to the host (`LOCATION_HOST`), in the order of a stream.
    ///
    /// # Safety
    /// - The range lies in managed memory of this backend; `stream` is NULL or live, of `device`.
    unsafe fn prefetch_managed(
        &self,
        device: Ordinal,
        pointer: *mut c_void,
        size: usize,
        location: i32,
        stream: Stream,
    ) -> Result<()> {
        let _ = (device, pointer, size, location, stream);
        Err(not_supported("prefetch_managed"))
    }

    /// Tells the driver how managed memory will be used.
    ///
    /// # Safety
    /// - The range lies in managed memory of this backend.
    unsafe fn advise_managed(
        &self,
        device: Ordinal,
        pointer: *mut c_void,
        size: usize,
        advice: MemoryAdvice,
        location: i32,
    ) -> Result<()> {
        let _ = (device, pointer, size, advice, location);
        Err(not_supported("advise_managed"))
    }

    /// Pins host memory that the caller allocated, for every device of the backend.
    ///
    /// # Safety
    /// - The range is mapped memory of this process and stays so until `unregister_host`.
    unsafe fn register_host(
        &self,
        device: Ordinal,
        pointer: *mut c_void,
        size: usize,
    ) -> Result<()> {
        let _ = (device, pointer, size);
        Err(not_supported("register_host"))
    }

    /// Undoes `register_host`.
    ///
    /// # Safety
    /// - `pointer` was given to `register_host` of this backend and is registered; no copy uses it.
    unsafe fn unregister_host(&self, device: Ordinal, pointer: *mut c_void) -> Result<()> {
        let _ = (device, pointer);
        Err(not_supported("unregister_host"))
    }

    /// What is known of an address, whoever allocated it.
    fn get_pointer_attributes(&self, address: usize) -> Result<LlaisysPointerAttributes> {
        let _ = address;
        Err(not_supported("get_pointer_attributes"))
    }

    /// Fills `size` bytes with a pattern, on a stream. `size` and `dst` are multiples of the
    /// pattern's size, `size` is not 0.
    ///
    /// # Safety
    /// - `dst` is writable device memory for `size` bytes until the stream has passed.
    /// - `stream` is NULL or a live stream of `device`.
    unsafe fn memset_async(
        &self,
        device: Ordinal,
        dst: *mut c_void,
        pattern: Pattern,
        size: usize,
        stream: Stream,
    ) -> Result<()> {
        let _ = (device, dst, pattern, size, stream);
        Err(not_supported("memset_async"))
    }

    /// Enqueues a pitched copy (see [`LlaisysCopy3D`]); flags as for `memcpy_async`.
    ///
    /// # Safety
    /// - As for `memcpy_async`, for each row; the two extents do not overlap.
    unsafe fn memcpy_3d_async(
        &self,
        device: Ordinal,
        copy: &LlaisysCopy3D,
        stream: Stream,
        flags: CopyFlags,
    ) -> Result<()> {
        let _ = (device, copy, stream, flags);
        Err(not_supported("memcpy_3d_async"))
    }

    /// Enqueues many copies of one kind with one call; they may run in any order among themselves.
    ///
    /// # Safety
    /// - As for `memcpy_async`, for each range; no destination overlaps another range.
    unsafe fn memcpy_batch_async(
        &self,
        device: Ordinal,
        ranges: &[LlaisysCopyRange],
        kind: MemcpyKind,
        stream: Stream,
        flags: CopyFlags,
    ) -> Result<()> {
        let _ = (device, ranges, kind, stream, flags);
        Err(not_supported("memcpy_batch_async"))
    }

    // Accounting.

    /// Bytes that are held from the driver for the device, used or cached.
    fn get_reserved_memory(&self, device: Ordinal) -> Result<u64> {
        let _ = device;
        Err(not_supported("get_reserved_memory"))
    }

    /// Gives cached memory back until at most `keep` bytes are cached.
    fn trim_memory(&self, device: Ordinal, keep: u64) -> Result<()> {
        let _ = (device, keep);
        Err(not_supported("trim_memory"))
    }

    // The core's own: `Managed` answers them for every backend; a backend leaves them as they are.

    /// The device of a stream.
    fn get_stream_device(&self, stream: Stream) -> Result<Ordinal> {
        let _ = stream;
        Err(not_supported("get_stream_device"))
    }

    /// The backend's own event behind a handle, a `CUevent` for example; owned by the handle.
    fn get_native_event(&self, event: Event) -> Result<*mut c_void> {
        let _ = event;
        Err(not_supported("get_native_event"))
    }

    /// How an operation, named as in the table, is there.
    ///
    /// # Errors
    /// `INVALID_VALUE` for a name that is none.
    fn get_operation_support(&self, operation: &str) -> Result<Support> {
        let _ = operation;
        Err(not_supported("get_operation_support"))
    }

    /// `memset_async` that waits, ordered as `memcpy_sync` is.
    ///
    /// # Safety
    /// - As for `memset_async`.
    unsafe fn memset_sync(
        &self,
        device: Ordinal,
        dst: *mut c_void,
        pattern: Pattern,
        size: usize,
    ) -> Result<()> {
        let _ = (device, dst, pattern, size);
        Err(not_supported("memset_sync"))
    }

    /// `memcpy_3d_async` that waits, ordered as `memcpy_sync` is.
    ///
    /// # Safety
    /// - As for `memcpy_3d_async`.
    unsafe fn memcpy_3d_sync(&self, device: Ordinal, copy: &LlaisysCopy3D) -> Result<()> {
        let _ = (device, copy);
        Err(not_supported("memcpy_3d_sync"))
    }

    /// Where the memory of a device went.
    fn get_memory_statistics(&self, device: Ordinal) -> Result<LlaisysMemoryStatistics> {
        let _ = device;
        Err(not_supported("get_memory_statistics"))
    }

    /// Where the memory that was allocated on a stream went.
    fn get_stream_memory_statistics(
        &self,
        device: Ordinal,
        stream: Stream,
    ) -> Result<LlaisysMemoryStatistics> {
        let _ = (device, stream);
        Err(not_supported("get_stream_memory_statistics"))
    }

    /// Begins the peak anew at what is used now.
    fn reset_peak_memory(&self, device: Ordinal) -> Result<()> {
        let _ = device;
        Err(not_supported("reset_peak_memory"))
    }

    /// Limits what may be used of a device; `u64::MAX` takes the limit away. What is used stays.
    fn set_memory_limit(&self, device: Ordinal, limit: u64) -> Result<()> {
        let _ = (device, limit);
        Err(not_supported("set_memory_limit"))
    }

    /// Has `callback(data, …)` asked when an allocation does not fit; `None` takes it away.
    ///
    /// # Safety
    /// - `callback` may be called with `data` from any thread until another one is set.
    unsafe fn set_out_of_memory_callback(
        &self,
        callback: Option<OutOfMemoryCallback>,
        data: *mut c_void,
    ) -> Result<()> {
        let _ = (callback, data);
        Err(not_supported("set_out_of_memory_callback"))
    }

    /// Keeps a value for this thread and device under a key of the caller's; what was there is
    /// destroyed. The destructor runs when it is replaced, when the thread ends, or at exit. NULL
    /// takes the value away.
    ///
    /// # Safety
    /// - `destructor` may be called once with `value`, on this thread.
    unsafe fn set_thread_slot(
        &self,
        device: Ordinal,
        key: u64,
        value: *mut c_void,
        destructor: Option<SlotDestructor>,
    ) -> Result<()> {
        let _ = (device, key, value, destructor);
        Err(not_supported("set_thread_slot"))
    }

    /// The value of `set_thread_slot`, or NULL.
    fn get_thread_slot(&self, device: Ordinal, key: u64) -> Result<*mut c_void> {
        let _ = (device, key);
        Err(not_supported("get_thread_slot"))
    }

    /// Keeps a value for a stream under a key of the caller's; the destructor runs when it is
    /// replaced or, before the stream is destroyed, when that happens. NULL takes the value away.
    ///
    /// # Safety
    /// - `destructor` may be called once with `value`, on any thread.
    unsafe fn set_stream_slot(
        &self,
        stream: Stream,
        key: u64,
        value: *mut c_void,
        destructor: Option<SlotDestructor>,
    ) -> Result<()> {
        let _ = (stream, key, value, destructor);
        Err(not_supported("set_stream_slot"))
    }

    /// The value of `set_stream_slot`, or NULL.
    fn get_stream_slot(&self, stream: Stream, key: u64) -> Result<*mut c_void> {
        let _ = (stream, key);
        Err(not_supported("get_stream_slot"))
    }
}

/// The answer of an operation that a backend does not have.
#[cold]
pub fn not_supported(operation: &str) -> Error {
    Error::new(Status::NotSupported, format!("this backend has no {operation}"))
}
