"""The package as such: import, finding the library, version, types."""

from __future__ import annotations

import importlib.util
import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import llaisys_runtime as rt
import pytest
from conftest import CHECKOUT, PACKAGE, process_environment


def python(
    code: str, cwd: Path = Path("/"), **environment: str
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", code],
        env=process_environment(**environment),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_importing_prints_nothing_and_opens_no_library() -> None:
    done = python(
        "import ctypes, sys\n"
        "def opened(event, args):\n"
        "    if event == 'ctypes.dlopen' and args[0] is not None: sys.exit(f'opened {args}')\n"
        "    if event in ('socket.connect', 'subprocess.Popen', 'os.system'): sys.exit(event)\n"
        "    if event == 'open' and not str(args[0]).endswith(('.py', '.pyc')) and 'llaisys' in str(args[0]):\n"
        "        sys.exit(f'opened {args}')\n"
        "sys.addaudithook(opened)\n"
        "import threading\n"
        "import llaisys_runtime\n"
        "assert threading.active_count() == 1\n"
        "assert 'llaisys_runtime.so' not in open('/proc/self/maps').read()\n",
        LLAISYS_RUNTIME_LIBRARY="/nonexistent/libllaisys_runtime.so",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_missing_library_lists_every_path_that_was_tried() -> None:
    code = (
        "import llaisys_runtime as rt\n"
        "try: rt.devices()\n"
        "except rt.LibraryNotFoundError as e: print(e); assert isinstance(e, OSError)\n"
    )
    done = python(code, LLAISYS_RUNTIME_LIBRARY="/nonexistent/libllaisys_runtime.so")
    assert done.returncode == 0, done.stderr
    assert "/nonexistent/libllaisys_runtime.so: no such file" in done.stdout
    assert "LLAISYS_RUNTIME_LIBRARY is set" in done.stdout and "unset it" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_a_package_that_was_installed_without_the_library_says_what_to_do(tmp_path: Path) -> None:
    # As pip leaves it: the modules, and no checkout around them.
    shutil.copytree(PACKAGE / "llaisys_runtime", tmp_path / "llaisys_runtime")
    code = "import llaisys_runtime as rt; rt.devices()"
    done = python(code, PYTHONPATH=str(tmp_path), LLAISYS_RUNTIME_LIBRARY="", LD_LIBRARY_PATH="")
    assert done.returncode == 1
    assert f"{tmp_path / 'llaisys_runtime' / 'libllaisys_runtime.so'}: no such file" in done.stderr
    assert "Set LLAISYS_RUNTIME_LIBRARY to the path of libllaisys_runtime.so" in done.stderr
    assert "cargo build --release" in done.stderr


def test_without_the_variable_the_package_the_checkout_and_the_loader_are_tried(
    tmp_path: Path,
) -> None:
    # A checkout without a built library.
    (tmp_path / "Cargo.toml").touch()
    (tmp_path / "runtime-core").mkdir()
    shutil.copytree(PACKAGE / "llaisys_runtime", tmp_path / "python" / "llaisys_runtime")
    code = (
        "import llaisys_runtime as rt\n"
        "try: rt.devices()\n"
        "except rt.LibraryNotFoundError as e: print(*(path for path, _ in e.tried), sep='\\n')\n"
    )
    done = python(code, PYTHONPATH=str(tmp_path / "python"), LLAISYS_RUNTIME_LIBRARY="")
    name = "libllaisys_runtime.so"
    assert done.stdout.split() == [
        str(tmp_path / "python" / "llaisys_runtime" / name),
        str(tmp_path / "target" / "release" / name),
        str(tmp_path / "target" / "debug" / name),
        name,
    ], done.stderr


def test_a_file_that_is_no_library_is_named_with_the_loaders_reason(tmp_path: Path) -> None:
    wrong = tmp_path / "libllaisys_runtime.so"
    wrong.write_text("not a library")
    done = python("import llaisys_runtime as rt; rt.devices()", LLAISYS_RUNTIME_LIBRARY=str(wrong))
    assert done.returncode == 1
    assert f"{wrong}: {wrong}: " in done.stderr


def test_there_is_one_version_number() -> None:
    manifest = (CHECKOUT / "Cargo.toml").read_text(encoding="utf-8")
    version = re.search(r'^version = "(.+)"$', manifest, flags=re.M)
    project = re.search(r'^version = "(.+)"$', (PACKAGE / "pyproject.toml").read_text(), flags=re.M)
    assert version and project
    assert rt.__version__ == project.group(1) == version.group(1) == rt.library_version()


def test_the_abi_version_is_ours() -> None:
    assert rt.abi_version()[0] == 1


def test_every_public_thing_has_a_docstring() -> None:
    for name in rt.__all__:
        thing: Any = getattr(rt, name)
        assert inspect.getdoc(thing), name
        if inspect.isclass(thing) and not issubclass(thing, (int, Exception, tuple)):
            for member, value in vars(thing).items():
                if not member.startswith("_"):
                    target: Callable[..., Any] = getattr(value, "fget", value)
                    assert inspect.getdoc(target), f"{name}.{member}"
    assert sorted(rt.__all__) == rt.__all__


def test_unknown_numbers_are_values_of_their_enum() -> None:
    one, two = rt.DeviceType(40), rt.DeviceType(40)
    assert one is two and one == 40 and "40" in one.name
    assert rt.Status(99).name == "UNKNOWN_99"
    assert rt.DeviceType(1) is rt.DeviceType.NVIDIA
    for not_one in (2**31, "cpu", 1.5):
        with pytest.raises(ValueError):
            rt.DeviceType(not_one)
    with pytest.raises(ValueError):
        rt.MemcpyKind(5)


def test_the_package_is_clean_under_mypy_strict(tmp_path: Path) -> None:
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy cannot be imported")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path)],
        cwd=PACKAGE,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
