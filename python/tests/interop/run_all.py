"""Runs every program of this folder in a process of its own; exits with 0 when none failed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from checks import SKIPPED

HERE = Path(__file__).resolve().parent
NOT_PROGRAMS = {"checks.py", "run_all.py"}

codes = {}
for program in sorted(path.name for path in HERE.glob("*.py") if path.name not in NOT_PROGRAMS):
    print(f"== {program}", flush=True)
    codes[program] = subprocess.run([sys.executable, str(HERE / program)]).returncode
for program, code in codes.items():
    print({0: "PASS", SKIPPED: "SKIP"}.get(code, f"FAIL ({code})"), program)
if all(code == SKIPPED for code in codes.values()):
    sys.exit(SKIPPED)
sys.exit(any(code not in (0, SKIPPED) for code in codes.values()))
