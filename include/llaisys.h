/* llaisys.h - types, errors, devices and backends of llaisys-runtime
 *
 * One C ABI over many kinds of device. The runtime itself is in three more headers:
 *
 *   llaisys/runtime.h   LLAISYS's table: twelve functions over the current device
 *   llaisys/backend.h   the whole table: explicit devices, statuses; also what a plugin fills
 *   llaisys.hpp         C++17: the same with owners and exceptions
 *
 * Contents of this one
 *
 *   Numbers    device types, copy kinds, element types, the stream handle
 *   Statuses   what came of a call
 *   Errors     llaisysGetLastError, PeekLastError, CopyLastError, StatusName, StatusText
 *   Devices    llaisysGetDeviceCount, DeviceTypeName
 *   Context    llaisysGetContextRuntime
 *   Backends   llaisysLoadBackend, GetCandidateCount, GetCandidate
 *   Version    llaisysGetVersion, GetAbiVersion
 *
 * Example: what is there, and why something is not
 *
 *     #include "llaisys.h"
 *     #include <stdio.h>
 *
 *     int main(void) {
 *         for (int32_t i = 0; i < llaisysGetCandidateCount(); ++i) {
 *             LlaisysCandidate backend;
 *             int32_t devices = 0, answer;
 *             backend.struct_size = sizeof backend;
 *             if (llaisysGetCandidate(i, &backend) != LLAISYS_STATUS_SUCCESS) {
 *                 return 1;
 *             }
 *             if (backend.status != LLAISYS_STATUS_SUCCESS) {
 *                 printf("%s: not used: %s\n", backend.path, backend.reason);
 *                 continue;
 *             }
 *             answer = llaisysGetDeviceCount(backend.device_type, &devices);
 *             if (answer != LLAISYS_STATUS_SUCCESS) {
 *                 const LlaisysError *error;
 *                 llaisysGetLastError(&error);
 *                 printf("%s: no device: %s\n", backend.name, error->message);
 *             } else {
 *                 printf("%s: %d device(s)\n", backend.name, (int)devices);
 *             }
 *         }
 *         return 0;
 *     }
 *
 * Rules that hold for every function of this runtime
 *
 *   Threads   Any function may be called from any thread at any time. Each thread has its own error
 *             slot and its own current device; streams, memory and tables belong to the process.
 *   Sizes     are bytes.
 *   Owners    What you allocate or create you free or destroy, with the matching function of the
 *             same device type. Texts, tables and structs that a function hands out belong to the
 *             runtime.
 *   Errors    No function throws, aborts or exits. One that fails changes nothing else and leaves
 *             its status and reason in the calling thread's error slot. Functions that return
 *             int32_t return the same status. Numbers that are no member of an enum are errors, not
 *             undefined.
 *   Structs   that you provide begin with struct_size, which you set to sizeof; so a newer runtime
 *             can serve you, and an older one.
 *
 * This file is made from capi/headers/llaisys.h.in and the Rust sources by build.rs. Do not edit
 * it. C99, C11 and C++17 compile it without a warning.
 */
#ifndef LLAISYS_H
#define LLAISYS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Numbers --------------------------------------------------------------------------------- */

/// The kinds of device that LLAISYS itself knows. Other kinds have the numbers
/// `LLAISYS_DEVICE_TYPE_*` below or are given one when their backend is loaded.
typedef enum {
    /// The CPU. Always there.
    LLAISYS_DEVICE_CPU = 0,
    /// NVIDIA GPUs.
    LLAISYS_DEVICE_NVIDIA = 1,
    /// LLAISYS's count of its own kinds. This runtime compiles no behaviour from it.
    LLAISYS_DEVICE_TYPE_COUNT = 2,
} llaisysDeviceType_t;

/// The direction of a copy: where the source is, then where the destination is.
typedef enum {
    /// Host to host. Works on every device.
    LLAISYS_MEMCPY_H2H = 0,
    /// Host to device.
    LLAISYS_MEMCPY_H2D = 1,
    /// Device to host.
    LLAISYS_MEMCPY_D2H = 2,
    /// Device to device, also between two devices of one kind.
    LLAISYS_MEMCPY_D2D = 3,
} llaisysMemcpyKind_t;

/// The element types of LLAISYS's tensors. The runtime copies bytes and reads none of these.
typedef enum {
    LLAISYS_DTYPE_INVALID = 0,
    LLAISYS_DTYPE_BYTE = 1,
    LLAISYS_DTYPE_BOOL = 2,
    LLAISYS_DTYPE_I8 = 3,
    LLAISYS_DTYPE_I16 = 4,
    LLAISYS_DTYPE_I32 = 5,
    LLAISYS_DTYPE_I64 = 6,
    LLAISYS_DTYPE_U8 = 7,
    LLAISYS_DTYPE_U16 = 8,
    LLAISYS_DTYPE_U32 = 9,
    LLAISYS_DTYPE_U64 = 10,
    LLAISYS_DTYPE_F8 = 11,
    LLAISYS_DTYPE_F16 = 12,
    LLAISYS_DTYPE_F32 = 13,
    LLAISYS_DTYPE_F64 = 14,
    LLAISYS_DTYPE_C16 = 15,
    LLAISYS_DTYPE_C32 = 16,
    LLAISYS_DTYPE_C64 = 17,
    LLAISYS_DTYPE_C128 = 18,
    LLAISYS_DTYPE_BF16 = 19,
} llaisysDataType_t;

/// A stream as it crosses the C ABI: the backend's native handle, or NULL for the default stream of
/// the device that is named beside it.
typedef void *llaisysStream_t;

/* Numbers that are reserved for the backends of these vendors. */

/// Reserved for Cambricon.
#define LLAISYS_DEVICE_TYPE_CAMBRICON 2
/// Reserved for Huawei Ascend.
#define LLAISYS_DEVICE_TYPE_ASCEND 3
/// Reserved for MetaX.
#define LLAISYS_DEVICE_TYPE_METAX 4
/// Reserved for Moore Threads.
#define LLAISYS_DEVICE_TYPE_MOORE 5
/// Reserved for Iluvatar CoreX.
#define LLAISYS_DEVICE_TYPE_ILUVATAR 6
/// Reserved for Kunlunxin.
#define LLAISYS_DEVICE_TYPE_KUNLUN 7
/// Reserved for Hygon.
#define LLAISYS_DEVICE_TYPE_HYGON 8
/// Reserved for QY.
#define LLAISYS_DEVICE_TYPE_QY 9
/// Reserved for Alibaba.
#define LLAISYS_DEVICE_TYPE_ALI 10

/* A backend of yet another kind has no number of its own; it is given one of these when it is
 * loaded. */

/// The first number that is given to backends whose kind has no number.
#define LLAISYS_DEVICE_TYPE_FIRST_ASSIGNED 32
/// The last number that is given to backends whose kind has no number.
#define LLAISYS_DEVICE_TYPE_LAST_ASSIGNED 47

/* ---- Statuses -------------------------------------------------------------------------------- */

/// The result of a call as the C ABI carries it (`int32_t`).
///
/// 0 is success; every other value is a distinct kind of failure that a caller can act on.
typedef enum {
    /// The call did what was asked.
    LLAISYS_STATUS_SUCCESS = 0,
    /// An argument is outside what the operation accepts: a size, a pointer, a copy kind, a range.
    LLAISYS_STATUS_INVALID_VALUE = 1,
    /// A stream (or other handle) that does not exist, or no longer.
    LLAISYS_STATUS_INVALID_HANDLE = 2,
    /// A device ordinal outside `0..count`.
    LLAISYS_STATUS_INVALID_DEVICE = 3,
    /// The device or the host has not enough memory; a smaller request may work.
    LLAISYS_STATUS_OUT_OF_MEMORY = 4,
    /// The backend does not have this operation.
    LLAISYS_STATUS_NOT_SUPPORTED = 5,
    /// The work asked about has not finished.
    LLAISYS_STATUS_NOT_READY = 6,
    /// The operation is not allowed here: a blocking call inside a host function, for example.
    LLAISYS_STATUS_NOT_PERMITTED = 7,
    /// The device failed for good; it stays failed for the life of the process.
    LLAISYS_STATUS_DEVICE_LOST = 8,
    /// The device's driver is not there, is a stub, or found no device.
    LLAISYS_STATUS_DRIVER_UNAVAILABLE = 9,
    /// The driver is older than what this backend needs.
    LLAISYS_STATUS_DRIVER_TOO_OLD = 10,
    /// No backend serves this device type.
    LLAISYS_STATUS_BACKEND_UNAVAILABLE = 11,
    /// A backend file was found and refused; the message says why.
    LLAISYS_STATUS_BACKEND_REFUSED = 12,
    /// The two sides of an ABI do not fit: major version, or a struct with an unknown non-zero tail.
    LLAISYS_STATUS_ABI_MISMATCH = 13,
    /// The process was forked after the driver had been initialised.
    LLAISYS_STATUS_FORKED = 14,
    /// The runtime or the driver is already shutting down.
    LLAISYS_STATUS_SHUTDOWN = 15,
    /// The driver reported a failure that has no closer name here; see the native code.
    LLAISYS_STATUS_DRIVER_ERROR = 16,
    /// A fault inside the runtime or a backend: a panic that was contained, a broken promise.
    LLAISYS_STATUS_INTERNAL = 17,
    /// An event was never recorded, so nothing can be measured from or to it.
    LLAISYS_STATUS_NOT_RECORDED = 18,
    /// An event was made without timing.
    LLAISYS_STATUS_TIMING_DISABLED = 19,
} LlaisysStatus;

/* ---- Errors ---------------------------------------------------------------------------------- */

/* Each thread has a slot for one failed call. The first failure stays there until it is read; a
 * later success or failure does not replace it. So a series of calls is checked once, at its end:
 *
 *     api->memcpy_async(device, host, size, LLAISYS_MEMCPY_H2D, stream);
 *     api->stream_synchronize(stream);
 *     const LlaisysError *error;
 *     if (llaisysGetLastError(&error) != LLAISYS_STATUS_SUCCESS) {
 *         fprintf(stderr, "%s: %s\n", error->operation, error->message);
 *     }
 */

/// One failed call. Read it with `llaisysGetLastError` or `llaisysPeekLastError`.
///
/// No text is NULL. The struct and its texts belong to the runtime; they are the calling thread's
/// and stay as they are until its next call that fails. Keep them longer by copying them.
typedef struct LlaisysError {
    /// The end of the last field that the runtime knows, in bytes.
    uint32_t struct_size;
    /// What kind of failure it was: one of `LLAISYS_STATUS_*`.
    int32_t status;
    /// The native driver's number (a `CUresult`, an `errno`); 0 where no driver was asked.
    int64_t native_code;
    /// The function that failed, for example `memcpy_async`.
    const char *operation;
    /// The native driver's name for its number; empty where no driver was asked.
    const char *native_name;
    /// What was asked and what was found, in a sentence.
    const char *message;
} LlaisysError;

/// Reads the calling thread's first failure since the last reading, and clears the slot.
///
/// Returns its status, or `LLAISYS_STATUS_SUCCESS` (0) when nothing failed. `error` may be NULL;
/// otherwise `*error` becomes a struct that says more, never NULL (when nothing failed its texts
/// say so). A success never clears the slot: after a series of calls, one reading tells whether any
/// of them failed, and which one did first.
///
/// Requires:
/// - `error` is NULL or points to a pointer that may be written.
int32_t llaisysGetLastError(const LlaisysError **error);

/// As `llaisysGetLastError`, but leaves the failure in the slot.
///
/// Requires:
/// - `error` is NULL or points to a pointer that may be written.
int32_t llaisysPeekLastError(const LlaisysError **error);

/// Copies the calling thread's failure as one line of text, and leaves it in the slot:
/// `memcpy_async: INVALID_VALUE: kind 42 is not one of 0..=3`, with the driver's name and number in
/// brackets at the end where a driver was asked.
///
/// Returns its status, or `LLAISYS_STATUS_SUCCESS` (0) and the empty text when nothing failed.
/// `buffer` gets at most `capacity` bytes, its NUL included, and may be NULL; `*needed` becomes the
/// number of bytes of the whole text, its NUL included, and `needed` may be NULL.
///
/// Requires:
/// - `buffer` is NULL or has `capacity` bytes that may be written; `needed` is NULL or may be
///   written.
int32_t llaisysCopyLastError(char *buffer, uint64_t capacity, uint64_t *needed);

/// The name of a status without its prefix, for example `OUT_OF_MEMORY`; `UNKNOWN` for a number
/// that is none.
///
/// Constant text, never NULL. Never fails.
const char *llaisysStatusName(int32_t status);

/// A status in a few words; says so for a number that is none.
///
/// Constant text, never NULL. Never fails.
const char *llaisysStatusText(int32_t status);

/* ---- Devices --------------------------------------------------------------------------------- */

/* A device is a type and an ordinal in 0..count. What a device is and how much memory it has is
 * asked through its backend's table: get_device_properties, get_memory_info in llaisys/backend.h.
 * */

/// Writes the number of devices of a type. Where there is none for a reason that can be mended, the
/// reason is the error: ask this when `get_device_count` answers 0 and you want to know why.
///
/// Returns `LLAISYS_STATUS_SUCCESS` (also for a plain 0, for example when `CUDA_VISIBLE_DEVICES` is
/// empty), or a status with more in the slot; then `*count` stays as it was:
/// - `BACKEND_UNAVAILABLE`, `BACKEND_REFUSED`: no backend serves this type; the message lists what
///   was looked at.
/// - `DRIVER_UNAVAILABLE`, `DRIVER_TOO_OLD`: the message names the driver and the versions.
/// - `INVALID_VALUE`: `count` is NULL.
///
/// Requires:
/// - `count` is NULL or may be written.
int32_t llaisysGetDeviceCount(int32_t device_type, int32_t *count);

/// The name of a device type in lower case: `cpu`, `nvidia`, the name that the backend of an
/// assigned number gave itself; `unknown` for a number that nobody has.
///
/// Never NULL, stays for the life of the process. Never fails, and loads no backend.
const char *llaisysDeviceTypeName(int32_t device_type);

/* ---- Context --------------------------------------------------------------------------------- */

/* llaisysSetContextRuntime, which makes a device current, is in llaisys/runtime.h, where LLAISYS
 * has it. */

/// Writes what the calling thread chose last with `llaisysSetContextRuntime` and the device that is
/// current there; the CPU, device 0, if it never chose. Either pointer may be NULL.
///
/// Returns 0. Never fails.
///
/// Requires:
/// - `type` and `device` are NULL or may be written.
int32_t llaisysGetContextRuntime(int32_t *type, int32_t *device);

/* ---- Backends -------------------------------------------------------------------------------- */

/* The CPU's backend is built in. The others are shared libraries, libllaisys_backend_*.so, looked
 * for once, when a type that is not built in is first asked for:
 *
 *   LLAISYS_BACKENDS       a list of files, separated by colons; then nothing else is looked at
 *   LLAISYS_BACKEND_PATH   a list of folders, searched first
 *                          then the folder of libllaisys_runtime.so itself
 *   LLAISYS_REQUIRE        a list of names, for example nvidia: without such a backend and a device
 *                          of it every call fails, so that nothing falls back to the CPU unnoticed
 */

/// One backend that was looked at: what it is, and why it is in use or is not.
///
/// You provide the struct and set `struct_size`; no more than that is written. No text is NULL, and
/// all stay for the life of the process.
typedef struct LlaisysCandidate {
    /// The size of the struct in bytes, set by you.
    uint32_t struct_size;
    /// `LLAISYS_STATUS_SUCCESS` when the backend is in use; otherwise the kind of refusal.
    int32_t status;
    /// The device type that it serves; -1 when it did not come so far as to tell.
    int32_t device_type;
    /// Zero.
    int32_t reserved;
    /// Its name in lower case, for example `nvidia`; empty when unknown.
    const char *name;
    /// The file; empty for a backend that is built in.
    const char *path;
    /// Its own version; empty when unknown.
    const char *version;
    /// Who made the devices; empty when unknown.
    const char *vendor;
    /// How it was found, or why it was refused, in a sentence.
    const char *reason;
} LlaisysCandidate;

/// Loads a backend from a file of your choice. The backends of the environment and of the library's
/// own folder are found without it, when they are first asked for.
///
/// `path` is a UTF-8 or native path and is not searched for: give an absolute one. Loading the same
/// file again, also through a link, succeeds and changes nothing; a loaded backend stays for the
/// life of the process. `*device_type` becomes the type that it serves; the pointer may be NULL.
///
/// Returns `LLAISYS_STATUS_SUCCESS`, or a status with more in the slot, which names the file, and in
/// the list of candidates:
/// - `BACKEND_REFUSED`: the file is not there, is no shared library for this machine, is not safe
///   to load, or its name or device type is taken; the message says which.
/// - `ABI_MISMATCH`: it was built for another version of `llaisys/backend.h`.
/// - `NOT_PERMITTED`: the caller is a constructor of a backend that is just being loaded.
/// - `INVALID_VALUE`: `path` is NULL.
///
/// Requires:
/// - `path` is NULL or a text that ends with a NUL; `device_type` is NULL or may be written.
/// - The file is a backend that you trust: its code runs in this process.
int32_t llaisysLoadBackend(const char *path,
                           int32_t *device_type);

/// The number of backends that were looked at, those that are built in and those that were refused
/// included. The first call looks at all of them. The number only ever grows.
///
/// Never fails.
int32_t llaisysGetCandidateCount(void);

/// Writes what is known of one backend that was looked at, up to `candidate->struct_size` bytes.
/// The order is that in which they were looked at, and never changes.
///
/// Returns `LLAISYS_STATUS_SUCCESS`, or `INVALID_VALUE` with more in the slot: `index` is not in
/// `0..llaisysGetCandidateCount()`, `candidate` is NULL, or its `struct_size` is not set.
///
/// Requires:
/// - `candidate` is NULL or has as many bytes as its `struct_size` says, which may be written.
int32_t llaisysGetCandidate(int32_t index, LlaisysCandidate *candidate);

/* ---- Version --------------------------------------------------------------------------------- */

/// The version of this header. The library's own is llaisysGetVersion's.
#define LLAISYS_RUNTIME_VERSION "0.1.0"

/// The ABI's major version: both sides must have the same.
#define LLAISYS_ABI_MAJOR 1
/// The ABI's minor version: grows when a field is appended.
#define LLAISYS_ABI_MINOR 0

/// The version of the library that is loaded, as `LLAISYS_RUNTIME_VERSION` is that of the header.
///
/// Constant text. Never fails.
const char *llaisysGetVersion(void);

/// The version of the library's ABI: `major << 16 | minor`. Compare the major version with
/// `LLAISYS_ABI_MAJOR`; a library with a higher minor version serves older clients.
///
/// Never fails.
uint32_t llaisysGetAbiVersion(void);

#ifdef __cplusplus
} /* extern "C" */
#endif

/* What compiled code relies on can never change; a compiler that lays it out otherwise is told
 * here. */
#if defined(__cplusplus)
#define LLAISYS_STATIC_ASSERT(condition, text) static_assert(condition, text)
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define LLAISYS_STATIC_ASSERT(condition, text) _Static_assert(condition, text)
#else
#define LLAISYS_STATIC_ASSERT(condition, text) struct llaisys_static_assert_needs_c11
#endif
#define LLAISYS_AT(type, field, offset)                                                            \
    LLAISYS_STATIC_ASSERT(offsetof(type, field) == (offset), #type "." #field " has moved")

LLAISYS_STATIC_ASSERT(sizeof(llaisysDeviceType_t) == 4, "device types are 32 bits wide");
LLAISYS_STATIC_ASSERT(sizeof(llaisysMemcpyKind_t) == 4, "copy kinds are 32 bits wide");
LLAISYS_STATIC_ASSERT(sizeof(size_t) == 8 && sizeof(void *) == 8, "this runtime is 64 bits wide");
LLAISYS_AT(LlaisysError, struct_size, 0);
LLAISYS_AT(LlaisysError, status, 4);
LLAISYS_AT(LlaisysError, native_code, 8);
LLAISYS_AT(LlaisysError, operation, 16);
LLAISYS_AT(LlaisysError, native_name, 24);
LLAISYS_AT(LlaisysError, message, 32);
LLAISYS_AT(LlaisysCandidate, struct_size, 0);
LLAISYS_AT(LlaisysCandidate, status, 4);
LLAISYS_AT(LlaisysCandidate, device_type, 8);
LLAISYS_AT(LlaisysCandidate, reserved, 12);
LLAISYS_AT(LlaisysCandidate, name, 16);
LLAISYS_AT(LlaisysCandidate, path, 24);
LLAISYS_AT(LlaisysCandidate, version, 32);
LLAISYS_AT(LlaisysCandidate, vendor, 40);
LLAISYS_AT(LlaisysCandidate, reason, 48);

#endif /* LLAISYS_H */
