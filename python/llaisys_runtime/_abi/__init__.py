"""The C ABI as ctypes sees it: structs, tables, exported functions.

Rule: this is the only place that knows a layout or a signature. ``include/llaisys.h`` says the same
in C and ``runtime-core/src/abi.rs`` in Rust; ``python -m llaisys_runtime._abi`` prints what is here
so that a test can compare the three.
"""

from __future__ import annotations

import ctypes
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint8,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any, Dict, List, Tuple, Type

#: The major version of the ABI that this package speaks; the library must have the same.
ABI_MAJOR = 1

# What a copy may rely on (`LLAISYS_COPY_*`).
COPY_NONE = 0
COPY_HOST_BUFFER_PROMISED = 4
COPY_AT_ONCE_IF_IDLE = 8

# How a stream is made (`LLAISYS_STREAM_*`).
STREAM_BLOCKING = 0
STREAM_NON_BLOCKING = 1

# How an event is made (`LLAISYS_EVENT_*`).
EVENT_NONE = 0
EVENT_TIMING = 1
EVENT_BLOCKING_WAIT = 2

#: In ``LlaisysMemoryInfo.free``: cannot be told without making a context.
UNKNOWN_BYTES = 2**64 - 1
#: As a memory limit: none.
NO_LIMIT = 2**64 - 1
#: The location that means the host, where a device ordinal is asked for.
LOCATION_HOST = -1

#: A function that a stream runs: ``void (*)(void *data)``.
HostFunction = CFUNCTYPE(None, c_void_p)
#: Asked when an allocation does not fit: data, device type, device, bytes; nonzero is "try again".
OutOfMemoryCallback = CFUNCTYPE(c_int32, c_void_p, c_int32, c_int32, c_uint64)
#: Called with the value of a user slot when its time is over.
SlotDestructor = CFUNCTYPE(None, c_void_p)


class LlaisysRuntimeAPI(Structure):
    """LLAISYS's own table: twelve functions, no ``self``, no status. Frozen."""

    _fields_ = [
        ("get_device_count", CFUNCTYPE(c_int)),
        ("set_device", CFUNCTYPE(None, c_int)),
        ("device_synchronize", CFUNCTYPE(None)),
        ("create_stream", CFUNCTYPE(c_void_p)),
        ("destroy_stream", CFUNCTYPE(None, c_void_p)),
        ("stream_synchronize", CFUNCTYPE(None, c_void_p)),
        ("malloc_device", CFUNCTYPE(c_void_p, c_size_t)),
        ("free_device", CFUNCTYPE(None, c_void_p)),
        ("malloc_host", CFUNCTYPE(c_void_p, c_size_t)),
        ("free_host", CFUNCTYPE(None, c_void_p)),
        ("memcpy_sync", CFUNCTYPE(None, c_void_p, c_void_p, c_size_t, c_uint32)),
        ("memcpy_async", CFUNCTYPE(None, c_void_p, c_void_p, c_size_t, c_uint32, c_void_p)),
    ]


class LlaisysDeviceProperties(Structure):
    """What a device is. ``struct_size`` is set before the call."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("processor_count", c_uint32),
        ("total_memory", c_uint64),
        ("driver_version", c_int32),
        ("compute_capability_major", c_int32),
        ("compute_capability_minor", c_int32),
        ("runtime_version", c_int32),
        ("uuid", c_uint8 * 16),
        ("name", c_char * 128),
        ("vendor", c_char * 32),
        ("pci_address", c_char * 32),
        ("l2_cache_size", c_uint64),
        ("clock_rate", c_uint32),
        ("integrated", c_uint32),
        ("capabilities", c_uint64),
        ("cpu_features", c_char * 128),
    ]


class LlaisysMemoryInfo(Structure):
    """The memory of a device now. ``struct_size`` is set before the call."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("reserved", c_uint32),
        ("free", c_uint64),
        ("total", c_uint64),
    ]


class LlaisysMemoryStatistics(Structure):
    """Where the memory of a device, or of a stream, went. ``struct_size`` is set before the call."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("reserved", c_uint32),
        ("used", c_uint64),
        ("reserved_bytes", c_uint64),
        ("peak", c_uint64),
        ("live", c_uint64),
        ("allocations", c_uint64),
        ("frees", c_uint64),
        ("failures", c_uint64),
        ("limit", c_uint64),
    ]


class LlaisysPeerLink(Structure):
    """How one device reaches the memory of another. ``struct_size`` is set before the call."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("can_access", c_uint32),
        ("enabled", c_uint32),
        ("kind", c_uint32),
        ("performance_rank", c_int32),
        ("native_atomics", c_uint32),
    ]


class LlaisysPointerAttributes(Structure):
    """What is known of a pointer. ``struct_size`` is set before the call."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("kind", c_uint32),
        ("device_type", c_int32),
        ("device", c_int32),
        ("base", c_uint64),
        ("size", c_uint64),
        ("ours", c_uint32),
        ("reserved", c_uint32),
    ]


class LlaisysCopy3D(Structure):
    """A pitched copy. ``struct_size`` is set before the call."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("kind", c_uint32),
        ("dst", c_void_p),
        ("dst_pitch", c_uint64),
        ("dst_slice_height", c_uint64),
        ("src", c_void_p),
        ("src_pitch", c_uint64),
        ("src_slice_height", c_uint64),
        ("width", c_uint64),
        ("height", c_uint64),
        ("depth", c_uint64),
    ]


class LlaisysCopyRange(Structure):
    """One range of a batched copy."""

    _fields_ = [("dst", c_void_p), ("src", c_void_p), ("size", c_uint64)]


def _entry(*arguments: Any) -> Any:
    """The type of an entry of the extended table: ``self`` and these; a status comes back."""
    return CFUNCTYPE(c_int32, c_void_p, *arguments)


class LlaisysBackendAPI(Structure):
    """The extended, versioned table: ``self`` first, a status back (0 is success)."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("abi_major", c_uint32),
        ("abi_minor", c_uint32),
        ("reserved", c_uint32),
        ("self_", c_void_p),
        ("get_last_error", _entry(POINTER(c_int64), c_void_p, c_uint64, c_void_p, c_uint64)),
        ("get_device_count", _entry(POINTER(c_int32))),
        ("set_device", _entry(c_int32)),
        ("device_synchronize", _entry(c_int32)),
        ("create_stream", _entry(c_int32, POINTER(c_void_p))),
        ("destroy_stream", _entry(c_int32, c_void_p)),
        ("stream_synchronize", _entry(c_int32, c_void_p)),
        ("malloc_device", _entry(c_int32, c_uint64, POINTER(c_void_p))),
        ("free_device", _entry(c_int32, c_void_p)),
        ("malloc_host", _entry(c_int32, c_uint64, POINTER(c_void_p))),
        ("free_host", _entry(c_int32, c_void_p)),
        ("memcpy_sync", _entry(c_int32, c_void_p, c_void_p, c_uint64, c_uint32, c_uint32)),
        (
            "memcpy_async",
            _entry(c_int32, c_void_p, c_void_p, c_uint64, c_uint32, c_void_p, c_uint32),
        ),
        ("get_device_properties", _entry(c_int32, POINTER(LlaisysDeviceProperties))),
        ("get_memory_info", _entry(c_int32, POINTER(LlaisysMemoryInfo))),
        ("stream_query", _entry(c_int32, c_void_p, POINTER(c_int32))),
        ("launch_host_function", _entry(c_int32, c_void_p, HostFunction, c_void_p)),
        ("is_device_memory", _entry(c_int32, c_void_p, POINTER(c_int32))),
        ("initialize", _entry(POINTER(c_int32))),
        ("get_capabilities", _entry(POINTER(c_uint64))),
        ("get_peer_link", _entry(c_int32, c_int32, POINTER(LlaisysPeerLink))),
        ("enable_peer_access", _entry(c_int32, c_int32)),
        ("create_stream_with", _entry(c_int32, c_uint32, c_int32, POINTER(c_void_p))),
        ("get_stream_priority_range", _entry(c_int32, POINTER(c_int32), POINTER(c_int32))),
        ("adopt_stream", _entry(c_void_p, POINTER(c_int32))),
        ("create_event", _entry(c_int32, c_uint32, POINTER(c_void_p))),
        ("destroy_event", _entry(c_int32, c_void_p)),
        ("record_event", _entry(c_int32, c_void_p, c_void_p)),
        ("stream_wait_event", _entry(c_int32, c_void_p, c_void_p)),
        ("event_query", _entry(c_int32, c_void_p, POINTER(c_int32))),
        ("event_synchronize", _entry(c_int32, c_void_p)),
        ("event_elapsed", _entry(c_int32, c_void_p, c_void_p, POINTER(c_int64))),
        ("malloc_async", _entry(c_int32, c_uint64, c_void_p, POINTER(c_void_p))),
        ("free_async", _entry(c_int32, c_void_p, c_void_p)),
        ("malloc_managed", _entry(c_int32, c_uint64, POINTER(c_void_p))),
        ("free_managed", _entry(c_int32, c_void_p)),
        ("prefetch_managed", _entry(c_int32, c_void_p, c_uint64, c_int32, c_void_p)),
        ("advise_managed", _entry(c_int32, c_void_p, c_uint64, c_uint32, c_int32)),
        ("register_host", _entry(c_int32, c_void_p, c_uint64)),
        ("unregister_host", _entry(c_int32, c_void_p)),
        ("get_pointer_attributes", _entry(c_void_p, POINTER(LlaisysPointerAttributes))),
        ("memset_async", _entry(c_int32, c_void_p, c_void_p, c_uint32, c_uint64, c_void_p)),
        ("memcpy_3d_async", _entry(c_int32, POINTER(LlaisysCopy3D), c_void_p, c_uint32)),
        (
            "memcpy_batch_async",
            _entry(
                c_int32, POINTER(LlaisysCopyRange), c_uint64, c_uint64, c_uint32, c_void_p, c_uint32
            ),
        ),
        ("get_reserved_memory", _entry(c_int32, POINTER(c_uint64))),
        ("trim_memory", _entry(c_int32, c_uint64)),
        ("get_stream_device", _entry(c_void_p, POINTER(c_int32))),
        ("get_native_event", _entry(c_void_p, POINTER(c_void_p))),
        ("get_operation_support", _entry(c_char_p, POINTER(c_int32))),
        ("memset_sync", _entry(c_int32, c_void_p, c_void_p, c_uint32, c_uint64)),
        ("memcpy_3d_sync", _entry(c_int32, POINTER(LlaisysCopy3D))),
        ("get_memory_statistics", _entry(c_int32, POINTER(LlaisysMemoryStatistics))),
        (
            "get_stream_memory_statistics",
            _entry(c_int32, c_void_p, POINTER(LlaisysMemoryStatistics)),
        ),
        ("reset_peak_memory", _entry(c_int32)),
        ("set_memory_limit", _entry(c_int32, c_uint64)),
        ("set_out_of_memory_callback", _entry(OutOfMemoryCallback, c_void_p)),
        ("set_thread_slot", _entry(c_int32, c_uint64, c_void_p, SlotDestructor)),
        ("get_thread_slot", _entry(c_int32, c_uint64, POINTER(c_void_p))),
        ("set_stream_slot", _entry(c_void_p, c_uint64, c_void_p, SlotDestructor)),
        ("get_stream_slot", _entry(c_void_p, c_uint64, POINTER(c_void_p))),
    ]


class LlaisysBackendDescriptor(Structure):
    """What a plugin says of itself; here for the comparison of layouts only."""

    _fields_ = [
        ("magic", c_uint64),
        ("struct_size", c_uint32),
        ("abi_major", c_uint32),
        ("abi_minor", c_uint32),
        ("oldest_host_minor", c_uint32),
        ("device_type", c_int32),
        ("sanitizer", c_uint32),
        ("capabilities", c_uint64),
        ("name", c_char_p),
        ("vendor", c_char_p),
        ("version", c_char_p),
        ("target", c_char_p),
        ("api", POINTER(LlaisysBackendAPI)),
    ]


class LlaisysError(Structure):
    """A failure as the thread's last-error slot hands it out."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("status", c_int32),
        ("native_code", c_int64),
        ("operation", c_char_p),
        ("native_name", c_char_p),
        ("message", c_char_p),
    ]


class LlaisysCandidate(Structure):
    """A backend that was looked at. ``struct_size`` is set before the call."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("status", c_int32),
        ("device_type", c_int32),
        ("reserved", c_int32),
        ("name", c_char_p),
        ("path", c_char_p),
        ("version", c_char_p),
        ("vendor", c_char_p),
        ("reason", c_char_p),
    ]


#: Every struct that crosses the ABI.
STRUCTS: Tuple[Type[Structure], ...] = (
    LlaisysRuntimeAPI,
    LlaisysBackendAPI,
    LlaisysBackendDescriptor,
    LlaisysDeviceProperties,
    LlaisysMemoryInfo,
    LlaisysMemoryStatistics,
    LlaisysPeerLink,
    LlaisysPointerAttributes,
    LlaisysCopy3D,
    LlaisysCopyRange,
    LlaisysError,
    LlaisysCandidate,
)

#: Every exported function: name → (result, arguments).
FUNCTIONS: Dict[str, Tuple[Any, List[Any]]] = {
    "llaisysGetRuntimeAPI": (POINTER(LlaisysRuntimeAPI), [c_int]),
    "llaisysSetContextRuntime": (None, [c_int, c_int]),
    "llaisysGetContextRuntime": (c_int32, [POINTER(c_int32), POINTER(c_int32)]),
    "llaisysGetBackendAPI": (POINTER(LlaisysBackendAPI), [c_int]),
    "llaisysGetLastError": (c_int32, [POINTER(POINTER(LlaisysError))]),
    "llaisysPeekLastError": (c_int32, [POINTER(POINTER(LlaisysError))]),
    "llaisysCopyLastError": (c_int32, [c_void_p, c_uint64, POINTER(c_uint64)]),
    "llaisysStatusName": (c_char_p, [c_int32]),
    "llaisysStatusText": (c_char_p, [c_int32]),
    "llaisysGetVersion": (c_char_p, []),
    "llaisysGetAbiVersion": (c_uint32, []),
    "llaisysLoadBackend": (c_int32, [c_char_p, POINTER(c_int32)]),
    "llaisysGetCandidateCount": (c_int32, []),
    "llaisysGetCandidate": (c_int32, [c_int32, POINTER(LlaisysCandidate)]),
    "llaisysGetDeviceCount": (c_int32, [c_int32, POINTER(c_int32)]),
    "llaisysDeviceTypeName": (c_char_p, [c_int32]),
}


def layout() -> Dict[str, Dict[str, Any]]:
    """Size of each struct and ``[offset, size]`` of each of its fields, in bytes."""
    return {
        struct.__name__: {
            "size": ctypes.sizeof(struct),
            "fields": {
                field[0]: [getattr(struct, field[0]).offset, getattr(struct, field[0]).size]
                for field in struct._fields_
            },
        }
        for struct in STRUCTS
    }
