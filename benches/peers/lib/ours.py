"""Our side for peers in Python: ours_for_python.cpp, and a row."""

import ctypes
import json
import statistics


class Ours:
    """The loops of ours_for_python.cpp."""

    def __init__(self, path: str) -> None:
        self.library = ctypes.CDLL(path)
        for name in ("open", "streams", "pairs", "trace", "overhead", "copy"):
            getattr(self.library, f"ours_{name}").restype = ctypes.c_double
        self.library.ours_stream.restype = self.library.ours_allocate.restype = ctypes.c_void_p
        self.library.ours_allocate.argtypes = [ctypes.c_size_t, ctypes.c_int]
        self.library.ours_free.argtypes = [ctypes.c_void_p, ctypes.c_int]
        self.library.ours_copy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int]
        for name in ("device", "failure"):
            getattr(self.library, f"ours_{name}").restype = ctypes.c_char_p
        self.library.ours_pairs.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_long]
        self.call("open")
        self.device = self.library.ours_device().decode()

    def call(self, name: str, *values: object) -> float:
        answer: float = getattr(self.library, f"ours_{name}")(*values)
        if answer < 0:
            raise RuntimeError(self.library.ours_failure().decode())
        return answer

    def streams(self, count: int) -> "list[int]":
        """So many streams, as addresses: they are the driver's own."""
        self.call("streams", count)
        return [self.library.ours_stream(index) for index in range(count)]


def print_row(ours: Ours, peer: str, goal: str, bench: str, unit: str, mine: "list[float]", theirs: "list[float]",
              more_is_better: bool = False) -> None:
    """A row of medians; in a p99 the worst ones are left out."""
    ordered = sorted(mine, reverse=more_is_better)
    middle, other = statistics.median(mine), statistics.median(theirs)
    row = {"goal": goal, "bench": bench, "backend": "nvidia", "device": ours.device, "unit": unit, "ours": middle,
           "peer": peer, "theirs": other, "ratio": middle / other if more_is_better else other / middle, "p50": middle,
           "p99": ordered[max(0, -(-len(ordered) * 99 // 100) - 1)], "runs": len(mine)}
    print(json.dumps(row), flush=True)
