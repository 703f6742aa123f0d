/* llaisys/runtime.h - LLAISYS's runtime table
 *
 * The spelling, the types and the layout are LLAISYS's own, so code that was written for LLAISYS's
 * llaisys/runtime.h compiles and runs with this one unchanged. New here are only the promises: what
 * a function does when something goes wrong, and that each does the same on every kind of device.
 *
 * Contents
 *
 *   The table      LlaisysRuntimeAPI and the types of its twelve functions
 *   Getting it     llaisysGetRuntimeAPI
 *   Device         llaisysSetContextRuntime
 *
 * Example: a copy to a device and back
 *
 *     #include "llaisys/runtime.h"
 *     #include <stdio.h>
 *
 *     int main(void) {
 *         const LlaisysRuntimeAPI *api = llaisysGetRuntimeAPI(LLAISYS_DEVICE_CPU);
 *         const LlaisysError *error;
 *         int out[256] = {1, 2, 3}, back[256] = {0};
 *
 *         api->set_device(0);
 *         llaisysStream_t stream = api->create_stream();
 *         void *memory = api->malloc_device(sizeof out);
 *         api->memcpy_async(memory, out, sizeof out, LLAISYS_MEMCPY_H2D, stream);
 *         api->memcpy_async(back, memory, sizeof back, LLAISYS_MEMCPY_D2H, stream);
 *         api->stream_synchronize(stream);
 *         api->free_device(memory);
 *         api->destroy_stream(stream);
 *
 *         // One look is enough: the first failure of this thread is still there.
 *         if (llaisysGetLastError(&error) != LLAISYS_STATUS_SUCCESS) {
 *             fprintf(stderr, "%s: %s\n", error->operation, error->message);
 *             return 1;
 *         }
 *         return back[2] == 3 ? 0 : 1;
 *     }
 *
 * The rules for threads, sizes, owners and errors are those of llaisys.h. On NVIDIA a stream is the
 * driver's own CUstream (a cudaStream_t) and device memory is the plain device pointer: launch your
 * own kernels on the one, hand the other to any library.
 *
 * This file is made from capi/headers/runtime.h.in and the Rust sources by build.rs. Do not edit
 * it.
 */
#ifndef LLAISYS_RUNTIME_H
#define LLAISYS_RUNTIME_H

#include "../llaisys.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The types of the twelve functions ------------------------------------------------------- */

/* Devices */

/// Counts the devices.
typedef int (*get_device_count_api)(void);

/// Makes a device current.
typedef void (*set_device_api)(int device);

/// Waits for the current device.
typedef void (*device_synchronize_api)(void);

/* Streams */

/// Makes a stream.
typedef llaisysStream_t (*create_stream_api)(void);

/// Destroys a stream.
typedef void (*destroy_stream_api)(llaisysStream_t stream);

/// Waits for a stream.
typedef void (*stream_synchronize_api)(llaisysStream_t stream);

/* Memory */

/// Allocates device memory.
typedef void *(*malloc_device_api)(size_t size);

/// Frees device memory.
typedef void (*free_device_api)(void *pointer);

/// Allocates pinned host memory.
typedef void *(*malloc_host_api)(size_t size);

/// Frees pinned host memory.
typedef void (*free_host_api)(void *pointer);

/* Copies */

/// Copies and waits.
typedef void (*memcpy_sync_api)(void *dst, const void *src, size_t size, llaisysMemcpyKind_t kind);

/// Enqueues a copy.
typedef void (*memcpy_async_api)(void *dst,
                                 const void *src,
                                 size_t size,
                                 llaisysMemcpyKind_t kind,
                                 llaisysStream_t stream);

/* ---- The table ------------------------------------------------------------------------------- */

/// LLAISYS's twelve functions over one device type. Frozen: it never grows.
///
/// None of these pointers is NULL. They work on the calling thread's current device of the type
/// (see `set_device`), except where a stream or a pointer says which device it belongs to. Whatever
/// fails leaves its reason for `llaisysGetLastError`; a function without a result just returns
/// then, and one that returns a pointer returns NULL.
typedef struct LlaisysRuntimeAPI {
    /// Returns the number of devices; 0 when there is no backend, driver or device. Never fails,
    /// makes no context, and leaves nothing in the error slot; `llaisysGetDeviceCount` tells
    /// the reason.
    get_device_count_api get_device_count;
    /// Makes `device`, one of `0..get_device_count()`, current on the calling thread, also for the
    /// driver, so that the thread's own kernels run there. On failure the current device stays.
    set_device_api set_device;
    /// Waits until all work of the current device that was enqueued before is done.
    device_synchronize_api device_synchronize;
    /// Makes a stream on the current device; yours until `destroy_stream`. It is ordered with the
    /// device's default stream. Never NULL, unless it failed.
    create_stream_api create_stream;
    /// Destroys a stream, from any thread. Returns at once; work that is already on it completes.
    /// NULL is no stream of yours and is left alone.
    destroy_stream_api destroy_stream;
    /// Waits until all work that was enqueued on `stream` before is done. NULL is the current
    /// device's default stream.
    stream_synchronize_api stream_synchronize;
    /// Allocates `size` bytes on the current device, aligned to at least 256 bytes; yours until
    /// `free_device`. The content is arbitrary. 0 bytes: NULL, and no failure.
    malloc_device_api malloc_device;
    /// Frees device memory, from any thread and whatever device is current. Work that is enqueued
    /// before and uses the memory completes first; the call does not wait for it. NULL: nothing.
    free_device_api free_device;
    /// Allocates `size` bytes of pinned host memory, aligned to at least 64 bytes, for fast copies
    /// to and from every device of the type; yours until `free_host`. 0 bytes: NULL, and no
    /// failure.
    malloc_host_api malloc_host;
    /// Frees pinned host memory, as `free_device` frees device memory.
    free_host_api free_host;
    /// Copies `size` bytes and waits: ordered after earlier work of the device, and when it
    /// returns the data is there for the host and for every stream. 0 bytes or `dst == src`:
    /// nothing. Otherwise the two ranges must not overlap.
    memcpy_sync_api memcpy_sync;
    /// Enqueues a copy of `size` bytes on `stream`; NULL is the current device's default stream.
    /// Pinned memory must stay as it is until the stream has passed. Pageable host memory may
    /// be a local variable: a source has been read, a destination has been written when the
    /// call returns. On a device whose memory is the host's (the CPU) a copy on an idle stream
    /// is complete at once.
    memcpy_async_api memcpy_async;
} LlaisysRuntimeAPI;

/* ---- Getting it ------------------------------------------------------------------------------ */

/// The twelve functions of a device type.
///
/// Never NULL and never fails, whatever the number (also LLAISYS_DEVICE_TYPE_COUNT and -1): where
/// no backend serves it, `get_device_count` answers 0 and the other eleven are errors. Loads
/// nothing; the backend is looked for when a function is called. The table is constant and stays
/// for the life of the process.
const LlaisysRuntimeAPI *llaisysGetRuntimeAPI(llaisysDeviceType_t type);

/* ---- Device ---------------------------------------------------------------------------------- */

/// Makes a device current on the calling thread: for the twelve functions of that device type, for
/// the driver (so that the thread's own kernels run there), and as what `llaisysGetContextRuntime`
/// answers. A thread that never called this is on device 0 of each type.
///
/// Errors, read with `llaisysGetLastError`; whatever was current stays so:
/// - `BACKEND_UNAVAILABLE`: no backend serves `type`.
/// - `INVALID_DEVICE`: `device` is not in `0..get_device_count()`.
/// - `DEVICE_LOST` and what the driver answers.
void llaisysSetContextRuntime(llaisysDeviceType_t type, int device);

#ifdef __cplusplus
} /* extern "C" */
#endif

LLAISYS_STATIC_ASSERT(sizeof(LlaisysRuntimeAPI) == 12 * sizeof(void *),
                      "the table is twelve functions");
LLAISYS_AT(LlaisysRuntimeAPI, get_device_count, 0);
LLAISYS_AT(LlaisysRuntimeAPI, set_device, 8);
LLAISYS_AT(LlaisysRuntimeAPI, device_synchronize, 16);
LLAISYS_AT(LlaisysRuntimeAPI, create_stream, 24);
LLAISYS_AT(LlaisysRuntimeAPI, destroy_stream, 32);
LLAISYS_AT(LlaisysRuntimeAPI, stream_synchronize, 40);
LLAISYS_AT(LlaisysRuntimeAPI, malloc_device, 48);
LLAISYS_AT(LlaisysRuntimeAPI, free_device, 56);
LLAISYS_AT(LlaisysRuntimeAPI, malloc_host, 64);
LLAISYS_AT(LlaisysRuntimeAPI, free_host, 72);
LLAISYS_AT(LlaisysRuntimeAPI, memcpy_sync, 80);
LLAISYS_AT(LlaisysRuntimeAPI, memcpy_async, 88);

#endif /* LLAISYS_RUNTIME_H */
