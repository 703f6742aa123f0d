"""The commands of docs/adding-a-backend.md work as they stand there.

    adding_a_backend.py FOLDER-WITH-libllaisys_runtime.so-llaisys-rt-AND-llaisys-conformance

Every ```sh block of the page is run, in order, in one empty folder. Beyond that they succeed: what they
print is looked at, so that a command that does nothing does not pass.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "adding-a-backend.md"
# For each block, what its output must contain.
EXPECTED = [
    [],  # the copy in C
    [],  # the copy in Rust
    ["toaster", "crumbs", "null device"],
    ["NULL_BACKEND_DEVICES is 0"],
    ["toaster 1.0.0", "crumbs 1.0.0", "all "],
]


def environment(built: Path, scratch: str) -> "dict[str, str]":
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LLAISYS")}
    # A crate of its own has a target folder of its own.
    clean.pop("CARGO_TARGET_DIR", None)
    return {**clean, "LLAISYS": str(ROOT), "BUILT": str(built), "PWD": scratch, "CARGO_NET_OFFLINE": "true"}


def main() -> int:
    built = Path(sys.argv[1]).resolve()
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    if len(blocks) != len(EXPECTED):
        print(f"docs/{PAGE.name} has {len(blocks)} blocks of commands, {len(EXPECTED)} are expected here")
        return 1
    with tempfile.TemporaryDirectory() as scratch:
        for block, words in zip(blocks, EXPECTED):
            print(block, end="", flush=True)
            command = ["bash", "-euo", "pipefail", "-c", block]
            ended = subprocess.run(
                command,
                cwd=scratch,
                env=environment(built, scratch),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            missing = [word for word in words if word not in ended.stdout]
            if ended.returncode != 0 or missing:
                print(ended.stdout)
                print(f"exit code {ended.returncode}; not in the output: {missing}")
                return 1
    print(f"{len(blocks)} blocks passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
