"""Events, streams of other kinds, and what is kept for a stream (contract V, S)."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from typing import Any, Callable, List

import llaisys_runtime as rt
import pytest
from gate import Gate
from llaisys_runtime import _foreign_stream

MakeGate = Callable[[rt.Stream], Gate]


def test_an_event_that_was_never_recorded_is_ready(device: rt.Device, stream: rt.Stream) -> None:
    with rt.Event(device) as event:
        assert event.query() and event.device == device and not event.timing
        event.synchronize()
        stream.wait(event)
    assert event.closed
    for use in (event.query, event.synchronize, lambda: event.record(stream), event.__enter__):
        with pytest.raises(rt.ClosedError):
            use()
    event.close()


def test_an_event_is_reached_when_its_stream_is_there(
    device: rt.Device, stream: rt.Stream, gate: MakeGate
) -> None:
    for blocking in (False, True):
        with rt.Event(device, blocking=blocking) as event:
            shut = gate(stream)
            event.record(stream)
            assert not event.query()
            threading.Timer(0.05, shut.open).start()
            event.synchronize()
            assert event.query()


def test_a_stream_waits_for_the_event_as_it_was_recorded(device: rt.Device, gate: MakeGate) -> None:
    with rt.Stream(device) as first, rt.Stream(device) as second, rt.Event(device) as event:
        shut = gate(first)
        event.record(first)
        second.wait(event)
        assert not second.query()
        shut.open()
        second.synchronize()
        assert event.query()


def test_an_event_outlives_its_stream_and_may_be_closed_while_pending(
    device: rt.Device, gate: MakeGate
) -> None:
    stream, event, other = rt.Stream(device), rt.Event(device), rt.Event(device)
    shut = gate(stream)
    event.record(stream)
    other.record(stream)
    stream.close()
    other.close()
    assert not event.query()
    shut.open()
    event.synchronize()
    assert event.query()


def test_elapsed_time_and_its_three_errors(
    device: rt.Device, stream: rt.Stream, gate: MakeGate
) -> None:
    start, end = rt.Event(device, timing=True), rt.Event(device, timing=True)
    untimed = rt.Event(device)
    with pytest.raises(rt.NotRecordedError):
        start.elapsed_ns(end)
    start.record(stream)
    untimed.record(stream)
    # Reached both, for what is not reached yet is said of the first before the second is looked at.
    stream.synchronize()
    shut = gate(stream)
    end.record(stream)
    with pytest.raises(rt.NotReadyError):
        start.elapsed_ns(end)
    with pytest.raises(rt.TimingDisabledError):
        start.elapsed_ns(untimed)
    time.sleep(0.02)
    shut.open()
    end.synchronize()
    forth, back = start.elapsed_ns(end), end.elapsed_ns(start)
    assert 15_000_000 < forth < 60_000_000_000
    assert abs(forth + back) < 1000


def test_recording_on_another_device_is_an_error(device: rt.Device) -> None:
    others = [one for one in rt.devices(device.type) if one != device]
    if not others:
        pytest.skip("there is one device of this type")
    with rt.Stream(others[0]) as stream, rt.Event(device) as event:
        with pytest.raises(rt.InvalidValueError):
            event.record(stream)
        stream.wait(event)  # waiting across devices works
        stream.synchronize()


def test_a_wait_for_an_event_hears_ctrl_c(script: Callable[..., Any]) -> None:
    done = script(
        "stream, event = rt.Stream(device), rt.Event(device)\n"
        "shut = Gate(stream)\n"
        "event.record(stream)\n"
        "threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
        "began = time.monotonic()\n"
        "try: event.synchronize()\n"
        "except KeyboardInterrupt: print('heard', time.monotonic() - began < 1.5)\n"
        "shut.open()\n"
        "event.synchronize()\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "heard True\n", "")


def test_a_non_blocking_stream_is_independent_of_the_default_stream(
    device: rt.Device, gate: MakeGate
) -> None:
    with rt.Stream(device, non_blocking=True) as free, rt.Stream(device) as ordered:
        shut = gate(free)
        rt.Stream.default(device).synchronize()
        ordered.synchronize()
        assert not free.query()
        shut.open()
        free.synchronize()


class Wrapped:
    """A stream as another library wraps it."""

    def __init__(self, name: str, handle: int) -> None:
        setattr(self, name, (lambda: (0, handle)) if name == "__cuda_stream__" else handle)


def test_our_own_stream_comes_back_wrapped(device: rt.Device, gate: MakeGate) -> None:
    with rt.Stream(device) as stream:
        handle = stream.native_handle
        for foreign in (
            handle,
            stream,
            Wrapped("__cuda_stream__", handle),
            Wrapped("cuda_stream", handle),
            Wrapped("ptr", handle),
        ):
            with rt.Stream.adopt(foreign, device) as same:
                assert same.native_handle == handle and same.device == device
                shut = gate(stream)
                assert not same.query()
                shut.open()
                same.synchronize()
            # Closing it left the stream as it was.
            assert stream.query()


def test_a_default_stream_needs_its_device(device: rt.Device) -> None:
    with rt.Stream.adopt(rt.Stream.default(device)) as same:
        assert same.native_handle == 0 and same.device == device
    with rt.Stream.adopt(0, device) as same:
        assert same.native_handle == 0 and same.device == device
    with pytest.raises(rt.InvalidValueError, match="device"):
        rt.Stream.adopt(0)


def test_what_is_no_stream_is_refused(device: rt.Device) -> None:
    for wrong in ("stream", None, object(), 1.5):
        with pytest.raises(TypeError):
            rt.Stream.adopt(wrong, device)
    with pytest.raises(ValueError):
        rt.Stream.adopt(-1, device)


def test_an_adopted_object_is_kept_alive(device: rt.Device) -> None:
    with rt.Stream(device) as stream:
        foreign = Wrapped("ptr", stream.native_handle)
        watched = weakref.ref(foreign)
        adopted = rt.Stream.adopt(foreign, device)
        del foreign
        gc.collect()
        assert watched() is not None
        adopted.close()
        assert watched() is None


class Recorder:
    """A backend that knows no stream at first, and takes in every one."""

    device_type = rt.DeviceType(99)

    def __init__(self) -> None:
        self.calls: List[str] = []
        self.known = False

    def answer(self, kind: Any, operation: str, handle: int) -> int:
        if operation == "get_stream_device" and not self.known:
            raise rt.InvalidHandleError(rt.Status.INVALID_HANDLE, operation, "unknown")
        if operation == "adopt_stream":
            self.calls.append(operation)
            self.known = True
        return 3

    def call_quietly(self, operation: str, device: int, handle: int) -> None:
        self.calls.append(operation)
        self.known = False


def test_a_foreign_stream_is_adopted_once_and_let_go_by_the_last() -> None:
    backend: Any = Recorder()
    for _ in range(2):
        backend.calls.clear()
        shares = [_foreign_stream.adopt(backend, 0x1234, object()) for _ in range(3)]
        assert [ordinal for ordinal, _ in shares] == [3, 3, 3]
        assert backend.calls == ["adopt_stream"]
        shares[0][1].let_go()
        shares[0][1].let_go()
        del shares[0], shares[0]
        gc.collect()
        assert backend.calls == ["adopt_stream"]
        shares.clear()
        gc.collect()
        assert backend.calls == ["adopt_stream", "destroy_stream"]
    # A stream that C knew before is not let go.
    backend.calls.clear()
    backend.known = True
    _foreign_stream.adopt(backend, 0x1234, None)[1].let_go()
    assert backend.calls == []
    # One that is refused leaves nothing behind.
    backend.known, backend.answer = False, lambda *_: 1 // 0
    with pytest.raises(ZeroDivisionError):
        _foreign_stream.adopt(backend, 0x1234, None)
    del backend.answer
    _foreign_stream.adopt(backend, 0x1234, None)[1].let_go()
    assert backend.calls == ["adopt_stream", "destroy_stream"]


def test_the_cuda_protocol_is_cudas_alone(device: rt.Device, stream: rt.Stream) -> None:
    if device.type == rt.DeviceType.NVIDIA:
        assert stream.__cuda_stream__() == (0, stream.native_handle)
    else:
        assert not hasattr(stream, "__cuda_stream__")


def test_a_streams_value_ends_before_the_stream(device: rt.Device, gate: MakeGate) -> None:
    key, ended = rt.slot_key(), []
    for close in (lambda stream: stream.close(), lambda stream: stream.__del__()):
        ended.clear()
        stream = rt.Stream(device)
        assert stream.get_slot(key) == 0
        stream.set_slot(key, 1, ended.append)
        stream.set_slot(key, 2, ended.append)
        assert (stream.get_slot(key), ended) == (2, [1])
        stream.set_slot(key + 1, 3, ended.append)
        stream.set_slot(key + 1, None)
        assert (stream.get_slot(key + 1), ended) == (0, [1, 3])
        shut = gate(stream)  # also of a stream that is busy, and keeps something alive
        with rt.Buffer(4, device) as buffer:
            buffer.copy_from(b"abcd", stream, promised=True)
        close(stream)
        assert ended == [1, 3, 2]
        shut.open()
    with pytest.raises(rt.InvalidHandleError):
        rt.Stream.default(device).set_slot(key, 1)


def test_what_a_destructor_raises_is_raised_after_the_stream_was_closed(device: rt.Device) -> None:
    ended: List[int] = []

    def broken(value: int) -> None:
        raise KeyError(value)

    stream = rt.Stream(device)
    handle = stream.native_handle
    stream.set_slot(1, 1, ended.append)
    stream.set_slot(2, 2, broken)
    with pytest.raises(KeyError):
        stream.close()
    assert ended == [1] and stream.closed
    with pytest.raises(rt.InvalidHandleError):
        rt.RuntimeAPI(device.type).stream_synchronize(handle)
