"""CuPy's memory pool. It has no C API, so it is called from Python, whose empty loop is taken off; ours is
called from C++.

    cupy_pool.py OURS.so [--trace FILE]... [--seconds N] [--live-gib N]
"""

import argparse
import ctypes
import sys
import threading
import time
from pathlib import Path

import cupy

sys.path.insert(0, str(Path(__file__).resolve().parent))
from lib.ours import Ours, print_row  # noqa: E402

SIZE = 64 << 10
PEER = f"CuPy {cupy.__version__} MemoryPool, called from Python"


def adopted(ours: Ours, count: int) -> "list[cupy.cuda.ExternalStream]":
    """Our streams, as CuPy has them."""
    return [cupy.cuda.ExternalStream(stream) for stream in ours.streams(count)]


def cupy_pairs(pool: "cupy.cuda.MemoryPool", calls: int) -> float:
    malloc = pool.malloc
    begin = time.perf_counter_ns()
    for _ in range(calls):
        malloc(SIZE)
    middle = time.perf_counter_ns()
    for _ in range(calls):
        pass
    return (2 * middle - begin - time.perf_counter_ns()) / calls


def pairs(ours: Ours, pool: "cupy.cuda.MemoryPool", threads: int, seconds: float) -> None:
    streams = adopted(ours, threads)
    calls = 20_000 // threads
    mine: "list[float]" = []
    theirs: "list[float]" = []

    def on_threads() -> float:
        start, times = threading.Barrier(threads), [0.0] * threads

        def job(index: int) -> None:
            with cupy.cuda.Device(0), streams[index]:
                cupy_pairs(pool, 100)
                start.wait()
                times[index] = cupy_pairs(pool, calls)

        workers = [threading.Thread(target=job, args=(index,)) for index in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return max(times)

    begin = time.monotonic()
    while len(mine) < 5 or time.monotonic() - begin < seconds:
        mine.append(ours.call("pairs", SIZE, threads, 1, calls) / calls)
        theirs.append(on_threads())
    ending = "1 thread" if threads == 1 else f"{threads} threads"
    goal = "G1" if threads == 1 else "G2"
    print_row(ours, PEER, goal, f"alloc+free 64 KiB in a stream's order, {ending}", "ns", mine, theirs)


class Trace:
    """A trace in RMM's format; what is not one is said by the reader in C++."""

    def __init__(self, path: str, live_gib: float) -> None:
        self.path, self.live_gib = path, live_gib
        self.name = Path(path).name.split(".")[0]
        live: "dict[str, tuple[int, int]]" = {}
        lanes: "dict[str, int]" = {}
        steps = []
        self.highs: "set[int]" = set()
        used = self.peak = self.blocks = 0
        for line in Path(path).read_text().splitlines()[1:]:
            _, _, action, pointer, size, stream = line.split(",")
            lane = lanes.setdefault(stream, len(lanes) + 1) if int(stream, 0) else 0
            if action == "allocate":
                live[pointer] = (self.blocks, int(size))
                used += int(size)
                if used > self.peak:
                    self.peak = used
                    self.highs.add(len(steps))
                steps.append((lane, self.blocks, int(size)))
                self.blocks += 1
            elif action == "free":
                block, size_of = live.pop(pointer)
                used -= size_of
                steps.append((lane, block, 0))
        self.lanes = len(lanes)
        most = live_gib * 2**30
        if 0 < most < self.peak:
            steps = [(lane, block, int(size * most / self.peak) or (1 if size else 0)) for lane, block, size in steps]
            self.peak = int(most)
            self.name += f" scaled to {live_gib:.3g} GiB live"
        self.steps = steps

    def play(self, pool: "cupy.cuda.MemoryPool", streams: "list[cupy.cuda.Stream]", look: bool = False) -> "tuple[float, int]":
        """The nanoseconds of an operation, and the most that is held if one looks."""
        live: "list[object]" = [None] * self.blocks
        malloc, now, most = pool.malloc, 0, 0
        streams[0].use()
        begin = time.perf_counter_ns()
        for number, (lane, block, size) in enumerate(self.steps):
            if lane != now:
                streams[lane].use()
                now = lane
            live[block] = malloc(size) if size else None
            if look and (number % 100 == 0 or number in self.highs):
                most = max(most, pool.total_bytes())
        elapsed = time.perf_counter_ns() - begin
        del live
        cupy.cuda.Stream.null.use()
        return elapsed / len(self.steps), most


def trace(ours: Ours, pool: "cupy.cuda.MemoryPool", one: Trace, seconds: float) -> None:
    streams = [cupy.cuda.Stream.null, *adopted(ours, max(1, one.lanes))]
    path, live = one.path.encode(), ctypes.c_double(one.live_gib)

    def nothing() -> None:
        cupy.cuda.Device(0).synchronize()
        pool.free_all_blocks()
        for stream in streams:
            pool.free_all_blocks(stream=stream)

    nothing()
    share = ours.call("overhead", path, live)
    theirs = one.play(pool, streams, look=True)[1] / one.peak
    print_row(ours, PEER, "G3", f"trace {one.name}, reserved over peak live", "x", [share], [theirs])
    cold, warm = ([], []), ([], [])  # type: tuple[list[float], list[float]], tuple[list[float], list[float]]
    for _ in range(3):
        nothing()
        cold[0].append(ours.call("trace", path, live, 1))
        cold[1].append(one.play(pool, streams)[0])
    print_row(ours, PEER, "G3", f"trace {one.name}, from nothing, an op", "ns", *cold)
    begin = time.monotonic()
    while len(warm[0]) < 3 or time.monotonic() - begin < seconds:
        warm[0].append(ours.call("trace", path, live, 0))
        warm[1].append(one.play(pool, streams)[0])
    print_row(ours, PEER, "G3", f"trace {one.name}, an op", "ns", *warm)
    nothing()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ours")
    parser.add_argument("--trace", action="append", default=[])
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--live-gib", type=float, default=0.0)
    chosen = parser.parse_args()
    cupy.cuda.Device(0).use()
    ours, pool = Ours(chosen.ours), cupy.cuda.MemoryPool()
    jobs = [lambda count=count: pairs(ours, pool, count, chosen.seconds) for count in (1, 8, 16)]
    jobs += [lambda path=path: trace(ours, pool, Trace(path, chosen.live_gib), chosen.seconds) for path in chosen.trace]
    status = 0
    for job in jobs:
        try:
            job()
        except Exception as error:  # what one cannot do does not keep the others
            print(f"not measured: {PEER}: {error}", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
