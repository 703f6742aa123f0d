"""Memory of PyTorch tensors, copied and filled by us on PyTorch's streams."""

from __future__ import annotations

from checks import LONG, check, nvidia, run, torch_with_gpu

torch = torch_with_gpu()
import llaisys_runtime as rt  # noqa: E402

device = nvidia()
N = 1 << 20


@check
def a_tensor_is_copied_to_a_tensor_on_a_torch_stream() -> None:
    source = torch.arange(N, device="cuda", dtype=torch.float32)
    target = torch.zeros_like(source)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with rt.Stream.adopt(stream) as ours:
        assert ours.native_handle == stream.cuda_stream and ours.device == device
        to, from_ = rt.Buffer.from_foreign(target, ours), rt.Buffer.from_foreign(source, ours)
        assert to.address == target.data_ptr() and from_.nbytes == source.nbytes
        rt.copy(to, from_, ours)
        stream.synchronize()
    assert torch.equal(target, source)


@check
def our_copy_comes_after_torchs_kernel_on_the_same_stream() -> None:
    tensor, out = torch.zeros(N, device="cuda"), torch.empty(N, pin_memory=True)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), rt.Stream.adopt(stream) as ours:
        torch.cuda._sleep(LONG)
        tensor += 7
        foreign = rt.Buffer.from_foreign(tensor, ours)
        foreign.copy_to(out.numpy(), ours, promised=True)
        assert not ours.query()
        ours.synchronize()
    assert bool((out == 7).all())


@check
def torchs_kernel_comes_after_our_copy_on_the_same_stream() -> None:
    tensor = torch.zeros(N, device="cuda")
    torch.cuda.synchronize()
    values = torch.full((N,), 3.0).numpy()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), rt.Stream.adopt(stream) as ours:
        torch.cuda._sleep(LONG)
        rt.Buffer.from_foreign(tensor, ours).copy_from(values, ours)
        result = tensor * 2
        stream.synchronize()
    assert bool((result == 6).all())


@check
def a_fill_and_a_batch_on_the_default_stream() -> None:
    tensors = [torch.ones(1000, device="cuda", dtype=torch.int32) for _ in range(8)]
    with rt.Stream.adopt(torch.cuda.default_stream()) as ours:
        assert ours.native_handle == 0
        buffers = [rt.Buffer.from_foreign(tensor, ours) for tensor in tensors]
        buffers[0].fill(b"\x05\x00\x00\x00", ours)
        rt.copy_batch([(buffer, buffers[0]) for buffer in buffers[1:]], ours)
    for tensor in tensors:
        assert bool((tensor == 5).all())


@check
def a_tensor_that_is_dropped_stays_while_our_copy_runs() -> None:
    # PyTorch reuses freed memory at once on its own stream.
    out = torch.zeros(N, pin_memory=True)
    with rt.Stream(device, non_blocking=True) as ours:
        tensor = torch.full((N,), 9.0, device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.stream(torch.cuda.ExternalStream(ours.native_handle)):
            torch.cuda._sleep(LONG)
        foreign = rt.Buffer.from_foreign(tensor, ours)
        foreign.copy_to(out.numpy(), ours, promised=True)
        foreign.close()
        del tensor, foreign
        other = torch.zeros(N, device="cuda")
        torch.cuda.current_stream().synchronize()
        ours.synchronize()
    assert bool((out == 9).all()) and bool((other == 0).all())


@check
def what_is_known_of_a_tensors_address() -> None:
    tensor = torch.zeros(N, device="cuda")
    found = rt.pointer_attributes(tensor)
    assert found.kind == rt.MemoryKind.DEVICE and found.device == device and not found.ours
    pinned = torch.zeros(16, pin_memory=True)
    assert rt.pointer_attributes(pinned.data_ptr()).kind in (
        rt.MemoryKind.PINNED,
        rt.MemoryKind.REGISTERED,
    )


run()
