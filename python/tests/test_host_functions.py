"""Python functions in the order of a stream (contract H1)."""

from __future__ import annotations

import threading
from typing import Any, Callable, List

import llaisys_runtime as rt
import pytest
from conftest import DEVICE_NAME
from gate import Gate
from llaisys_runtime import _host_function

MakeGate = Callable[[rt.Stream], Gate]


def test_a_function_is_called_once_in_order_and_holds_the_stream(
    device: rt.Device, stream: rt.Stream
) -> None:
    seen: List[Any] = []
    going_on = threading.Event()
    with rt.Buffer(4, device) as buffer, rt.HostBuffer(4, device) as out:
        out.view()[:] = b"...."
        buffer.fill(ord("a"), stream)
        buffer.copy_to(out, stream)
        stream.launch_host_function(lambda: (going_on.wait(), seen.append(bytes(out.view()))))
        buffer.fill(ord("b"), stream)
        buffer.copy_to(out, stream)
        stream.launch_host_function(lambda: seen.append(bytes(out.view())))
        assert not stream.query()
        going_on.set()
        stream.synchronize()
    assert seen == [b"aaaa", b"bbbb"]


def test_a_thousand_functions_run_in_order_and_leave_nothing(
    device: rt.Device, gate: MakeGate
) -> None:
    with rt.Stream(device) as first, rt.Stream(device) as second:
        for count in (1000, 20, 20, 20):
            seen: List[int] = []
            shut = gate(first)
            for number in range(count):
                first.launch_host_function(lambda number=number: seen.append(number))
            if device.type == rt.DeviceType.CPU:
                # CUDA's driver runs one host function of a device at a time.
                second.launch_host_function(lambda: seen.append(-1))
                second.synchronize()
                assert seen.pop() == -1
            shut.open()
            first.synchronize()
            assert seen == [*range(count)]
    assert len(_host_function._used) <= 1001 + 1


def test_what_a_function_raises_is_raised_by_synchronize(
    device: rt.Device, stream: rt.Stream, capsys: Any
) -> None:
    stream.launch_host_function(lambda: 1 // 0)
    stream.launch_host_function(lambda: [].pop())
    with pytest.raises(ZeroDivisionError):
        stream.synchronize()
    with pytest.raises(IndexError):
        stream.synchronize()
    stream.synchronize()
    assert capsys.readouterr() == ("", "")


def test_waiting_inside_a_function_is_an_error_and_no_deadlock(
    device: rt.Device, stream: rt.Stream
) -> None:
    event, out = rt.Event(device), bytearray(4)
    with rt.Buffer(4, device) as buffer, rt.Stream(device) as other:
        event.record(stream)
        for wait in (
            stream.synchronize,
            other.synchronize,
            device.synchronize,
            event.synchronize,
            lambda: buffer.copy_to(out),
            lambda: buffer.copy_to(out, other),
            lambda: buffer.fill(0),
        ):
            stream.launch_host_function(wait)
            with pytest.raises(rt.NotPermittedError):
                stream.synchronize()
        # What only enqueues is fine.
        stream.launch_host_function(lambda: buffer.fill(7, other))
        stream.synchronize()
        other.synchronize()
        buffer.copy_to(out)
        assert out == b"\x07" * 4


def test_what_is_no_function_is_refused(stream: rt.Stream) -> None:
    with pytest.raises(TypeError):
        stream.launch_host_function(5)  # type: ignore[arg-type]
    stream.close()
    with pytest.raises(rt.ClosedError):
        stream.launch_host_function(lambda: None)


def test_a_launch_that_fails_calls_nothing(device: rt.Device, stream: rt.Stream) -> None:
    seen: List[int] = []
    functions = stream._functions
    with pytest.raises(rt.InvalidHandleError):
        functions.launch(device.backend, device.ordinal, 0xDEAD0, lambda: seen.append(1))
    stream.launch_host_function(lambda: seen.append(2))
    stream.synchronize()
    assert seen == [2]


@pytest.mark.parametrize("blocking", ["0", "1"])
def test_functions_at_exit_and_with_launch_blocking(
    script: Callable[..., Any], blocking: str
) -> None:
    done = script(
        "stream = rt.Stream(device)\n"
        "stream.launch_host_function(lambda: print('called'))\n"
        "stream.synchronize()\n"
        "stream.launch_host_function(lambda: time.sleep(0.1))\n"
        f"shut = Gate(stream) if {blocking} == 0 else None\n"
        f"if {blocking} == 0: stream.launch_host_function(lambda: print('too late'))\n"
        "sys.held = stream\n",
        LLAISYS_LAUNCH_BLOCKING=blocking,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "called\n", "")


def test_functions_in_the_child_of_a_fork(script: Callable[..., Any]) -> None:
    done = script(
        "if device.type != rt.DeviceType.CPU: sys.exit()\n"
        "stream = rt.Stream(device)\n"
        "shut = Gate(stream)\n"
        "stream.launch_host_function(lambda: print('parent'))\n"
        "child = os.fork()\n"
        "own = rt.Stream(device)\n"
        "if child == 0:\n"
        "    own.launch_host_function(lambda: print('child', flush=True))\n"
        "    own.synchronize()\n"
        "    os._exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "shut.open()\n"
        "stream.synchronize()\n"
    )
    wanted = "child\nparent\n" if DEVICE_NAME == "cpu" else ""
    assert (done.returncode, done.stdout, done.stderr) == (0, wanted, "")
