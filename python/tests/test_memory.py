"""Buffers, pinned memory and copies with any object that has the buffer protocol."""

from __future__ import annotations

import array
import gc
import sys
import threading
from typing import Any, List

import llaisys_runtime as rt
import pytest

PATTERN = bytes(i % 251 for i in range(4096))


def back(buffer: rt.Buffer) -> bytes:
    out = bytearray(buffer.nbytes)
    buffer.copy_to(out)
    return bytes(out)


def test_round_trip_of_every_standard_type(device: rt.Device) -> None:
    writable: List[Any] = [
        bytearray(4096),
        array.array("d", [0.0] * 512),
        memoryview(bytearray(4096)),
        memoryview(bytearray(4096)).cast("B", (64, 64)),
    ]
    with rt.Buffer(4096, device) as buffer:
        for source in (PATTERN, bytearray(PATTERN), memoryview(PATTERN), array.array("B", PATTERN)):
            buffer.copy_from(bytes(4096))
            buffer.copy_from(source)
            assert back(buffer) == PATTERN
        for target in writable:
            buffer.copy_to(target)
            assert bytes(target) == PATTERN


def test_round_trip_on_a_stream(device: rt.Device, stream: rt.Stream) -> None:
    out = bytearray(4096)
    with rt.Buffer(4096, device) as first, rt.Buffer(4096, device) as second:
        first.copy_from(PATTERN, stream)
        rt.copy(second, first, stream)
        second.copy_to(out, stream)
        # An ordinary object has been written when the call returns (contract C3).
        assert out == PATTERN


def test_an_ordinary_source_may_be_reused_at_once(
    device: rt.Device, stream: rt.Stream, gate: Any
) -> None:
    source = bytearray(PATTERN)
    with rt.Buffer(4096, device) as buffer:
        shut = gate(stream)
        buffer.copy_from(source, stream)
        source[:] = bytes(4096)
        source.clear()  # not locked either
        shut.open()
        stream.synchronize()
        assert back(buffer) == PATTERN


def test_offsets_and_sizes_copy_exactly_the_range(device: rt.Device) -> None:
    with rt.Buffer(64, device) as buffer:
        for offset in (0, 1, 3, 7):
            for size in (0, 1, 2, 31, 57):
                buffer.copy_from(b"\xee" * 64)
                rt.copy(buffer, PATTERN, size=size, dst_offset=offset, src_offset=5)
                wanted = bytearray(b"\xee" * 64)
                wanted[offset : offset + size] = PATTERN[5 : 5 + size]
                assert back(buffer) == wanted
        buffer.copy_from(PATTERN[:60], offset=4)
        part = bytearray(10)
        buffer.copy_to(part, offset=4)
        assert part == PATTERN[:10]


def test_ranges_that_do_not_fit_are_refused(device: rt.Device) -> None:
    with rt.Buffer(64, device) as buffer, rt.HostBuffer(64, device) as pinned:
        for arguments in (
            {"size": 65},
            {"size": 2**64 - 1},
            {"size": 2**64},
            {"size": -1},
            {"size": 1, "dst_offset": 64},
            {"size": 1, "src_offset": 64},
            {"size": 8, "dst_offset": 2**64 - 8},
            {"src_offset": -1},
            {"dst_offset": 1},
        ):
            with pytest.raises(ValueError):
                rt.copy(buffer, pinned, **arguments)
        with pytest.raises(ValueError):
            buffer.copy_from(bytes(65))
        with pytest.raises(ValueError):
            buffer.copy_to(bytearray(65))


def test_overlap_in_one_buffer_is_an_error_and_itself_is_nothing(device: rt.Device) -> None:
    with rt.Buffer(64, device) as buffer:
        buffer.copy_from(PATTERN[:64])
        with pytest.raises(rt.InvalidValueError):
            rt.copy(buffer, buffer, size=16, dst_offset=1)
        rt.copy(buffer, buffer)
        assert back(buffer) == PATTERN[:64]


def test_what_cannot_be_used_says_why(device: rt.Device) -> None:
    with rt.Buffer(16, device) as buffer:
        with pytest.raises(BufferError, match="read-only"):
            buffer.copy_to(bytes(16))
        with pytest.raises(BufferError, match="not C-contiguous"):
            buffer.copy_from(memoryview(bytes(32))[::2])
        for wrong in ("text", 16, None, [1, 2]):
            with pytest.raises(TypeError):
                buffer.copy_from(wrong)  # type: ignore[arg-type]
            with pytest.raises(TypeError):
                buffer.copy_to(wrong)  # type: ignore[arg-type]


def test_nothing_is_left_locked(device: rt.Device) -> None:
    data = bytearray(PATTERN)
    with rt.Buffer(4096, device) as buffer:
        buffer.copy_from(data)
        buffer.copy_to(data)
        with pytest.raises(ValueError):
            buffer.copy_from(data, offset=1)
    data.append(1)  # BufferError if a view were left


def test_zero_bytes(device: rt.Device, stream: rt.Stream) -> None:
    with rt.Buffer(0, device) as buffer, rt.HostBuffer(0, device) as pinned:
        assert (buffer.address, buffer.nbytes, pinned.address, pinned.nbytes) == (0, 0, 0, 0)
        assert pinned.view().nbytes == 0
        buffer.copy_from(b"")
        buffer.copy_from(pinned, stream)
        buffer.copy_to(bytearray(), stream, promised=True)


def test_sizes_that_are_none(device: rt.Device) -> None:
    for kind in (rt.Buffer, rt.HostBuffer):
        with pytest.raises(ValueError):
            kind(-1, device)
        with pytest.raises(ValueError):
            kind(2**64, device)
        with pytest.raises((MemoryError, ValueError)):
            kind(2**63, device)
        with pytest.raises((MemoryError, ValueError)):
            kind(2**64 - 1, device)
        with pytest.raises(TypeError):
            kind(1.0, device)  # type: ignore[type-var]


def test_what_is_closed_says_so_and_closes_again(device: rt.Device) -> None:
    buffer, pinned = rt.Buffer(16, device), rt.HostBuffer(16, device)
    for owned in (buffer, pinned):
        owned.close()
        owned.close()
        assert owned.closed and "closed" in repr(owned)
        for use in (
            lambda owned=owned: owned.address,
            lambda owned=owned: owned.__enter__(),
            lambda owned=owned: rt.copy(owned, bytes(16)),
            lambda owned=owned: rt.copy(bytearray(16), owned),
        ):
            with pytest.raises(rt.ClosedError, match="closed"):
                use()
    with pytest.raises(rt.ClosedError):
        pinned.view()


def test_closing_from_many_threads_frees_once(device: rt.Device) -> None:
    failures: List[BaseException] = []

    def close(buffer: rt.Buffer, start: threading.Barrier) -> None:
        start.wait()
        try:
            buffer.close()
        except BaseException as failure:
            failures.append(failure)

    for _ in range(50):
        buffer, start = rt.Buffer(64, device), threading.Barrier(4)
        threads = [threading.Thread(target=close, args=(buffer, start)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []


def test_views_of_pinned_memory_outlive_the_buffer(device: rt.Device) -> None:
    pinned = rt.HostBuffer(4096, device)
    view = pinned.view()
    assert (view.format, view.itemsize, view.readonly) == ("B", 1, False)
    view[:] = PATTERN
    part = view[16:32]
    pinned.close()
    del pinned, view
    gc.collect()
    others = [rt.HostBuffer(4096, device) for _ in range(8)]
    for other in others:
        other.view()[:] = b"\xff" * 4096
    assert part == PATTERN[16:32]


def test_pinned_memory_copies_both_ways(device: rt.Device, stream: rt.Stream) -> None:
    with rt.HostBuffer(4096, device) as source, rt.HostBuffer(4096, device) as target:
        source.view()[:] = PATTERN
        with rt.Buffer(4096, device) as buffer:
            buffer.copy_from(source, stream)
            buffer.copy_to(target, stream)
            stream.synchronize()
            assert target.view() == PATTERN
        rt.copy(target, bytes(4096))
        rt.copy(target, source)
        assert target.view() == PATTERN
        # A view is as good as the buffer itself.
        rt.copy(target.view()[:16], source.view()[16:32])
        assert target.view()[:16] == PATTERN[16:32]


def test_the_buffer_protocol_of_pinned_memory(device: rt.Device) -> None:
    if sys.version_info < (3, 12):
        pytest.skip("classes written in Python have the buffer protocol from 3.12 on; use view()")
    with rt.HostBuffer(16, device) as pinned:
        view = memoryview(pinned)
        view[:] = PATTERN[:16]
        assert pinned.view() == PATTERN[:16]


def test_numpy(device: rt.Device, stream: rt.Stream) -> None:
    numpy = pytest.importorskip("numpy", reason="numpy cannot be imported")
    source = numpy.arange(1000, dtype=numpy.float32).reshape(10, 100)
    target = numpy.zeros_like(source)
    with rt.Buffer(source.nbytes, device) as buffer:
        buffer.copy_from(source, stream)
        buffer.copy_to(target, stream)
        assert (source == target).all()
        target[:] = 0
        buffer.copy_to(target, stream, promised=True)
        stream.synchronize()
        assert (source == target).all()
        buffer.copy_from(source[3:5])
        with pytest.raises(BufferError, match="ascontiguousarray"):
            buffer.copy_from(source[:, ::2])
        with pytest.raises(BufferError, match="C-contiguous"):
            buffer.copy_from(numpy.asfortranarray(source))
        target.flags.writeable = False
        with pytest.raises(BufferError, match="read-only"):
            buffer.copy_to(target)
        buffer.copy_from(numpy.float32(1.5))
        buffer.copy_from(numpy.zeros((0, 7)))
    with rt.HostBuffer(source.nbytes, device) as pinned:
        on_pinned = numpy.frombuffer(pinned.view(), dtype=numpy.float32).reshape(10, 100)
        on_pinned[:] = source
        as_bytes = numpy.asarray(pinned)
        assert as_bytes.dtype == numpy.uint8 and as_bytes.nbytes == source.nbytes
        assert as_bytes.ctypes.data == on_pinned.ctypes.data == pinned.address
        with rt.Buffer(source.nbytes, device) as buffer:
            buffer.copy_from(on_pinned, stream)
            on_pinned2 = numpy.empty_like(source)
            buffer.copy_to(on_pinned2, stream)
            assert (on_pinned2 == source).all()


def test_copies_between_two_devices(device: rt.Device) -> None:
    found = rt.devices(device.type)
    if len(found) < 2:
        pytest.skip(f"there is {len(found)} device of type {device.type.name}")
    with rt.Buffer(4096, found[0]) as first, rt.Buffer(4096, found[1]) as second:
        first.copy_from(PATTERN)
        rt.copy(second, first)
        assert back(second) == PATTERN
        with rt.Stream(found[1]) as stream:
            second.copy_from(bytes(4096))
            rt.copy(second, first, stream)
            stream.synchronize()
        assert back(second) == PATTERN


def test_devices_say_what_they_are(device: rt.Device) -> None:
    properties = device.properties
    assert properties.name and properties.total_memory > 0 and len(properties.uuid) == 16
    info = device.memory_info()
    assert info.total > 0 and (info.free is None or 0 <= info.free <= info.total)
    assert device in rt.devices() and device == rt.devices(device.type)[0]
    assert {device: 1}[rt.Device(device.type, 0)] == 1
    assert rt.unavailable_reason(device.type) is None
    assert rt.device_type_name(device.type) == device.type.name.lower()
    for ordinal in (99, -1, 2**31, -(2**31), 2**70):
        with pytest.raises(rt.InvalidDeviceError):
            rt.Device(device.type, ordinal)
    used = [found for found in rt.candidates() if found.status == rt.Status.SUCCESS]
    assert device.type in [found.device_type for found in used]
