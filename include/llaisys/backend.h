/* llaisys/backend.h - the whole table of a backend
 *
 * Two readers. A client asks for the table of a device type (llaisysGetBackendAPI) when it wants
 * more than LLAISYS's twelve functions: explicit devices, a status from each call, events, memory
 * of other kinds, fills, accounting. The author of a backend fills the same table and exports one
 * function.
 *
 * Contents
 *
 *   Devices         LlaisysDeviceProperties, LlaisysMemoryInfo, LlaisysPeerLink, LLAISYS_LINK_*
 *   Streams         LLAISYS_STREAM_*
 *   Events          llaisysEvent_t, LLAISYS_EVENT_*
 *   Memory          LlaisysPointerAttributes, LLAISYS_MEMORY_*, LlaisysAdvice
 *   Copies, fills   LLAISYS_COPY_*, LLAISYS_MEMCPY_INFERRED, LlaisysCopy3D, LlaisysCopyRange
 *   Host functions  LlaisysHostFunction
 *   Accounting      LlaisysMemoryStatistics, LlaisysOutOfMemoryCallback
 *   Slots           LlaisysSlotDestructor
 *   Capabilities    LLAISYS_CAPABILITY_*, LlaisysSupport
 *   The table       LlaisysBackendAPI
 *   Clients         llaisysGetBackendAPI
 *   Plugins         LlaisysBackendDescriptor, llaisysBackendQuery
 *
 * Each noun has a page in docs/ with complete examples: devices, streams, events, memory, copies,
 * host-functions, accounting, slots, capabilities.
 *
 * Example, for a client: what a device is
 *
 *     #include "llaisys/backend.h"
 *     #include <stdio.h>
 *
 *     int main(void) {
 *         const LlaisysBackendAPI *api = llaisysGetBackendAPI(LLAISYS_DEVICE_CPU);
 *         LlaisysDeviceProperties properties;
 *         properties.struct_size = sizeof properties;
 *         if (api == NULL || api->get_device_properties(api->self_, 0, &properties) != 0) {
 *             const LlaisysError *error;
 *             llaisysGetLastError(&error);
 *             fprintf(stderr, "%s: %s\n", error->operation, error->message);
 *             return 1;
 *         }
 *         printf("%s, %d processors\n", properties.name, (int)properties.processor_count);
 *         return 0;
 *     }
 *
 * Rules for both
 *
 *   - The first argument of every function is the table's self_.
 *   - A function returns a LLAISYS_STATUS_*, 0 for success. What else it has to say it writes
 *     through its pointers, and only on success.
 *   - Device ordinals are explicit. Where a stream or a pointer says which device it belongs to,
 *     that one is meant, whatever the ordinal is. The NULL stream is the default stream of the
 *     ordinal.
 *   - Functions may be called from any thread at any time. They let no exception out. Streams,
 *     events and memory belong to the process, not to the thread that made them.
 *   - Sizes, pitches and limits are bytes. Times are nanoseconds.
 *   - Structs begin with struct_size, which the caller sets to sizeof. Of an output struct no more
 *     than that is written; in an input struct, what lies beyond the runtime's own knowledge must
 *     be zero.
 *   - Fields are only ever appended. struct_size is the end of the last field that the table's
 *     maker knows: what lies beyond it, or is NULL, is not there.
 *
 * The further rules of llaisys.h hold for clients.
 *
 * This file is made from capi/headers/backend.h.in and the Rust sources by build.rs. Do not edit
 * it.
 */
#ifndef LLAISYS_BACKEND_H
#define LLAISYS_BACKEND_H

#include "../llaisys.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Devices --------------------------------------------------------------------------------- */

/* get_device_count, initialize, set_device, device_synchronize, get_device_properties,
 * get_memory_info, get_peer_link, enable_peer_access
 *
 * A device is an ordinal in 0..count. Asking about devices makes no context on them; the first
 * operation on one does. get_device_count leaves the process able to fork; initialize makes the
 * driver ready and answers the same number.
 *
 * A link says how one device reaches the memory of another. Copies between two devices of one kind
 * always work, staged through host memory where there is no better way; enable_peer_access is what
 * kernels need that follow pointers to the other device. Calling it again is no error.
 *
 * Errors: INVALID_DEVICE; NOT_SUPPORTED from enable_peer_access where the link has no can_access;
 * INVALID_VALUE when the two are one device. */

/// A number of bytes that is not known.
#define LLAISYS_UNKNOWN_BYTES UINT64_MAX

/// What a device is. An output struct: the caller sets `struct_size`, and no more than that is
/// written. Texts end with a NUL; what is not known is 0 or empty.
typedef struct LlaisysDeviceProperties {
    /// The size of the struct in bytes, set by the caller.
    uint32_t struct_size;
    /// Streaming multiprocessors of a GPU, usable logical processors of a CPU.
    uint32_t processor_count;
    /// Memory of the device in bytes; on a CPU what the process may use (physical memory or the
    /// control group's limit, whichever is less).
    uint64_t total_memory;
    /// The driver's version as 1000 × major + 10 × minor; 0 without a driver.
    int32_t driver_version;
    /// The compute capability of a CUDA device, major; 0 elsewhere.
    int32_t compute_capability_major;
    /// The compute capability of a CUDA device, minor; 0 elsewhere.
    int32_t compute_capability_minor;
    /// The version of the vendor's runtime library in this process, as `driver_version`; 0 without one.
    int32_t runtime_version;
    /// The vendor's identifier of this very device; all zero where there is none.
    uint8_t uuid[16];
    /// The name, for people.
    char name[128];
    /// The vendor's name.
    char vendor[32];
    /// The PCI address as `dddd:bb:dd.f`.
    char pci_address[32];
    /// Size of the last-level cache (L2 of a GPU) in bytes.
    uint64_t l2_cache_size;
    /// The processors' top clock in kHz.
    uint32_t clock_rate;
    /// 1 when the device shares the host's memory physically.
    uint32_t integrated;
    /// What this very device has: bits of `LLAISYS_CAPABILITY_*`.
    uint64_t capabilities;
    /// What a CPU can compute with, for example `avx2 avx512f`; empty on a GPU.
    char cpu_features[128];
} LlaisysDeviceProperties;

/// The memory of a device now. An output struct, as `LlaisysDeviceProperties` is.
typedef struct LlaisysMemoryInfo {
    /// The size of the struct in bytes, set by the caller.
    uint32_t struct_size;
    /// Zero.
    uint32_t reserved;
    /// Bytes that can still be allocated; `UINT64_MAX` where that cannot be told without making a
    /// context on a device that nobody uses.
    uint64_t free;
    /// Bytes of the device.
    uint64_t total;
} LlaisysMemoryInfo;

/// How one device reaches the memory of another. An output struct.
typedef struct LlaisysPeerLink {
    /// The size of the struct in bytes, set by the caller.
    uint32_t struct_size;
    /// 1 when the device can read and write the peer's memory directly.
    uint32_t can_access;
    /// 1 when that is switched on.
    uint32_t enabled;
    /// What a copy between the two takes: `LLAISYS_LINK_*`.
    uint32_t kind;
    /// The vendor's rank of the link, 0 is best; only to compare links of one machine.
    int32_t performance_rank;
    /// 1 when atomic operations work over the link.
    uint32_t native_atomics;
} LlaisysPeerLink;

/* How a copy from one device to another goes: LlaisysPeerLink.kind. */

/// The two are one device.
#define LLAISYS_LINK_SAME_DEVICE 0
/// Copies are staged through host memory.
#define LLAISYS_LINK_THROUGH_HOST 1
/// Directly over PCIe.
#define LLAISYS_LINK_PCIE 2
/// Directly over NVLink (or what the vendor calls its own).
#define LLAISYS_LINK_NVLINK 3
/// Both are views of the same host memory.
#define LLAISYS_LINK_SHARED_MEMORY 4

/* ---- Streams --------------------------------------------------------------------------------- */

/* create_stream, create_stream_with, get_stream_priority_range, destroy_stream,
 * stream_synchronize, stream_query, adopt_stream, get_stream_device
 *
 * A stream runs what is enqueued on it in order. A stream that you make is yours until
 * destroy_stream, which returns at once; the work on it completes. On NVIDIA the handle is the
 * driver's own CUstream.
 *
 * A blocking stream is ordered with the default stream of its device, a non-blocking one is not.
 * Of two streams that both have work, the one with the lower priority number is served first; a
 * number outside of the device's range is clamped into it.
 *
 * adopt_stream takes in a native stream that another library made, and answers its device. From
 * then on it is used as yours are; destroy_stream lets go of it and does not destroy it. The
 * library must keep it alive until then. A stream that is known already just gets its device
 * answered.
 *
 * Errors: INVALID_HANDLE for a stream that does not exist (any more); INVALID_VALUE for flags
 * without a meaning, and from adopt_stream for NULL. */

/// Ordered with the default stream (contract S2).
#define LLAISYS_STREAM_BLOCKING 0
/// Not ordered with the default stream.
#define LLAISYS_STREAM_NON_BLOCKING 1

/* ---- Events ---------------------------------------------------------------------------------- */

/* create_event, destroy_event, record_event, event_query, event_synchronize, event_elapsed,
 * stream_wait_event, get_native_event
 *
 * An event marks a point in a stream. It is yours until destroy_event, which may come while the
 * event is pending. Its handle is the runtime's own, so that a reached event is known without
 * asking the driver; get_native_event gives the driver's (a CUevent), which stays the event's.
 *
 * record_event puts the mark behind what the stream has now and replaces an earlier one. A query or
 * a wait means the record that is there when it is called. An event that was never recorded counts
 * as reached: a query answers 1, a wait returns.
 *
 * event_elapsed measures between two events of one device, both made with LLAISYS_EVENT_TIMING, in
 * nanoseconds of a monotonic clock. A wait may cross devices; a record may not.
 *
 * Errors: INVALID_HANDLE for an event or a stream that does not exist (any more), NULL included;
 * INVALID_VALUE for a record on a stream of another device. From event_elapsed, for the start and
 * then for the end: TIMING_DISABLED, NOT_RECORDED, NOT_READY; INVALID_VALUE for events of two
 * devices. */

/// An event: a point in a stream that can be asked about, waited for and measured between.
///
/// A client's handle is the core's own; a backend's is native. Never NULL.
typedef void *llaisysEvent_t;

/// Without time, waited for by spinning: the cheapest.
#define LLAISYS_EVENT_NONE 0
/// The event remembers when it was reached, for `event_elapsed`.
#define LLAISYS_EVENT_TIMING 1
/// A wait for the event sleeps instead of spinning.
#define LLAISYS_EVENT_BLOCKING_WAIT 2

/* ---- Memory ---------------------------------------------------------------------------------- */

/* malloc_device, free_device       memory of a device
 * malloc_async, free_async         the same, in the order of a stream
 * malloc_managed, free_managed     one address for the host and every device;
 *   prefetch_managed, advise_managed    where it should be, and how it will be used
 * malloc_host, free_host           pinned host memory, for every device of the type
 * register_host, unregister_host   pins host memory that you allocated, and lets go of it
 * get_pointer_attributes, is_device_memory     what an address is, whoever allocated it
 *
 * What you allocate is yours until the matching free. Device and managed memory is aligned to at
 * least 256 bytes, pinned memory to at least 64. 0 bytes give NULL, and freeing NULL does nothing.
 * free_device and free_host do not wait, and the memory is not handed out again before the work
 * that was enqueued earlier is done.
 *
 * Memory of malloc_async may be used by what comes later on its stream; by another stream after an
 * event. free_async wants the other streams to be done with it. Memory of malloc_device may be
 * freed with free_async, and memory of malloc_async with free_device.
 *
 * A location is a device ordinal or LLAISYS_LOCATION_HOST.
 *
 * Errors: OUT_OF_MEMORY, after which a smaller request may work; INVALID_VALUE for a pointer that
 * is freed already, not the first byte of its block, somebody else's, or another function's to
 * free; for a range that is not inside one managed block; for host memory to register that lies
 * over memory that is known already. */

/// The location that means the host, where a device ordinal is asked for.
#define LLAISYS_LOCATION_HOST (-1)

/* What an address is: LlaisysPointerAttributes.kind. */

/// Memory that this runtime did not make and the backend does not know: ordinary host memory.
#define LLAISYS_MEMORY_PAGEABLE 0
/// Device memory.
#define LLAISYS_MEMORY_DEVICE 1
/// Pinned host memory.
#define LLAISYS_MEMORY_PINNED 2
/// Managed memory: one address for host and device, moved as needed.
#define LLAISYS_MEMORY_MANAGED 3
/// The user's own host memory, registered (pinned) afterwards.
#define LLAISYS_MEMORY_REGISTERED 4

/// What is known of a pointer. An output struct.
typedef struct LlaisysPointerAttributes {
    /// The size of the struct in bytes, set by the caller.
    uint32_t struct_size;
    /// One of `LLAISYS_MEMORY_*`.
    uint32_t kind;
    /// The device type whose backend knows the memory; -1 for pageable memory.
    int32_t device_type;
    /// The device it is on, or for which it was pinned; -1 for pageable memory.
    int32_t device;
    /// The first byte of the block; 0 for pageable memory.
    uint64_t base;
    /// The size of the block in bytes; 0 for pageable memory.
    uint64_t size;
    /// 1 when this runtime allocated or registered it, 0 when somebody else did.
    uint32_t ours;
    /// Zero.
    uint32_t reserved;
} LlaisysPointerAttributes;

/// What the runtime may know about the use of managed memory. Numbers as CUDA's `CUmem_advise`.
typedef enum {
    /// It is mostly read: copies on several devices are fine.
    LLAISYS_ADVICE_SET_READ_MOSTLY = 1,
    /// No longer so.
    LLAISYS_ADVICE_UNSET_READ_MOSTLY = 2,
    /// It should live at the location.
    LLAISYS_ADVICE_SET_PREFERRED_LOCATION = 3,
    /// No longer so.
    LLAISYS_ADVICE_UNSET_PREFERRED_LOCATION = 4,
    /// The location will access it: keep it mapped there.
    LLAISYS_ADVICE_SET_ACCESSED_BY = 5,
    /// No longer so.
    LLAISYS_ADVICE_UNSET_ACCESSED_BY = 6,
} LlaisysAdvice;

/* ---- Copies and fills ------------------------------------------------------------------------ */

/* memcpy_sync, memcpy_async, memcpy_3d_sync, memcpy_3d_async, memcpy_batch_async, memset_sync,
 * memset_async
 *
 * A kind is one of LLAISYS_MEMCPY_*, the inferred one included. Pinned, registered and device
 * memory must stay as it is until the stream has passed. Pageable host memory may be a local
 * variable: its source has been read, its destination has been written when the call returns, with
 * LLAISYS_COPY_HOST_BUFFER_PROMISED excepted. What waits (the _sync ones) is ordered after earlier
 * work on blocking streams of the device, and its result is there for every stream.
 *
 * A fill repeats a pattern of 1, 2, 4, 8 or 16 bytes over device memory; address and size are
 * multiples of the pattern's size. The pattern has been read when the call returns.
 *
 * A pitched copy moves rows that do not follow each other without a gap. A batched copy moves many
 * ranges of one kind with one call, in any order among themselves; either all are enqueued or none.
 *
 * Errors: INVALID_VALUE for ranges that overlap, wrap, or leave the block they start in; a NULL; a
 * kind that contradicts a pointer; a kind, flag, pattern size or pitch that is none. 0 bytes, and a
 * copy onto itself, do nothing. NOT_PERMITTED for a copy that waits inside a host function.
 *
 * Copy flags say what a copy may rely on and must keep to, as bits of 32. A bit without a meaning
 * is an error. */

/// The runtime finds the direction of a copy out from the two pointers; one that nobody knows is
/// pageable host memory. Only in this table: LLAISYS's twelve functions refuse it.
#define LLAISYS_MEMCPY_INFERRED 4

/// Nothing special.
#define LLAISYS_COPY_NONE 0
/// Set by the core: the source is host memory that this runtime did not pin. An asynchronous
/// copy must have read it when it returns (contract C3).
#define LLAISYS_COPY_SOURCE_PAGEABLE 1
/// Set by the core: the destination is host memory that this runtime did not pin. An
/// asynchronous copy must have written it when it returns (contract C3).
#define LLAISYS_COPY_DESTINATION_PAGEABLE 2
/// Set by a client: the host buffer stays as it is until the stream has passed, so even a
/// pageable one need not be waited for.
#define LLAISYS_COPY_HOST_BUFFER_PROMISED 4
/// Set by the twelve-function table: where device memory is host memory and the stream has
/// nothing pending, the copy is complete when the call returns (contract S8).
#define LLAISYS_COPY_AT_ONCE_IF_IDLE 8

/// A pitched copy of `depth` slices of `height` rows of `width` bytes (contract C4). An input struct.
///
/// Row `y` of slice `z` begins at `base + (z * slice_height + y) * pitch`. With `depth` 1 it is a 2-D
/// copy and the slice heights do not matter.
typedef struct LlaisysCopy3D {
    /// The size of the struct in bytes, set by the caller.
    uint32_t struct_size;
    /// One of `LLAISYS_MEMCPY_*`.
    uint32_t kind;
    /// Where to.
    void *dst;
    /// Bytes from one row of the destination to the next, at least `width`.
    uint64_t dst_pitch;
    /// Rows from one slice of the destination to the next, at least `height`.
    uint64_t dst_slice_height;
    /// Where from.
    const void *src;
    /// Bytes from one row of the source to the next, at least `width`.
    uint64_t src_pitch;
    /// Rows from one slice of the source to the next, at least `height`.
    uint64_t src_slice_height;
    /// Bytes of a row.
    uint64_t width;
    /// Rows of a slice.
    uint64_t height;
    /// Slices.
    uint64_t depth;
} LlaisysCopy3D;

/// One range of a batched copy.
typedef struct LlaisysCopyRange {
    /// Where to.
    void *dst;
    /// Where from.
    const void *src;
    /// Bytes.
    uint64_t size;
} LlaisysCopyRange;

/* ---- Host functions -------------------------------------------------------------------------- */

/* launch_host_function
 *
 * The function runs exactly once, on a thread of the runtime or of the driver, when the stream
 * comes to it; what comes later on the stream waits for it. Unless the call fails, data is the
 * function's from then on. Inside it a call that waits is NOT_PERMITTED. */

/// A function of the caller's that a stream runs in its order. It must not unwind.
typedef void (*LlaisysHostFunction)(void *data);

/* ---- Accounting ------------------------------------------------------------------------------ */

/* get_memory_statistics, get_stream_memory_statistics, get_reserved_memory, reset_peak_memory,
 * set_memory_limit, trim_memory, set_out_of_memory_callback
 *
 * Counted are device and managed memory that this runtime handed out. A limit holds for what is
 * used; what is used already when it is set stays. An allocation above it is OUT_OF_MEMORY.
 *
 * The callback is asked on the thread whose allocation did not fit, after the caches were emptied.
 * It may call this runtime. There is one for each device type; data is the caller's and must stay
 * good until another one is set and calls that are under way have returned. */

/// Where the memory of a device, or of a stream, went. An output struct; all sizes in bytes.
typedef struct LlaisysMemoryStatistics {
    /// The size of the struct in bytes, set by the caller.
    uint32_t struct_size;
    /// Zero.
    uint32_t reserved;
    /// Handed out and not freed.
    uint64_t used;
    /// Held from the driver, used or cached; at least `used`.
    uint64_t reserved_bytes;
    /// The most that `used` was since the last reset.
    uint64_t peak;
    /// The number of blocks that are handed out.
    uint64_t live;
    /// Allocations since the start.
    uint64_t allocations;
    /// Frees since the start.
    uint64_t frees;
    /// Allocations that failed for want of memory.
    uint64_t failures;
    /// The limit set for the device; `UINT64_MAX` without one.
    uint64_t limit;
} LlaisysMemoryStatistics;

/// Asked when an allocation does not fit, after the caches were emptied: may free memory, and answers
/// nonzero when the allocation should be tried again. No lock of the runtime is held meanwhile.
typedef int32_t (*LlaisysOutOfMemoryCallback)(void *data,
                                              int32_t device_type,
                                              int32_t device,
                                              uint64_t requested);

/* ---- Slots ----------------------------------------------------------------------------------- */

/* set_thread_slot, get_thread_slot, set_stream_slot, get_stream_slot
 *
 * A slot keeps one value of yours for a key of yours: for the calling thread and a device, or for a
 * stream. The value is the runtime's until its destructor is called, once: when another value (or
 * NULL) replaces it, when the thread or the stream ends, for the main thread at exit. A key is any
 * number; use the address of a variable of yours, so that nobody else has it.
 *
 * Errors: INVALID_DEVICE; INVALID_HANDLE for a stream that does not exist, NULL included: the
 * default stream never ends. */

/// Called with the value of a user slot when its time is over.
typedef void (*LlaisysSlotDestructor)(void *value);

/* ---- Capabilities ---------------------------------------------------------------------------- */

/* get_capabilities, get_operation_support
 *
 * Capabilities are what a backend does itself, as bits of 64. Ask get_operation_support by the name
 * of a table entry whether it is there at all: what a backend lacks, the core may do with other
 * operations. An operation that is unsupported answers NOT_SUPPORTED. */

/// Only the twelve.
#define LLAISYS_CAPABILITY_NONE 0
/// Device memory is ordinary host memory: host code may read it, every copy direction is right.
#define LLAISYS_CAPABILITY_DEVICE_MEMORY_IS_HOST_MEMORY 1
/// `get_device_properties` and `get_memory_info` are there.
#define LLAISYS_CAPABILITY_DEVICE_INFORMATION (1 << 1)
/// `stream_query` is there.
#define LLAISYS_CAPABILITY_STREAM_QUERY (1 << 2)
/// `launch_host_function` is there.
#define LLAISYS_CAPABILITY_HOST_FUNCTIONS (1 << 3)
/// `is_device_memory` and `get_pointer_attributes` are there.
#define LLAISYS_CAPABILITY_POINTER_QUERY (1 << 4)
/// `create_stream_with` and `get_stream_priority_range` are there.
#define LLAISYS_CAPABILITY_STREAM_OPTIONS (1 << 5)
/// `adopt_stream` is there.
#define LLAISYS_CAPABILITY_FOREIGN_STREAMS (1 << 6)
/// The seven event operations are there.
#define LLAISYS_CAPABILITY_EVENTS (1 << 7)
/// `malloc_async` and `free_async` are there.
#define LLAISYS_CAPABILITY_STREAM_ORDERED_MEMORY (1 << 8)
/// `malloc_managed`, `free_managed`, `prefetch_managed` and `advise_managed` are there.
#define LLAISYS_CAPABILITY_MANAGED_MEMORY (1 << 9)
/// `register_host` and `unregister_host` are there.
#define LLAISYS_CAPABILITY_HOST_REGISTRATION (1 << 10)
/// `memset_async` is there.
#define LLAISYS_CAPABILITY_FILL (1 << 11)
/// `memcpy_3d_async` is there.
#define LLAISYS_CAPABILITY_PITCHED_COPIES (1 << 12)
/// `memcpy_batch_async` is there.
#define LLAISYS_CAPABILITY_BATCHED_COPIES (1 << 13)
/// `get_peer_link` and `enable_peer_access` are there.
#define LLAISYS_CAPABILITY_PEERS (1 << 14)
/// `get_reserved_memory` and `trim_memory` are there.
#define LLAISYS_CAPABILITY_MEMORY_POOL (1 << 15)

/// How an operation is there.
typedef enum {
    /// Not at all: it answers `NOT_SUPPORTED`.
    LLAISYS_SUPPORT_UNSUPPORTED = 0,
    /// The backend does it.
    LLAISYS_SUPPORT_NATIVE = 1,
    /// The core does it with other operations of the backend.
    LLAISYS_SUPPORT_EMULATED = 2,
} LlaisysSupport;

/* ---- The table ------------------------------------------------------------------------------- */

/* The twelve functions with LLAISYS's names do what llaisys/runtime.h says of them, on the device
 * that is given. Beyond their status they answer through their last parameter. Through a client's
 * table:
 *
 *   - INVALID_DEVICE, INVALID_HANDLE and INVALID_VALUE are what was passed in: an ordinal outside
 *     of 0..count, a stream or an event that does not exist any more, a NULL in the place of an
 *     output, a pointer to free that was not allocated or is freed already, a kind or a flag
 *     without a meaning, ranges that overlap.
 *   - OUT_OF_MEMORY leaves everything usable; a smaller request may succeed.
 *   - NOT_SUPPORTED is what an operation answers that the backend does not have.
 *   - NOT_PERMITTED is what a call that waits answers inside a host function.
 *   - DEVICE_LOST, DRIVER_ERROR and their like come from the device; the slot has the driver's own
 *     code.
 */

/// `RuntimeApi` as a table. Each function takes `self` first and returns a status (0 is success).
///
/// Every function may be called from any thread. None lets an exception or panic out.
typedef struct LlaisysBackendAPI {
    /// The end of the last field that the maker of the table knows.
    uint32_t struct_size;
    /// The ABI major version of the maker.
    uint32_t abi_major;
    /// The ABI minor version of the maker.
    uint32_t abi_minor;
    /// Zero.
    uint32_t reserved;
    /// The first argument of every function below.
    void *self_;
    /// Reads and clears the calling thread's failure: native code and name, message. Texts are cut
    /// to the capacities (bytes, NUL included) and always end with a NUL when the capacity is not 0.
    int32_t (*get_last_error)(void *self_,
                              int64_t *native_code,
                              char *native_name,
                              uint64_t native_name_capacity,
                              char *message,
                              uint64_t message_capacity);
    /// Writes the number of devices. A failure is the reason why there are none.
    int32_t (*get_device_count)(void *self_, int32_t *count);
    /// Binds the calling thread's native state to the device.
    int32_t (*set_device)(void *self_, int32_t device);
    /// Waits for all work of the device.
    int32_t (*device_synchronize)(void *self_, int32_t device);
    /// Makes a blocking stream.
    int32_t (*create_stream)(void *self_, int32_t device, llaisysStream_t *stream);
    /// Destroys a stream at once; its work completes.
    int32_t (*destroy_stream)(void *self_, int32_t device, llaisysStream_t stream);
    /// Waits for all work of the stream.
    int32_t (*stream_synchronize)(void *self_, int32_t device, llaisysStream_t stream);
    /// Allocates device memory.
    int32_t (*malloc_device)(void *self_, int32_t device, uint64_t size, void **pointer);
    /// Frees device memory.
    int32_t (*free_device)(void *self_, int32_t device, void *pointer);
    /// Allocates pinned host memory.
    int32_t (*malloc_host)(void *self_, int32_t device, uint64_t size, void **pointer);
    /// Frees pinned host memory.
    int32_t (*free_host)(void *self_, int32_t device, void *pointer);
    /// Copies and waits. `kind` is one of `LLAISYS_MEMCPY_*`.
    int32_t (*memcpy_sync)(void *self_,
                           int32_t device,
                           void *dst,
                           const void *src,
                           uint64_t size,
                           uint32_t kind,
                           uint32_t flags);
    /// Enqueues a copy. `kind` is one of `LLAISYS_MEMCPY_*`, `flags` are `LLAISYS_COPY_*`.
    int32_t (*memcpy_async)(void *self_,
                            int32_t device,
                            void *dst,
                            const void *src,
                            uint64_t size,
                            uint32_t kind,
                            llaisysStream_t stream,
                            uint32_t flags);
    /// Writes what the device is, up to the caller's `struct_size`.
    int32_t (*get_device_properties)(void *self_,
                                     int32_t device,
                                     LlaisysDeviceProperties *properties);
    /// Writes the device's memory now, up to the caller's `struct_size`.
    int32_t (*get_memory_info)(void *self_, int32_t device, LlaisysMemoryInfo *info);
    /// Writes 1 when all work of the stream is done, 0 otherwise. Never waits.
    int32_t (*stream_query)(void *self_, int32_t device, llaisysStream_t stream, int32_t *ready);
    /// Has the stream call `function(data)` once, in its order.
    int32_t (*launch_host_function)(void *self_,
                                    int32_t device,
                                    llaisysStream_t stream,
                                    LlaisysHostFunction function,
                                    void *data);
    /// Writes 1 when the address is device memory of this kind, whoever allocated it, 0 otherwise.
    int32_t (*is_device_memory)(void *self_, int32_t device, const void *address, int32_t *answer);
    /// Makes the driver ready in this process and writes the number of devices. May be NULL: then
    /// `get_device_count` does that.
    int32_t (*initialize)(void *self_, int32_t *count);
    /// Writes what the backend is able to do: bits of `LLAISYS_CAPABILITY_*`. May be NULL in a
    /// plugin: the loader reads the descriptor.
    int32_t (*get_capabilities)(void *self_, uint64_t *capabilities);
    /// Writes how `device` reaches the memory of `peer`, up to the caller's `struct_size`.
    int32_t (*get_peer_link)(void *self_, int32_t device, int32_t peer, LlaisysPeerLink *link);
    /// Lets kernels on `device` use the memory of `peer`. Again is fine.
    int32_t (*enable_peer_access)(void *self_, int32_t device, int32_t peer);
    /// Makes a stream: `flags` are `LLAISYS_STREAM_*`, the priority is clamped into the device's range.
    int32_t (*create_stream_with)(void *self_,
                                  int32_t device,
                                  uint32_t flags,
                                  int32_t priority,
                                  llaisysStream_t *stream);
    /// Writes the priorities that streams of the device can have; a lower number is served first.
    int32_t (*get_stream_priority_range)(void *self_,
                                         int32_t device,
                                         int32_t *least,
                                         int32_t *greatest);
    /// Takes in a native stream of somebody else and writes its device; it is not owned.
    int32_t (*adopt_stream)(void *self_, void *native, int32_t *device);
    /// Makes an event: `flags` are `LLAISYS_EVENT_*`.
    int32_t (*create_event)(void *self_, int32_t device, uint32_t flags, llaisysEvent_t *event);
    /// Destroys an event, also one that is not reached yet.
    int32_t (*destroy_event)(void *self_, int32_t device, llaisysEvent_t event);
    /// Puts the event behind the work that the stream has now.
    int32_t (*record_event)(void *self_,
                            int32_t device,
                            llaisysEvent_t event,
                            llaisysStream_t stream);
    /// Has the stream wait for the record that the event has now.
    int32_t (*stream_wait_event)(void *self_,
                                 int32_t device,
                                 llaisysStream_t stream,
                                 llaisysEvent_t event);
    /// Writes 1 when the event was reached or never recorded, 0 otherwise. Never waits.
    int32_t (*event_query)(void *self_, int32_t device, llaisysEvent_t event, int32_t *answer);
    /// Waits until the event is reached.
    int32_t (*event_synchronize)(void *self_, int32_t device, llaisysEvent_t event);
    /// Writes the nanoseconds from one event to another; negative when `end` was reached first.
    int32_t (*event_elapsed)(void *self_,
                             int32_t device,
                             llaisysEvent_t start,
                             llaisysEvent_t end,
                             int64_t *nanoseconds);
    /// Allocates device memory in the order of a stream.
    int32_t (*malloc_async)(void *self_,
                            int32_t device,
                            uint64_t size,
                            llaisysStream_t stream,
                            void **pointer);
    /// Frees device memory in the order of a stream.
    int32_t (*free_async)(void *self_, int32_t device, void *pointer, llaisysStream_t stream);
    /// Allocates managed memory: one address for the host and every device.
    int32_t (*malloc_managed)(void *self_, int32_t device, uint64_t size, void **pointer);
    /// Frees managed memory.
    int32_t (*free_managed)(void *self_, int32_t device, void *pointer);
    /// Moves managed memory to a device, or to the host (location -1), in the order of a stream.
    int32_t (*prefetch_managed)(void *self_,
                                int32_t device,
                                void *pointer,
                                uint64_t size,
                                int32_t location,
                                llaisysStream_t stream);
    /// Tells the driver how managed memory will be used: `advice` is one of `LLAISYS_ADVICE_*`.
    int32_t (*advise_managed)(void *self_,
                              int32_t device,
                              void *pointer,
                              uint64_t size,
                              uint32_t advice,
                              int32_t location);
    /// Pins host memory that the caller allocated.
    int32_t (*register_host)(void *self_, int32_t device, void *pointer, uint64_t size);
    /// Undoes `register_host`.
    int32_t (*unregister_host)(void *self_, int32_t device, void *pointer);
    /// Writes what is known of an address, up to the caller's `struct_size`.
    int32_t (*get_pointer_attributes)(void *self_,
                                      const void *address,
                                      LlaisysPointerAttributes *attributes);
    /// Fills `size` bytes with a pattern of 1, 2, 4, 8 or 16 bytes, on a stream.
    int32_t (*memset_async)(void *self_,
                            int32_t device,
                            void *dst,
                            const void *pattern,
                            uint32_t pattern_size,
                            uint64_t size,
                            llaisysStream_t stream);
    /// Enqueues a pitched copy.
    int32_t (*memcpy_3d_async)(void *self_,
                               int32_t device,
                               const LlaisysCopy3D *copy,
                               llaisysStream_t stream,
                               uint32_t flags);
    /// Enqueues many copies of one kind; `stride` is the size of the caller's `LlaisysCopyRange`.
    int32_t (*memcpy_batch_async)(void *self_,
                                  int32_t device,
                                  const LlaisysCopyRange *ranges,
                                  uint64_t count,
                                  uint64_t stride,
                                  uint32_t kind,
                                  llaisysStream_t stream,
                                  uint32_t flags);
    /// Writes the bytes held from the driver for the device, used or cached.
    int32_t (*get_reserved_memory)(void *self_, int32_t device, uint64_t *reserved);
    /// Gives cached memory back until at most `keep` bytes are cached.
    int32_t (*trim_memory)(void *self_, int32_t device, uint64_t keep);
    /// Writes the device of a stream.
    int32_t (*get_stream_device)(void *self_, llaisysStream_t stream, int32_t *device);
    /// Writes the backend's own event behind a handle (a `CUevent`); it belongs to the handle.
    int32_t (*get_native_event)(void *self_, llaisysEvent_t event, void **pointer);
    /// Writes how the operation of this name is there: one of `LLAISYS_SUPPORT_*`.
    int32_t (*get_operation_support)(void *self_, const char *operation, int32_t *support);
    /// `memset_async` that waits, ordered as `memcpy_sync` is.
    int32_t (*memset_sync)(void *self_,
                           int32_t device,
                           void *dst,
                           const void *pattern,
                           uint32_t pattern_size,
                           uint64_t size);
    /// `memcpy_3d_async` that waits, ordered as `memcpy_sync` is.
    int32_t (*memcpy_3d_sync)(void *self_, int32_t device, const LlaisysCopy3D *copy);
    /// Writes where the memory of a device went, up to the caller's `struct_size`.
    int32_t (*get_memory_statistics)(void *self_,
                                     int32_t device,
                                     LlaisysMemoryStatistics *statistics);
    /// Writes where the memory that was allocated on a stream went, up to the caller's
    /// `struct_size`.
    int32_t (*get_stream_memory_statistics)(void *self_,
                                            int32_t device,
                                            llaisysStream_t stream,
                                            LlaisysMemoryStatistics *statistics);
    /// Begins the peak anew at what is used now.
    int32_t (*reset_peak_memory)(void *self_, int32_t device);
    /// Limits what may be used of a device, in bytes; `UINT64_MAX` takes the limit away.
    int32_t (*set_memory_limit)(void *self_, int32_t device, uint64_t limit);
    /// Has `callback` asked when an allocation does not fit; NULL takes it away.
    int32_t (*set_out_of_memory_callback)(void *self_,
                                          LlaisysOutOfMemoryCallback callback,
                                          void *data);
    /// Keeps a value for this thread and device; NULL takes it away. The destructor runs when the
    /// value is replaced, when the thread ends, or at exit.
    int32_t (*set_thread_slot)(void *self_,
                               int32_t device,
                               uint64_t key,
                               void *value,
                               LlaisysSlotDestructor destructor);
    /// Writes the value of `set_thread_slot`, or NULL.
    int32_t (*get_thread_slot)(void *self_, int32_t device, uint64_t key, void **value);
    /// Keeps a value for a stream; NULL takes it away. The destructor runs when the value is
    /// replaced or the stream is destroyed.
    int32_t (*set_stream_slot)(void *self_,
                               llaisysStream_t stream,
                               uint64_t key,
                               void *value,
                               LlaisysSlotDestructor destructor);
    /// Writes the value of `set_stream_slot`, or NULL.
    int32_t (*get_stream_slot)(void *self_, llaisysStream_t stream, uint64_t key, void **value);
} LlaisysBackendAPI;

/* ---- Clients --------------------------------------------------------------------------------- */

/// The table of a device type's backend, with the runtime's checks around the backend: what
/// `LLAISYS_STATUS_*` and the last-error slot say holds here too.
///
/// Returns NULL, with the reason in the slot, when no backend serves `device_type`
/// (`BACKEND_UNAVAILABLE`) or the one that was asked for by name was refused (`BACKEND_REFUSED`).
/// The table belongs to the runtime and stays for the life of the process. Look at `struct_size`
/// before you use a function that a newer header added.
const LlaisysBackendAPI *llaisysGetBackendAPI(int32_t device_type);

/* ---- Plugins --------------------------------------------------------------------------------- */

/* A backend is a shared library, libllaisys_backend_NAME.so, that exports one symbol,
 * llaisysBackendQuery, and links against nothing of this runtime. What you may rely on:
 *
 *   - Clients reach you through the runtime's checks. A device is in 0..count; a size is not 0; a
 *     stream is NULL or one of yours on the device that is given with it, and not destroyed while a
 *     call uses it, nor is an event; a pointer to free is one of yours, freed once, with the
 *     matching function; a kind is one of the four; the ranges of a copy do not wrap or overlap.
 *   - Copy flags tell you which side of a copy is pageable host memory. From such memory an
 *     asynchronous copy must have read its source when it returns, into such memory it must have
 *     written.
 *   - The runtime copies your table once and never writes to it. A table that ends early
 *     (struct_size) is one whose last entries are NULL.
 *
 * Which entries may be NULL:
 *
 *   none of     get_last_error get_device_count set_device device_synchronize create_stream
 *               destroy_stream stream_synchronize malloc_device free_device malloc_host free_host
 *               memcpy_sync memcpy_async
 *   any of      initialize get_capabilities
 *               get_device_count is called instead; the descriptor has the capabilities
 *   unless you claim the capability
 *     DEVICE_INFORMATION      get_device_properties get_memory_info
 *     STREAM_QUERY            stream_query
 *     HOST_FUNCTIONS          launch_host_function
 *     POINTER_QUERY           is_device_memory get_pointer_attributes
 *     PEERS                   get_peer_link enable_peer_access
 *     STREAM_OPTIONS          create_stream_with get_stream_priority_range
 *     FOREIGN_STREAMS         adopt_stream
 *     EVENTS                  create_event destroy_event record_event stream_wait_event event_query
 *                             event_synchronize event_elapsed
 *     STREAM_ORDERED_MEMORY   malloc_async free_async
 *     MANAGED_MEMORY          malloc_managed free_managed prefetch_managed advise_managed
 *     HOST_REGISTRATION       register_host unregister_host
 *     FILL                    memset_async
 *     PITCHED_COPIES          memcpy_3d_async
 *     BATCHED_COPIES          memcpy_batch_async
 *     MEMORY_POOL             get_reserved_memory trim_memory
 *   all of      get_stream_device get_native_event get_operation_support memset_sync memcpy_3d_sync
 *               get_memory_statistics get_stream_memory_statistics reset_peak_memory
 *               set_memory_limit set_out_of_memory_callback set_thread_slot get_thread_slot
 *               set_stream_slot get_stream_slot
 *               the core's own, for every backend: yours would never be called
 *
 * What a capability is missing for answers NOT_SUPPORTED. Stream-ordered memory, fills, pitched and
 * batched copies and the memory pool are then done with your other entries, and what is known of
 * pointers is what the runtime allocated itself.
 *
 * Threads: every entry may be called from any thread at any time, several at once, also on one
 * stream. Only the last call on a handle (destroy_stream, destroy_event, a free) has no other one
 * beside it. get_last_error is called by the thread whose call failed, right after it.
 *
 * What you must keep to:
 *
 *   - The file exports llaisysBackendQuery and nothing else; descriptor, table and texts are
 *     constants in it.
 *   - get_device_count makes no context and touches no device; 0 devices is success.
 *   - device memory is aligned to 256 bytes or more, pinned host memory to 64 or more.
 *   - destroy_stream, free_device and free_host do not wait; work that was enqueued before
 *     completes.
 *   - get_last_error tells of the calling thread's failed call; texts are copied out, no memory
 *     passes from one side to the other.
 *   - You are never unloaded. Have no atexit and no destructor that calls the driver.
 *
 * docs/adding-a-backend.md leads from a copy of a small backend to one that passes the conformance
 * suite.
 */

/// The first eight bytes of a descriptor: LLAISYSB, read as a little-endian number.
#define LLAISYS_DESCRIPTOR_MAGIC UINT64_C(0x4253595349414C4C)

/// In a descriptor: the plugin is of a kind that has no number; it gets one when it is loaded.
#define LLAISYS_DEVICE_TYPE_UNASSIGNED (-1)

/// For a descriptor's `target`: what this file is being compiled for; empty where that is not known.
#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__)
#define LLAISYS_TARGET "x86_64-linux-gnu"
#elif defined(__aarch64__) && defined(__linux__) && defined(__GLIBC__)
#define LLAISYS_TARGET "aarch64-linux-gnu"
#else
#define LLAISYS_TARGET ""
#endif

/// For a descriptor's `sanitizer`: the one that this file is being compiled with.
#if defined(__SANITIZE_ADDRESS__)
#define LLAISYS_SANITIZER 1
#elif defined(__SANITIZE_THREAD__)
#define LLAISYS_SANITIZER 2
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LLAISYS_SANITIZER 1
#elif __has_feature(thread_sanitizer)
#define LLAISYS_SANITIZER 2
#elif __has_feature(memory_sanitizer)
#define LLAISYS_SANITIZER 3
#endif
#endif
#ifndef LLAISYS_SANITIZER
#define LLAISYS_SANITIZER 0
#endif

/// What a plugin says of itself. Constant; lives as long as the plugin, which is never unloaded.
typedef struct LlaisysBackendDescriptor {
    /// `LLAISYS_DESCRIPTOR_MAGIC`.
    uint64_t magic;
    /// The end of the last field that the plugin knows.
    uint32_t struct_size;
    /// The ABI major version that the plugin was built with.
    uint32_t abi_major;
    /// The ABI minor version that the plugin was built with.
    uint32_t abi_minor;
    /// The oldest host minor version that the plugin accepts.
    uint32_t oldest_host_minor;
    /// The device type that the plugin serves, or -1 to be given a number.
    int32_t device_type;
    /// The sanitizer that the plugin was built with: 0 none, 1 address, 2 thread, 3 memory.
    uint32_t sanitizer;
    /// What the plugin is able to do: bits of `LLAISYS_CAPABILITY_*`.
    uint64_t capabilities;
    /// The backend's short name in lower case, for example `nvidia`. Taken names are refused.
    const char *name;
    /// Who made the devices, for people.
    const char *vendor;
    /// The plugin's own version, for people.
    const char *version;
    /// The target that the plugin was built for, for example `x86_64-unknown-linux-gnu`.
    const char *target;
    /// The plugin's table.
    const LlaisysBackendAPI *api;
} LlaisysBackendDescriptor;

/// The type of the one symbol that a plugin exports, `llaisysBackendQuery`.
///
/// A pure query: it initialises no driver, starts no thread, may be called again, and returns the
/// plugin's own constant descriptor, or NULL when the plugin cannot work with a host of this ABI.
typedef const LlaisysBackendDescriptor *(*LlaisysBackendQuery)(uint32_t host_abi_major,
                                                               uint32_t host_abi_minor);

/// The one symbol that a plugin exports; see LlaisysBackendQuery. A plugin's author defines it;
/// clients never call it.
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const LlaisysBackendDescriptor *llaisysBackendQuery(uint32_t host_abi_major,
                                                    uint32_t host_abi_minor);

#ifdef __cplusplus
} /* extern "C" */
#endif

/* Every field of every struct is where it was: what is there never moves, new ones come behind. */
LLAISYS_AT(LlaisysBackendAPI, struct_size, 0);
LLAISYS_AT(LlaisysBackendAPI, abi_major, 4);
LLAISYS_AT(LlaisysBackendAPI, abi_minor, 8);
LLAISYS_AT(LlaisysBackendAPI, reserved, 12);
LLAISYS_AT(LlaisysBackendAPI, self_, 16);
LLAISYS_AT(LlaisysBackendAPI, get_last_error, 24);
LLAISYS_AT(LlaisysBackendAPI, get_device_count, 32);
LLAISYS_AT(LlaisysBackendAPI, set_device, 40);
LLAISYS_AT(LlaisysBackendAPI, device_synchronize, 48);
LLAISYS_AT(LlaisysBackendAPI, create_stream, 56);
LLAISYS_AT(LlaisysBackendAPI, destroy_stream, 64);
LLAISYS_AT(LlaisysBackendAPI, stream_synchronize, 72);
LLAISYS_AT(LlaisysBackendAPI, malloc_device, 80);
LLAISYS_AT(LlaisysBackendAPI, free_device, 88);
LLAISYS_AT(LlaisysBackendAPI, malloc_host, 96);
LLAISYS_AT(LlaisysBackendAPI, free_host, 104);
LLAISYS_AT(LlaisysBackendAPI, memcpy_sync, 112);
LLAISYS_AT(LlaisysBackendAPI, memcpy_async, 120);
LLAISYS_AT(LlaisysBackendAPI, get_device_properties, 128);
LLAISYS_AT(LlaisysBackendAPI, get_memory_info, 136);
LLAISYS_AT(LlaisysBackendAPI, stream_query, 144);
LLAISYS_AT(LlaisysBackendAPI, launch_host_function, 152);
LLAISYS_AT(LlaisysBackendAPI, is_device_memory, 160);
LLAISYS_AT(LlaisysBackendAPI, initialize, 168);
LLAISYS_AT(LlaisysBackendAPI, get_capabilities, 176);
LLAISYS_AT(LlaisysBackendAPI, get_peer_link, 184);
LLAISYS_AT(LlaisysBackendAPI, enable_peer_access, 192);
LLAISYS_AT(LlaisysBackendAPI, create_stream_with, 200);
LLAISYS_AT(LlaisysBackendAPI, get_stream_priority_range, 208);
LLAISYS_AT(LlaisysBackendAPI, adopt_stream, 216);
LLAISYS_AT(LlaisysBackendAPI, create_event, 224);
LLAISYS_AT(LlaisysBackendAPI, destroy_event, 232);
LLAISYS_AT(LlaisysBackendAPI, record_event, 240);
LLAISYS_AT(LlaisysBackendAPI, stream_wait_event, 248);
LLAISYS_AT(LlaisysBackendAPI, event_query, 256);
LLAISYS_AT(LlaisysBackendAPI, event_synchronize, 264);
LLAISYS_AT(LlaisysBackendAPI, event_elapsed, 272);
LLAISYS_AT(LlaisysBackendAPI, malloc_async, 280);
LLAISYS_AT(LlaisysBackendAPI, free_async, 288);
LLAISYS_AT(LlaisysBackendAPI, malloc_managed, 296);
LLAISYS_AT(LlaisysBackendAPI, free_managed, 304);
LLAISYS_AT(LlaisysBackendAPI, prefetch_managed, 312);
LLAISYS_AT(LlaisysBackendAPI, advise_managed, 320);
LLAISYS_AT(LlaisysBackendAPI, register_host, 328);
LLAISYS_AT(LlaisysBackendAPI, unregister_host, 336);
LLAISYS_AT(LlaisysBackendAPI, get_pointer_attributes, 344);
LLAISYS_AT(LlaisysBackendAPI, memset_async, 352);
LLAISYS_AT(LlaisysBackendAPI, memcpy_3d_async, 360);
LLAISYS_AT(LlaisysBackendAPI, memcpy_batch_async, 368);
LLAISYS_AT(LlaisysBackendAPI, get_reserved_memory, 376);
LLAISYS_AT(LlaisysBackendAPI, trim_memory, 384);
LLAISYS_AT(LlaisysBackendAPI, get_stream_device, 392);
LLAISYS_AT(LlaisysBackendAPI, get_native_event, 400);
LLAISYS_AT(LlaisysBackendAPI, get_operation_support, 408);
LLAISYS_AT(LlaisysBackendAPI, memset_sync, 416);
LLAISYS_AT(LlaisysBackendAPI, memcpy_3d_sync, 424);
LLAISYS_AT(LlaisysBackendAPI, get_memory_statistics, 432);
LLAISYS_AT(LlaisysBackendAPI, get_stream_memory_statistics, 440);
LLAISYS_AT(LlaisysBackendAPI, reset_peak_memory, 448);
LLAISYS_AT(LlaisysBackendAPI, set_memory_limit, 456);
LLAISYS_AT(LlaisysBackendAPI, set_out_of_memory_callback, 464);
LLAISYS_AT(LlaisysBackendAPI, set_thread_slot, 472);
LLAISYS_AT(LlaisysBackendAPI, get_thread_slot, 480);
LLAISYS_AT(LlaisysBackendAPI, set_stream_slot, 488);
LLAISYS_AT(LlaisysBackendAPI, get_stream_slot, 496);
LLAISYS_AT(LlaisysBackendDescriptor, magic, 0);
LLAISYS_AT(LlaisysBackendDescriptor, struct_size, 8);
LLAISYS_AT(LlaisysBackendDescriptor, abi_major, 12);
LLAISYS_AT(LlaisysBackendDescriptor, abi_minor, 16);
LLAISYS_AT(LlaisysBackendDescriptor, oldest_host_minor, 20);
LLAISYS_AT(LlaisysBackendDescriptor, device_type, 24);
LLAISYS_AT(LlaisysBackendDescriptor, sanitizer, 28);
LLAISYS_AT(LlaisysBackendDescriptor, capabilities, 32);
LLAISYS_AT(LlaisysBackendDescriptor, name, 40);
LLAISYS_AT(LlaisysBackendDescriptor, vendor, 48);
LLAISYS_AT(LlaisysBackendDescriptor, version, 56);
LLAISYS_AT(LlaisysBackendDescriptor, target, 64);
LLAISYS_AT(LlaisysBackendDescriptor, api, 72);
LLAISYS_AT(LlaisysDeviceProperties, struct_size, 0);
LLAISYS_AT(LlaisysDeviceProperties, processor_count, 4);
LLAISYS_AT(LlaisysDeviceProperties, total_memory, 8);
LLAISYS_AT(LlaisysDeviceProperties, driver_version, 16);
LLAISYS_AT(LlaisysDeviceProperties, compute_capability_major, 20);
LLAISYS_AT(LlaisysDeviceProperties, compute_capability_minor, 24);
LLAISYS_AT(LlaisysDeviceProperties, runtime_version, 28);
LLAISYS_AT(LlaisysDeviceProperties, uuid, 32);
LLAISYS_AT(LlaisysDeviceProperties, name, 48);
LLAISYS_AT(LlaisysDeviceProperties, vendor, 176);
LLAISYS_AT(LlaisysDeviceProperties, pci_address, 208);
LLAISYS_AT(LlaisysDeviceProperties, l2_cache_size, 240);
LLAISYS_AT(LlaisysDeviceProperties, clock_rate, 248);
LLAISYS_AT(LlaisysDeviceProperties, integrated, 252);
LLAISYS_AT(LlaisysDeviceProperties, capabilities, 256);
LLAISYS_AT(LlaisysDeviceProperties, cpu_features, 264);
LLAISYS_AT(LlaisysMemoryInfo, struct_size, 0);
LLAISYS_AT(LlaisysMemoryInfo, reserved, 4);
LLAISYS_AT(LlaisysMemoryInfo, free, 8);
LLAISYS_AT(LlaisysMemoryInfo, total, 16);
LLAISYS_AT(LlaisysPeerLink, struct_size, 0);
LLAISYS_AT(LlaisysPeerLink, can_access, 4);
LLAISYS_AT(LlaisysPeerLink, enabled, 8);
LLAISYS_AT(LlaisysPeerLink, kind, 12);
LLAISYS_AT(LlaisysPeerLink, performance_rank, 16);
LLAISYS_AT(LlaisysPeerLink, native_atomics, 20);
LLAISYS_AT(LlaisysPointerAttributes, struct_size, 0);
LLAISYS_AT(LlaisysPointerAttributes, kind, 4);
LLAISYS_AT(LlaisysPointerAttributes, device_type, 8);
LLAISYS_AT(LlaisysPointerAttributes, device, 12);
LLAISYS_AT(LlaisysPointerAttributes, base, 16);
LLAISYS_AT(LlaisysPointerAttributes, size, 24);
LLAISYS_AT(LlaisysPointerAttributes, ours, 32);
LLAISYS_AT(LlaisysPointerAttributes, reserved, 36);
LLAISYS_AT(LlaisysMemoryStatistics, struct_size, 0);
LLAISYS_AT(LlaisysMemoryStatistics, reserved, 4);
LLAISYS_AT(LlaisysMemoryStatistics, used, 8);
LLAISYS_AT(LlaisysMemoryStatistics, reserved_bytes, 16);
LLAISYS_AT(LlaisysMemoryStatistics, peak, 24);
LLAISYS_AT(LlaisysMemoryStatistics, live, 32);
LLAISYS_AT(LlaisysMemoryStatistics, allocations, 40);
LLAISYS_AT(LlaisysMemoryStatistics, frees, 48);
LLAISYS_AT(LlaisysMemoryStatistics, failures, 56);
LLAISYS_AT(LlaisysMemoryStatistics, limit, 64);
LLAISYS_AT(LlaisysCopy3D, struct_size, 0);
LLAISYS_AT(LlaisysCopy3D, kind, 4);
LLAISYS_AT(LlaisysCopy3D, dst, 8);
LLAISYS_AT(LlaisysCopy3D, dst_pitch, 16);
LLAISYS_AT(LlaisysCopy3D, dst_slice_height, 24);
LLAISYS_AT(LlaisysCopy3D, src, 32);
LLAISYS_AT(LlaisysCopy3D, src_pitch, 40);
LLAISYS_AT(LlaisysCopy3D, src_slice_height, 48);
LLAISYS_AT(LlaisysCopy3D, width, 56);
LLAISYS_AT(LlaisysCopy3D, height, 64);
LLAISYS_AT(LlaisysCopy3D, depth, 72);
LLAISYS_AT(LlaisysCopyRange, dst, 0);
LLAISYS_AT(LlaisysCopyRange, src, 8);
LLAISYS_AT(LlaisysCopyRange, size, 16);

#endif /* LLAISYS_BACKEND_H */
