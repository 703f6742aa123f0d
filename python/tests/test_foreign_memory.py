"""Managed and registered memory, pointers, and memory that is lent to and by other libraries."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
import weakref
from typing import Any, Callable

import llaisys_runtime as rt
import pytest
from gate import Gate
from llaisys_runtime import _dlpack, _keep

MakeGate = Callable[[rt.Stream], Gate]
PATTERN = bytes(i % 251 for i in range(4096))


def back(buffer: Any) -> bytes:
    out = bytearray(buffer.nbytes)
    buffer.copy_to(out)
    return bytes(out)


@pytest.fixture
def cpu() -> rt.Device:
    """The device whose memory NumPy can take in."""
    return rt.Device(rt.DeviceType.CPU, 0)


class Data(bytearray):
    """A bytearray that can be watched."""


# Managed memory.


def test_managed_memory_is_the_hosts_and_the_devices(device: rt.Device, stream: rt.Stream) -> None:
    with rt.ManagedBuffer(4096, device) as managed, rt.Buffer(4096, device) as buffer:
        managed.view()[:] = PATTERN
        managed.prefetch(device, stream)
        buffer.copy_from(managed, stream)
        stream.synchronize()
        assert back(buffer) == PATTERN
        buffer.fill(7)
        managed.copy_from(buffer, stream)
        managed.prefetch(None, stream, offset=1024, size=1024)
        stream.synchronize()
        assert managed.view() == b"\x07" * 4096
        managed.fill(b"ab", size=512)
        assert managed.view()[:512] == b"ab" * 256
        managed.prefetch(None)
        for advice in rt.MemoryAdvice:
            managed.advise(advice, device)
        managed.advise(rt.MemoryAdvice.SET_PREFERRED_LOCATION, None, offset=0, size=4096)
        assert rt.pointer_attributes(managed).kind == rt.MemoryKind.MANAGED
    assert managed.closed
    for use in (managed.view, lambda: managed.prefetch(None), lambda: managed.fill(0)):
        with pytest.raises(rt.ClosedError):
            use()


def test_what_managed_memory_refuses(device: rt.Device) -> None:
    with rt.ManagedBuffer(64, device) as managed:
        for refused in (
            lambda: managed.prefetch(device, size=65),
            lambda: managed.prefetch(device, offset=60, size=5),
            lambda: managed.advise(99),  # type: ignore[arg-type]
            lambda: managed.advise(-1),  # type: ignore[arg-type]
            lambda: managed.advise(rt.MemoryAdvice.SET_READ_MOSTLY, device, offset=-1),
        ):
            with pytest.raises(ValueError):
                refused()
    empty = rt.ManagedBuffer(0, device)
    assert (empty.address, empty.view().nbytes) == (0, 0)
    empty.prefetch(None)


def test_managed_memory_lives_as_long_as_a_view_or_a_copy(
    device: rt.Device, stream: rt.Stream, gate: MakeGate
) -> None:
    managed = rt.ManagedBuffer(4096, device)
    view, address = managed.view(), managed.address
    managed.close()
    view[:] = PATTERN
    assert rt.pointer_attributes(address).ours
    view.release()
    gc.collect()
    assert not rt.pointer_attributes(address).ours
    managed = rt.ManagedBuffer(4096, device)
    managed.view()[:] = PATTERN
    address = managed.address
    with rt.Buffer(4096, device) as buffer:
        shut = gate(stream)
        buffer.copy_from(managed, stream)
        managed.close()
        del managed
        assert rt.pointer_attributes(address).ours
        shut.open()
        stream.synchronize()
        assert back(buffer) == PATTERN and not rt.pointer_attributes(address).ours


# Registered memory.


def test_registered_memory_is_copied_asynchronously_and_stays(
    device: rt.Device, stream: rt.Stream, gate: MakeGate
) -> None:
    source, target = Data(PATTERN), Data(4096)
    watched = [weakref.ref(source), weakref.ref(target)]
    with rt.Buffer(4096, device) as buffer:
        with rt.register_host(source, device) as pinned, rt.register_host(target, device):
            assert pinned.nbytes == 4096 and pinned.address
            assert rt.pointer_attributes(source).kind == rt.MemoryKind.REGISTERED
            with pytest.raises(BufferError):
                source.append(0)
            shut = gate(stream)
            buffer.copy_from(pinned, stream)
            # The object itself, and a part of it, are known by their address.
            buffer.copy_to(target, stream)
            buffer.copy_to(memoryview(target)[:16], stream)
        assert pinned.closed
        with pytest.raises(rt.ClosedError):
            buffer.copy_from(pinned)
        del source, target
        gc.collect()
        assert watched[0]() is not None and watched[1]() is not None
        shut.open()
        stream.synchronize()
        assert watched[1]() is None or watched[1]() == PATTERN
        gc.collect()
        assert [ref() for ref in watched] == [None, None]


def test_what_cannot_be_registered(device: rt.Device) -> None:
    data = bytearray(4096)
    with pytest.raises(BufferError, match="read-only"):
        rt.register_host(bytes(16), device)
    with pytest.raises(TypeError):
        rt.register_host(5, device)  # type: ignore[arg-type]
    with rt.register_host(data, device):
        with pytest.raises(rt.InvalidValueError):
            rt.register_host(data, device)
        with pytest.raises(rt.InvalidValueError):
            rt.register_host(memoryview(data)[16:32], device)
    data.append(1)
    with rt.register_host(data, device):
        pass
    with rt.register_host(bytearray(), device) as empty:
        assert (empty.address, empty.nbytes) == (0, 0)


# Pointers.


def test_pointers_are_known(device: rt.Device) -> None:
    with rt.Buffer(1000, device) as buffer, rt.HostBuffer(500, device) as pinned:
        found = rt.pointer_attributes(buffer.address + 10)
        assert found == (rt.MemoryKind.DEVICE, device, buffer.address, 1000, True)
        assert rt.pointer_attributes(buffer, device.type) == found
        assert rt.pointer_attributes(pinned).kind == rt.MemoryKind.PINNED
        assert rt.pointer_attributes(pinned.view()[8:]).base == pinned.address
        address = buffer.address
    for value in (address, 0, None, bytearray(16), ctypes.c_void_p(16)):
        assert not rt.pointer_attributes(value).ours
    assert rt.pointer_attributes(b"pageable") == (rt.MemoryKind.PAGEABLE, None, 0, 0, False)
    with pytest.raises(TypeError):
        rt.pointer_attributes("text")
    for wrong in (-1, 2**64):
        with pytest.raises(ValueError):
            rt.pointer_attributes(wrong)


# DLPack.


def test_numpy_sees_our_memory_without_a_copy(cpu: rt.Device) -> None:
    numpy = pytest.importorskip("numpy")
    with rt.Buffer(4096, cpu) as buffer, rt.ManagedBuffer(64, cpu) as managed:
        buffer.copy_from(PATTERN)
        assert buffer.__dlpack_device__() == (1, 0)
        array = numpy.from_dlpack(buffer)
        assert array.dtype == numpy.uint8 and array.shape == (4096,)
        assert array.ctypes.data == buffer.address and array.tobytes() == PATTERN
        buffer.fill(3)
        assert (array == 3).all()
        assert numpy.from_dlpack(managed).ctypes.data == managed.address
    # What was lent outlives the buffer, closed or not.
    used = cpu.memory_statistics().used
    del buffer
    gc.collect()
    assert (array == 3).all() and cpu.memory_statistics().used == used
    del array
    gc.collect()
    assert cpu.memory_statistics().used <= used - 4096


def test_memory_of_the_cpu_is_lent_when_its_work_is_done(cpu: rt.Device) -> None:
    numpy = pytest.importorskip("numpy")
    with rt.Stream(cpu) as stream, rt.Buffer(64, cpu) as buffer:
        buffer.fill(0)
        shut = Gate(stream)
        buffer.fill(9, stream)
        threading.Timer(0.05, shut.open).start()
        assert (numpy.from_dlpack(buffer) == 9).all()


@pytest.mark.parametrize("versioned", [False, True])
def test_a_capsule_that_nobody_consumed_is_let_go(cpu: rt.Device, versioned: bool) -> None:
    kept = _keep.count()
    buffer = rt.Buffer(64, cpu)
    capsules = [buffer.__dlpack__(max_version=(1, 5) if versioned else None) for _ in range(3)]
    assert _keep.count() == kept + 3
    used = cpu.memory_statistics().used
    buffer.close()
    del buffer
    rt.Buffer(0, cpu)  # sweeps; the capsules are still there
    assert _keep.count() == kept + 3 and cpu.memory_statistics().used == used
    again = rt.Buffer.from_foreign(Foreign(capsules.pop()))
    del capsules
    rt.Buffer(0, cpu)
    assert _keep.count() == kept + 1
    del again
    rt.Buffer(0, cpu)
    assert _keep.count() == kept and cpu.memory_statistics().used == used - 64


def test_a_consumer_that_fails_keeps_its_own_exception(cpu: rt.Device) -> None:
    kept = _keep.count()
    with rt.Buffer(64, cpu) as buffer:
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                [buffer.__dlpack__(), 1 / 0]
        numpy = pytest.importorskip("numpy")
        with pytest.raises(ZeroDivisionError):
            numpy.from_dlpack(buffer) if numpy.from_dlpack(buffer) is None else 1 / 0
    _dlpack.sweep()
    assert _keep.count() == kept


class Foreign:
    """Another library's object with a capsule, of the CPU."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack_device__(self) -> Any:
        return (1, 0)

    def __dlpack__(self, **arguments: Any) -> Any:
        return self.capsule


class Old:
    """A lender from before DLPack 1.0."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __dlpack_device__(self) -> Any:
        return self.value.__dlpack_device__()

    def __dlpack__(self, stream: Any = None) -> Any:
        return self.value.__dlpack__()


def test_numpys_memory_is_ours_without_a_copy(cpu: rt.Device) -> None:
    numpy = pytest.importorskip("numpy")
    for wrap in (lambda array: array, Old):
        array = numpy.arange(1000, dtype=numpy.float64).reshape(10, 100)
        watched = weakref.ref(array)
        with rt.Buffer.from_foreign(wrap(array)) as buffer:
            assert buffer.address == array.ctypes.data and buffer.nbytes == array.nbytes
            assert back(buffer) == array.tobytes()
            buffer.fill(0, size=800)
            assert (array[0] == 0).all() and array[1, 1] == 101
            del array
            gc.collect()
            assert watched() is not None
        gc.collect()
        assert watched() is None


def test_foreign_memory_stays_while_a_copy_uses_it(cpu: rt.Device) -> None:
    numpy = pytest.importorskip("numpy")
    array = numpy.full(4096, 5, dtype=numpy.uint8)
    watched = weakref.ref(array)
    with rt.Stream(cpu) as stream, rt.Buffer(4096, cpu) as buffer:
        shut = Gate(stream)
        foreign = rt.Buffer.from_foreign(array)
        buffer.copy_from(foreign, stream)
        foreign.close()
        del array
        gc.collect()
        assert watched() is not None
        shut.open()
        stream.synchronize()
        assert back(buffer) == b"\x05" * 4096
        gc.collect()
        assert watched() is None


def test_what_cannot_be_borrowed_is_refused_and_left_alone(cpu: rt.Device) -> None:
    numpy = pytest.importorskip("numpy")
    array = numpy.zeros((8, 8))
    for wrong in (array[:, ::2], array.T, array[::2]):
        with pytest.raises(BufferError, match="contiguous"):
            rt.Buffer.from_foreign(wrong)
    assert rt.Buffer.from_foreign(array[:4]).nbytes == 256
    assert rt.Buffer.from_foreign(array[:0]).nbytes == 0
    for no_lender in (b"bytes", 5, None):
        with pytest.raises(TypeError):
            rt.Buffer.from_foreign(no_lender)
    capsule = array.__dlpack__()
    rt.Buffer.from_foreign(Foreign(capsule))
    with pytest.raises(BufferError, match="consumed"):
        rt.Buffer.from_foreign(Foreign(capsule))
    with pytest.raises(BufferError):
        rt.Buffer.from_foreign(Foreign("no capsule"))
    if tuple(int(part) for part in numpy.__version__.split(".")[:2]) >= (2, 1):
        array.flags.writeable = False
        with rt.Buffer.from_foreign(array) as foreign:
            with pytest.raises(BufferError, match="read-only"):
                foreign.fill(1)
            with pytest.raises(BufferError, match="read-only"):
                foreign.copy_from(bytes(512))
            with pytest.raises(BufferError):
                foreign.__dlpack__()
            assert not numpy.from_dlpack(foreign).flags.writeable


def test_what_a_borrower_may_not_ask(cpu: rt.Device) -> None:
    with rt.Buffer(64, cpu) as buffer:
        for arguments in ({"copy": True}, {"dl_device": (2, 0)}):
            with pytest.raises(BufferError):
                buffer.__dlpack__(**arguments)  # type: ignore[arg-type]
        with pytest.raises(ValueError):
            buffer.__dlpack__(stream=1)
        assert not hasattr(buffer, "__cuda_array_interface__")
    with pytest.raises(rt.ClosedError):
        buffer.__dlpack__()


def test_an_interface_object_is_taken_by_its_address(cpu: rt.Device) -> None:
    data = ctypes.create_string_buffer(b"abcdefgh", 8)

    class Interface:
        def __init__(self, **more: Any) -> None:
            self.__cuda_array_interface__ = {
                "version": 3,
                "shape": (2, 2),
                "typestr": "<u2",
                "data": (ctypes.addressof(data), False),
                **more,
            }

    # On a machine without a GPU the device has to be said.
    with rt.Buffer.from_foreign(Interface(strides=(4, 2)), device=cpu) as buffer:
        assert buffer.address == ctypes.addressof(data) and back(buffer) == b"abcdefgh"
    with rt.Buffer.from_foreign(Interface(shape=(0, 4)), device=cpu) as buffer:
        assert buffer.nbytes == 0
    for more in ({"strides": (2, 4)}, {"mask": 1}, {"typestr": "|O"}):
        with pytest.raises(BufferError):
            rt.Buffer.from_foreign(Interface(**more), device=cpu)


def test_a_borrower_at_exit_does_no_harm(script: Callable[..., Any]) -> None:
    pytest.importorskip("numpy")
    done = script(
        "import numpy\n"
        "cpu = rt.Device(rt.DeviceType.CPU, 0)\n"
        "array = numpy.from_dlpack(rt.Buffer(64, cpu))\n"
        "capsule = rt.Buffer(64, cpu).__dlpack__()\n"
        "foreign = rt.Buffer.from_foreign(numpy.zeros(8))\n"
        "registered = rt.register_host(bytearray(64), cpu)\n"
        "managed = rt.ManagedBuffer(64, cpu); view = managed.view()\n"
        "ordered = rt.Buffer.allocate(64, rt.Stream(cpu))\n"
        "event = rt.Event(cpu)\n"
        "sys.held = [array, capsule, foreign, registered, managed, view, ordered, event]\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_structs_have_dlpacks_sizes() -> None:
    assert sys.maxsize > 2**32
    assert ctypes.sizeof(_dlpack.DLTensor) == 48
    assert ctypes.sizeof(_dlpack.DLManagedTensor) == 64
    assert ctypes.sizeof(_dlpack.DLManagedTensorVersioned) == 80
    assert _dlpack.DLManagedTensorVersioned.flags.offset == 24
    assert _dlpack.DLManagedTensorVersioned.dl_tensor.offset == 32
