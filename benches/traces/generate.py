#!/usr/bin/env python3
"""Makes the kept traces, and checks that they are the ones that were measured.

    generate.py FOLDER

The traces are too long to keep; what is kept is this file and SHA256SUMS. They have RMM's format,
`Thread,Time,Action,Pointer,Size,Stream`, where stream 0 is calls that name no stream.

log-uniform: 20,000 operations, 55 of 100 allocations while there is room, sizes log-uniform from 256 B to
64 MiB, so that each magnitude comes equally often and nearly all bytes are in few large blocks; 8 GiB live
at most; frees in random order; no stream.

kv-cache: an engine that serves a model of 8 layers. A sequence has, per layer, blocks of 128 KiB for 32 tokens
each (keys and values of 8 heads of 128 in 16 bits); it comes with a prompt, for which all blocks are
allocated in a burst on the stream of prefills, grows by a token a step on the stream of decoding, and ends by
freeing all its blocks there. Each step, and each prefill, allocates scratch for its layers and frees it at
once. A third stream swaps one sequence out and in now and then.
"""

import hashlib
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
HEADER = "Thread,Time,Action,Pointer,Size,Stream\n"


class Random:
    """Numbers that are the same everywhere: Knuth's generator, its upper bits."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def below(self, limit: int) -> int:
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % limit

    def log_uniform(self, least: int, most: int) -> int:
        part = self.below(1 << 30) / (1 << 30)
        return int(least * (most / least) ** part)


class Writer:
    """Writes steps; an address stands for a block while it is live."""

    def __init__(self) -> None:
        self.lines = [HEADER]
        self.free_addresses: "list[int]" = []
        self.addresses = 0
        self.live: "dict[int, int]" = {}
        self.used = 0
        self.peak = 0

    def allocate(self, size: int, stream: int) -> int:
        if self.free_addresses:
            address = self.free_addresses.pop()
        else:
            self.addresses += 1
            address = self.addresses * 256
        self.live[address] = size
        self.used += size
        self.peak = max(self.peak, self.used)
        self.line("allocate", address, size, stream)
        return address

    def free(self, address: int, stream: int) -> None:
        size = self.live.pop(address)
        self.used -= size
        self.free_addresses.append(address)
        self.line("free", address, size, stream)

    def line(self, action: str, address: int, size: int, stream: int) -> None:
        self.lines.append(f"0,{len(self.lines)},{action},{address:#x},{size},{stream:#x}\n")


def log_uniform() -> Writer:
    random, out = Random(0x11A15E5E), Writer()
    live: "list[int]" = []
    while len(out.lines) <= 20_000:
        size = random.log_uniform(256, 64 << 20)
        if not live or (random.below(100) < 55 and out.used + size <= 8 << 30):
            live.append(out.allocate(size, 0))
        else:
            index = random.below(len(live))
            live[index], live[-1] = live[-1], live[index]
            out.free(live.pop(), 0)
    return out


LAYERS, BLOCK, TOKENS, HIDDEN = 8, 128 << 10, 32, 4096
DECODE, PREFILL, SWAP = 1, 2, 3


class Sequence:
    """The blocks of one sequence and how far it is."""

    def __init__(self, prompt: int, length: int) -> None:
        self.tokens = prompt
        self.end = prompt + length
        self.blocks: "list[int]" = []

    def grow(self, out: Writer, stream: int) -> None:
        while len(self.blocks) < LAYERS * -(-self.tokens // TOKENS):
            self.blocks.append(out.allocate(BLOCK, stream))

    def drop(self, out: Writer, stream: int) -> None:
        for block in self.blocks:
            out.free(block, stream)
        self.blocks = []


def scratch(out: Writer, tokens: int, stream: int) -> None:
    """What the layers of a step need: the same sizes for each, freed when the next ones are there."""
    for _ in range(LAYERS // 2):
        attention = [out.allocate(tokens * HIDDEN * factor, stream) for factor in (2, 6, 2)]
        feed_forward = [out.allocate(tokens * HIDDEN * factor, stream) for factor in (7, 2)]
        for block in attention + feed_forward:
            out.free(block, stream)
    logits = out.allocate(min(tokens, 64) * 128_256 * 2, stream)
    out.free(logits, stream)


def kv_cache() -> Writer:
    random, out = Random(0xCAC4E), Writer()
    running: "list[Sequence]" = []
    for step in range(1, 601):
        # Bursts: nothing for a while, then several at once.
        if step % 24 == 1:
            for _ in range(2 + random.below(8)):
                if len(running) < 48:
                    sequence = Sequence(random.log_uniform(64, 2048), random.log_uniform(16, 512))
                    running.append(sequence)
                    sequence.grow(out, PREFILL)
                    scratch(out, sequence.tokens, PREFILL)
        if running:
            for sequence in running:
                sequence.tokens += 1
                sequence.grow(out, DECODE)
            scratch(out, len(running), DECODE)
        for sequence in [one for one in running if one.tokens >= one.end]:
            sequence.drop(out, DECODE)
            running.remove(sequence)
        if step % 50 == 0 and running:
            sequence = running[random.below(len(running))]
            sequence.drop(out, SWAP)
            sequence.grow(out, SWAP)
    for sequence in running:
        sequence.drop(out, DECODE)
    return out


def main() -> int:
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    sums = dict(reversed(line.split()) for line in (HERE / "SHA256SUMS").read_text().splitlines())
    status = 0
    for name, make in [("log-uniform", log_uniform), ("kv-cache", kv_cache)]:
        out = make()
        data = "".join(out.lines).encode()
        (folder / f"{name}.csv").write_bytes(data)
        found = hashlib.sha256(data).hexdigest()
        print(f"{name}.csv: {len(out.lines) - 1} operations, {out.peak / 2**30:.2f} GiB live at most")
        if sums.get(f"{name}.csv") != found:
            print(f"error: {name}.csv is another one than was measured: {found}", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
