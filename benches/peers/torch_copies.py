"""PyTorch's copies of 1 GiB between the host and a GPU, beside ours between the same blocks.

    torch_copies.py OURS.so [--seconds N] [--size BYTES]
"""

import argparse
import ctypes
import sys
import time
from pathlib import Path
from typing import Callable

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
from lib.ours import Ours, print_row  # noqa: E402


def timed(copy: "Callable[[], object]") -> float:
    torch.cuda.synchronize()
    begin = time.perf_counter_ns()
    copy()
    torch.cuda.synchronize()
    return time.perf_counter_ns() - begin


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ours")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--size", type=int, default=2**30)
    chosen = parser.parse_known_args()[0]
    size = chosen.size
    ours = Ours(chosen.ours)
    ours.streams(1)
    # All of it is written first.
    host, device = torch.empty(size, dtype=torch.uint8).fill_(7), torch.empty(size, dtype=torch.uint8, device="cuda").fill_(7)
    pinned = torch.empty(size, dtype=torch.uint8, pin_memory=True).fill_(7)
    our_device, our_pinned = ours.library.ours_allocate(size, 0), ours.library.ours_allocate(size, 1)
    if not our_device or not our_pinned:
        raise RuntimeError(ours.library.ours_failure().decode())
    ctypes.memset(our_pinned, 7, size)
    pageable = host.data_ptr()
    peer = f"PyTorch {torch.__version__}"

    def staged_out() -> None:
        pinned.copy_(device)
        host.copy_(pinned)

    cases = [
        ("G5", "pinned H2D", "copy_ of pinned memory", lambda: device.copy_(pinned, non_blocking=True),
         lambda: ours.call("copy", our_device, our_pinned, size, 1, 1)),
        ("G5", "pinned D2H", "copy_ of pinned memory", lambda: pinned.copy_(device, non_blocking=True),
         lambda: ours.call("copy", our_pinned, our_device, size, 0, 1)),
        ("G6", "pageable H2D", "copy_", lambda: device.copy_(host), lambda: ours.call("copy", our_device, pageable, size, 1, 0)),
        ("G6", "pageable D2H", "copy_", lambda: host.copy_(device), lambda: ours.call("copy", pageable, our_device, size, 0, 0)),
        ("G6", "pageable H2D", "pin_memory and copy_", lambda: device.copy_(host.pin_memory(), non_blocking=True),
         lambda: ours.call("copy", our_device, pageable, size, 1, 0)),
        ("G6", "pageable D2H", "copy_ through pinned memory", staged_out,
         lambda: ours.call("copy", pageable, our_device, size, 0, 0)),
    ]
    status = 0
    for goal, what, how, theirs, mine in cases:
        print(f"{peer} {how}: {what}", file=sys.stderr)
        try:
            mine(), timed(theirs)
            our_rates, their_rates = [], []
            begin = time.monotonic()
            while len(our_rates) < 5 or time.monotonic() - begin < chosen.seconds:
                our_rates.append(size / mine())
                their_rates.append(size / timed(theirs))
            print_row(ours, f"{peer} {how}", goal, f"{what} of {size / 2**30:g} GiB".replace(".0 GiB", " GiB"), "GB/s",
                      our_rates, their_rates, more_is_better=True)
        except Exception as error:  # what one cannot do does not keep the others
            print(f"not measured: {peer} {how}: {what}: {str(error).splitlines()[0]}", file=sys.stderr)
            status = 1
    if not bool((host == 7).all()) or not bool((device == 7).all()):
        print("not measured: the copies are wrong", file=sys.stderr)
        status = 1
    ours.library.ours_free(our_device, 0)
    ours.library.ours_free(our_pinned, 1)
    return status


if __name__ == "__main__":
    sys.exit(main())
