"""Pitched copies: rows, and slices of rows, with a stride of their own on each side.

Rule: row ``y`` of slice ``z`` begins at ``offset + (z * slice_height + y) * pitch``; the extents are
checked in Python's unbounded integers before an address is formed.
"""

from __future__ import annotations

from ctypes import byref
from typing import TYPE_CHECKING, Optional, SupportsIndex

from . import _abi, _arguments
from ._backend import sized
from ._copy import check_range, device_of, kind_of, perform, side
from ._stream import Stream

if TYPE_CHECKING:
    from ._copy import Endpoint


def copy_2d(
    dst: "Endpoint",
    src: "Endpoint",
    width: SupportsIndex,
    height: SupportsIndex,
    stream: Optional[Stream] = None,
    *,
    dst_pitch: Optional[SupportsIndex] = None,
    src_pitch: Optional[SupportsIndex] = None,
    dst_offset: SupportsIndex = 0,
    src_offset: SupportsIndex = 0,
    promised: bool = False,
) -> None:
    """Copies ``height`` rows of ``width`` bytes.

    Args:
        dst, src, stream, promised: as for :func:`copy`.
        dst_pitch, src_pitch: bytes from one row to the next; by default ``width``.
        dst_offset, src_offset: where the first row begins.
    """
    copy_3d(
        dst,
        src,
        width,
        height,
        1,
        stream,
        dst_pitch=dst_pitch,
        src_pitch=src_pitch,
        dst_offset=dst_offset,
        src_offset=src_offset,
        promised=promised,
    )


def copy_3d(
    dst: "Endpoint",
    src: "Endpoint",
    width: SupportsIndex,
    height: SupportsIndex,
    depth: SupportsIndex,
    stream: Optional[Stream] = None,
    *,
    dst_pitch: Optional[SupportsIndex] = None,
    src_pitch: Optional[SupportsIndex] = None,
    dst_slice_height: Optional[SupportsIndex] = None,
    src_slice_height: Optional[SupportsIndex] = None,
    dst_offset: SupportsIndex = 0,
    src_offset: SupportsIndex = 0,
    promised: bool = False,
) -> None:
    """Copies ``depth`` slices of ``height`` rows of ``width`` bytes.

    Args:
        dst, src, stream, promised: as for :func:`copy`.
        dst_pitch, src_pitch: bytes from one row to the next; by default ``width``.
        dst_slice_height, src_slice_height: rows from one slice to the next; by default ``height``.
        dst_offset, src_offset: where the first row begins.
    """
    to, from_ = side(dst, writable=True), side(src, writable=False)
    copy = sized(_abi.LlaisysCopy3D)
    copy.kind = kind_of(to, from_)
    copy.width = row = _arguments.size(width, "copy_3d", "width")
    copy.height = rows = _arguments.size(height, "copy_3d", "height")
    copy.depth = slices = _arguments.size(depth, "copy_3d", "depth")
    for name, one, pitch, slice_height, offset in (
        ("dst", to, dst_pitch, dst_slice_height, dst_offset),
        ("src", from_, src_pitch, src_slice_height, src_offset),
    ):
        stride = row if pitch is None else _arguments.size(pitch, "copy_3d", f"{name}_pitch")
        stack = rows
        if slice_height is not None:
            stack = _arguments.size(slice_height, "copy_3d", f"{name}_slice_height")
        start = _arguments.size(offset, "copy_3d", f"{name}_offset")
        extent = 0
        if row and rows and slices:
            extent = ((slices - 1) * stack + rows - 1) * stride + row
        check_range("copy_3d", name, start, extent, one.nbytes)
        setattr(copy, name, one.address + start)
        setattr(copy, f"{name}_pitch", stride)
        setattr(copy, f"{name}_slice_height", stack)

    device = device_of("copy_3d", [to], [from_], stream)
    ordinal, call = device.ordinal, device.backend.call
    nbytes = row * rows * slices
    perform(
        device,
        stream,
        [to],
        [from_],
        nbytes,
        promised,
        lambda: call("memcpy_3d_sync", ordinal, byref(copy)),
        lambda handle, flags: call("memcpy_3d_async", ordinal, byref(copy), handle, flags),
    )
