"""Copies between device buffers, pinned memory and ordinary Python objects.

Rule: ranges are checked in Python's unbounded integers before an address is formed, so nothing
wraps; the direction follows from the types of the two sides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Optional, SupportsIndex, Union

from . import _abi, _arguments, _wait
from ._buffer import Buffer, HostBuffer
from ._device import Device
from ._errors import refused
from ._stream import Stream
from ._types import DeviceType, MemcpyKind
from ._view import View

if TYPE_CHECKING:
    from typing_extensions import Buffer as BufferLike

    Endpoint = Union[Buffer, HostBuffer, BufferLike]


class _Side(NamedTuple):
    """One side of a copy."""

    address: int
    nbytes: int
    #: The device that it belongs to, or is pinned for.
    device: Optional[Device]
    on_host: bool
    #: Host memory that is not known to be pinned.
    pageable: bool
    #: What must stay alive.
    holder: object


def _side(value: "Endpoint", *, writable: bool) -> _Side:
    if isinstance(value, Buffer):
        return _Side(value.address, value.nbytes, value.device, False, False, value)
    if isinstance(value, HostBuffer):
        array = value._array("copy")
        address = array.block.address() or 0
        return _Side(address, value.nbytes, value.device, True, False, array)
    view = View(value, writable=writable)
    return _Side(view.address, view.nbytes, None, True, True, view)


def size_of(value: "Endpoint") -> int:
    """The size of one side in bytes."""
    if isinstance(value, (Buffer, HostBuffer)):
        return value.nbytes
    return memoryview(value).nbytes


def copy(
    dst: "Endpoint",
    src: "Endpoint",
    stream: Optional[Stream] = None,
    *,
    size: Optional[SupportsIndex] = None,
    dst_offset: SupportsIndex = 0,
    src_offset: SupportsIndex = 0,
    promised: bool = False,
) -> None:
    """Copies bytes from ``src`` to ``dst``.

    Each side is a :class:`Buffer`, a :class:`HostBuffer`, or any object with the buffer protocol
    (NumPy arrays, ``bytes``, ``bytearray``, ``array.array``, ``memoryview``), which is used where it
    lies, without a copy on the way.

    Args:
        stream: ``None`` copies and waits (after earlier work on the device's blocking streams).
            With a stream the copy is enqueued. Device and pinned memory are then used until the
            stream has passed. An ordinary object has been read, or written, when this returns.
        size: how many bytes; by default all of ``src`` from ``src_offset`` on.
        dst_offset, src_offset: where the bytes begin on each side.
        promised: with a stream, a promise that an ordinary object stays as it is until the stream
            has passed; then a copy with it is asynchronous too. The object is kept alive, and
            locked against resizing, until then.

    Raises:
        BufferError: an object is not C-contiguous, or the destination is read-only.
        ValueError: a range does not fit, or a side belongs to another kind of device.
        LlaisysError: the runtime refused it; nothing was copied.
    """
    to, from_ = _side(dst, writable=True), _side(src, writable=False)
    to_offset = _arguments.size(dst_offset, "copy", "dst_offset")
    from_offset = _arguments.size(src_offset, "copy", "src_offset")
    if size is None:
        nbytes = max(0, from_.nbytes - from_offset)
    else:
        nbytes = _arguments.size(size, "copy")
    _check_range("dst", to_offset, nbytes, to.nbytes)
    _check_range("src", from_offset, nbytes, from_.nbytes)

    device = _device_of(to, from_, stream)
    backend, ordinal = device.backend, device.ordinal
    kind = MemcpyKind((0 if from_.on_host else 2) + (0 if to.on_host else 1))
    to_address, from_address = to.address + to_offset, from_.address + from_offset

    if stream is None:

        def copy_now() -> None:
            # Holds both sides until it is done, also when the wait for it was interrupted.
            _ = (to, from_)
            backend.call(
                "memcpy_sync", ordinal, to_address, from_address, nbytes, kind, _abi.COPY_NONE
            )

        _wait.for_copy(backend, ordinal, 0, nbytes, copy_now)
        return

    handle = stream.native_handle
    promised = promised and nbytes > 0 and (to.pageable or from_.pageable)
    flags = _abi.COPY_HOST_BUFFER_PROMISED if promised else _abi.COPY_NONE
    keeps = promised or (nbytes > 0 and (to.on_host or from_.on_host) and not _waits(to, from_))
    if keeps:
        stream._make_room()

    def enqueue() -> None:
        _ = (to, from_)
        backend.call("memcpy_async", ordinal, to_address, from_address, nbytes, kind, handle, flags)

    if promised or not (to.pageable or (from_.pageable and nbytes > _wait.STAGED_COPY)):
        enqueue()
    else:
        _wait.for_copy(backend, ordinal, handle, nbytes, enqueue)
    if keeps:
        stream._keep((to.holder, from_.holder))


def _waits(to: _Side, from_: _Side) -> bool:
    """Whether the host memory of a copy without a promise is done with when the call returns."""
    return all(side.pageable for side in (to, from_) if side.on_host)


def _check_range(name: str, offset: int, nbytes: int, available: int) -> None:
    if offset + nbytes > available:
        message = f"`{name}`: {nbytes} bytes from offset {offset} do not fit its {available} bytes"
        raise refused("copy", message)


def _device_of(to: _Side, from_: _Side, stream: Optional[Stream]) -> Device:
    """The device whose backend makes the copy; every side that has one must agree on the kind."""
    named = [side.device for side in (from_, to) if side.device is not None and not side.on_host]
    if stream is not None:
        named.insert(0, stream.device)
    for device in named[1:]:
        if device.type != named[0].type:
            message = (
                f"{named[0]!r} and {device!r} are of different kinds; copy through host memory"
            )
            raise refused("copy", message)
    if named:
        return named[0]
    pinned = [side.device for side in (from_, to) if side.device is not None]
    return pinned[0] if pinned else Device(DeviceType.CPU, 0)
