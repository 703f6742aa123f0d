"""IREE's CPU devices, measured as `llaisys-rt bench stream|copy --json` measures ours, and printed as the same
objects, without ours (`ours` and `ratio` are null).

    pip install iree-base-runtime
    benches/peers/run iree

A stream of IREE's is a timeline: an operation waits for a value of a semaphore and signals the next one.
What is enqueued is a copy of four bytes: the least that its Python package can enqueue in 3.13. Each call goes
through Python, whose own cost is about what the row `a call of Python` says.

Rule: all memory was written first; the median of the runs counts.
"""

import json
import statistics
import sys
import time

import numpy
from iree import runtime
from iree.runtime import version

RUNS, ROUNDS, MANY, SIZE = 40, 200, 1000, 256 << 20


class Timeline:
    """A semaphore and the last value that was promised of it."""

    def __init__(self, device):
        self.device, self.semaphore, self.value = device, device.create_semaphore(0), 0

    def copy(self, source, target, after=None):
        """A copy after what is on this timeline, and on another one."""
        waits = [(self.semaphore, self.value)]
        if after is not None:
            waits.append((after.semaphore, after.value))
        self.value += 1
        self.device.queue_copy(source, target, waits, [(self.semaphore, self.value)])

    def wait(self):
        self.semaphore.wait(self.value)


def measure(driver, goal, bench, run, calls, size=0):
    print(f"{driver}: {goal}: {bench}", file=sys.stderr)
    run()
    times = []
    for _ in range(RUNS):
        start = time.perf_counter_ns()
        run()
        times.append((time.perf_counter_ns() - start) / calls)
    middle, late = statistics.median(times), max(times)
    if size:
        middle, late = size / middle, size / late
    row = {
        "goal": goal,
        "bench": bench,
        "backend": "iree",
        "device": driver,
        "unit": "GB/s" if size else "ns",
        "ours": None,
        "peer": f"IREE {version.VERSION} {driver}, through Python",
        "theirs": round(middle, 2),
        "ratio": None,
        "p50": round(middle, 2),
        "p99": round(late, 2),
        "runs": RUNS,
    }
    print(json.dumps(row), flush=True)


def bench(driver):
    device = runtime.get_device(driver)
    first, second = Timeline(device), Timeline(device)

    def buffer(size):
        return device.allocator.allocate_buffer_copy(
            memory_type=runtime.MemoryType.DEVICE_LOCAL,
            allowed_usage=runtime.BufferUsage.DEFAULT,
            device=device,
            buffer=numpy.ones(size, numpy.uint8),
        )

    small, large = (buffer(4), buffer(4)), (buffer(SIZE), buffer(SIZE))

    def call():
        for _ in range(ROUNDS):
            first.semaphore.query()

    def round_trip():
        for _ in range(ROUNDS):
            first.copy(*small)
            first.wait()

    def pipelined():
        for _ in range(MANY):
            first.copy(*small)
        first.wait()

    def hops():
        before, after = first, second
        for _ in range(MANY):
            after.copy(*small, before)
            before, after = after, before
        first.wait()
        second.wait()

    def copy():
        first.copy(*large)
        first.wait()

    measure(driver, "G12", "a call of Python", call, ROUNDS)
    measure(driver, "G12", "copy of 4 bytes + wait", round_trip, ROUNDS)
    measure(driver, "G13", "copy of 4 bytes, pipelined", pipelined, MANY)
    measure(driver, "G14", "hop: copy of 4 bytes behind the other timeline", hops, MANY)
    measure(driver, "G15", "copy of 256 MiB", copy, 1, SIZE)


if __name__ == "__main__":
    for name in sys.argv[1:] or ["local-sync", "local-task"]:
        bench(name)
