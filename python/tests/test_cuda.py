"""What is CUDA's alone: its protocols for memory, and streams that its driver made.

Over the real driver or the fake one; `tests/interop/` has the same with PyTorch and CuPy.
"""

from __future__ import annotations

import ctypes
import gc
import os
from typing import Any, Callable, Iterator

import llaisys_runtime as rt
import pytest
from conftest import DEVICE_NAME
from gate import Gate
from llaisys_runtime import _dlpack

if DEVICE_NAME != "nvidia":
    pytest.skip("LLAISYS_TEST_DEVICE is not nvidia", allow_module_level=True)

MakeGate = Callable[[rt.Stream], Gate]


def back(buffer: Any) -> bytes:
    out = bytearray(buffer.nbytes)
    buffer.copy_to(out)
    return bytes(out)


class InterfaceOnly:
    """What has only ``__cuda_array_interface__``."""

    def __init__(self, value: Any, **more: Any) -> None:
        self.value = value
        self.more = more

    @property
    def __cuda_array_interface__(self) -> Any:
        return {**self.value.__cuda_array_interface__, **self.more}


@pytest.fixture
def native(device: rt.Device) -> Iterator[int]:
    """A stream that the driver made, and not we."""
    driver = ctypes.CDLL(os.environ.get("LLAISYS_CUDA_DRIVER", "libcuda.so.1"))
    rt.RuntimeAPI(device.type).set_device(device.ordinal)
    stream = ctypes.c_void_p()
    assert driver.cuStreamCreate(ctypes.byref(stream), 1) == 0
    yield stream.value or 0
    assert driver.cuStreamSynchronize(stream) == 0
    assert driver.cuStreamDestroy_v2(stream) == 0


def test_our_memory_has_both_protocols(device: rt.Device) -> None:
    with rt.Buffer(64, device) as buffer:
        assert buffer.__dlpack_device__() == (_dlpack.CUDA, device.ordinal)
        interface = buffer.__cuda_array_interface__
        assert interface["data"] == (buffer.address, False) and interface["shape"] == (64,)
        assert (interface["version"], interface["typestr"]) == (3, "|u1")
        for lender in (buffer, InterfaceOnly(buffer)):
            with rt.Buffer.from_foreign(lender) as same:
                assert (same.address, same.nbytes) == (buffer.address, 64)
                assert same.device == device
                same.fill(5)
                assert back(buffer) == b"\x05" * 64
    with rt.ManagedBuffer(64, device) as managed:
        assert managed.__dlpack_device__() == (_dlpack.CUDA_MANAGED, device.ordinal)
        with rt.Buffer.from_foreign(managed) as same:
            assert same.address == managed.address
    with rt.Buffer(0, device) as empty:
        assert rt.Buffer.from_foreign(InterfaceOnly(empty)).nbytes == 0


def test_what_was_lent_through_the_interface_lives_as_long_as_the_buffer(device: rt.Device) -> None:
    gc.collect()
    used = device.memory_statistics().used
    buffer = rt.Buffer(64, device)
    borrowed = rt.Buffer.from_foreign(InterfaceOnly(buffer))
    buffer.close()
    del buffer
    gc.collect()
    borrowed.fill(3)
    assert back(borrowed) == b"\x03" * 64
    borrowed.close()
    gc.collect()
    assert device.memory_statistics().used == used


def test_a_borrowers_stream_follows_our_blocking_streams(
    device: rt.Device, stream: rt.Stream, gate: MakeGate
) -> None:
    with rt.Stream(device, non_blocking=True) as theirs, rt.Buffer(64, device) as buffer:
        for stream_number, follows in ((theirs.native_handle, True), (-1, False), (1, False)):
            shut = gate(stream)
            buffer.fill(1, stream)
            capsule = buffer.__dlpack__(stream=stream_number)
            assert theirs.query() is not follows
            shut.open()
            theirs.synchronize()
            stream.synchronize()
            del capsule
        with pytest.raises(ValueError, match="ambiguous"):
            buffer.__dlpack__(stream=0)


def test_our_stream_follows_a_lenders(device: rt.Device, stream: rt.Stream, gate: MakeGate) -> None:
    with rt.Stream(device, non_blocking=True) as theirs, rt.Buffer(64, device) as buffer:
        ours = rt.Stream(device, non_blocking=True)
        shut = gate(theirs)
        lender = InterfaceOnly(buffer, stream=theirs.native_handle)
        borrowed = rt.Buffer.from_foreign(lender, ours)
        assert not ours.query()
        shut.open()
        ours.synchronize()
        assert theirs.query()
        # Version 2 has no stream, and nobody waits.
        shut = gate(theirs)
        old = InterfaceOnly(buffer, stream=theirs.native_handle, version=2)
        rt.Buffer.from_foreign(old, ours).close()
        assert ours.query()
        shut.open()
        borrowed.close()
        ours.close()


def test_a_stream_of_the_drivers_is_adopted(device: rt.Device, native: int, gate: MakeGate) -> None:
    api = rt.RuntimeAPI(device.type)
    with pytest.raises(rt.InvalidHandleError):
        api.stream_synchronize(native)
    first, second = rt.Stream.adopt(native), rt.Stream.adopt(ctypes.c_void_p(native), device)
    assert first.device == device and first.native_handle == native
    first.close()
    shut = gate(second)
    out = bytearray(64)
    with rt.Buffer(64, device) as buffer, rt.Event(device) as event:
        buffer.fill(9, second)
        event.record(second)
        assert not event.query()
        shut.open()
        buffer.copy_to(out, second)
    assert out == b"\x09" * 64
    second.close()
    with pytest.raises(rt.InvalidHandleError):
        api.stream_synchronize(native)
    with rt.Stream.adopt(native) as again:
        again.synchronize()


def test_an_adopted_stream_that_is_closed_keeps_what_was_promised(
    device: rt.Device, native: int, gate: MakeGate
) -> None:
    source = bytearray(b"\x04" * 64)
    with rt.Buffer(64, device) as buffer:
        adopted = rt.Stream.adopt(native)
        shut = gate(adopted)
        buffer.copy_from(source, adopted, promised=True)
        adopted.close()
        with pytest.raises(BufferError):
            source.append(0)
        shut.open()
        device.synchronize()
        assert back(buffer) == b"\x04" * 64
        rt.Stream(device).close()  # sweeps
        source.append(0)
