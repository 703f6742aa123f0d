"""Fills, pitched and batched copies."""

from __future__ import annotations

import array
from typing import Any, Callable, List, Optional

import llaisys_runtime as rt
import pytest
from gate import Gate

PATTERN = bytes(i % 251 for i in range(4096))


def back(buffer: Any) -> bytes:
    out = bytearray(buffer.nbytes)
    buffer.copy_to(out)
    return bytes(out)


@pytest.fixture(params=["now", "stream"])
def maybe_stream(request: Any, stream: rt.Stream) -> Optional[rt.Stream]:
    return stream if request.param == "stream" else None


def test_every_pattern_fills_exactly_its_range(
    device: rt.Device, maybe_stream: Optional[rt.Stream]
) -> None:
    with rt.Buffer(4096, device) as buffer:
        for pattern in (7, b"\x07", b"ab", b"abcd", array.array("d", [1.5]), bytes(range(16))):
            raw = bytes([pattern]) if isinstance(pattern, int) else bytes(memoryview(pattern))
            buffer.copy_from(PATTERN)
            buffer.fill(pattern, maybe_stream, offset=64, size=1024)
            if maybe_stream:
                maybe_stream.synchronize()
            wanted = PATTERN[:64] + raw * (1024 // len(raw)) + PATTERN[64 + 1024 :]
            assert back(buffer) == wanted
        rt.fill(buffer, 0, maybe_stream)
        buffer.fill(1, maybe_stream, size=0)
        if maybe_stream:
            maybe_stream.synchronize()
        assert back(buffer) == bytes(4096)


def test_a_fill_that_is_none_changes_nothing(device: rt.Device) -> None:
    with rt.Buffer(64, device) as buffer, rt.HostBuffer(64, device) as pinned:
        buffer.fill(9)
        for pattern, arguments in (
            (b"abc", {}),
            (b"", {}),
            (bytes(32), {}),
            (256, {}),
            (-1, {}),
            (b"ab", {"offset": 1}),
            (b"abcd", {"size": 6}),
            (1, {"size": 65}),
            (1, {"offset": 64, "size": 1}),
            (1, {"offset": -1}),
        ):
            with pytest.raises(ValueError):
                buffer.fill(pattern, **arguments)  # type: ignore[arg-type]
        for wrong in (pinned, bytearray(8)):
            with pytest.raises(TypeError):
                rt.fill(wrong, 0)  # type: ignore[arg-type]
        assert back(buffer) == b"\x09" * 64


def test_rows_go_from_pitch_to_pitch(device: rt.Device, maybe_stream: Optional[rt.Stream]) -> None:
    width, height = 24, 5
    with rt.Buffer(4096, device) as buffer:
        buffer.fill(0)
        rt.copy_2d(
            buffer, PATTERN, width, height, maybe_stream,
            dst_pitch=64, src_pitch=100, dst_offset=8, src_offset=3,
        )  # fmt: skip
        out = bytearray(width * height)
        rt.copy_2d(out, buffer, width, height, maybe_stream, src_pitch=64, src_offset=8)
        assert out == b"".join(PATTERN[3 + 100 * y : 3 + 100 * y + width] for y in range(height))
        if maybe_stream:
            maybe_stream.synchronize()
        whole = back(buffer)
        inside = {8 + 64 * y + x for y in range(height) for x in range(width)}
        assert all(whole[at] == 0 for at in range(4096) if at not in inside)


def test_slices_go_from_stack_to_stack(
    device: rt.Device, maybe_stream: Optional[rt.Stream]
) -> None:
    width, height, depth = 6, 3, 4
    with rt.Buffer(4096, device) as buffer, rt.Buffer(4096, device) as other:
        buffer.copy_from(PATTERN)
        other.fill(0)
        rt.copy_3d(
            other, buffer, width, height, depth, maybe_stream,
            dst_pitch=16, dst_slice_height=5, src_pitch=10, src_slice_height=4,
        )  # fmt: skip
        if maybe_stream:
            maybe_stream.synchronize()
        wanted = bytearray(4096)
        for z in range(depth):
            for y in range(height):
                to, from_ = (z * 5 + y) * 16, (z * 4 + y) * 10
                wanted[to : to + width] = PATTERN[from_ : from_ + width]
        assert back(other) == wanted


def test_extents_that_do_not_fit_are_refused(device: rt.Device) -> None:
    with rt.Buffer(100, device) as buffer:
        buffer.fill(1)
        for width, height, depth, more in (
            (101, 1, 1, {}),
            (10, 11, 1, {}),
            (10, 10, 1, {"dst_pitch": 11}),
            (10, 10, 1, {"dst_pitch": 9}),
            (10, 5, 2, {"dst_slice_height": 6}),
            (10, 5, 2, {"dst_slice_height": 4}),
            (10, 1, 1, {"dst_offset": 91}),
            (2**63, 2, 1, {}),
            (2, 2**40, 2**40, {}),
            (-1, 1, 1, {}),
            (1, 1, 1, {"src_pitch": -1}),
        ):
            with pytest.raises(ValueError):
                rt.copy_3d(buffer, bytes(4096), width, height, depth, **more)  # type: ignore[arg-type]
        rt.copy_2d(buffer, b"", 0, 2**40)
        rt.copy_2d(buffer, b"", 2**40, 0)
        assert back(buffer) == b"\x01" * 100


def test_a_batch_copies_every_range(device: rt.Device, maybe_stream: Optional[rt.Stream]) -> None:
    parts = [PATTERN[i * 100 : i * 100 + 50 + i] for i in range(20)]
    outs = [bytearray(len(part)) for part in parts]
    with rt.Buffer(4096, device) as buffer, rt.Buffer(4096, device) as other:
        buffer.fill(0)
        rt.copy_batch(
            [rt.CopyRange(buffer, part, dst_offset=i * 128) for i, part in enumerate(parts)],
            maybe_stream,
        )
        rt.copy_batch(((other, buffer),), maybe_stream)
        rt.copy_batch(
            [(out, other, len(out), 0, i * 128) for i, out in enumerate(outs)], maybe_stream
        )
        assert [bytes(out) for out in outs] == parts
        # Of several directions, and nothing at all.
        mixed = bytearray(16)
        rt.copy_batch([(mixed, other, 16), (buffer, b"xyz", None, 4000)], maybe_stream)
        rt.copy_batch([], maybe_stream)
        rt.copy_batch([(buffer, b"")], maybe_stream)
        if maybe_stream:
            maybe_stream.synchronize()
        assert bytes(mixed) == parts[0][:16] and back(buffer)[4000:4003] == b"xyz"


def test_a_batch_with_one_wrong_range_copies_nothing(device: rt.Device) -> None:
    with rt.Buffer(64, device) as buffer:
        buffer.fill(1)
        for wrong in (
            (buffer, bytes(65)),
            (buffer, bytes(8), 9),
            (buffer, buffer, 16, 8),  # overlapping: C's to say
        ):
            with pytest.raises(ValueError):
                rt.copy_batch([(buffer, b"first"), wrong])
        with pytest.raises(TypeError):
            rt.copy_batch([(buffer, b"first"), (buffer,)])
        assert back(buffer) == b"\x01" * 64


def test_shapes_take_promises_too(
    device: rt.Device, stream: rt.Stream, gate: Callable[[rt.Stream], Gate]
) -> None:
    first, second = bytearray(b"ab" * 8), bytearray(b"cd" * 8)
    with rt.Buffer(64, device) as buffer:
        shut = gate(stream)
        rt.copy_2d(buffer, first, 4, 4, stream, promised=True)
        rt.copy_batch([(buffer, second, None, 32)], stream, promised=True)
        for locked in (first, second):
            with pytest.raises(BufferError):
                locked.append(0)
        shut.open()
        stream.synchronize()
        first.append(0)
        assert back(buffer)[:16] == b"ab" * 8 and back(buffer)[32:48] == b"cd" * 8


def test_stream_ordered_memory(
    device: rt.Device, stream: rt.Stream, gate: Callable[[rt.Stream], Gate]
) -> None:
    buffers: List[rt.Buffer] = []
    shut = gate(stream)
    with rt.Buffer.allocate(1000, stream) as buffer:
        buffer.fill(3, stream)
        assert buffer.device == device and buffer.address % 256 == 0
        assert stream.memory_statistics().used == 1000
    assert buffer.closed and stream.memory_statistics().used == 0
    shut.open()
    stream.synchronize()
    # Freed by hand on a stream, by the collector, after its stream.
    rt.Buffer.allocate(64, stream).close(stream)
    rt.Buffer(64, device).close(stream)
    rt.Buffer.allocate(64, stream)
    with rt.Stream(device) as short:
        buffers.append(rt.Buffer.allocate(64, short))
    buffers.pop().close()
    assert rt.Buffer.allocate(0, stream).address == 0
    with pytest.raises(rt.ClosedError):
        rt.Buffer.allocate(64, short)
    kept = rt.Buffer(64, device)
    with pytest.raises(rt.ClosedError):
        kept.close(short)
    assert not kept.closed
    kept.close()
    assert stream.memory_statistics().live == 0
