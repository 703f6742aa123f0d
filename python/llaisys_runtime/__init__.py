"""One device runtime over many kinds of device: the Python face of ``libllaisys_runtime.so``.

Two levels. :class:`RuntimeAPI` is LLAISYS's runtime, twelve methods on raw addresses::

    api = RuntimeAPI(DeviceType.NVIDIA)
    pointer = api.malloc_device(1 << 20)

Above it are objects that own what they hold::

    device = Device(DeviceType.NVIDIA, 0)
    with Buffer(array.nbytes, device) as buffer, Stream(device) as stream:
        buffer.copy_from(array, stream)
        buffer.copy_to(result, stream)
        stream.synchronize()

Conventions. Sizes and offsets are bytes. A failed call raises a :class:`LlaisysError` and has changed
nothing. Every function may be called from any thread; C calls release the GIL. Waits on the main
thread hear Ctrl-C within a second. Importing this package opens nothing and nothing here ever prints;
the library is opened at the first use (``LLAISYS_RUNTIME_LIBRARY`` names it explicitly).
"""

from ._batch import CopyRange, copy_batch
from ._buffer import Buffer, HostBuffer, ManagedBuffer
from ._copy import copy
from ._device import (
    Candidate,
    Device,
    DeviceProperties,
    MemoryInfo,
    MemoryStatistics,
    PeerLink,
    PriorityRange,
    candidates,
    devices,
    unavailable_reason,
)
from ._errors import (
    AbiMismatchError,
    BackendRefusedError,
    BackendUnavailableError,
    ClosedError,
    DeviceLostError,
    DriverError,
    DriverTooOldError,
    DriverUnavailableError,
    ForkedError,
    InternalError,
    InvalidDeviceError,
    InvalidHandleError,
    InvalidValueError,
    LlaisysError,
    NotPermittedError,
    NotReadyError,
    NotRecordedError,
    NotSupportedError,
    OutOfMemoryError,
    ShutdownError,
    TimingDisabledError,
)
from ._event import Event
from ._fill import fill
from ._library import LibraryNotFoundError
from ._out_of_memory import set_out_of_memory_callback
from ._pitched import copy_2d, copy_3d
from ._pointer import PointerAttributes, pointer_attributes
from ._process import (
    abi_version,
    device_type_name,
    library_path,
    library_version,
    load_backend,
    peek_last_error,
    take_last_error,
)
from ._registration import RegisteredMemory, register_host
from ._runtime_api import RuntimeAPI, get_context_runtime, set_context_runtime
from ._slots import slot_key
from ._stream import Stream
from ._types import (
    Capability,
    DeviceType,
    LinkKind,
    MemcpyKind,
    MemoryAdvice,
    MemoryKind,
    Status,
    Support,
)

#: The version of this package; the library's own is ``library_version()``.
__version__ = "0.1.0"

__all__ = [
    "AbiMismatchError",
    "BackendRefusedError",
    "BackendUnavailableError",
    "Buffer",
    "Candidate",
    "Capability",
    "ClosedError",
    "CopyRange",
    "Device",
    "DeviceLostError",
    "DeviceProperties",
    "DeviceType",
    "DriverError",
    "DriverTooOldError",
    "DriverUnavailableError",
    "Event",
    "ForkedError",
    "HostBuffer",
    "InternalError",
    "InvalidDeviceError",
    "InvalidHandleError",
    "InvalidValueError",
    "LibraryNotFoundError",
    "LinkKind",
    "LlaisysError",
    "ManagedBuffer",
    "MemcpyKind",
    "MemoryAdvice",
    "MemoryInfo",
    "MemoryKind",
    "MemoryStatistics",
    "NotPermittedError",
    "NotReadyError",
    "NotRecordedError",
    "NotSupportedError",
    "OutOfMemoryError",
    "PeerLink",
    "PointerAttributes",
    "PriorityRange",
    "RegisteredMemory",
    "RuntimeAPI",
    "ShutdownError",
    "Status",
    "Stream",
    "Support",
    "TimingDisabledError",
    "abi_version",
    "candidates",
    "copy",
    "copy_2d",
    "copy_3d",
    "copy_batch",
    "device_type_name",
    "devices",
    "fill",
    "get_context_runtime",
    "library_path",
    "library_version",
    "load_backend",
    "peek_last_error",
    "pointer_attributes",
    "register_host",
    "set_context_runtime",
    "set_out_of_memory_callback",
    "slot_key",
    "take_last_error",
    "unavailable_reason",
]
