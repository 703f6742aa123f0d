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

#: In ``LlaisysMemoryInfo.free``: cannot be told without making a context.
UNKNOWN_BYTES = 2**64 - 1

#: A function that a stream runs: ``void (*)(void *data)``.
HostFunction = CFUNCTYPE(None, c_void_p)


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
        ("reserved", c_int32),
        ("uuid", c_uint8 * 16),
        ("name", c_char * 128),
        ("vendor", c_char * 32),
        ("pci_address", c_char * 32),
    ]


class LlaisysMemoryInfo(Structure):
    """The memory of a device now. ``struct_size`` is set before the call."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("reserved", c_uint32),
        ("free", c_uint64),
        ("total", c_uint64),
    ]


class LlaisysBackendAPI(Structure):
    """The extended, versioned table: ``self`` first, a status back (0 is success)."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("abi_major", c_uint32),
        ("abi_minor", c_uint32),
        ("reserved", c_uint32),
        ("self_", c_void_p),
        (
            "get_last_error",
            CFUNCTYPE(c_int32, c_void_p, POINTER(c_int64), c_void_p, c_uint64, c_void_p, c_uint64),
        ),
        ("get_device_count", CFUNCTYPE(c_int32, c_void_p, POINTER(c_int32))),
        ("set_device", CFUNCTYPE(c_int32, c_void_p, c_int32)),
        ("device_synchronize", CFUNCTYPE(c_int32, c_void_p, c_int32)),
        ("create_stream", CFUNCTYPE(c_int32, c_void_p, c_int32, POINTER(c_void_p))),
        ("destroy_stream", CFUNCTYPE(c_int32, c_void_p, c_int32, c_void_p)),
        ("stream_synchronize", CFUNCTYPE(c_int32, c_void_p, c_int32, c_void_p)),
        ("malloc_device", CFUNCTYPE(c_int32, c_void_p, c_int32, c_uint64, POINTER(c_void_p))),
        ("free_device", CFUNCTYPE(c_int32, c_void_p, c_int32, c_void_p)),
        ("malloc_host", CFUNCTYPE(c_int32, c_void_p, c_int32, c_uint64, POINTER(c_void_p))),
        ("free_host", CFUNCTYPE(c_int32, c_void_p, c_int32, c_void_p)),
        (
            "memcpy_sync",
            CFUNCTYPE(c_int32, c_void_p, c_int32, c_void_p, c_void_p, c_uint64, c_uint32, c_uint32),
        ),
        (
            "memcpy_async",
            CFUNCTYPE(
                c_int32,
                c_void_p,
                c_int32,
                c_void_p,
                c_void_p,
                c_uint64,
                c_uint32,
                c_void_p,
                c_uint32,
            ),
        ),
        (
            "get_device_properties",
            CFUNCTYPE(c_int32, c_void_p, c_int32, POINTER(LlaisysDeviceProperties)),
        ),
        ("get_memory_info", CFUNCTYPE(c_int32, c_void_p, c_int32, POINTER(LlaisysMemoryInfo))),
        ("stream_query", CFUNCTYPE(c_int32, c_void_p, c_int32, c_void_p, POINTER(c_int32))),
        (
            "launch_host_function",
            CFUNCTYPE(c_int32, c_void_p, c_int32, c_void_p, HostFunction, c_void_p),
        ),
        ("is_device_memory", CFUNCTYPE(c_int32, c_void_p, c_int32, c_void_p, POINTER(c_int32))),
        ("initialize", CFUNCTYPE(c_int32, c_void_p, POINTER(c_int32))),
        ("get_capabilities", CFUNCTYPE(c_int32, c_void_p, POINTER(c_uint64))),
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
