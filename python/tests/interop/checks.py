"""What the programs of this folder share: PASS and FAIL lines, and the exit code."""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path
from typing import Any, Callable, List

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

#: The exit code of a program that could check nothing.
SKIPPED = 77

_failed: List[str] = []
_checks: List[Callable[[], None]] = []


def check(function: Callable[[], None]) -> Callable[[], None]:
    """Marks a function as a check; its name is the line that is printed."""
    _checks.append(function)
    return function


def run() -> None:
    """Runs every check and exits."""
    for function in _checks:
        name = function.__name__.replace("_", " ")
        try:
            function()
        except Exception:
            _failed.append(name)
            print(f"FAIL {name}", flush=True)
            traceback.print_exc(file=sys.stdout)
        else:
            print(f"PASS {name}", flush=True)
    print(f"{len(_checks) - len(_failed)} passed, {len(_failed)} failed", flush=True)
    sys.exit(1 if _failed else 0)


def need(name: str) -> Any:
    """A module, or the end of the program when it is not there."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        print(f"SKIP {name} cannot be imported: {error}", flush=True)
        sys.exit(SKIPPED)


def nvidia() -> Any:
    """Our first NVIDIA device, or the end of the program when there is none."""
    import llaisys_runtime as rt

    reason = rt.unavailable_reason(rt.DeviceType.NVIDIA)
    if reason is not None or not rt.devices(rt.DeviceType.NVIDIA):
        print(f"SKIP no NVIDIA device: {reason}", flush=True)
        sys.exit(SKIPPED)
    return rt.Device(rt.DeviceType.NVIDIA, 0)


def torch_with_gpu() -> Any:
    """PyTorch, when it sees a GPU."""
    torch = need("torch")
    if not torch.cuda.is_available():
        print("SKIP PyTorch sees no GPU", flush=True)
        sys.exit(SKIPPED)
    return torch


#: Cycles of a kernel that is still running when the next line of Python runs.
LONG = 200_000_000
