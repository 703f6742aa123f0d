/* llaisys/backend.h - the whole table of a backend
 *
 * Two readers. A client asks for the table of a device type (llaisysGetBackendAPI) when it wants
 * more than LLAISYS's twelve functions: explicit devices, a status from each call, properties,
 * queries, host functions. The author of a backend fills the same table and exports one function.
 *
 * Contents
 *
 *   Numbers      capabilities, copy flags, LLAISYS_UNKNOWN_BYTES
 *   Structs      LlaisysDeviceProperties, LlaisysMemoryInfo
 *   The table    LlaisysBackendAPI
 *   Clients      llaisysGetBackendAPI
 *   Plugins      LlaisysBackendDescriptor, llaisysBackendQuery
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
 *   - Functions may be called from any thread at any time. They let no exception out.
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

/* ---- Numbers --------------------------------------------------------------------------------- */

/* Capabilities: what a backend is able to do, as bits of 64. */

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
/// `is_device_memory` is there.
#define LLAISYS_CAPABILITY_POINTER_QUERY (1 << 4)

/* Copy flags: what a copy may rely on and must keep to, as bits of 32. A bit without a meaning is
 * an error. */

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

/// A number of bytes that is not known.
#define LLAISYS_UNKNOWN_BYTES UINT64_MAX

/* ---- Structs --------------------------------------------------------------------------------- */

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
    /// Zero.
    int32_t reserved;
    /// The vendor's identifier of this very device; all zero where there is none.
    uint8_t uuid[16];
    /// The name, for people.
    char name[128];
    /// The vendor's name.
    char vendor[32];
    /// The PCI address as `dddd:bb:dd.f`.
    char pci_address[32];
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

/* ---- The table ------------------------------------------------------------------------------- */

/* The twelve functions with LLAISYS's names do what llaisys/runtime.h says of them, on the device
 * that is given. Beyond their status they answer through their last parameter. Through a client's
 * table:
 *
 *   - INVALID_DEVICE, INVALID_HANDLE and INVALID_VALUE are what was passed in: an ordinal outside
 *     of 0..count, a stream that does not exist any more, a NULL in the place of an output, a
 *     pointer to free that was not allocated or is freed already, a kind or a flag without a
 *     meaning, ranges that overlap.
 *   - OUT_OF_MEMORY leaves everything usable; a smaller request may succeed.
 *   - NOT_SUPPORTED is what an operation answers that the backend does not have.
 *   - NOT_PERMITTED is what a call that waits answers inside a host function.
 *   - DEVICE_LOST, DRIVER_ERROR and their like come from the device; the slot has the driver's own
 *     code.
 */

/// A function of the caller's that a stream runs in its order. It must not unwind.
typedef void (*LlaisysHostFunction)(void *data);

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
 *     call uses it; a pointer to free is one of yours, freed once, with the matching function; a
 *     kind is one of the four; the ranges of a copy do not wrap or overlap.
 *   - Copy flags tell you which side of a copy is pageable host memory. From such memory an
 *     asynchronous copy must have read its source when it returns, into such memory it must have
 *     written.
 *
 * What you must keep to:
 *
 *   - get_device_count makes no context and touches no device; 0 devices is success.
 *   - device memory is aligned to 256 bytes or more, pinned host memory to 64 or more.
 *   - destroy_stream, free_device and free_host do not wait; work that was enqueued before
 *     completes.
 *   - get_last_error tells of the calling thread's failed call; texts are copied out, no memory
 *     passes from one side to the other.
 *   - You are never unloaded. Have no atexit and no destructor that calls the driver.
 *
 * The conformance suite of this project runs against any such file: see docs/backends.md.
 */

/// The first eight bytes of a descriptor: LLAISYSB, read as a little-endian number.
#define LLAISYS_DESCRIPTOR_MAGIC UINT64_C(0x4253595349414C4C)

/// In a descriptor: the plugin is of a kind that has no number; it gets one when it is loaded.
#define LLAISYS_DEVICE_TYPE_UNASSIGNED (-1)

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

LLAISYS_STATIC_ASSERT(offsetof(LlaisysBackendAPI, self_) == 16, "the head of a table is 16 bytes");
LLAISYS_STATIC_ASSERT(offsetof(LlaisysBackendAPI, get_last_error) == 24,
                      "the functions follow self_");
LLAISYS_STATIC_ASSERT(offsetof(LlaisysBackendAPI, get_device_count) == 24 + 1 * sizeof(void *),
                      "the table is append-only");
LLAISYS_STATIC_ASSERT(offsetof(LlaisysBackendAPI, memcpy_async) == 24 + 12 * sizeof(void *),
                      "the table is append-only");
LLAISYS_STATIC_ASSERT(offsetof(LlaisysBackendAPI, launch_host_function) == 24 + 16 * sizeof(void *),
                      "the table is append-only");
LLAISYS_STATIC_ASSERT(offsetof(LlaisysBackendDescriptor, capabilities) == 32,
                      "the head of a descriptor is 32 bytes");
LLAISYS_STATIC_ASSERT(offsetof(LlaisysBackendDescriptor, api) == 40 + 4 * sizeof(void *),
                      "the descriptor is append-only");
LLAISYS_STATIC_ASSERT(offsetof(LlaisysDeviceProperties, uuid) == 32, "the struct is append-only");
LLAISYS_STATIC_ASSERT(sizeof(LlaisysMemoryInfo) >= 24, "the struct is append-only");

#endif /* LLAISYS_BACKEND_H */
