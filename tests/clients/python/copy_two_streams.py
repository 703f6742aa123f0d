"""Host → device → device → host on two streams, checked and measured, from Python.

Rule: only the public package `llaisys_runtime` is used, as a user would use it. One stream uploads,
the other copies on the device and downloads; the host waits between them, since streams are
independent. Each leg is measured on its own: the median of the repetitions after a warm-up.

    python copy_two_streams.py --device cpu|nvidia [--ordinal 0] [--mib 64] [--repeat 10]
                               [--library PATH] [--json]

With `--json` each line is an object {client, backend, device, leg, memory, bytes, seconds, gb_per_s,
right}; the C and C++ clients print the same. The exit status is 0 when all data was right.
"""

import argparse
import contextlib
import json
import os
import statistics
import sys
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]


def import_package(library):
    """The package, from where it is installed or from this checkout."""
    if library:
        os.environ["LLAISYS_RUNTIME_LIBRARY"] = os.path.abspath(library)
    try:
        import llaisys_runtime
    except ImportError:
        sys.path.insert(0, str(CHECKOUT / "python"))
        import llaisys_runtime
    return llaisys_runtime


def fill(view, seed):
    """A pattern that repeats at no power of two."""
    block = bytes((seed + 31 * index) % 251 for index in range(251 * 64))
    for start in range(0, len(view), len(block)):
        end = min(start + len(block), len(view))
        view[start:end] = block[: end - start]


def measure(leg, repeat):
    """Median seconds of `leg()`, which waits for its own work, after one call to warm up."""
    leg()
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        leg()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def run(rt, device, memory, nbytes, repeat):
    """Yields (leg, seconds, right) for host memory of one kind."""
    with contextlib.ExitStack() as owned:
        if memory == "pinned":
            source = owned.enter_context(rt.HostBuffer(nbytes, device))
            target = owned.enter_context(rt.HostBuffer(nbytes, device))
            source_view, target_view = source.view(), target.view()
        else:
            source, target = bytearray(nbytes), bytearray(nbytes)
            source_view, target_view = memoryview(source), memoryview(target)
        first = owned.enter_context(rt.Buffer(nbytes, device))
        second = owned.enter_context(rt.Buffer(nbytes, device))
        upload = owned.enter_context(rt.Stream(device))
        download = owned.enter_context(rt.Stream(device))

        def h2d():
            first.copy_from(source, upload)
            upload.synchronize()

        def d2d():
            rt.copy(second, first, download)
            download.synchronize()

        def d2h():
            second.copy_to(target, download)
            download.synchronize()

        # Data first: two rounds with different bytes, so that a copy that does nothing is seen.
        right = True
        for seed in (1, 101):
            fill(source_view, seed)
            fill(target_view, seed + 50)
            h2d()
            d2d()
            d2h()
            right = right and source_view == target_view
        for leg in (h2d, d2d, d2h):
            yield leg.__name__.upper(), measure(leg, repeat), right
        source_view.release()
        target_view.release()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "nvidia"], default="cpu")
    parser.add_argument("--ordinal", type=int, default=0)
    parser.add_argument("--mib", type=int, default=64, help="size of each copy in MiB")
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--library", help="the path of libllaisys_runtime.so")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    arguments = parser.parse_args()
    if arguments.mib < 1 or arguments.repeat < 1:
        parser.error("--mib and --repeat are at least 1")

    rt = import_package(arguments.library)
    try:
        device = rt.Device(rt.DeviceType[arguments.device.upper()], arguments.ordinal)
        backend = rt.device_type_name(device.type)
        name = device.properties.name
    except rt.LlaisysError as error:
        print(f"copy_two_streams: {error}", file=sys.stderr)
        return 1

    nbytes = arguments.mib << 20
    all_right = True
    if not arguments.json:
        print(f"{backend} device {device.ordinal}: {name}, {arguments.mib} MiB, two streams")
    for memory in ("pinned", "pageable"):
        for leg, seconds, right in run(rt, device, memory, nbytes, arguments.repeat):
            all_right = all_right and right
            line = {
                "client": "python",
                "backend": backend,
                "device": name,
                "leg": leg,
                "memory": memory,
                "bytes": nbytes,
                "seconds": seconds,
                "gb_per_s": nbytes / seconds / 1e9,
                "right": right,
            }
            if arguments.json:
                print(json.dumps(line), flush=True)
            else:
                state = "right" if right else "WRONG"
                print(
                    f"  {leg}  {memory:8}  {seconds * 1e3:9.3f} ms"
                    f"  {line['gb_per_s']:8.2f} GB/s  data {state}"
                )
    return 0 if all_right else 1


if __name__ == "__main__":
    sys.exit(main())
