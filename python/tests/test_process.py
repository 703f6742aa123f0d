"""Ctrl-C, exit and fork, each in a process of its own (contract L1 to L3; cases 21, 25, 27, 28)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any, Callable

import pytest
from conftest import PROLOGUE, process_environment

Script = Callable[..., "subprocess.CompletedProcess[str]"]

WAITS = {
    "stream": "stream.synchronize()",
    "device": "device.synchronize()",
    "copy": "buffer.copy_to(out)",
    "pageable": "buffer.copy_to(out, stream)",
    "large": "rt.copy(large_out, large, stream)",
    "twelve-stream": "api.stream_synchronize(stream.native_handle)",
    "twelve-device": "api.device_synchronize()",
    "twelve-copy": "api.memcpy_sync(buffer.address, pinned.address, 64, 1)",
}


@pytest.mark.parametrize("what", sorted(WAITS))
def test_ctrl_c_is_heard_within_a_second(what: str) -> None:
    code = f"""
api = rt.RuntimeAPI(device.type)
stream, buffer, out = rt.Stream(device), rt.Buffer(64, device), bytearray(64)
pinned = rt.HostBuffer(64, device)
large, large_out = rt.Buffer(65 << 20, device), bytearray(65 << 20)
gate = Gate(stream)
print("waiting", flush=True)
try:
    {WAITS[what]}
    print("it did not wait")
except KeyboardInterrupt:
    print("interrupted", flush=True)
gate.open()
device.synchronize()
assert rt.take_last_error() is None
"""
    process = subprocess.Popen(
        [sys.executable, "-c", PROLOGUE + code],
        env=process_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n", process.communicate()[1]
        time.sleep(0.5)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        line = process.stdout.readline()
        elapsed = time.monotonic() - start
        output, errors = process.communicate(timeout=30)
    finally:
        process.kill()
    assert line == "interrupted\n", output + errors
    assert elapsed < 1
    assert (process.returncode, errors) == (0, "")


def test_a_signal_handler_that_does_not_raise_lets_the_wait_go_on(script: Script) -> None:
    done = script(
        """
seen = []
signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
stream = rt.Stream(device)
gate = Gate(stream)
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
threading.Timer(0.6, gate.open).start()
stream.synchronize()
assert stream.query()
signal.setitimer(signal.ITIMER_REAL, 0)
assert len(seen) >= 3, seen
"""
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_storm_of_signals_during_allocation(script: Script) -> None:
    done = script(
        """
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
for _ in range(20000):
    rt.Buffer(4096, device).close()
signal.setitimer(signal.ITIMER_REAL, 0)
"""
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_many_frees_are_silent(script: Script) -> None:
    done = script(
        """
api = rt.RuntimeAPI(device.type)
for _ in range(200_000):
    api.free_device(api.malloc_device(64))
for _ in range(100_000):
    rt.Buffer(64, device)
"""
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


ALIVE = """
stream, buffer, pinned = rt.Stream(device), rt.Buffer(1 << 20, device), rt.HostBuffer(1 << 20, device)
view = pinned.view()
class Cycle:
    pass
cycle = Cycle()
cycle.me, cycle.held = cycle, [rt.Buffer(64, device), rt.Stream(device), rt.HostBuffer(64, device)]
buffer.copy_from(pinned, stream)
default = rt.Stream.default(device)
"""


@pytest.mark.parametrize(
    "end, status",
    [
        ("", 0),
        ("sys.exit(3)", 3),
        ("threading.Thread(target=lambda: os._exit(4)).start(); time.sleep(30)", 4),
        ("raise RuntimeError('mine')", 1),
        ("import builtins; builtins.kept = [stream, buffer, pinned, view]", 0),
        ("sys.modules['kept'] = stream", 0),
    ],
)
def test_exit_is_clean_with_everything_alive(script: Script, end: str, status: int) -> None:
    done = script(ALIVE + end)
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    if "RuntimeError" in end:
        assert done.stderr.endswith("RuntimeError: mine\n")
        assert "Exception ignored" not in done.stderr
    else:
        assert done.stderr == ""


def test_exit_is_clean_while_another_thread_copies_and_one_waits(script: Script) -> None:
    done = script(
        """
stream, gated = rt.Stream(device), rt.Stream(device)
gate = Gate(gated)
def copy():
    first, second = rt.Buffer(8 << 20, device), rt.Buffer(8 << 20, device)
    while True:
        rt.copy(first, second, stream)
        stream.synchronize()
threading.Thread(target=copy, daemon=True).start()
threading.Thread(target=gated.synchronize, daemon=True).start()
time.sleep(0.2)
sys.exit(5)
"""
    )
    assert (done.returncode, done.stdout, done.stderr) == (5, "", "")


def test_exit_is_clean_with_promised_memory_in_use(script: Script) -> None:
    # 64 MiB: large enough to be unmapped when it is freed, under the copy that is still to come.
    done = script(
        """
stream, buffer = rt.Stream(device), rt.Buffer(64 << 20, device)
gate = Gate(stream)
for _ in range(4):
    buffer.copy_from(bytearray(64 << 20), stream, promised=True)
    buffer.copy_to(bytearray(64 << 20), stream, promised=True)
class Opener:
    # Opened by the teardown of the interpreter: then the copies run.
    def __init__(self, gate): self.open = gate.open
    def __del__(self): self.open()
opener = Opener(gate)
"""
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_child_of_fork_frees_what_it_inherited_in_silence(script: Script) -> None:
    done = script(
        ALIVE
        + """
stream.synchronize()
read, write = os.pipe()
child = os.fork()
if child == 0:
    status = 1
    try:
        buffer.close(); pinned.close(); stream.close()
        del cycle
        import gc; gc.collect()
        if device.type == rt.DeviceType.CPU:
            out = bytearray(8)
            with rt.Buffer(8, device) as fresh, rt.Stream(device) as own:
                fresh.copy_from(b"in child", own)
                fresh.copy_to(out, own)
                own.synchronize()
                device.synchronize()
            assert out == b"in child"
        else:
            try:
                rt.Buffer(8, device)
            except rt.ForkedError:
                pass
            else:
                raise AssertionError("no ForkedError")
        status = 0
    finally:
        if status: sys.stdout.flush()
        else: sys.exit(7)
_, status = os.waitpid(child, 0)
assert os.WEXITSTATUS(status) == 7, status
out = bytearray(1 << 20)
buffer.copy_to(out)
"""
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_fork_while_another_thread_allocates(script: Script) -> None:
    done = script(
        """
stop = threading.Event()
def allocate():
    while not stop.is_set():
        rt.Buffer(4096, device); rt.HostBuffer(64, device); rt.Stream(device).close()
threads = [threading.Thread(target=allocate) for _ in range(2)]
for thread in threads: thread.start()
for _ in range(30):
    child = os.fork()
    if child == 0:
        if device.type == rt.DeviceType.CPU:
            for _ in range(10): rt.Buffer(4096, device)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
for thread in threads: thread.join()
"""
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_counting_devices_leaves_fork_possible(script: Script) -> None:
    done = script(
        """
for type in range(-1, 12): rt.RuntimeAPI(type).get_device_count()
rt.devices(); rt.candidates()
child = os.fork()
if child == 0:
    rt.Buffer(64, device).close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def run_client(name: str, *arguments: str) -> Any:
    from conftest import CHECKOUT, DEVICE_NAME

    client = CHECKOUT / "tests" / "clients" / "python" / name
    environment = process_environment()
    library = environment["LLAISYS_RUNTIME_LIBRARY"]
    return subprocess.run(
        [sys.executable, str(client), "--device", DEVICE_NAME, "--library", library, *arguments],
        env={**environment, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_client_llaisys_test_runtime() -> None:
    done = run_client("llaisys_test_runtime.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("Test passed!\n")


def test_client_copy_two_streams() -> None:
    import json

    done = run_client("copy_two_streams.py", "--mib", "4", "--repeat", "3", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line["memory"], line["leg"]) for line in lines] == [
        (memory, leg) for memory in ("pinned", "pageable") for leg in ("H2D", "D2D", "D2H")
    ]
    for line in lines:
        assert line["client"] == "python" and line["right"] is True and line["bytes"] == 4 << 20
        assert line["gb_per_s"] == pytest.approx(line["bytes"] / line["seconds"] / 1e9)
    text = run_client("copy_two_streams.py", "--mib", "1", "--repeat", "1")
    assert text.returncode == 0 and "WRONG" not in text.stdout
    assert os.environ.get("LLAISYS_TEST_DEVICE", "cpu") in text.stdout
