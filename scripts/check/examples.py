"""The examples of README.md compile without a warning and run.

    examples.py FOLDER-OF-libllaisys_runtime.so
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STRICT = ["-Wall", "-Wextra", "-pedantic", "-Werror", f"-I{ROOT / 'include'}"]


def compiled(compiler: str, source: Path, folder: Path) -> "list[str]":
    program = source.with_suffix(".out")
    link = [f"-L{folder}", "-lllaisys_runtime", f"-Wl,-rpath,{folder}"]
    subprocess.run([*compiler.split(), *STRICT, source, "-o", program, *link], check=True)
    return [str(program)]


def main() -> int:
    folder = Path(sys.argv[1]).resolve()
    text = (ROOT / "README.md").read_text()
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "python"),
        "LLAISYS_RUNTIME_LIBRARY": str(folder / "libllaisys_runtime.so"),
    }
    with tempfile.TemporaryDirectory() as scratch:
        for language, how in [("c", "cc -std=c99"), ("cpp", "c++ -std=c++17"), ("python", "")]:
            examples = re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)
            if len(examples) != 1:
                print(f"README.md has {len(examples)} examples in {language}, not one")
                return 1
            source = Path(scratch) / f"example.{'py' if language == 'python' else language}"
            source.write_text(examples[0])
            command = compiled(how, source, folder) if how else [sys.executable, str(source)]
            code = subprocess.run(command, env=environment).returncode
            print(f"{language}: exit code {code}")
            if code != 0:
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
