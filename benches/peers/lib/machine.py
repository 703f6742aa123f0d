"""What is kept with measured rows: when, where, of what, and how."""

import datetime
import os
import platform
import re
import subprocess
from pathlib import Path


def output(*command: str, folder: "Path | None" = None) -> str:
    """What a command prints; empty when it cannot be run or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, cwd=folder)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def processor() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.M)
    except OSError:
        found = None
    return found[1] if found else platform.machine()


def system() -> str:
    try:
        found = re.search(r'^PRETTY_NAME="?([^"\n]+)', Path("/etc/os-release").read_text(), re.M)
    except OSError:
        found = None
    return found[1] if found else platform.system()


def commit(root: Path) -> str:
    """Of the repository, or of the bundle that it was packed into."""
    described = output("git", "describe", "--always", "--dirty", "--abbrev=12", folder=root)
    if described:
        return described
    try:
        found = re.search(r"^commit (.+)$", (root / "BUILD").read_text(), re.M)
    except OSError:
        found = None
    return found[1] if found else "unknown"


def machine(root: Path, command: str, note: str = "") -> "dict[str, object]":
    """The header of a file of rows."""
    gpu = output("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader").splitlines()
    name = f"{processor()}, {os.cpu_count()} cores, {system()}"
    if gpu:
        name += "; " + gpu[0].replace(", ", ", driver ") + (f" and {len(gpu) - 1} more" if len(gpu) > 1 else "")
    allocator = os.environ.get("LLAISYS_ALLOCATOR")
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": name,
        "load": round(os.getloadavg()[0], 1),
        "command": (f"LLAISYS_ALLOCATOR={allocator} " if allocator else "") + command,
        "commit": commit(root),
        "note": note,
    }
