"""Streams, what they keep alive, and who may compute meanwhile (contract S, L3; case 29)."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from typing import Any, Callable, List

import llaisys_runtime as rt
import pytest
from gate import Gate
from llaisys_runtime import _keep, _stream

MakeGate = Callable[[rt.Stream], Gate]


class Data(bytearray):
    """A bytearray that can be watched."""


def wait_until(condition: Callable[[], Any], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.001)


def test_a_stream_is_never_null_and_says_when_it_is_done(device: rt.Device, gate: MakeGate) -> None:
    with rt.Stream(device) as stream:
        assert stream.native_handle != 0 and stream.device == device
        assert stream.query()
        shut = gate(stream)
        assert not stream.query()
        shut.open()
        stream.synchronize()
        assert stream.query()
    assert stream.closed
    for use in (stream.query, stream.synchronize, lambda: stream.native_handle, stream.__enter__):
        with pytest.raises(rt.ClosedError):
            use()
    stream.close()


def test_the_default_stream_is_there_and_stays(device: rt.Device) -> None:
    out = bytearray(4)
    with rt.Stream.default(device) as stream, rt.Buffer(4, device) as buffer:
        assert stream.native_handle == 0
        buffer.copy_from(b"abcd", stream)
        buffer.copy_to(out, stream)
        stream.synchronize()
    assert out == b"abcd"
    with rt.Stream.default(device) as again:
        assert again.query()


def test_closing_a_busy_stream_returns_at_once_and_its_work_completes(
    device: rt.Device, gate: MakeGate
) -> None:
    with rt.HostBuffer(4, device) as pinned, rt.Buffer(4, device) as buffer:
        buffer.copy_from(b"old!")
        pinned.view()[:] = b"new!"
        stream = rt.Stream(device)
        shut = gate(stream)
        buffer.copy_from(pinned, stream)
        stream.close()
        shut.open()
        device.synchronize()
        out = bytearray(4)
        buffer.copy_to(out)
        assert out == b"new!"


def test_a_promised_object_lives_until_the_stream_has_passed(
    device: rt.Device, stream: rt.Stream, gate: MakeGate
) -> None:
    source, target = Data(b"abcd"), Data(4)
    watched = [weakref.ref(source), weakref.ref(target)]
    keep_target = memoryview(target)
    with rt.Buffer(4, device) as buffer:
        shut = gate(stream)
        buffer.copy_from(source, stream, promised=True)
        buffer.copy_to(target, stream, promised=True)
        with pytest.raises(BufferError):
            source.append(0)  # locked: it must stay where it is
        del source, target
        gc.collect()
        assert watched[0]() is not None
        assert not stream.query() and watched[0]() is not None
        shut.open()
        stream.synchronize()
        assert bytes(keep_target) == b"abcd"
        keep_target.release()
        gc.collect()
        assert [ref() for ref in watched] == [None, None]


def test_a_query_lets_go_too(device: rt.Device, stream: rt.Stream) -> None:
    before = _keep.count()
    with rt.Buffer(4, device) as buffer:
        buffer.copy_from(b"abcd", stream, promised=True)
        wait_until(stream.query)
    assert _keep.count() == before


def test_promises_on_a_stream_that_is_never_asked_stay_bounded(
    device: rt.Device, stream: rt.Stream
) -> None:
    before = _keep.count()
    with rt.Buffer(4, device) as buffer:
        for _ in range(10 * _stream._WAIT_AT):
            buffer.copy_from(bytearray(4), stream, promised=True)
            assert _keep.count() - before <= _stream._WAIT_AT
        stream.synchronize()
    assert _keep.count() == before


def test_promises_outlive_a_stream_that_is_closed_early(device: rt.Device, gate: MakeGate) -> None:
    before = _keep.count()
    with rt.Buffer(4, device) as buffer:
        for close in (lambda stream: stream.close(), lambda stream: stream.__del__()):
            source = Data(b"abcd")
            watched = weakref.ref(source)
            stream = rt.Stream(device)
            shut = gate(stream)
            buffer.copy_from(source, stream, promised=True)
            close(stream)
            del source, stream
            gc.collect()
            assert watched() is not None
            shut.open()
            device.synchronize()
            wait_until(lambda: (rt.Stream(device).close(), watched() is None)[1])
    assert _keep.count() == before and not _stream._orphans


def test_pinned_memory_may_be_closed_while_a_copy_uses_it(
    device: rt.Device, stream: rt.Stream, gate: MakeGate
) -> None:
    with rt.Buffer(4096, device) as buffer:
        pinned = rt.HostBuffer(4096, device)
        pinned.view()[:] = b"\x5a" * 4096
        shut = gate(stream)
        buffer.copy_from(pinned, stream)
        pinned.close()
        del pinned
        others = [rt.HostBuffer(4096, device) for _ in range(16)]
        for other in others:
            other.view()[:] = bytes(4096)
        shut.open()
        stream.synchronize()
        out = bytearray(4096)
        buffer.copy_to(out)
        assert out == b"\x5a" * 4096


@pytest.mark.parametrize("what", ["stream", "device", "copy", "pageable"])
@pytest.mark.parametrize("where", ["main", "other"])
def test_other_threads_compute_while_one_waits(
    device: rt.Device, stream: rt.Stream, gate: MakeGate, what: str, where: str
) -> None:
    buffer, out = rt.Buffer(4, device), bytearray(4)
    waits = {
        "stream": stream.synchronize,
        "device": device.synchronize,
        "copy": lambda: buffer.copy_to(out),
        "pageable": lambda: buffer.copy_to(out, stream),
    }
    shut = gate(stream)
    counted = [0]

    def compute() -> None:
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            counted[0] += 1
        shut.open()

    failures: List[BaseException] = []

    def wait() -> None:
        try:
            waits[what]()
        except BaseException as failure:
            failures.append(failure)

    first, second = (wait, compute) if where == "main" else (compute, wait)
    thread = threading.Thread(target=second)
    thread.start()
    first()
    thread.join()
    assert not failures and counted[0] > 1000
    assert stream.query()
    buffer.close()


def test_a_failure_in_a_helper_thread_reaches_the_caller(
    device: rt.Device, gate: MakeGate, stream: rt.Stream
) -> None:
    api = rt.RuntimeAPI(device.type)
    with pytest.raises(rt.InvalidHandleError):
        api.stream_synchronize(0xDEAD0)
    gate(stream)  # busy, so that the copy goes to a helper
    with pytest.raises(rt.InvalidValueError, match="kind"):
        api.memcpy_sync(0x1000, 0x2000, 8, 42)


def test_two_streams_in_order_of_their_own(device: rt.Device, gate: MakeGate) -> None:
    with rt.Stream(device) as first, rt.Stream(device) as second:
        shut = gate(first)
        second.synchronize()  # independent of the first
        assert not first.query()
        shut.open()
        first.synchronize()


def test_a_million_operations_stay_bounded(device: rt.Device, stream: rt.Stream) -> None:
    before = _keep.count()
    with rt.Buffer(64, device) as buffer, rt.HostBuffer(64, device) as pinned:
        for _ in range(20_000):
            buffer.copy_from(pinned, stream)
            assert len(stream._tickets) <= _stream._WAIT_AT
        stream.synchronize()
    assert _keep.count() == before
