"""Fills: a pattern of 1, 2, 4, 8 or 16 bytes, repeated over device memory."""

from __future__ import annotations

from ctypes import c_char
from typing import TYPE_CHECKING, Any, Optional, SupportsIndex, Union

from . import _arguments, _wait
from ._buffer import Buffer, ManagedBuffer
from ._copy import check_range, device_of, side
from ._errors import refused
from ._stream import Stream

if TYPE_CHECKING:
    from typing_extensions import Buffer as BufferLike


def fill(
    dst: Union[Buffer, ManagedBuffer],
    pattern: "Union[int, BufferLike]",
    stream: Optional[Stream] = None,
    *,
    offset: SupportsIndex = 0,
    size: Optional[SupportsIndex] = None,
) -> None:
    """Repeats a pattern over device memory.

    Args:
        pattern: a byte as a number (0 to 255), or 1, 2, 4, 8 or 16 bytes: ``b"\\\\x00\\\\x01"``,
            ``numpy.float32(1)``. The address and the size are multiples of their number.
        stream: ``None`` fills and waits; with a stream the fill is enqueued.
        offset, size: the range; by default all from ``offset`` on.
    """
    given: Any = dst
    if not isinstance(given, (Buffer, ManagedBuffer)):
        raise TypeError(f"a {type(given).__name__} is no device memory")
    to = side(dst, writable=True)
    start = _arguments.size(offset, "fill", "offset")
    nbytes = max(0, to.nbytes - start) if size is None else _arguments.size(size, "fill")
    check_range("fill", "dst", start, nbytes, to.nbytes)
    raw = _bytes_of(pattern)
    repeated = (c_char * len(raw)).from_buffer_copy(raw)
    device = device_of("fill", [to], [], stream)
    backend, ordinal = device.backend, device.ordinal
    arguments = ordinal, to.address + start, repeated, len(raw), nbytes

    if stream is None:

        def fill_now() -> None:
            # Holds the memory until it is done, also when the wait for it was interrupted.
            _ = to
            backend.call("memset_sync", *arguments)

        _wait.for_copy(backend, ordinal, 0, nbytes, fill_now)
        return
    handle = stream._handle("fill")
    if to.kept:
        stream._make_room()
    backend.call("memset_async", *arguments, handle)
    if to.kept and nbytes:
        stream._keep(to.holder)


def _bytes_of(pattern: "Union[int, BufferLike]") -> bytes:
    if isinstance(pattern, int):
        if not 0 <= pattern <= 255:
            raise refused("fill", f"the byte {pattern} is not in 0..=255")
        return bytes([pattern])
    raw = memoryview(pattern).tobytes()
    if len(raw) not in (1, 2, 4, 8, 16):
        raise refused("fill", f"a pattern has 1, 2, 4, 8 or 16 bytes, not {len(raw)}")
    return raw
