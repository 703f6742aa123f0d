"""LLAISYS's twelve methods (cases 1, 15, 17, 18, 19, 20, 40, 44, 48)."""

from __future__ import annotations

import ctypes
import threading
from typing import Any, Callable, List

import llaisys_runtime as rt
import pytest
from conftest import address_of

K = rt.MemcpyKind


def test_the_twelve_are_llaisys_names() -> None:
    names = {name for name in vars(rt.RuntimeAPI) if not name.startswith("_")}
    assert names == {
        "get_device_count",
        "set_device",
        "device_synchronize",
        "create_stream",
        "destroy_stream",
        "stream_synchronize",
        "malloc_device",
        "free_device",
        "malloc_host",
        "free_host",
        "memcpy_sync",
        "memcpy_async",
    }


def test_llaisys_own_runtime_test(api: rt.RuntimeAPI) -> None:
    size = 1000
    source = ctypes.create_string_buffer(bytes(i % 251 for i in range(size)), size)
    for device in range(api.get_device_count()):
        target = ctypes.create_string_buffer(size)
        api.set_device(device)
        stream = api.create_stream()
        first, second = api.malloc_device(size), api.malloc_device(size)
        api.memcpy_sync(first, address_of(source), size, K.H2D)
        api.memcpy_async(second, first, size, K.D2D, stream)
        api.memcpy_async(address_of(target), second, size, K.D2H, stream)
        api.stream_synchronize(stream)
        api.device_synchronize()
        assert target.raw == source.raw
        api.free_device(first)
        api.free_device(second)
        api.destroy_stream(stream)


@pytest.mark.parametrize(
    "allocate, free", [("malloc_device", "free_device"), ("malloc_host", "free_host")]
)
def test_sizes_that_are_none(api: rt.RuntimeAPI, allocate: str, free: str) -> None:
    malloc: Callable[[Any], int] = getattr(api, allocate)
    for negative in (-1, -(2**63), -(2**64)):
        with pytest.raises(ValueError, match="negative"):
            malloc(negative)
    for huge in (2**63 - 1, 2**63, 2**63 + 256, 2**64 - 255, 2**64 - 1):
        with pytest.raises((rt.OutOfMemoryError, rt.InvalidValueError)):
            malloc(huge)
    for wrapping in (2**64, 2**64 + 256, 2**200):
        with pytest.raises(ValueError, match="64 bits"):
            malloc(wrapping)
    for no_integer in (1.5, "1", None, b"1"):
        with pytest.raises(TypeError):
            malloc(no_integer)
    assert [malloc(0) for _ in range(3)] == [0, 0, 0]
    # A smaller request works after all that.
    getattr(api, free)(malloc(256))


def test_copy_sizes_do_not_wrap(api: rt.RuntimeAPI) -> None:
    host = ctypes.create_string_buffer(b"\x55" * 64, 64)
    pointer = api.malloc_device(64)
    for size in (65, 2**63, 2**64 - 1, 2**64 - 255):
        with pytest.raises(rt.LlaisysError):
            api.memcpy_sync(pointer, address_of(host), size, K.H2D)
    for size in (-1, 2**64, 2**64 + 8):
        with pytest.raises(ValueError):
            api.memcpy_sync(pointer, address_of(host), size, K.H2D)
        with pytest.raises(ValueError):
            api.memcpy_async(pointer, address_of(host), size, K.H2D, None)
    api.free_device(pointer)


def test_addresses_that_are_none(api: rt.RuntimeAPI) -> None:
    for address in (-1, 2**64, 2**64 + 0x1000):
        with pytest.raises(ValueError):
            api.free_device(address)
        with pytest.raises(ValueError):
            api.stream_synchronize(address)
    with pytest.raises(TypeError):
        api.free_device("0x1000")  # type: ignore[arg-type]
    with pytest.raises(rt.InvalidValueError):
        api.memcpy_sync(None, 0x1000, 8, K.H2D)
    with pytest.raises(rt.InvalidValueError):
        api.memcpy_sync(0x1000, None, 8, K.H2D)


def test_nothing_is_a_no_op(api: rt.RuntimeAPI) -> None:
    for null in (None, 0, ctypes.c_void_p(None)):
        api.free_device(null)
        api.free_host(null)
        api.destroy_stream(null)
        api.stream_synchronize(null)
        api.memcpy_sync(null, null, 0, K.H2D)
        api.memcpy_async(null, 0xDEAD, 0, K.D2H, null)


def test_a_kind_that_is_none_copies_nothing(api: rt.RuntimeAPI) -> None:
    source = ctypes.create_string_buffer(b"new", 3)
    target = ctypes.create_string_buffer(b"old", 3)
    for kind in (4, -1, 77, 2**31 - 1, -(2**31)):
        with pytest.raises(rt.InvalidValueError):
            api.memcpy_sync(address_of(target), address_of(source), 3, kind)
        with pytest.raises(rt.InvalidValueError):
            api.memcpy_async(address_of(target), address_of(source), 3, kind, None)
    with pytest.raises(ValueError):
        api.memcpy_sync(address_of(target), address_of(source), 3, 2**32)
    assert target.raw == b"old"
    api.memcpy_sync(address_of(target), address_of(source), 3, K.H2H)
    assert target.raw == b"new"


def test_what_was_freed_is_refused(api: rt.RuntimeAPI) -> None:
    pointer, pinned, stream = api.malloc_device(64), api.malloc_host(64), api.create_stream()
    with pytest.raises(rt.LlaisysError):
        api.free_device(pointer + 16)
    with pytest.raises(rt.LlaisysError):
        api.free_device(pinned)
    with pytest.raises(rt.LlaisysError):
        api.free_host(pointer)
    api.free_device(pointer)
    api.free_host(pinned)
    api.destroy_stream(stream)
    for again in (
        lambda: api.free_device(pointer),
        lambda: api.free_host(pinned),
        lambda: api.destroy_stream(stream),
    ):
        with pytest.raises(rt.LlaisysError):
            again()


def test_the_current_device_is_the_threads_and_failures_leave_it(api: rt.RuntimeAPI) -> None:
    count = api.get_device_count()
    last = count - 1
    api.set_device(last)
    for wrong in (99, -1, -(2**31), 2**31, 2**40):
        with pytest.raises(rt.InvalidDeviceError):
            api.set_device(wrong)
    assert api._current() == last
    seen: List[int] = []
    thread = threading.Thread(target=lambda: seen.append(api._current()))
    thread.start()
    thread.join()
    assert seen == [0]
    stream = api.create_stream()
    api.set_device(0)
    # A stream and a pointer know their device.
    api.stream_synchronize(stream)
    api.destroy_stream(stream)


def test_the_context_is_what_was_chosen_last(api: rt.RuntimeAPI) -> None:
    try:
        rt.set_context_runtime(api.device_type, 0)
        assert rt.get_context_runtime() == (api.device_type, 0)
        for device in range(api.get_device_count()):
            rt.set_context_runtime(api.device_type, device)
            assert rt.get_context_runtime() == (api.device_type, device)
            assert api._current() == device
        with pytest.raises(rt.InvalidDeviceError):
            rt.set_context_runtime(api.device_type, 99)
        with pytest.raises(rt.LlaisysError):
            rt.set_context_runtime(rt.DeviceType.KUNLUN, 0)
        assert rt.get_context_runtime() == (api.device_type, api.get_device_count() - 1)
    finally:
        rt.set_context_runtime(rt.DeviceType.CPU, 0)


@pytest.mark.parametrize("memory", ["pageable", "pinned"])
def test_an_index_vector_copied_async_on_the_cpu_and_read_on_the_next_line(memory: str) -> None:
    api = rt.RuntimeAPI(rt.DeviceType.CPU)
    stream, nbytes = api.create_stream(), 8 << 16
    local = (ctypes.c_int64 * (1 << 16))()
    source = api.malloc_host(nbytes) if memory == "pinned" else address_of(local)
    on_device = api.malloc_device(nbytes)
    last = ctypes.c_int64.from_address(on_device + nbytes - 8)
    for round_ in range(1000):
        ctypes.c_int64.from_address(source + nbytes - 8).value = round_
        api.memcpy_async(on_device, source, nbytes, K.H2D, stream)
        assert last.value == round_
    api.stream_synchronize(stream)
    api.free_device(on_device)
    if memory == "pinned":
        api.free_host(source)
    api.destroy_stream(stream)


def test_a_copy_behind_pending_work_queues(
    api: rt.RuntimeAPI, device: rt.Device, gate: Callable[[rt.Stream], Any]
) -> None:
    with rt.Stream(device) as stream, rt.Buffer(64, device) as buffer:
        pinned = api.malloc_host(64)
        ctypes.memset(pinned, 0x11, 64)
        shut = gate(stream)
        api.memcpy_async(buffer.address, pinned, 64, K.H2D, stream.native_handle)
        assert not stream.query()
        shut.open()
        api.stream_synchronize(stream.native_handle)
        out = bytearray(64)
        buffer.copy_to(out)
        assert out == b"\x11" * 64
        api.free_host(pinned)
