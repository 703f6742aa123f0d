"""Our buffers seen by PyTorch, and tensors by us: one address on both sides."""

from __future__ import annotations

import gc
from typing import Any

from checks import LONG, check, nvidia, run, torch_with_gpu

torch = torch_with_gpu()
import llaisys_runtime as rt  # noqa: E402

device = nvidia()
N = 1 << 20


class InterfaceOnly:
    """What has only ``__cuda_array_interface__``, so that nothing else can be what is taken."""

    def __init__(self, value: Any) -> None:
        self.value = value

    @property
    def __cuda_array_interface__(self) -> Any:
        return self.value.__cuda_array_interface__


@check
def torch_sees_our_buffer_through_dlpack() -> None:
    with rt.Buffer(N, device) as buffer:
        assert buffer.__dlpack_device__() == (2, 0)
        buffer.fill(5)
        tensor = torch.from_dlpack(buffer)
        assert tensor.data_ptr() == buffer.address and tensor.dtype == torch.uint8
        assert tensor.shape == (N,) and bool((tensor == 5).all())
        tensor += 1
        torch.cuda.synchronize()
        out = bytearray(N)
        buffer.copy_to(out)
        assert out == b"\x06" * N
    # Lent memory lives on.
    buffer.close()
    del buffer
    gc.collect()
    others = [rt.Buffer(N, device) for _ in range(8)]
    for other in others:
        other.fill(0)
    assert bool((tensor == 6).all())


@check
def torch_sees_our_buffer_through_the_array_interface() -> None:
    buffer = rt.Buffer(N, device)
    buffer.fill(5)
    tensor = torch.as_tensor(InterfaceOnly(buffer), device="cuda")
    assert tensor.data_ptr() == buffer.address and bool((tensor == 5).all())
    buffer.close()
    del buffer
    gc.collect()
    other = rt.Buffer(N, device)
    other.fill(0)
    assert bool((tensor == 5).all())


@check
def a_capsule_of_either_version_is_taken() -> None:
    with rt.Buffer(256, device) as buffer:
        for more in ({}, {"max_version": (1, 0)}):
            capsule = buffer.__dlpack__(**more)
            assert torch.utils.dlpack.from_dlpack(capsule).data_ptr() == buffer.address


@check
def lent_memory_comes_after_our_pending_work() -> None:
    with rt.Stream(device) as ours, rt.Buffer(N, device) as buffer:
        buffer.fill(0)
        with torch.cuda.stream(torch.cuda.ExternalStream(ours.native_handle)):
            torch.cuda._sleep(LONG)
        buffer.fill(9, ours)
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            tensor = torch.from_dlpack(buffer)
            result = tensor + 0
        side.synchronize()
        assert bool((result == 9).all())


@check
def we_see_a_tensor() -> None:
    for make in (
        lambda: torch.arange(N, device="cuda", dtype=torch.int64),
        lambda: torch.ones(4, 5, 6, device="cuda", dtype=torch.bfloat16),
        lambda: torch.zeros(0, 3, device="cuda"),
        lambda: torch.ones(1000, device="cuda", dtype=torch.bool),
    ):
        tensor = make()
        with rt.Buffer.from_foreign(tensor) as foreign:
            assert foreign.nbytes == tensor.nbytes and foreign.device.ordinal == 0
            assert foreign.address == (tensor.data_ptr() if tensor.numel() else 0)
            out = bytearray(tensor.nbytes)
            foreign.copy_to(out)
            host = tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
            assert out == host.tobytes()


@check
def what_is_borrowed_comes_after_torchs_pending_work() -> None:
    tensor = torch.zeros(N, device="cuda", dtype=torch.uint8)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(LONG)
        tensor += 3
        with rt.Buffer.from_foreign(tensor) as foreign:
            out = bytearray(N)
            foreign.copy_to(out)  # on the default stream
            assert out == b"\x03" * N


@check
def a_strided_tensor_is_refused() -> None:
    for tensor in (torch.zeros(8, 8, device="cuda")[:, ::2], torch.zeros(8, 4, device="cuda").T):
        try:
            rt.Buffer.from_foreign(tensor)
        except BufferError:
            continue
        raise AssertionError("taken")


@check
def tensors_of_the_host_are_seen_too() -> None:
    tensor = torch.arange(1000, dtype=torch.float32)
    with rt.Buffer.from_foreign(tensor) as foreign, rt.Buffer(4000, device) as buffer:
        assert foreign.address == tensor.data_ptr()
        assert foreign.device.type == rt.DeviceType.CPU
        buffer.copy_from(tensor.numpy())
        assert torch.equal(torch.from_dlpack(buffer).view(torch.float32).cpu(), tensor)
    cpu = rt.Device(rt.DeviceType.CPU, 0)
    with rt.Buffer(16, cpu) as ours:
        assert torch.from_dlpack(ours).data_ptr() == ours.address


@check
def managed_memory_is_seen_by_both() -> None:
    if device.supports("malloc_managed") == rt.Support.UNSUPPORTED:
        return
    with rt.ManagedBuffer(N, device) as managed:
        managed.view()[:] = b"\x02" * N
        tensor = torch.as_tensor(InterfaceOnly(managed), device="cuda")
        assert tensor.data_ptr() == managed.address
        tensor += 1
        torch.cuda.synchronize()
        assert managed.view() == b"\x03" * N


@check
def views_that_come_and_go_leave_nothing_behind() -> None:
    gc.collect()
    used = device.memory_statistics().used
    for _ in range(1000):
        torch.from_dlpack(rt.Buffer(4096, device))
        rt.Buffer.from_foreign(torch.zeros(16, device="cuda"))
    gc.collect()
    torch.cuda.synchronize()
    assert device.memory_statistics().used == used


run()
