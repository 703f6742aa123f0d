"""Copies between device buffers, pinned memory and ordinary Python objects.

Rule: ranges are checked in Python's unbounded integers before an address is formed, so nothing
wraps; the direction follows from the types of the two sides.
"""

from __future__ import annotations

from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    NamedTuple,
    Optional,
    Sequence,
    SupportsIndex,
    Union,
)

from . import _abi, _arguments, _registration, _wait
from ._buffer import Buffer, HostBuffer, ManagedBuffer
from ._device import Device
from ._errors import refused
from ._foreign_memory import Borrowed
from ._registration import RegisteredMemory
from ._stream import Stream
from ._types import DeviceType, MemcpyKind
from ._view import View

if TYPE_CHECKING:
    from typing_extensions import Buffer as BufferLike

    Endpoint = Union[Buffer, HostBuffer, ManagedBuffer, RegisteredMemory, BufferLike]


class Side(NamedTuple):
    """One side of a copy."""

    address: int
    nbytes: int
    #: The device that it belongs to, or is pinned for.
    device: Optional[Device]
    on_host: bool
    #: Host memory that is not known to be pinned.
    pageable: bool
    #: Whether the memory may be gone or reused as soon as the holder is.
    kept: bool
    #: What must stay alive.
    holder: object


def side(value: "Endpoint", *, writable: bool) -> Side:
    """One side of a copy."""
    if isinstance(value, Buffer):
        block = value._get("copy")
        if writable and block.read_only:
            raise BufferError("the destination, a Buffer over foreign memory, is read-only")
        kept = isinstance(block, Borrowed)
        return Side(block.address() or 0, value.nbytes, value.device, False, False, kept, block)
    if isinstance(value, ManagedBuffer):
        array = value._get("copy")
        address = array.block.address() or 0
        return Side(address, value.nbytes, value.device, False, False, True, array)
    if isinstance(value, HostBuffer):
        array = value._get("copy")
        address = array.block.address() or 0
        return Side(address, value.nbytes, value.device, True, False, True, array)
    if isinstance(value, RegisteredMemory):
        found = value._get("copy")
        return Side(found.address, found.nbytes, value.device, True, False, True, found)
    view = View(value, writable=writable)
    registration = _registration.find(view.address)
    pageable = registration is None
    holder = (view, registration)
    return Side(view.address, view.nbytes, None, True, pageable, not pageable, holder)


def size_of(value: "Endpoint") -> int:
    """The size of one side in bytes."""
    if isinstance(value, (Buffer, HostBuffer, ManagedBuffer, RegisteredMemory)):
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

    Each side is a buffer of this package, :class:`RegisteredMemory`, or any object with the buffer protocol
    (NumPy arrays, ``bytes``, ``bytearray``, ``array.array``, ``memoryview``), which is used where it
    lies, without a copy on the way. :meth:`Buffer.from_foreign` takes other libraries' objects.

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
    to, from_ = side(dst, writable=True), side(src, writable=False)
    to_offset = _arguments.size(dst_offset, "copy", "dst_offset")
    from_offset = _arguments.size(src_offset, "copy", "src_offset")
    if size is None:
        nbytes = max(0, from_.nbytes - from_offset)
    else:
        nbytes = _arguments.size(size, "copy")
    check_range("copy", "dst", to_offset, nbytes, to.nbytes)
    check_range("copy", "src", from_offset, nbytes, from_.nbytes)

    device = device_of("copy", [to], [from_], stream)
    ordinal, call = device.ordinal, device.backend.call
    kind = kind_of(to, from_)
    dst_address, src_address = to.address + to_offset, from_.address + from_offset
    arguments = dst_address, src_address, nbytes, kind

    perform(
        device,
        stream,
        [to],
        [from_],
        nbytes,
        promised,
        lambda: call("memcpy_sync", ordinal, *arguments, _abi.COPY_NONE),
        lambda handle, flags: call("memcpy_async", ordinal, *arguments, handle, flags),
    )


def perform(
    device: Device,
    stream: Optional[Stream],
    to: Sequence[Side],
    from_: Sequence[Side],
    nbytes: int,
    promised: bool,
    now: Callable[[], Any],
    enqueue: Callable[[int, int], Any],
) -> None:
    """Makes a copy of any shape, whose sides are known, now or on a stream.

    Args:
        now: makes it and waits.
        enqueue: puts it on the stream with this handle, with these flags.
    """
    backend, ordinal, sides = device.backend, device.ordinal, [*to, *from_]

    if stream is None:

        def copy_now() -> None:
            # Holds all sides until it is done, also when the wait for it was interrupted.
            _ = sides
            now()

        _wait.for_copy(backend, ordinal, 0, nbytes, copy_now)
        return

    handle = stream._handle("copy")
    promised = promised and nbytes > 0 and any(one.pageable for one in sides)
    flags = _abi.COPY_HOST_BUFFER_PROMISED if promised else _abi.COPY_NONE
    holders = [one.holder for one in sides if one.kept or (promised and one.pageable)]
    keeps = nbytes > 0 and bool(holders)
    if keeps:
        stream._make_room()

    def copy_on_stream() -> None:
        _ = sides
        enqueue(handle, flags)

    staged = any(one.pageable for one in from_) and nbytes > _wait.STAGED_COPY
    if promised or not (staged or any(one.pageable for one in to)):
        copy_on_stream()
    else:
        _wait.for_copy(backend, ordinal, handle, nbytes, copy_on_stream)
    if keeps:
        stream._keep(holders)


def kind_of(to: Side, from_: Side) -> MemcpyKind:
    """The direction of a copy between two sides."""
    return MemcpyKind((0 if from_.on_host else 2) + (0 if to.on_host else 1))


def check_range(operation: str, name: str, offset: int, nbytes: int, available: int) -> None:
    """Refuses a range that does not fit one side."""
    if offset + nbytes > available:
        message = f"`{name}`: {nbytes} bytes from offset {offset} do not fit its {available} bytes"
        raise refused(operation, message)


def device_of(
    operation: str, to: Sequence[Side], from_: Sequence[Side], stream: Optional[Stream]
) -> Device:
    """The device whose backend makes the copy; every side that has one must agree on the kind."""
    sides = [*from_, *to]
    named = [one.device for one in sides if one.device is not None and not one.on_host]
    if stream is not None:
        named.insert(0, stream.device)
    for device in named[1:]:
        if device.type != named[0].type:
            message = (
                f"{named[0]!r} and {device!r} are of different kinds; copy through host memory"
            )
            raise refused(operation, message)
    if named:
        return named[0]
    pinned = [one.device for one in sides if one.device is not None]
    return pinned[0] if pinned else Device(DeviceType.CPU, 0)
