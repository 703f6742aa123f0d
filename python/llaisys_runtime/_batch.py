"""Batched copies: many ranges with one call.

Rule: all are checked before the first is made, by Python for its own part and by C for the rest, so a
batch that fails has copied nothing.
"""

from __future__ import annotations

import ctypes
from typing import Any, Iterable, List, NamedTuple, Optional, SupportsIndex, Set, Tuple

from . import _abi, _arguments
from ._copy import Side, check_range, device_of, kind_of, perform, side
from ._stream import Stream
from ._types import MemcpyKind


class CopyRange(NamedTuple):
    """One copy of a batch; see :func:`copy` for the fields."""

    dst: Any
    src: Any
    #: By default all of ``src`` from ``src_offset`` on.
    size: Optional[SupportsIndex] = None
    dst_offset: SupportsIndex = 0
    src_offset: SupportsIndex = 0


def copy_batch(
    ranges: "Iterable[CopyRange | Tuple[Any, ...]]",
    stream: Optional[Stream] = None,
    *,
    promised: bool = False,
) -> None:
    """Makes many copies with one call; they may run in any order among themselves.

    Args:
        ranges: :class:`CopyRange` objects, or plain tuples in the order of their fields:
            ``[(first, a), (second, b, 16)]``. Copies of one direction are fastest.
        stream, promised: as for :func:`copy`.

    Raises:
        ValueError: a range does not fit; nothing was copied.
    """
    to: List[Side] = []
    from_: List[Side] = []
    rows: List[Tuple[int, int, int]] = []
    kinds: Set[MemcpyKind] = set()
    for found in ranges:
        fields: Any = found
        one = CopyRange(*fields)
        target, source = side(one.dst, writable=True), side(one.src, writable=False)
        to_offset = _arguments.size(one.dst_offset, "copy_batch", "dst_offset")
        from_offset = _arguments.size(one.src_offset, "copy_batch", "src_offset")
        nbytes = max(0, source.nbytes - from_offset)
        if one.size is not None:
            nbytes = _arguments.size(one.size, "copy_batch")
        check_range("copy_batch", f"dst of range {len(rows)}", to_offset, nbytes, target.nbytes)
        check_range("copy_batch", f"src of range {len(rows)}", from_offset, nbytes, source.nbytes)
        if nbytes == 0:
            continue
        to.append(target)
        from_.append(source)
        kinds.add(kind_of(target, source))
        rows.append((target.address + to_offset, source.address + from_offset, nbytes))
    if not rows:
        return
    device = device_of("copy_batch", to, from_, stream)
    ordinal, call = device.ordinal, device.backend.call
    array: Any = _abi.LlaisysCopyRange * len(rows)
    array = array(*rows)
    stride = ctypes.sizeof(_abi.LlaisysCopyRange)
    kind = kinds.pop() if len(kinds) == 1 else MemcpyKind.INFERRED
    arguments = ordinal, array, len(rows), stride, kind

    def now() -> None:
        call("memcpy_batch_async", *arguments, 0, _abi.COPY_HOST_BUFFER_PROMISED)
        call("stream_synchronize", ordinal, 0)

    perform(
        device,
        stream,
        to,
        from_,
        sum(row[2] for row in rows),
        promised,
        now,
        lambda handle, flags: call("memcpy_batch_async", *arguments, handle, flags),
    )
