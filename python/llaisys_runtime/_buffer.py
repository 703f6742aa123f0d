"""Memory that this package owns or borrows: on a device, pinned on the host, managed.

Rules: closing frees, exactly once, also when several threads close; what was closed raises when it is
used. Freeing never waits, and the memory is not handed out again before work enqueued earlier is done
(contract M4), so a buffer may be closed while a copy still uses it; what was lent to another library
stays until that has let go of it. ``__del__`` raises nothing and prints nothing, after a fork and at
interpreter shutdown neither.
"""

from __future__ import annotations

import ctypes
import importlib
from typing import TYPE_CHECKING, Any, Optional, SupportsIndex, Tuple, Union

from . import _abi, _arguments, _dlpack, _wait
from ._device import Device
from ._errors import InvalidHandleError, refused
from ._foreign_memory import Borrowed, Lender, borrow
from ._owner import Owner
from ._stream import Stream
from ._types import MemoryAdvice

if TYPE_CHECKING:
    from typing_extensions import Buffer as BufferLike

    from ._copy import Endpoint


class _Block:
    """One allocation and the way to free it."""

    __slots__ = ("_backend", "_ordinal", "_free", "_stream", "_owned", "shared")

    read_only = False

    def __init__(
        self, device: Device, free: str, address: int, stream: Optional[Stream] = None
    ) -> None:
        self._backend = device.backend
        self._ordinal = device.ordinal
        self._free = free
        #: In whose order it is freed, as long as that stream is open.
        self._stream = stream
        #: Whether it was lent to another library; then it is freed when the last reference goes.
        self.shared = False
        # One element until it is freed: `list.pop` gives it to exactly one of several closers.
        self._owned = [address]

    def address(self) -> Optional[int]:
        owned = self._owned
        try:
            return owned[0]
        except IndexError:
            return None

    def free(self, stream: Optional[Stream] = None) -> None:
        try:
            address = self._owned.pop()
        except IndexError:
            return
        if not address:
            return
        ordered = self._stream if stream is None else stream
        # Of a stream that was closed the work is earlier work for the other way to free, too.
        for handle in [] if ordered is None else ordered._handles[:1]:
            try:
                self._backend.call("free_async", self._ordinal, address, handle)
                return
            except InvalidHandleError:
                # Closed meanwhile.
                break
        self._backend.call(self._free, self._ordinal, address)

    def __del__(self) -> None:
        try:
            address = self._owned.pop()
            if not address:
                return
            if self._stream is not None and self._stream._handles:
                self._owned.append(address)
                self.free()
            else:
                self._backend.call_quietly(self._free, self._ordinal, address)
        except BaseException:
            pass


class _Copies:
    """What has bytes on a device that are copied and filled from Python."""

    __slots__ = ()

    def copy_from(
        self,
        source: "Endpoint",
        stream: Optional[Stream] = None,
        *,
        offset: SupportsIndex = 0,
        promised: bool = False,
    ) -> None:
        """Copies all of ``source`` to ``offset`` in this buffer; see :func:`copy`."""
        from ._copy import copy

        copy(self._endpoint(), source, stream, dst_offset=offset, promised=promised)

    def copy_to(
        self,
        destination: "Endpoint",
        stream: Optional[Stream] = None,
        *,
        offset: SupportsIndex = 0,
        promised: bool = False,
    ) -> None:
        """Fills all of ``destination`` from ``offset`` in this buffer; see :func:`copy`."""
        from ._copy import copy, size_of

        size = size_of(destination)
        copy(destination, self._endpoint(), stream, size=size, src_offset=offset, promised=promised)

    def fill(
        self,
        pattern: "Union[int, BufferLike]",
        stream: Optional[Stream] = None,
        *,
        offset: SupportsIndex = 0,
        size: Optional[SupportsIndex] = None,
    ) -> None:
        """Repeats a pattern from ``offset`` on; see :func:`fill`."""
        from ._fill import fill

        fill(self._endpoint(), pattern, stream, offset=offset, size=size)

    def _endpoint(self) -> Any:
        return self


class Buffer(Owner[Union[_Block, Borrowed]], Lender, _Copies):
    """``nbytes`` of memory on a device.

    The object owns the memory: it is freed by :meth:`close`, at the end of a ``with`` block, or when
    the object goes. Work on the device that was enqueued before still has it. Contents are undefined
    at first.

    Other libraries take it in without a copy, through DLPack (``torch.from_dlpack(buffer)``,
    ``numpy.from_dlpack`` for the CPU) or ``__cuda_array_interface__`` (``cupy.asarray(buffer)``): a
    vector of ``uint8``, ordered after what the device's blocking streams had to do. Memory that was
    lent like that lives until both this object and what the other library made of it are gone.

    Raises:
        OutOfMemoryError: there is not so much; a smaller request may work.
        ValueError: a negative size.
    """

    __slots__ = ("_device", "_nbytes", "_lent")

    _noun = "buffer"

    def __init__(self, nbytes: SupportsIndex, device: Device) -> None:
        _dlpack.sweep()
        number = _arguments.size(nbytes, "Buffer", "nbytes")
        address = device.backend.allocate("malloc_device", device.ordinal, number)
        self._start(_Block(device, "free_device", address), number, device)

    def _start(self, block: Union[_Block, Borrowed], nbytes: int, device: Device) -> None:
        self._nbytes = nbytes
        self._device = device
        self._own(block)
        self._lent: object = None

    @classmethod
    def allocate(cls, nbytes: SupportsIndex, stream: Stream) -> "Buffer":
        """Memory in the order of a stream: for what the stream does from now on.

        It is freed in that order too; or, when the stream was closed before, as any other buffer is.
        Another stream that uses it is ordered after the allocation by the caller, and before the
        free.
        """
        _dlpack.sweep()
        number = _arguments.size(nbytes, "Buffer.allocate", "nbytes")
        device, handle = stream.device, stream._handle("Buffer.allocate")
        address = device.backend.allocate("malloc_async", device.ordinal, number, handle)
        buffer = cls.__new__(cls)
        buffer._start(_Block(device, "free_device", address, stream), number, device)
        return buffer

    @classmethod
    def from_foreign(
        cls, value: Any, stream: Optional[Stream] = None, device: Optional[Device] = None
    ) -> "Buffer":
        """The memory of another library's object as a buffer, without a copy.

        Args:
            value: an object with ``__dlpack__`` or ``__cuda_array_interface__``, C-contiguous (a
                PyTorch tensor, a CuPy or NumPy array). It is kept alive until this buffer is closed
                and no copy uses it.
            stream: what is enqueued there comes after the lender's work; by default that goes for
                the device's default stream and its blocking streams.
            device: the device that it is on, where the object does not say it.

        Raises:
            BufferError: it is not C-contiguous, or on a kind of device that is not known here.
        """
        borrowed = borrow(value, stream, device)
        buffer = cls.__new__(cls)
        buffer._start(borrowed, borrowed.nbytes, borrowed.device)
        return buffer

    def _lend(self, operation: str) -> Tuple[object, int, int, bool]:
        block = self._get(operation)
        block.shared = True
        # Again: one who closes first looks whether it is shared after taking it away.
        self._get(operation)
        return block, block.address() or 0, self._nbytes, block.read_only

    def __repr__(self) -> str:
        return f"<Buffer of {self._nbytes} bytes on {self._device!r}{self._state}>"

    @property
    def device(self) -> Device:
        """The device that the memory is on."""
        return self._device

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return self._nbytes

    @property
    def address(self) -> int:
        """The device pointer, good until the buffer is closed; 0 for 0 bytes."""
        return self._get("Buffer.address").address() or 0

    def close(self, stream: Optional[Stream] = None) -> None:
        """Frees the memory, or lets go of it if it was borrowed. Closing again does nothing.

        With a stream the memory is freed in the order of that stream, which must be one of the
        device; other streams are done with it by then.
        """
        if stream is not None:
            stream._handle("Buffer.close")
            if stream.device != self._device:
                raise refused("Buffer.close", f"{stream!r} is not of {self._device!r}")
        block = self._take()
        if block is None:
            return
        if block.shared:
            self._lent = block
        elif isinstance(block, _Block):
            block.free(stream)


class _HostVisible(Owner[Any]):
    """Memory with an address for the host, owned together with its views."""

    __slots__ = ("_device", "_nbytes")

    _noun = "buffer"

    def __init__(self, nbytes: SupportsIndex, device: Device) -> None:
        noun = type(self).__name__
        allocate, free = self._functions()
        self._nbytes = _arguments.size(nbytes, noun, "nbytes")
        self._device = device
        address = device.backend.allocate(allocate, device.ordinal, self._nbytes)
        block = _Block(device, free, address)
        array: Any = (ctypes.c_ubyte * self._nbytes).from_address(address)
        # Views hold the array, and the array holds the block.
        array.block = block
        self._own(array)

    def _functions(self) -> Tuple[str, str]:
        raise NotImplementedError

    def __repr__(self) -> str:
        noun = type(self).__name__
        return f"<{noun} of {self._nbytes} bytes for {self._device!r}{self._state}>"

    @property
    def device(self) -> Device:
        """The device that it was allocated for."""
        return self._device

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return self._nbytes

    @property
    def address(self) -> int:
        """The address; 0 for 0 bytes."""
        address: Optional[int] = self._get(f"{type(self).__name__}.address").block.address()
        return address or 0

    def view(self) -> memoryview:
        """The bytes, writable; the memory lives at least as long as the view."""
        return memoryview(self._get(f"{type(self).__name__}.view")).cast("B")

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
        self._take()


class HostBuffer(_HostVisible):
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

    __slots__ = ()

    def _functions(self) -> Tuple[str, str]:
        return "malloc_host", "free_host"


class ManagedBuffer(_HostVisible, Lender, _Copies):
    """``nbytes`` of managed memory: one address for the host and every device of the type.

    The host reads and writes it as it does a :class:`HostBuffer` (:meth:`view`), while no work of a
    device on it is under way; devices use it as a :class:`Buffer`. It is lent to other libraries as
    a :class:`Buffer` is, and owned together with its views as a :class:`HostBuffer` is.

    Raises:
        NotSupportedError: the backend has no managed memory.
        OutOfMemoryError: there is not so much; a smaller request may work.
        ValueError: a negative size.
    """

    __slots__ = ()

    _dlpack_type = _dlpack.CUDA_MANAGED

    def _functions(self) -> Tuple[str, str]:
        return "malloc_managed", "free_managed"

    def _lend(self, operation: str) -> Tuple[object, int, int, bool]:
        array = self._get(f"ManagedBuffer.{operation}")
        return array, array.block.address() or 0, self._nbytes, False

    def _range(
        self, operation: str, offset: SupportsIndex, size: Optional[SupportsIndex]
    ) -> Tuple[Any, int, int]:
        """What keeps the memory alive, and a range of it as address and size."""
        array = self._get(operation)
        start = _arguments.size(offset, operation, "offset")
        nbytes = max(0, self._nbytes - start)
        if size is not None:
            nbytes = _arguments.size(size, operation)
        if start + nbytes > self._nbytes:
            message = f"{nbytes} bytes from offset {start} do not fit {self._nbytes} bytes"
            raise refused(operation, message)
        return array, (array.block.address() or 0) + start, nbytes

    def _location(self, operation: str, location: Optional[Device]) -> int:
        if location is None:
            return _abi.LOCATION_HOST
        if location.type != self._device.type:
            raise refused(operation, f"{self!r} cannot live on {location!r}")
        return location.ordinal

    def prefetch(
        self,
        location: Optional[Device],
        stream: Optional[Stream] = None,
        *,
        offset: SupportsIndex = 0,
        size: Optional[SupportsIndex] = None,
    ) -> None:
        """Moves the memory, or a range of it, to a device, or to the host (``None``).

        In the order of the stream; without one in that of the default stream, and waits for it.
        """
        operation = "prefetch_managed"
        array, address, nbytes = self._range(operation, offset, size)
        where = self._location(operation, location)
        target = Stream.default(self._device) if stream is None else stream
        if target.device.type != self._device.type:
            raise refused(operation, f"{target!r} is of another kind than {self._device!r}")
        handle = target._handle(operation)
        target._make_room()
        backend = self._device.backend
        backend.call(operation, target.device.ordinal, address, nbytes, where, handle)
        if stream is None:
            _wait.for_stream(backend, target.device.ordinal, handle)
        else:
            target._keep(array)

    def advise(
        self,
        advice: MemoryAdvice,
        location: Optional[Device] = None,
        *,
        offset: SupportsIndex = 0,
        size: Optional[SupportsIndex] = None,
    ) -> None:
        """Tells the driver how the memory, or a range of it, will be used at a location."""
        operation = "advise_managed"
        _, address, nbytes = self._range(operation, offset, size)
        where = self._location(operation, location)
        number = _arguments.uint32(advice, operation, "advice")
        own = self._device
        own.backend.call(operation, own.ordinal, address, nbytes, number, where)
