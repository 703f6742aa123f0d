"""The binding against the headers: every exported function, every field, every number."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

import llaisys_runtime as rt
import pytest
from conftest import CHECKOUT, process_environment
from llaisys_runtime import _abi, _errors

HEADERS = CHECKOUT / "include"
if not HEADERS.is_dir():
    pytest.skip(f"{HEADERS} is not there: not in a checkout", allow_module_level=True)


def code_of(path: Path) -> str:
    """A header without comments."""
    text = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.S)
    return re.sub(r"//[^\n]*", "", text)


CODE = "\n".join(code_of(path) for path in sorted(HEADERS.rglob("*.h")))


def fields_of(struct: str) -> List[str]:
    body = re.search(r"typedef struct %s \{(.*?)\} %s;" % (struct, struct), CODE, flags=re.S)
    assert body, f"{struct} is in no header"
    names = []
    for declaration in body.group(1).split(";"):
        pointer = re.match(r"[^(]*\(\*(\w+)\)\s*\(", declaration.strip())
        plain = re.search(r"(\w+)\s*(\[[^\]]*\])?$", declaration.strip())
        found = pointer or plain
        if found:
            names.append(found.group(1))
    return names


def test_every_exported_function_is_bound() -> None:
    declared = set(re.findall(r"\b(llaisys[A-Z][A-Za-z0-9]*)\([^;{]*\)\s*;", CODE))
    declared.discard("llaisysBackendQuery")  # a plugin exports it, not the library
    assert declared == set(_abi.FUNCTIONS)


@pytest.mark.parametrize("struct", _abi.STRUCTS, ids=lambda struct: struct.__name__)
def test_fields_have_the_headers_names_and_order(struct: type) -> None:
    ours = [field[0] for field in struct._fields_]  # type: ignore[attr-defined]
    assert [name.rstrip("_") for name in ours] == [
        name.rstrip("_") for name in fields_of(struct.__name__)
    ]


def numbers(prefix: str) -> Dict[str, int]:
    found = re.findall(r"\b%s(\w+)\s*=?\s*(-?\d+)u?\b" % prefix, CODE)
    return {name: int(number) for name, number in found}


def test_numbers_are_the_headers_numbers() -> None:
    assert numbers("LLAISYS_STATUS_") == {
        status.name: status.value for status in rt.Status if "UNKNOWN" not in status.name
    }
    assert numbers("LLAISYS_MEMCPY_") == {kind.name: kind.value for kind in rt.MemcpyKind}
    types = {**numbers("LLAISYS_DEVICE_TYPE_"), **numbers("LLAISYS_DEVICE_")}
    known = {name: number for name, number in types.items() if name in rt.DeviceType.__members__}
    assert known == {name: kind.value for name, kind in rt.DeviceType.__members__.items()}


def known(enum: Any) -> Dict[str, int]:
    members = enum.__members__.items()
    return {name: member.value for name, member in members if "UNKNOWN" not in name}


def test_numbers_of_the_extended_table_are_the_headers_numbers() -> None:
    for prefix, enum in (
        ("MEMORY", rt.MemoryKind),
        ("ADVICE", rt.MemoryAdvice),
        ("LINK", rt.LinkKind),
        ("SUPPORT", rt.Support),
    ):
        assert numbers(f"LLAISYS_{prefix}_") == known(enum), prefix
    bits = dict(re.findall(r"\bLLAISYS_CAPABILITY_(\w+) \(?(1(?: << \d+)?)\b", CODE))
    shifted = {name: 1 << int(text[5:] or 0) for name, text in bits.items()}
    assert shifted == known(rt.Capability)
    for prefix in ("STREAM", "EVENT", "COPY"):
        ours = {
            name[len(prefix) + 1 :]: value
            for name, value in vars(_abi).items()
            if name.startswith(f"{prefix}_")
        }
        assert ours and ours.items() <= numbers(f"LLAISYS_{prefix}_").items(), prefix
    assert "LLAISYS_LOCATION_HOST (-1)" in CODE and _abi.LOCATION_HOST == -1


def test_every_status_has_an_exception_class_of_its_own() -> None:
    statuses = set(rt.Status) - {rt.Status.SUCCESS}
    assert set(_errors.CLASSES) == statuses
    assert len(set(_errors.CLASSES.values())) == len(statuses)


def test_the_table_of_the_library_is_whole() -> None:
    table = rt._backend.backend(rt.DeviceType.CPU)  # type: ignore[attr-defined]
    for field in _abi.LlaisysBackendAPI._fields_[5:]:
        assert table.has(field[0]), field[0]


def test_the_layout_can_be_printed() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "llaisys_runtime._abi"],
        env=process_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    layout = json.loads(done.stdout)
    assert layout["LlaisysRuntimeAPI"]["size"] == 12 * 8
    assert layout["LlaisysError"]["fields"]["message"] == [32, 8]
    assert layout["LlaisysDeviceProperties"]["fields"]["uuid"] == [32, 16]
    assert layout["LlaisysBackendAPI"]["size"] == 24 + 60 * 8
    assert layout["LlaisysCopy3D"]["size"] == 80
