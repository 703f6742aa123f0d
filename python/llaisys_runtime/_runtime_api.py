"""LLAISYS's ``RuntimeAPI``: the twelve operations under LLAISYS's names, with exceptions.

Rule: what the twelve-function table of C does, this does: the thread's current device, the CPU's
at-once copies (contract S8), raw addresses and handles as integers. Only failures are different: they
raise, because the calls go through the extended table, which answers a status (see ``_backend``).
"""

from __future__ import annotations

import threading
from ctypes import byref, c_int32
from typing import Dict, SupportsIndex, Tuple

from . import _abi, _arguments, _wait
from ._arguments import Address
from ._backend import backend, device_count
from ._errors import LlaisysError
from ._library import library
from ._types import DeviceType, MemcpyKind, Status


class _Chosen(threading.local):
    """What Python code chose on this thread, per device type, and room for C's answer."""

    def __init__(self) -> None:
        self.devices: Dict[int, int] = {}
        self.type = c_int32()
        self.device = c_int32()
        self.outputs = byref(self.type), byref(self.device)


_chosen = _Chosen()

#: The device where a pointer or a stream knows its own (contract D3): C does not look at it.
_ANY = 0


def get_context_runtime() -> Tuple[DeviceType, int]:
    """The device type and ordinal that this thread chose last with :func:`set_context_runtime`.

    A thread that never chose is on CPU, 0.
    """
    chosen = _chosen
    library().llaisysGetContextRuntime(*chosen.outputs)  # never fails
    return DeviceType(chosen.type.value), chosen.device.value


def set_context_runtime(device_type: int, device: int = 0) -> None:
    """Makes a device the context of this thread, and the current one of its type.

    Raises:
        LlaisysError: the device does not exist or cannot be used; nothing was changed.
    """
    device_type = _arguments.int32(device_type, "llaisysSetContextRuntime", "device_type")
    device = _arguments.ordinal(device, "llaisysSetContextRuntime")
    # The C function has no status; whether the device can be used is asked first.
    backend(device_type).call("set_device", device)
    opened = library()
    unread = opened.unread()
    opened.llaisysSetContextRuntime(device_type, device)
    if not unread and opened.unread():
        raise opened.failure(Status.INTERNAL, "llaisysSetContextRuntime", 0)
    _chosen.devices[device_type] = device


class RuntimeAPI:
    """The runtime of one device type, with LLAISYS's twelve methods.

    Sizes are bytes. Addresses and streams are integers (``None``, 0 and ``ctypes.c_void_p`` are taken
    too); nothing here owns them. Stream 0 is the default stream of the current device. Every method
    may be called from any thread; the current device is each thread's own and starts as 0.

    An object can be made for any device type; where there is no backend, :meth:`get_device_count`
    is 0 and every other method raises :class:`BackendUnavailableError`.

    A method that fails raises a :class:`LlaisysError`, and has changed nothing.
    """

    def __init__(self, device_type: int) -> None:
        self._number = _arguments.int32(device_type, "RuntimeAPI", "device_type")
        #: The device type that this object serves.
        self.device_type = DeviceType(self._number)

    def __repr__(self) -> str:
        return f"RuntimeAPI({self.device_type.name})"

    def _current(self) -> int:
        """This thread's device of this type.

        C code on this thread may have chosen it with ``llaisysSetContextRuntime``: for the type that
        is in context C is asked, for another one Python remembers its own choice.
        """
        chosen = _chosen
        library().llaisysGetContextRuntime(*chosen.outputs)  # never fails
        if chosen.type.value == self._number:
            return chosen.device.value
        return chosen.devices.get(self._number, 0)

    def get_device_count(self) -> int:
        """The number of devices. Never fails; :func:`unavailable_reason` says why there is none."""
        try:
            return device_count(self.device_type)
        except LlaisysError:
            return 0

    def set_device(self, device_id: SupportsIndex) -> None:
        """Makes a device current on this thread; one that does not exist leaves it as it was."""
        device = _arguments.ordinal(device_id, "set_device")
        own = backend(self._number)
        own.call("set_device", device)
        # That bound the thread's native state and told whether the device can be used; C's own
        # `set_device`, which has no status, also remembers it as the current one.
        opened = own.library
        unread = opened.unread()
        opened.llaisysGetRuntimeAPI(self.device_type).contents.set_device(device)
        if not unread and opened.unread():
            raise opened.failure(Status.INTERNAL, "set_device", 0)
        _chosen.devices[self.device_type] = device

    def device_synchronize(self) -> None:
        """Waits for all work of the current device; Ctrl-C interrupts the wait, not the work."""
        _wait.for_device(backend(self._number), self._current())

    def create_stream(self) -> int:
        """A new blocking stream on the current device; never 0. On NVIDIA it is the ``CUstream``."""
        return backend(self._number).handle("create_stream", self._current())

    def destroy_stream(self, stream: Address) -> None:
        """Destroys a stream at once; work that it has still completes. 0 is a no-op."""
        handle = _arguments.address(stream, "destroy_stream", "stream")
        backend(self._number).call("destroy_stream", _ANY, handle)

    def stream_synchronize(self, stream: Address) -> None:
        """Waits for all work of the stream; Ctrl-C interrupts the wait, not the work."""
        handle = _arguments.address(stream, "stream_synchronize", "stream")
        _wait.for_stream(backend(self._number), self._current(), handle)

    def malloc_device(self, size: SupportsIndex) -> int:
        """The address of ``size`` new bytes on the current device; 0 for 0 bytes.

        The caller frees it with :meth:`free_device`.
        """
        bytes_ = _arguments.size(size, "malloc_device")
        return backend(self._number).allocate("malloc_device", self._current(), bytes_)

    def free_device(self, ptr: Address) -> None:
        """Frees device memory, whichever device is current; 0 is a no-op.

        The memory is not handed out again before work that was enqueued earlier is done.
        """
        address = _arguments.address(ptr, "free_device", "ptr")
        backend(self._number).call("free_device", _ANY, address)

    def malloc_host(self, size: SupportsIndex) -> int:
        """The address of ``size`` new bytes of pinned host memory; 0 for 0 bytes.

        The caller frees it with :meth:`free_host`.
        """
        bytes_ = _arguments.size(size, "malloc_host")
        return backend(self._number).allocate("malloc_host", self._current(), bytes_)

    def free_host(self, ptr: Address) -> None:
        """Frees pinned host memory; 0 is a no-op."""
        address = _arguments.address(ptr, "free_host", "ptr")
        backend(self._number).call("free_host", _ANY, address)

    def memcpy_sync(
        self, dst: Address, src: Address, size: SupportsIndex, kind: SupportsIndex
    ) -> None:
        """Copies ``size`` bytes and waits; Ctrl-C interrupts the wait, not the copy.

        The caller sees to it that both ranges are there until the copy is done.
        """
        to = _arguments.address(dst, "memcpy_sync", "dst")
        from_ = _arguments.address(src, "memcpy_sync", "src")
        bytes_ = _arguments.size(size, "memcpy_sync")
        direction = _arguments.kind_of_the_twelve(kind, "memcpy_sync")
        own, device = backend(self._number), self._current()

        def copy() -> None:
            own.call("memcpy_sync", device, to, from_, bytes_, direction, _abi.COPY_NONE)

        _wait.for_copy(own, device, 0, bytes_, copy)

    def memcpy_async(
        self,
        dst: Address,
        src: Address,
        size: SupportsIndex,
        kind: SupportsIndex,
        stream: Address,
    ) -> None:
        """Enqueues a copy of ``size`` bytes on the stream.

        Pageable host memory has been read, or has been written, when this returns; pinned memory
        must stay until the stream has passed. On the CPU, a copy on a stream that has nothing
        pending is complete when this returns, as LLAISYS's own runtime has it.
        """
        to = _arguments.address(dst, "memcpy_async", "dst")
        from_ = _arguments.address(src, "memcpy_async", "src")
        bytes_ = _arguments.size(size, "memcpy_async")
        direction = _arguments.kind_of_the_twelve(kind, "memcpy_async")
        handle = _arguments.address(stream, "memcpy_async", "stream")
        own, device = backend(self._number), self._current()

        def copy() -> None:
            flags = _abi.COPY_AT_ONCE_IF_IDLE
            own.call("memcpy_async", device, to, from_, bytes_, direction, handle, flags)

        if direction == MemcpyKind.D2D or (
            direction == MemcpyKind.H2D and bytes_ <= _wait.STAGED_COPY
        ):
            copy()
        else:
            _wait.for_copy(own, device, handle, bytes_, copy)
