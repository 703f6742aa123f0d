"""What the tests share: the device under test, and a gate that holds a stream.

The device is the CPU, or what ``LLAISYS_TEST_DEVICE`` says (``nvidia``). The library is found as the
package finds it; ``LLAISYS_RUNTIME_LIBRARY`` names another one.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
PACKAGE = CHECKOUT / "python"
sys.path.insert(0, str(PACKAGE))
sys.path.insert(0, str(Path(__file__).resolve().parent))
# Two virtual devices, so that "the other device" exists; read when the library is opened.
os.environ.setdefault("LLAISYS_CPU_DEVICES", "2")

import llaisys_runtime as rt  # noqa: E402
from gate import Gate  # noqa: E402

try:
    rt.library_path()
except rt.LibraryNotFoundError as missing:
    pytest.exit(f"build the library first (cargo build -p llaisys-capi): {missing}", returncode=4)

DEVICE_NAME = os.environ.get("LLAISYS_TEST_DEVICE", "cpu")


@pytest.fixture
def device() -> rt.Device:
    return rt.Device(rt.DeviceType[DEVICE_NAME.upper()], 0)


@pytest.fixture
def api(device: rt.Device) -> Iterator[rt.RuntimeAPI]:
    api = rt.RuntimeAPI(device.type)
    api.set_device(0)
    yield api
    api.set_device(0)


@pytest.fixture
def stream(device: rt.Device) -> Iterator[rt.Stream]:
    with rt.Stream(device) as stream:
        yield stream


@pytest.fixture
def gate() -> Iterator[Callable[[rt.Stream], Gate]]:
    """Makes gates, and opens at the end whatever is still shut."""
    gates: List[Gate] = []

    def make(stream: rt.Stream) -> Gate:
        gates.append(Gate(stream))
        return gates[-1]

    yield make
    for made in gates:
        made.open()


@pytest.fixture(autouse=True)
def the_error_slot_is_left_empty() -> Iterator[None]:
    """No test, and nothing in the package, leaves a failure unread."""
    yield
    left = rt.take_last_error()
    assert left is None, f"left in the slot: {left}"


@pytest.fixture
def script() -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Runs Python code in a process of its own, with the package, the device and `Gate` at hand."""

    def run(code: str, timeout: float = 60, **environment: str) -> Any:
        return subprocess.run(
            [sys.executable, "-X", "faulthandler", "-c", PROLOGUE + code],
            env=process_environment(**environment),
            timeout=timeout,
            capture_output=True,
            text=True,
        )

    return run


PROLOGUE = f"""
import ctypes, os, signal, sys, threading, time, warnings
# Python 3.12 and newer warn of every fork of a process with threads; here that is what is tested.
warnings.filterwarnings("ignore", ".*fork.*", DeprecationWarning)
import llaisys_runtime as rt
from gate import Gate
device = rt.Device(rt.DeviceType[{DEVICE_NAME.upper()!r}], 0)
"""


def process_environment(**extra: str) -> Dict[str, str]:
    path = os.pathsep.join([str(PACKAGE), str(Path(__file__).resolve().parent)])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **extra}
    environment.setdefault("LLAISYS_RUNTIME_LIBRARY", rt.library_path())
    return environment


def address_of(value: Any) -> int:
    """The address of a ctypes object."""
    return ctypes.addressof(value)
