"""Failures: their fields, their classes, and whose they are (contract E2, E3, E6)."""

from __future__ import annotations

import pickle
import threading

import llaisys_runtime as rt
import pytest
from llaisys_runtime._library import library


def test_a_failure_carries_everything_that_is_known(api: rt.RuntimeAPI) -> None:
    with pytest.raises(rt.LlaisysError) as caught:
        api.memcpy_sync(0x1000, 0x2000, 8, 42)
    error = caught.value
    assert error.status == rt.Status.INVALID_VALUE
    assert error.operation == "memcpy_sync"
    assert "42" in error.message
    assert (error.native_code, error.native_name) == (0, "")
    assert str(error) == f"memcpy_sync: INVALID_VALUE: {error.message}"


def test_classes_have_pythons_own_as_bases() -> None:
    assert issubclass(rt.OutOfMemoryError, MemoryError)
    assert issubclass(rt.NotSupportedError, NotImplementedError)
    assert issubclass(rt.InvalidValueError, ValueError)
    assert issubclass(rt.InvalidDeviceError, ValueError)
    assert issubclass(rt.ClosedError, rt.InvalidHandleError)


def test_an_error_survives_pickling() -> None:
    error = rt.OutOfMemoryError(rt.Status.OUT_OF_MEMORY, "malloc_device", "no", 2, "CUDA_X")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is rt.OutOfMemoryError
    assert str(copy) == str(error) == "malloc_device: OUT_OF_MEMORY: no (CUDA_X 2)"


def test_a_failure_is_reported_once_and_later_calls_are_not_blamed(api: rt.RuntimeAPI) -> None:
    with pytest.raises(rt.InvalidDeviceError):
        api.set_device(99)
    pointer = api.malloc_device(256)
    api.free_device(pointer)
    assert rt.peek_last_error() is None


def test_a_failure_that_c_code_left_unread_is_neither_ours_nor_lost(api: rt.RuntimeAPI) -> None:
    # What C code on this thread does: the twelve-function table, the slot left for later.
    c_table = library().llaisysGetRuntimeAPI(api.device_type).contents
    c_table.set_device(-5)
    try:
        # A success is a success.
        pointer = api.malloc_device(256)
        api.free_device(pointer)
        api.set_device(0)
        # Our failure has its own status, though not its details.
        with pytest.raises(rt.OutOfMemoryError) as caught:
            api.malloc_device(2**62)
        assert caught.value.operation == "malloc_device"
        assert "INVALID_DEVICE" in caught.value.message and "-5" not in caught.value.message
        # Theirs is still there, once.
        peeked = rt.peek_last_error()
        assert isinstance(peeked, rt.InvalidDeviceError) and "-5" in peeked.message
    finally:
        theirs = rt.take_last_error()
    assert theirs is not None and theirs.operation == "set_device"
    assert rt.take_last_error() is None


def test_the_slot_is_each_threads_own(api: rt.RuntimeAPI) -> None:
    c_table = library().llaisysGetRuntimeAPI(api.device_type).contents
    seen = []

    def fail_and_look() -> None:
        c_table.set_device(77)
        seen.append(rt.take_last_error())

    c_table.set_device(-5)
    thread = threading.Thread(target=fail_and_look)
    thread.start()
    thread.join()
    assert seen[0] is not None and "77" in seen[0].message
    mine = rt.take_last_error()
    assert mine is not None and "-5" in mine.message


def test_a_free_from_del_that_fails_leaves_nothing(device: rt.Device) -> None:
    buffer = rt.Buffer(256, device)
    rt.RuntimeAPI(device.type).free_device(buffer.address)  # behind its back
    del buffer
    assert rt.peek_last_error() is None


def test_a_device_type_without_a_backend_says_so() -> None:
    api = rt.RuntimeAPI(rt.DeviceType.KUNLUN)
    assert api.get_device_count() == 0
    assert rt.devices(rt.DeviceType.KUNLUN) == []
    assert rt.unavailable_reason(rt.DeviceType.KUNLUN) is not None
    for call in (
        lambda: api.malloc_device(1),
        lambda: api.set_device(0),
        api.create_stream,
        lambda: rt.Device(rt.DeviceType.KUNLUN),
    ):
        with pytest.raises(rt.LlaisysError) as caught:
            call()
        assert caught.value.status in (
            rt.Status.BACKEND_UNAVAILABLE,
            rt.Status.BACKEND_REFUSED,
        )
    for number in (-1, 2**31 - 1, -(2**31)):
        assert rt.RuntimeAPI(number).get_device_count() == 0


def test_a_backend_file_that_is_not_there_is_refused(tmp_path: object) -> None:
    with pytest.raises(rt.LlaisysError) as caught:
        rt.load_backend(f"{tmp_path}/libllaisys_backend_none.so")
    assert caught.value.status == rt.Status.BACKEND_REFUSED
    refused = [found for found in rt.candidates() if "backend_none" in found.path]
    assert refused and refused[-1].status != rt.Status.SUCCESS and refused[-1].reason
