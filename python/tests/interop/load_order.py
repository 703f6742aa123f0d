"""We are loaded, and used, before PyTorch and after it; both work, and both end well.

Without an argument it runs itself in a process for each order.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from checks import check, nvidia, run, torch_with_gpu

N = 1 << 20


def use_us() -> Any:
    import llaisys_runtime as rt

    device = nvidia()
    with rt.Stream(device) as stream, rt.Buffer(N, device) as buffer:
        buffer.fill(3, stream)
        out = bytearray(N)
        buffer.copy_to(out, stream)
        assert out == b"\x03" * N
    return rt


def use_torch() -> Any:
    torch = torch_with_gpu()
    a = torch.ones(512, 512, device="cuda")
    assert float((a @ a).sum()) == 512.0**3
    return torch


def use_both(rt: Any, torch: Any) -> None:
    device = rt.Device(rt.DeviceType.NVIDIA, 0)
    with rt.Buffer(N, device) as buffer:
        buffer.fill(2)
        tensor = torch.from_dlpack(buffer)
        assert tensor.data_ptr() == buffer.address
        assert int(tensor.sum(dtype=torch.int64)) == 2 * N
    # Alive at exit on purpose: the tensor, a stream and a buffer of ours.
    sys.held = [tensor, rt.Stream(device), rt.Buffer(N, device)]  # type: ignore[attr-defined]


def in_a_process(order: str) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", __file__, order],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    assert done.stdout == "done\n" and done.stderr == "", f"{done.stdout}{done.stderr}"


@check
def we_are_loaded_before_torch() -> None:
    in_a_process("us-first")


@check
def we_are_loaded_after_torch() -> None:
    in_a_process("torch-first")


@check
def we_are_loaded_before_torch_and_used_after_it() -> None:
    in_a_process("us-loaded-torch-used-first")


if len(sys.argv) > 1:
    if sys.argv[1] == "us-first":
        use_both(use_us(), use_torch())
    elif sys.argv[1] == "torch-first":
        torch = use_torch()
        use_both(use_us(), torch)
    else:
        import llaisys_runtime

        llaisys_runtime.library_version()
        torch = use_torch()
        use_both(use_us(), torch)
    print("done")
else:
    torch_with_gpu()
    nvidia()
    run()
