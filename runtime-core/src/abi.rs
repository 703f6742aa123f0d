//! The trait as C structs: what a plugin exports and what a client is handed.
//!
//! Rules (contract P3, `docs/abi.md`): `struct_size` and versions come first; fields are only ever
//! appended; fixed-width integers and pointers only; every function takes the table's `self` first
//! and returns a status; results go through out-parameters that are written only on success.

use crate::api::{
    CopyFlags, Event, EventFlags, HostFunction, LlaisysCopy3D, LlaisysCopyRange,
    LlaisysDeviceProperties, LlaisysMemoryInfo, LlaisysMemoryStatistics, LlaisysPeerLink,
    LlaisysPointerAttributes, Ordinal, OutOfMemoryCallback, SlotDestructor, Stream, StreamFlags,
};
use std::ffi::{c_char, c_void};

/// The ABI's major version: both sides must have the same.
pub const ABI_MAJOR: u32 = 1;
/// The ABI's minor version: grows when a field is appended.
pub const ABI_MINOR: u32 = 0;
/// The first eight bytes of a descriptor, `LLAISYSB` read as a little-endian number.
pub const DESCRIPTOR_MAGIC: u64 = u64::from_le_bytes(*b"LLAISYSB");
/// The one symbol that a plugin exports.
pub const QUERY_SYMBOL: &str = "llaisysBackendQuery";
/// In a descriptor: the plugin is of a kind that has no number; it gets one when it is loaded.
pub const DEVICE_TYPE_UNASSIGNED: i32 = -1;

/// The type of the one symbol that a plugin exports, `llaisysBackendQuery`.
///
/// A pure query: it initialises no driver, starts no thread, may be called again, and returns the
/// plugin's own constant descriptor, or NULL when the plugin cannot work with a host of this ABI.
pub type LlaisysBackendQuery = unsafe extern "C" fn(
    host_abi_major: u32,
    host_abi_minor: u32,
) -> *const LlaisysBackendDescriptor;

/// What a plugin says of itself. Constant; lives as long as the plugin, which is never unloaded.
#[repr(C)]
pub struct LlaisysBackendDescriptor {
    /// `LLAISYS_DESCRIPTOR_MAGIC`.
    pub magic: u64,
    /// The end of the last field that the plugin knows.
    pub struct_size: u32,
    /// The ABI major version that the plugin was built with.
    pub abi_major: u32,
    /// The ABI minor version that the plugin was built with.
    pub abi_minor: u32,
    /// The oldest host minor version that the plugin accepts.
    pub oldest_host_minor: u32,
    /// The device type that the plugin serves, or -1 to be given a number.
    pub device_type: i32,
    /// The sanitizer that the plugin was built with: 0 none, 1 address, 2 thread, 3 memory.
    pub sanitizer: u32,
    /// What the plugin is able to do: bits of `LLAISYS_CAPABILITY_*`.
    pub capabilities: u64,
    /// The backend's short name in lower case, for example `nvidia`. Taken names are refused.
    pub name: *const c_char,
    /// Who made the devices, for people.
    pub vendor: *const c_char,
    /// The plugin's own version, for people.
    pub version: *const c_char,
    /// The target that the plugin was built for, for example `x86_64-unknown-linux-gnu`.
    pub target: *const c_char,
    /// The plugin's table.
    pub api: *const LlaisysBackendAPI,
}

// SAFETY: a descriptor is constant data; its pointers name constants of the same file.
unsafe impl Sync for LlaisysBackendDescriptor {}

/// `RuntimeApi` as a table. Each function takes `self` first and returns a status (0 is success).
///
/// Every function may be called from any thread. None lets an exception or panic out.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LlaisysBackendAPI {
    /// The end of the last field that the maker of the table knows.
    pub struct_size: u32,
    /// The ABI major version of the maker.
    pub abi_major: u32,
    /// The ABI minor version of the maker.
    pub abi_minor: u32,
    /// Zero.
    pub reserved: u32,
    /// The first argument of every function below.
    pub self_: *mut c_void,
    /// Reads and clears the calling thread's failure: native code and name, message. Texts are cut
    /// to the capacities (bytes, NUL included) and always end with a NUL when the capacity is not 0.
    pub get_last_error: unsafe extern "C" fn(
        self_: *mut c_void,
        native_code: *mut i64,
        native_name: *mut c_char,
        native_name_capacity: u64,
        message: *mut c_char,
        message_capacity: u64,
    ) -> i32,
    /// Writes the number of devices. A failure is the reason why there are none.
    pub get_device_count: unsafe extern "C" fn(self_: *mut c_void, count: *mut i32) -> i32,
    /// Binds the calling thread's native state to the device.
    pub set_device: unsafe extern "C" fn(self_: *mut c_void, device: Ordinal) -> i32,
    /// Waits for all work of the device.
    pub device_synchronize: unsafe extern "C" fn(self_: *mut c_void, device: Ordinal) -> i32,
    /// Makes a blocking stream.
    pub create_stream:
        unsafe extern "C" fn(self_: *mut c_void, device: Ordinal, stream: *mut Stream) -> i32,
    /// Destroys a stream at once; its work completes.
    pub destroy_stream:
        unsafe extern "C" fn(self_: *mut c_void, device: Ordinal, stream: Stream) -> i32,
    /// Waits for all work of the stream.
    pub stream_synchronize:
        unsafe extern "C" fn(self_: *mut c_void, device: Ordinal, stream: Stream) -> i32,
    /// Allocates device memory.
    pub malloc_device: unsafe extern "C" fn(
        self_: *mut c_void,
        device: Ordinal,
        size: u64,
        pointer: *mut *mut c_void,
    ) -> i32,
    /// Frees device memory.
    pub free_device:
        unsafe extern "C" fn(self_: *mut c_void, device: Ordinal, pointer: *mut c_void) -> i32,
    /// Allocates pinned host memory.
    pub malloc_host: unsafe extern "C" fn(
        self_: *mut c_void,
        device: Ordinal,
        size: u64,
        pointer: *mut *mut c_void,
    ) -> i32,
    /// Frees pinned host memory.
    pub free_host:
        unsafe extern "C" fn(self_: *mut c_void, device: Ordinal, pointer: *mut c_void) -> i32,
    /// Copies and waits. `kind` is one of `LLAISYS_MEMCPY_*`.
    pub memcpy_sync: unsafe extern "C" fn(
        self_: *mut c_void,
        device: Ordinal,
        dst: *mut c_void,
        src: *const c_void,
        size: u64,
        kind: u32,
        flags: CopyFlags,
    ) -> i32,
    /// Enqueues a copy. `kind` is one of `LLAISYS_MEMCPY_*`, `flags` are `LLAISYS_COPY_*`.
    pub memcpy_async: unsafe extern "C" fn(
        self_: *mut c_void,
        device: Ordinal,
        dst: *mut c_void,
        src: *const c_void,
        size: u64,
        kind: u32,
        stream: Stream,
        flags: CopyFlags,
    ) -> i32,
    /// Writes what the device is, up to the caller's `struct_size`.
    pub get_device_properties: unsafe extern "C" fn(
        self_: *mut c_void,
        device: Ordinal,
        properties: *mut LlaisysDeviceProperties,
    ) -> i32,
    /// Writes the device's memory now, up to the caller's `struct_size`.
    pub get_memory_info: unsafe extern "C" fn(
        self_: *mut c_void,
        device: Ordinal,
        info: *mut LlaisysMemoryInfo,
    ) -> i32,
    /// Writes 1 when all work of the stream is done, 0 otherwise. Never waits.
    pub stream_query: unsafe extern "C" fn(
        self_: *mut c_void,
        device: Ordinal,
        stream: Stream,
        ready: *mut i32,
    ) -> i32,
    /// Has the stream call `function(data)` once, in its order.
    pub launch_host_function: unsafe extern "C" fn(
        self_: *mut c_void,
        device: Ordinal,
        stream: Stream,
        function: Option<HostFunction>,
        data: *mut c_void,
    ) -> i32,
    /// Writes 1 when the address is device memory of this kind, whoever allocated it, 0 otherwise.
    pub is_device_memory: unsafe extern "C" fn(
        self_: *mut c_void,
        device: Ordinal,
        address: *const c_void,
        answer: *mut i32,
    ) -> i32,
    /// Makes the driver ready in this process and writes the number of devices. May be NULL: then
    /// `get_device_count` does that.
    pub initialize: unsafe extern "C" fn(self_: *mut c_void, count: *mut i32) -> i32,
    /// Writes what the backend is able to do: bits of `LLAISYS_CAPABILITY_*`. May be NULL in a
    /// plugin: the loader reads the descriptor.
    pub get_capabilities: unsafe extern "C" fn(self_: *mut c_void, capabilities: *mut u64) -> i32,
    /// Writes how `device` reaches the memory of `peer`, up to the caller's `struct_size`.
    pub get_peer_link: unsafe extern "C" fn(
        self_: *mut c_void,
        device: Ordinal,
        peer: Ordinal,
        link: *mut LlaisysPeerLink,
    ) -> i32,
    /// Lets kernels on `device` use the memory of `peer`. Again is fine.
    pub enable_peer_access:
        unsafe extern "C" fn(self_: *mut c_void, device: Ordinal, peer: Ordinal) -> i32,
    /// Makes a stream: `flags` are `LLAISYS_STREAM_*`, the priority is clamped into the device's range.
    pub create_stream_with: unsafe extern "C" fn(
        self_: *mut c_void,
        device: Ordinal,
        flags: StreamFlags,
        priority: i32,
        stream: *mut Stream,
    ) -> i32,
    /// Writes the priorities that streams of the device can have; a lower number is served first.
    pub get_stream_priority_range: unsafe extern "C" fn(
        self_: *mut c_void,
        device: Ordinal,
        least: *mut i32,
        greatest: *mut i32,
    ) -> i32,
    /// Takes in a native stream of somebody else and writes its device; it is not owned.
    pub adopt_stream:
        unsafe extern "C" fn(self_: *mut c_void, native: *mut c_void, device: *mut Ordinal) -> i32,
    /// Makes an event: `flags` are `LLAISYS_EVENT_*`.
    pub create_event: unsafe extern "C" fn(
        self_: *mut c_void,
        device: Ordinal,
        flags: EventFlags,
        event: *mut Event,
    ) -> i32,
    /// Destroys an event, also one that is not reached yet.
    pub destroy_event:
        unsafe extern "C" fn(self_: *mut c_void, device: Ordinal, event: Event) -> i32,
    /// Puts the event behind the work that the stream has now.
    pub record_event: unsafe extern "C" fn(
        self_: *mut c_void,
        device: Ordinal,
        event: Event,
        stream: Stream,
    ) -> i32,
    /// Has the stream wait for the record that the event has now.
    pub stream_wait_event: unsafe extern "C" fn(
        self_: *mut c_void,
        device: Ordinal,
        stream: Stream,
        event: Event,
    ) -> i32,
    /// Writes 1 when the event was reached or never recorded, 0 otherwise. Never waits.
    pub event_query: unsafe extern "C" fn(
        self_: *mut c_void,
        device: Ordinal,
        event: Event,
        answer: *mut i32,
    ) -> i32,
    /// Waits until the event is reached.
    pub event_synchronize:
        unsafe extern "C" fn(self_: *mut c_void, device: Ordinal, event: Event) -> i32,
    /// Writes the nanoseconds from one event to another; negative when `end` was reached first.
    pub event_elapsed: unsafe extern "C" fn(
        self_: *mut c_void,
        device: Ordinal,
        start: Event,
        end: Event,
        nanoseconds: *mut i64,
    ) -> i32,
    /// Allocates device memory in the order of a stream.
    pub malloc_async: unsafe extern "C" fn(
        self_: *mut c_void,
        device: Ordinal,
        size: u64,
        stream: Stream,
        pointer: *mut *mut c_void,
    ) -> i32,
    /// Frees device memory in the order of a stream.
    pub free_async: unsafe extern "C" fn(
        self_: *mut c_void,
        device: Ordinal,
        pointer: *mut c_void,
        stream: Stream,
    ) -> i32,
    /// Allocates managed memory: one address for the host and every device.
    pub malloc_managed: unsafe extern "C" fn(
        self_: *mut c_void,
        device: Ordinal,
        size: u64,
        pointer: *mut *mut c_void,
    ) -> i32,
    /// Frees managed memory.
    pub free_managed:
        unsafe extern "C" fn(self_: *mut c_void, device: Ordinal, pointer: *mut c_void) -> i32,
    /// Moves managed memory to a device, or to the host (location -1), in the order of a stream.
    pub prefetch_managed: unsafe extern "C" fn(
        self_: *mut c_void,
        device: Ordinal,
        pointer: *mut c_void,
        size: u64,
        location: i32,
        stream: Stream,
    ) -> i32,
    /// Tells the driver how managed memory will be used: `advice` is one of `LLAISYS_ADVICE_*`.
    pub advise_managed: unsafe extern "C" fn(
        self_: *mut c_void,
        device: Ordinal,
        pointer: *mut c_void,
        size: u64,
        advice: u32,
        location: i32,
    ) -> i32,
    /// Pins host memory that the caller allocated.
    pub register_host: unsafe extern "C" fn(
        self_: *mut c_void,
        device: Ordinal,
        pointer: *mut c_void,
        size: u64,
    ) -> i32,
    /// Undoes `register_host`.
    pub unregister_host:
        unsafe extern "C" fn(self_: *mut c_void, device: Ordinal, pointer: *mut c_void) -> i32,
    /// Writes what is known of an address, up to the caller's `struct_size`.
    pub get_pointer_attributes: unsafe extern "C" fn(
        self_: *mut c_void,
        address: *const c_void,
        attributes: *mut LlaisysPointerAttributes,
    ) -> i32,
    /// Fills `size` bytes with a pattern of 1, 2, 4, 8 or 16 bytes, on a stream.
    pub memset_async: unsafe extern "C" fn(
        self_: *mut c_void,
        device: Ordinal,
        dst: *mut c_void,
        pattern: *const c_void,
        pattern_size: u32,
        size: u64,
        stream: Stream,
    ) -> i32,
    /// Enqueues a pitched copy.
    pub memcpy_3d_async: unsafe extern "C" fn(
        self_: *mut c_void,
        device: Ordinal,
        copy: *const LlaisysCopy3D,
        stream: Stream,
        flags: CopyFlags,
    ) -> i32,
    /// Enqueues many copies of one kind; `stride` is the size of the caller's `LlaisysCopyRange`.
    pub memcpy_batch_async: unsafe extern "C" fn(
        self_: *mut c_void,
        device: Ordinal,
        ranges: *const LlaisysCopyRange,
        count: u64,
        stride: u64,
        kind: u32,
        stream: Stream,
        flags: CopyFlags,
    ) -> i32,
    /// Writes the bytes held from the driver for the device, used or cached.
    pub get_reserved_memory:
        unsafe extern "C" fn(self_: *mut c_void, device: Ordinal, reserved: *mut u64) -> i32,
    /// Gives cached memory back until at most `keep` bytes are cached.
    pub trim_memory: unsafe extern "C" fn(self_: *mut c_void, device: Ordinal, keep: u64) -> i32,

    // The core's own. A plugin leaves these NULL; the core answers them for every backend.
    /// Writes the device of a stream.
    pub get_stream_device:
        unsafe extern "C" fn(self_: *mut c_void, stream: Stream, device: *mut Ordinal) -> i32,
    /// Writes the backend's own event behind a handle (a `CUevent`); it belongs to the handle.
    pub get_native_event:
        unsafe extern "C" fn(self_: *mut c_void, event: Event, pointer: *mut *mut c_void) -> i32,
    /// Writes how the operation of this name is there: one of `LLAISYS_SUPPORT_*`.
    pub get_operation_support: unsafe extern "C" fn(
        self_: *mut c_void,
        operation: *const c_char,
        support: *mut i32,
    ) -> i32,
    /// `memset_async` that waits, ordered as `memcpy_sync` is.
    pub memset_sync: unsafe extern "C" fn(
        self_: *mut c_void,
        device: Ordinal,
        dst: *mut c_void,
        pattern: *const c_void,
        pattern_size: u32,
        size: u64,
    ) -> i32,
    /// `memcpy_3d_async` that waits, ordered as `memcpy_sync` is.
    pub memcpy_3d_sync: unsafe extern "C" fn(
        self_: *mut c_void,
        device: Ordinal,
        copy: *const LlaisysCopy3D,
    ) -> i32,
    /// Writes where the memory of a device went, up to the caller's `struct_size`.
    pub get_memory_statistics: unsafe extern "C" fn(
        self_: *mut c_void,
        device: Ordinal,
        statistics: *mut LlaisysMemoryStatistics,
    ) -> i32,
    /// Writes where the memory that was allocated on a stream went, up to the caller's
    /// `struct_size`.
    pub get_stream_memory_statistics: unsafe extern "C" fn(
        self_: *mut c_void,
        device: Ordinal,
        stream: Stream,
        statistics: *mut LlaisysMemoryStatistics,
    ) -> i32,
    /// Begins the peak anew at what is used now.
    pub reset_peak_memory: unsafe extern "C" fn(self_: *mut c_void, device: Ordinal) -> i32,
    /// Limits what may be used of a device, in bytes; `UINT64_MAX` takes the limit away.
    pub set_memory_limit:
        unsafe extern "C" fn(self_: *mut c_void, device: Ordinal, limit: u64) -> i32,
    /// Has `callback` asked when an allocation does not fit; NULL takes it away.
    pub set_out_of_memory_callback: unsafe extern "C" fn(
        self_: *mut c_void,
        callback: Option<OutOfMemoryCallback>,
        data: *mut c_void,
    ) -> i32,
    /// Keeps a value for this thread and device; NULL takes it away. The destructor runs when the
    /// value is replaced, when the thread ends, or at exit.
    pub set_thread_slot: unsafe extern "C" fn(
        self_: *mut c_void,
        device: Ordinal,
        key: u64,
        value: *mut c_void,
        destructor: Option<SlotDestructor>,
    ) -> i32,
    /// Writes the value of `set_thread_slot`, or NULL.
    pub get_thread_slot: unsafe extern "C" fn(
        self_: *mut c_void,
        device: Ordinal,
        key: u64,
        value: *mut *mut c_void,
    ) -> i32,
    /// Keeps a value for a stream; NULL takes it away. The destructor runs when the value is
    /// replaced or the stream is destroyed.
    pub set_stream_slot: unsafe extern "C" fn(
        self_: *mut c_void,
        stream: Stream,
        key: u64,
        value: *mut c_void,
        destructor: Option<SlotDestructor>,
    ) -> i32,
    /// Writes the value of `set_stream_slot`, or NULL.
    pub get_stream_slot: unsafe extern "C" fn(
        self_: *mut c_void,
        stream: Stream,
        key: u64,
        value: *mut *mut c_void,
    ) -> i32,
}

// SAFETY: a table is constant; `self_` names a `RuntimeApi`, which is `Sync`.
unsafe impl Sync for LlaisysBackendAPI {}
// SAFETY: as above.
unsafe impl Send for LlaisysBackendAPI {}
