"""Devices: what they are, where their memory went, how they are linked, what they support."""

from __future__ import annotations

import gc
import threading
from typing import Any, Callable, List

import llaisys_runtime as rt
import pytest
from llaisys_runtime import _abi


def test_properties_say_what_the_device_is(device: rt.Device) -> None:
    found = device.properties
    assert found.name and found.vendor and found.processor_count > 0 and found.total_memory > 0
    assert isinstance(found.integrated, bool) and isinstance(found.capabilities, rt.Capability)
    assert all(isinstance(feature, str) and feature for feature in found.cpu_features)
    if device.type == rt.DeviceType.CPU:
        assert rt.Capability.DEVICE_MEMORY_IS_HOST_MEMORY in found.capabilities
        assert found.compute_capability == (0, 0)
    else:
        assert found.compute_capability >= (5, 0) and found.l2_cache_size > 0


def test_every_operation_says_how_it_is_there_and_the_saying_is_true(device: rt.Device) -> None:
    for name, _ in _abi.LlaisysBackendAPI._fields_[5:]:
        assert device.supports(name) in set(rt.Support)
    for no_name in ("", "no_such", "memset_async\0", "memset_async "):
        with pytest.raises(rt.InvalidValueError):
            device.supports(no_name)
    for name, use in (
        ("create_event", lambda: rt.Event(device).close()),
        ("create_stream_with", lambda: rt.Stream(device, priority=0).close()),
        ("malloc_managed", lambda: rt.ManagedBuffer(64, device).close()),
        ("register_host", lambda: rt.register_host(bytearray(64), device).close()),
        ("get_peer_link", lambda: device.peer_link(other_or_skip(device))),
    ):
        if device.supports(name) == rt.Support.UNSUPPORTED:
            with pytest.raises(rt.NotSupportedError):
                use()
        else:
            use()


def other_or_skip(device: rt.Device) -> rt.Device:
    others = [one for one in rt.devices(device.type) if one != device]
    if not others:
        pytest.skip("there is one device of this type")
    return others[0]


def test_statistics_follow_every_buffer(device: rt.Device) -> None:
    gc.collect()
    device.reset_peak()
    before = device.memory_statistics()
    with rt.Buffer(5000, device), rt.Buffer(3000, device):
        now = device.memory_statistics()
        assert now.used == before.used + 8000 and now.live == before.live + 2
        assert now.allocations == before.allocations + 2 and now.reserved >= now.used
    after = device.memory_statistics()
    assert (after.used, after.live) == (before.used, before.live)
    assert after.frees == before.frees + 2 and after.peak == before.used + 8000
    device.reset_peak()
    assert device.memory_statistics().peak == after.used
    device.trim()
    device.trim(keep=1 << 20)


def test_a_limit_is_kept_and_can_be_taken_away(device: rt.Device) -> None:
    used = device.memory_statistics().used
    assert device.memory_statistics().limit is None
    device.set_memory_limit(used + 1000)
    try:
        assert device.memory_statistics().limit == used + 1000
        failures = device.memory_statistics().failures
        with pytest.raises(rt.OutOfMemoryError, match="limit"):
            rt.Buffer(1001, device)
        assert device.memory_statistics().failures == failures + 1
        rt.Buffer(1000, device).close()
    finally:
        device.set_memory_limit(None)
    rt.Buffer(1001, device).close()
    for wrong in (-1, 2**64):
        with pytest.raises(ValueError):
            device.set_memory_limit(wrong)


@pytest.fixture
def limited(device: rt.Device) -> Any:
    device.set_memory_limit(device.memory_statistics().used + 1000)
    yield device
    device.set_memory_limit(None)
    rt.set_out_of_memory_callback(device.type, None)


def test_a_callback_may_free_memory_for_an_allocation(limited: rt.Device) -> None:
    cache = [rt.Buffer(1000, limited)]
    asked: List[Any] = []

    def callback(device: rt.Device, requested: int) -> bool:
        asked.append((device, requested, threading.get_ident()))
        if not cache:
            return False
        cache.pop().close()
        return True

    rt.set_out_of_memory_callback(limited.type, callback)
    del callback
    gc.collect()
    rt.Buffer(600, limited).close()
    assert asked == [(limited, 600, threading.get_ident())]
    with pytest.raises(rt.OutOfMemoryError):
        rt.Buffer(1001, limited)
    assert len(asked) == 2
    rt.set_out_of_memory_callback(limited.type, None)
    with pytest.raises(rt.OutOfMemoryError):
        rt.Buffer(1001, limited)
    assert len(asked) == 2


def test_what_a_callback_raises_is_contained(limited: rt.Device, capsys: Any) -> None:
    def raising(kind: Any) -> Callable[[rt.Device, int], bool]:
        def callback(device: rt.Device, requested: int) -> bool:
            raise kind("from the callback")

        return callback

    rt.set_out_of_memory_callback(limited.type, raising(KeyError))
    with pytest.raises(rt.OutOfMemoryError) as caught:
        rt.Buffer(1001, limited)
    assert isinstance(caught.value.__cause__, KeyError)
    rt.set_out_of_memory_callback(limited.type, raising(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt, match="from the callback"):
        rt.RuntimeAPI(limited.type).malloc_device(1001)
    rt.set_out_of_memory_callback(limited.type, lambda device, requested: False)
    with pytest.raises(rt.OutOfMemoryError) as caught:
        rt.Buffer(1001, limited)
    assert caught.value.__cause__ is None
    assert capsys.readouterr() == ("", "")
    with pytest.raises(TypeError):
        rt.set_out_of_memory_callback(limited.type, 5)  # type: ignore[arg-type]


def test_a_callback_that_is_set_at_exit_does_no_harm(script: Callable[..., Any]) -> None:
    done = script(
        "rt.set_out_of_memory_callback(device.type, lambda d, n: print('asked') or False)\n"
        "device.set_memory_limit(0)\n"
        "try: rt.Buffer(1, device)\n"
        "except rt.OutOfMemoryError: print('out')\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "asked\nout\n", "")


def test_links_between_devices(device: rt.Device) -> None:
    itself = device.peer_link(device)
    assert itself.kind == rt.LinkKind.SAME_DEVICE and itself.can_access and itself.enabled
    with pytest.raises(rt.InvalidValueError):
        device.enable_peer_access(device)
    other = other_or_skip(device)
    link = device.peer_link(other)
    assert link.kind != rt.LinkKind.SAME_DEVICE
    if link.can_access:
        device.enable_peer_access(other)
        device.enable_peer_access(other)
        assert device.peer_link(other).enabled


def test_priorities_have_a_range(device: rt.Device) -> None:
    least, greatest = device.priority_range
    assert greatest <= least
    for wanted in (least, greatest, -(2**31), 2**31 - 1):
        rt.Stream(device, priority=wanted).close()
    with pytest.raises(ValueError):
        rt.Stream(device, priority=2**31)


def test_a_threads_value_is_found_by_it_alone_and_ends_with_it(device: rt.Device) -> None:
    key, ended = rt.slot_key(), []
    assert device.get_thread_slot(key) == 0
    device.set_thread_slot(key, 11, ended.append)
    device.set_thread_slot(key, 12, ended.append)
    assert (device.get_thread_slot(key), ended) == (12, [11])

    def other() -> None:
        assert device.get_thread_slot(key) == 0
        device.set_thread_slot(key, 21, ended.append)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert sorted(ended) == [11, 21] and device.get_thread_slot(key) == 12
    device.set_thread_slot(key, None)
    assert sorted(ended) == [11, 12, 21] and device.get_thread_slot(key) == 0
    device.set_thread_slot(key, 13)
    device.set_thread_slot(key, 0)
    assert len({rt.slot_key() for _ in range(100)} | {key}) == 101
    for wrong in (-1, 2**64):
        with pytest.raises(ValueError):
            device.set_thread_slot(wrong, 1)


def test_the_main_threads_values_end_at_exit(script: Callable[..., Any]) -> None:
    done = script(
        "key = rt.slot_key()\n"
        "device.set_thread_slot(key, 5, lambda value: print('ended', value, device.get_thread_slot(key)))\n"
        "device.set_thread_slot(rt.slot_key(), 6, lambda value: 1 / 0)\n"
        "stream = rt.Stream(device)\n"
        "stream.set_slot(key, 7, lambda value: print('ended', value))\n"
        "threading.Thread(target=lambda: (\n"
        "    device.set_thread_slot(key, 8), time.sleep(60)), daemon=True).start()\n"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == ["ended 5 0", "ended 7"]
