"""Our streams and events used by PyTorch."""

from __future__ import annotations

from checks import LONG, check, nvidia, run, torch_with_gpu

torch = torch_with_gpu()
import llaisys_runtime as rt  # noqa: E402

device = nvidia()
N = 1 << 20


@check
def a_kernel_runs_on_our_stream() -> None:
    # The first use of a kernel loads it, which may take longer than the sleep below.
    torch.cuda._sleep(1)
    warm = torch.ones(N, device="cuda") * 3
    assert bool((warm == 3).all())
    for options in ({}, {"non_blocking": True}, {"priority": device.priority_range.greatest}):
        with rt.Stream(device, **options) as ours:
            external = torch.cuda.ExternalStream(ours.native_handle)
            with torch.cuda.stream(external):
                torch.cuda._sleep(LONG)
                tensor = torch.ones(N, device="cuda") * 3
            assert not ours.query(), options
            ours.synchronize()
            assert external.query() and bool((tensor == 3).all())


@check
def our_copy_and_torchs_kernel_keep_their_order() -> None:
    values = torch.arange(N, dtype=torch.float32)
    out = torch.zeros(N, pin_memory=True)
    with rt.Stream(device) as ours, rt.Buffer(values.nbytes, device) as buffer:
        view = torch.from_dlpack(buffer).view(torch.float32)
        with torch.cuda.stream(torch.cuda.ExternalStream(ours.native_handle)):
            torch.cuda._sleep(LONG)
            buffer.copy_from(values.numpy(), ours, promised=True)
            view *= 2
            buffer.copy_to(out.numpy(), ours, promised=True)
        ours.synchronize()
    assert torch.equal(out, values * 2)


@check
def our_stream_comes_back_from_torch_as_ours() -> None:
    with rt.Stream(device) as ours:
        external = torch.cuda.ExternalStream(ours.native_handle)
        with rt.Stream.adopt(external) as again:
            assert again.native_handle == ours.native_handle
        ours.synchronize()


@check
def one_torch_stream_may_be_adopted_twice() -> None:
    stream = torch.cuda.Stream()
    first, second = rt.Stream.adopt(stream), rt.Stream.adopt(stream)
    first.close()
    second.synchronize()
    second.close()
    stream.synchronize()
    with rt.Stream.adopt(stream) as third:
        third.synchronize()


@check
def a_torch_stream_waits_for_our_event_and_ours_for_its_work() -> None:
    stream = torch.cuda.Stream()
    with rt.Stream(device, non_blocking=True) as ours, rt.Event(device) as event:
        with torch.cuda.stream(torch.cuda.ExternalStream(ours.native_handle)):
            torch.cuda._sleep(LONG)
            tensor = torch.full((N,), 4.0, device="cuda")
        event.record(ours)
        with rt.Stream.adopt(stream) as adopted:
            adopted.wait(event)
            with torch.cuda.stream(stream):
                result = tensor + 1
            event.record(adopted)
            ours.wait(event)
            ours.synchronize()
        assert bool((result == 5).all())


@check
def events_measure_torchs_kernels() -> None:
    start, end = rt.Event(device, timing=True), rt.Event(device, timing=True)
    stream = torch.cuda.Stream()
    with rt.Stream.adopt(stream) as ours, torch.cuda.stream(stream):
        start.record(ours)
        torch.cuda._sleep(LONG)
        end.record(ours)
        try:
            start.elapsed_ns(end)
        except rt.NotReadyError:
            pass
        else:
            raise AssertionError("measured before it was reached")
        end.synchronize()
        assert 1_000_000 < start.elapsed_ns(end) < 10_000_000_000


@check
def closing_our_stream_leaves_its_kernels_running() -> None:
    ours = rt.Stream(device)
    with torch.cuda.stream(torch.cuda.ExternalStream(ours.native_handle)):
        torch.cuda._sleep(LONG)
        tensor = torch.full((N,), 8.0, device="cuda")
    ours.close()
    torch.cuda.synchronize()
    assert bool((tensor == 8).all())


run()
