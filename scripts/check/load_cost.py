"""What loading the library costs: no thread, no device, under 3 MB of resident memory.

    load_cost.py PATH-OF-libllaisys_runtime.so
"""

import ctypes
import os
import sys

LIMIT = 3_000_000


def resident() -> int:
    with open("/proc/self/smaps_rollup") as lines:
        kilobytes = next(line.split()[1] for line in lines if line.startswith("Rss:"))
    return int(kilobytes) * 1024


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def devices() -> "list[str]":
    """What this process has open or mapped of a GPU."""
    links = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{fd}"))
        except OSError:
            pass
    with open("/proc/self/maps") as lines:
        links += [line.split(maxsplit=5)[-1].strip() for line in lines if "/" in line]
    return sorted({link for link in links if link.startswith("/dev/nvidia") or "libcuda" in link})


def main() -> int:
    # Warm: what ctypes itself needs is loaded before it counts.
    ctypes.CDLL(None)
    before = resident(), threads()
    library = ctypes.CDLL(os.path.abspath(sys.argv[1]))
    added, started, opened = resident() - before[0], threads() - before[1], devices()
    library.llaisysGetVersion.restype = ctypes.c_char_p
    print(f"version {library.llaisysGetVersion().decode()}")
    print(f"loading adds {added / 1e6:.2f} MB, starts {started} threads, opens {opened or 'no device'}")
    return 0 if added < LIMIT and started == 0 and not opened else 1


if __name__ == "__main__":
    sys.exit(main())
