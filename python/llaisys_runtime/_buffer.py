"""Memory that this package owns: on a device, and pinned on the host.

Rules: closing frees, exactly once, also when several threads close; what was closed raises when it is
used. Freeing never waits, and the memory is not handed out again before work enqueued earlier is done
(contract M4), so a buffer may be closed while a copy still uses it. ``__del__`` raises nothing and
prints nothing, after a fork and at interpreter shutdown neither.
"""

from __future__ import annotations

import ctypes
import importlib
from types import TracebackType
from typing import TYPE_CHECKING, Any, List, Optional, SupportsIndex, Type

from . import _arguments
from ._device import Device
from ._errors import closed

if TYPE_CHECKING:
    from typing_extensions import Buffer as BufferLike

    from ._stream import Stream


class _Block:
    """One allocation and the way to free it."""

    __slots__ = ("_backend", "_ordinal", "_free", "_owned")

    def __init__(self, device: Device, free: str, address: int) -> None:
        self._backend = device.backend
        self._ordinal = device.ordinal
        self._free = free
        # One element until it is freed: `list.pop` gives it to exactly one of several closers.
        self._owned = [address]

    def address(self) -> Optional[int]:
        owned = self._owned
        try:
            return owned[0]
        except IndexError:
            return None

    def free(self) -> None:
        try:
            address = self._owned.pop()
        except IndexError:
            return
        if address:
            self._backend.call(self._free, self._ordinal, address)

    def __del__(self) -> None:
        try:
            address = self._owned.pop()
            if address:
                self._backend.call_quietly(self._free, self._ordinal, address)
        except BaseException:
            pass


class Buffer:
    """``nbytes`` of memory on a device.

    The object owns the memory: it is freed by :meth:`close`, at the end of a ``with`` block, or when
    the object goes. Work on the device that was enqueued before still has it. Contents are undefined
    at first.

    Raises:
        OutOfMemoryError: there is not so much; a smaller request may work.
        ValueError: a negative size.
    """

    __slots__ = ("_device", "_nbytes", "_block", "__weakref__")

    def __init__(self, nbytes: SupportsIndex, device: Device) -> None:
        self._nbytes = _arguments.size(nbytes, "Buffer", "nbytes")
        self._device = device
        address = device.backend.malloc_device(device.ordinal, self._nbytes)
        self._block = _Block(device, "free_device", address)

    def __repr__(self) -> str:
        return f"<Buffer of {self._nbytes} bytes on {self._device!r}{_closed(self._block)}>"

    @property
    def device(self) -> Device:
        """The device that the memory is on."""
        return self._device

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return self._nbytes

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return self._block.address() is None

    @property
    def address(self) -> int:
        """The device pointer, good until the buffer is closed; 0 for 0 bytes."""
        address = self._block.address()
        if address is None:
            raise closed("Buffer.address", "buffer")
        return address

    def copy_from(
        self,
        source: "BufferLike | HostBuffer | Buffer",
        stream: "Optional[Stream]" = None,
        *,
        offset: SupportsIndex = 0,
        promised: bool = False,
    ) -> None:
        """Copies all of ``source`` to ``offset`` in this buffer; see :func:`copy`."""
        from ._copy import copy

        copy(self, source, stream, dst_offset=offset, promised=promised)

    def copy_to(
        self,
        destination: "BufferLike | HostBuffer | Buffer",
        stream: "Optional[Stream]" = None,
        *,
        offset: SupportsIndex = 0,
        promised: bool = False,
    ) -> None:
        """Fills all of ``destination`` from ``offset`` in this buffer; see :func:`copy`."""
        from ._copy import copy, size_of

        size = size_of(destination)
        copy(destination, self, stream, size=size, src_offset=offset, promised=promised)

    def close(self) -> None:
        """Frees the memory. Closing again does nothing."""
        self._block.free()

    def __enter__(self) -> "Buffer":
        self.address
        return self

    def __exit__(
        self,
        exc_type: Optional[Type[BaseException]],
        exc: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()


class HostBuffer:
    """``nbytes`` of pinned host memory, good for asynchronous copies with every device of its kind.

    :meth:`view` gives the bytes as a ``memoryview``: ``numpy.frombuffer(buffer.view(), ...)``. From
    Python 3.12 on the object itself has the buffer protocol too; ``numpy.asarray(buffer)`` and every
    copy of this package take it as it is on any version.

    The object owns the memory together with its views: after :meth:`close`, the end of a ``with``
    block, or when the object goes, the memory is freed as soon as the last view is gone.

    Raises:
        OutOfMemoryError: there is not so much; a smaller request may work.
        ValueError: a negative size.
    """

    __slots__ = ("_device", "_nbytes", "_arrays", "__weakref__")

    def __init__(self, nbytes: SupportsIndex, device: Device) -> None:
        self._nbytes = _arguments.size(nbytes, "HostBuffer", "nbytes")
        self._device = device
        address = device.backend.malloc_host(device.ordinal, self._nbytes)
        block = _Block(device, "free_host", address)
        array: Any = (ctypes.c_ubyte * self._nbytes).from_address(address)
        # Views hold the array, and the array holds the block.
        array.block = block
        # One element while open.
        self._arrays: List[Any] = [array]

    def _array(self, operation: str) -> Any:
        try:
            return self._arrays[0]
        except IndexError:
            raise closed(operation, "buffer") from None

    def __repr__(self) -> str:
        state = "" if self._arrays else ", closed"
        return f"<HostBuffer of {self._nbytes} bytes for {self._device!r}{state}>"

    @property
    def device(self) -> Device:
        """The device that it was allocated for."""
        return self._device

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return self._nbytes

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return not self._arrays

    @property
    def address(self) -> int:
        """The address; 0 for 0 bytes."""
        address: Optional[int] = self._array("HostBuffer.address").block.address()
        return address or 0

    def view(self) -> memoryview:
        """The bytes, writable; the memory lives at least as long as the view."""
        return memoryview(self._array("HostBuffer.view")).cast("B")

    def __buffer__(self, flags: int) -> memoryview:
        return self.view()

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> Any:
        # Imported by name, so that type checkers do not ask for NumPy.
        numpy: Any = importlib.import_module("numpy")
        array: Any = numpy.frombuffer(self.view(), dtype=numpy.uint8)
        if dtype is not None and array.dtype != numpy.dtype(dtype):
            if copy is False:
                raise ValueError(
                    "another dtype needs a copy; use numpy.frombuffer(x.view(), dtype)"
                )
            return array.astype(dtype)
        return array.copy() if copy else array

    def close(self) -> None:
        """Lets go of the memory: freed when the last view is gone. Closing again does nothing."""
        try:
            self._arrays.pop()
        except IndexError:
            pass

    def __enter__(self) -> "HostBuffer":
        self._array("HostBuffer.__enter__")
        return self

    def __exit__(
        self,
        exc_type: Optional[Type[BaseException]],
        exc: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()


def _closed(block: _Block) -> str:
    return "" if block.address() is not None else ", closed"
