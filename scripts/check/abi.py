"""What a compiled program or plugin relies on only ever grows (docs/abi.md).

    abi.py              compares include/ and tests/layout/layout.json with tests/abi/promised.json, and
                        include/ with the first headers, tests/abi/first/
    abi.py --extend     the same, and then promises what is new
    abi.py --self-test  shows that each kind of change that breaks something is found, and that what is
                        appended is not

A break is a struct, a field, a function or a constant that is gone or was renamed; a field that moved, or
has another size or declaration; a new field that is not behind all others; a function with other parameters;
a constant with another value; a new number that another one of its group has; any change at all of
LLAISYS's twelve functions. Exit code 1 when there is one.
"""

import json
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, List

ROOT = Path(__file__).resolve().parents[2]
HEADERS = ["llaisys.h", "llaisys/runtime.h", "llaisys/backend.h"]
KINDS = ("structs", "functions", "types", "constants")
# LLAISYS's own table: frozen.
FROZEN = ["LlaisysRuntimeAPI"]
# Groups in which two names of one number would be a mistake.
GROUPS = ["STATUS", "CAPABILITY", "MEMCPY", "COPY", "LINK", "MEMORY", "EVENT", "STREAM", "ADVICE", "SUPPORT"]
# Versions and what they are made of change with each release.
NOT_PROMISED = {"LLAISYS_RUNTIME_VERSION", "LLAISYS_ABI_MINOR", "LLAISYS_TARGET", "LLAISYS_SANITIZER"}
# Not a number of its group: the same as 0 or as another one on purpose.
ALIASES = {"LLAISYS_MEMCPY_INFERRED"}


def without_comments(text: str) -> str:
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    return re.sub(r"//[^\n]*", " ", text)


def one_line(text: str) -> str:
    text = re.sub(r"\s+", " ", text).strip()
    return re.sub(r"\s*([(),*])\s*", r"\1", text)


def number(text: str) -> "int | None":
    """The value of a constant expression as the headers write them."""
    text = re.sub(r"U?INT64_C\(([^)]*)\)", r"\1", text.strip())
    text = re.sub(r"\bUINT64_MAX\b", str(2**64 - 1), text)
    text = re.sub(r"(?<=[0-9a-fA-F])[uUlL]+\b", "", text)
    if not re.fullmatch(r"[-+()<|0-9xXa-fA-F \t]+", text):
        return None
    return int(eval(text, {"__builtins__": {}}))  # digits and operators only, by the line above


def field_name(declaration: str) -> str:
    pointer = re.search(r"\(\*(\w+)\)", declaration)
    name = pointer or re.search(r"(\w+)(\[\w+\])*$", declaration)
    assert name, f"no name in `{declaration}`"
    return name.group(1)


def read(include: Path) -> "Dict[str, Any]":
    """Structs with their fields in order, functions and constants of a set of headers."""
    structs: Dict[str, Any] = {}
    functions: Dict[str, str] = {}
    types: Dict[str, str] = {}
    constants: Dict[str, int] = {}
    for header in HEADERS:
        text = without_comments((include / header).read_text())
        for match in re.finditer(r"typedef struct (\w+) \{(.*?)\} (\w+);", text, re.S):
            fields = [one_line(field) for field in match.group(2).split(";") if field.strip()]
            structs[match.group(1)] = [[field_name(field), field] for field in fields]
        for match in re.finditer(r"typedef enum\s*\w*\s*\{(.*?)\}", text, re.S):
            value = -1
            for entry in filter(None, map(str.strip, match.group(1).split(","))):
                name, _, given = map(str.strip, entry.partition("="))
                value = number(given) if given else value + 1
                constants[name] = value
        for name, given in re.findall(r"^#define (LLAISYS_\w+)[ \t]+(\S[^\n]*)$", text, re.M):
            value = number(given)
            if value is not None:
                constants[name] = value
        outside = re.sub(r"\{.*?\}", "{}", text.replace('extern "C" {', ""), flags=re.S)
        for match in re.finditer(r"^[\w ]+[ *](\w+)\(([^;{}]*)\);$", outside, re.M):
            if match.group(1).startswith("llaisys"):
                functions[match.group(1)] = one_line(match.group(0).rstrip(";"))
        for match in re.finditer(r"^typedef ([^;{}]*);$", outside, re.M):
            types[field_name(re.sub(r"\)\([^()]*\)$", ")", one_line(match.group(1))))] = one_line(match.group(0))
    return {"structs": structs, "functions": functions, "types": types, "constants": constants}


def described(include: Path, layout: Path) -> "Dict[str, Any]":
    """The same, with the place of every field."""
    found = read(include)
    places = json.loads(layout.read_text())
    for name, fields in found["structs"].items():
        own = places[name]["fields"]
        missing = [field for field, _ in fields if field not in own]
        assert not missing, f"tests/layout/layout.json has no {name}.{missing}"
        found["structs"][name] = [[field, *own[field], text] for field, text in fields]
    return found


def is_same(old: "List[Any]", new: "List[Any]") -> bool:
    """A field that was kept free for later, always zero, may have got a name and a meaning."""
    named = [new[0], *old[1:-1], old[-1].replace(old[0], new[0])]
    return old == new or (old[0].startswith("reserved") and named == new)


def breaks(old: "Dict[str, Any]", new: "Dict[str, Any]") -> "List[str]":
    """What of `old` does not hold in `new`. Fields are compared in their order, with all that is known."""
    found = []
    for name, fields in old["structs"].items():
        now = new["structs"].get(name)
        if now is None:
            found.append(f"struct {name} is gone")
            continue
        for index, field in enumerate(fields):
            if index >= len(now) or not is_same(field, now[index]):
                there = now[index] if index < len(now) else "nothing"
                found.append(f"{name}, field {index}: was {field}, is {there}")
        if name in FROZEN and len(now) != len(fields):
            found.append(f"{name} is frozen and has {len(now)} fields instead of {len(fields)}")
    for kind in ("functions", "types"):
        for name, text in old[kind].items():
            now = new[kind].get(name)
            if now != text:
                found.append(f"{kind}, {name}: was `{text}`, is `{now}`")
    for name, value in old["constants"].items():
        now = new["constants"].get(name)
        if now != value and name not in NOT_PROMISED:
            found.append(f"constant {name}: was {value}, is {now}")
    return found


def clashes(new: "Dict[str, Any]") -> "List[str]":
    """Two names of one number in a group, and a field that does not begin where the last one ends."""
    found = []
    for group in GROUPS:
        seen: Dict[int, str] = {}
        for name, value in new["constants"].items():
            if name.startswith(f"LLAISYS_{group}_") and name not in ALIASES:
                if value in seen:
                    found.append(f"{name} and {seen[value]} are both {value}")
                seen[value] = name
    for name, fields in new["structs"].items():
        end = 0
        for field, offset, size, _ in fields:
            if offset != end:
                found.append(f"{name}.{field} is at {offset}, the field before it ends at {end}")
            end = offset + size
    return found


def additions(old: "Dict[str, Any]", new: "Dict[str, Any]") -> int:
    count = sum(len(new[kind].keys() - old[kind].keys()) for kind in KINDS)
    both = old["structs"].keys() & new["structs"].keys()
    return count + sum(len(new["structs"][name]) - len(old["structs"][name]) for name in both)


def check(include: Path, layout: Path, promised: Path, first: Path) -> "List[str]":
    new = described(include, layout)
    return (
        [f"promised: {text}" for text in breaks(json.loads(promised.read_text()), new)]
        + [f"first headers: {text}" for text in breaks(read(first), read(include))]
        + clashes(new)
    )


def written(description: "Dict[str, Any]") -> str:
    """A line for each field, function and constant, so that a difference can be read."""
    lines = ["{", '  "structs": {']
    structs = list(description["structs"].items())
    for index, (name, fields) in enumerate(structs):
        lines.append(f'    "{name}": [')
        lines += [f"      {json.dumps(field)}{',' if field is not fields[-1] else ''}" for field in fields]
        lines.append("    ]" + ("," if index + 1 < len(structs) else ""))
    lines.append("  },")
    for kind, comma in (("functions", ","), ("types", ","), ("constants", "")):
        lines.append(f'  "{kind}": {{')
        entries = sorted(description[kind].items())
        for index, (name, value) in enumerate(entries):
            lines.append(f"    {json.dumps(name)}: {json.dumps(value)}{',' if index + 1 < len(entries) else ''}")
        lines.append("  }" + comma)
    return "\n".join(lines) + "\n}\n"


# Each change: a story, a file, a pattern and what it becomes; and whether it is a break.
CHANGES = [
    ("nothing changes", "layout.json", r"\A", "", False),
    ("a field is removed", "llaisys/backend.h", r"    uint32_t processor_count;\n", "", True),
    ("a field is renamed", "llaisys/backend.h", r"uint32_t processor_count;", "uint32_t processors;", True),
    ("two fields change places", "llaisys/backend.h", r"(    uint32_t clock_rate;)(.*?)(    uint32_t integrated;)", r"\3\2\1", True),
    ("a field has another type of the same size", "llaisys/backend.h", r"uint32_t processor_count", "int32_t processor_count", True),
    ("a field moves", "layout.json", r'"processor_count": \[4, 4\]', '"processor_count": [8, 4]', True),
    ("a field grows", "layout.json", r'"processor_count": \[4, 4\]', '"processor_count": [4, 8]', True),
    ("a field comes in between", "llaisys/backend.h", r"(    uint32_t processor_count;)", r"    uint32_t between;\n\1", True),
    ("an entry of the table has another parameter", "llaisys/backend.h", r"\(\*set_device\)\(void \*self_, int32_t device\)", "(*set_device)(void *self_, int64_t device)", True),
    ("an entry of the table is removed", "llaisys/backend.h", r"    int32_t \(\*trim_memory\)\(void \*self_, int32_t device, uint64_t keep\);\n", "", True),
    ("an entry of the table is appended", "llaisys/backend.h", r"(\} LlaisysBackendAPI;)", r"    int32_t (*toast)(void *self_);\n\1", False),
    ("a field is appended", "llaisys/backend.h", r"(\} LlaisysMemoryInfo;)", r"    uint64_t toasted;\n\1", False),
    ("LLAISYS's table grows", "llaisys/runtime.h", r"(\} LlaisysRuntimeAPI;)", r"    void (*toast)(void);\n\1", True),
    ("a function is removed", "llaisys.h", r"const char \*llaisysGetVersion\(void\);", "", True),
    ("a function has another result", "llaisys.h", r"uint32_t llaisysGetAbiVersion", "uint64_t llaisysGetAbiVersion", True),
    ("a callback has another parameter", "llaisys/backend.h", r"\(\*LlaisysHostFunction\)\(void \*data\)", "(*LlaisysHostFunction)(const void *data)", True),
    ("a handle is another type", "llaisys.h", r"typedef void \*llaisysStream_t;", "typedef uint64_t llaisysStream_t;", True),
    ("a constant has another value", "llaisys/backend.h", r"#define LLAISYS_LINK_PCIE 2", "#define LLAISYS_LINK_PCIE 9", True),
    ("a constant is renamed", "llaisys/backend.h", r"#define LLAISYS_LINK_PCIE 2", "#define LLAISYS_LINK_PCI 2", True),
    ("a status has another number", "llaisys.h", r"LLAISYS_STATUS_FORKED = 14", "LLAISYS_STATUS_FORKED = 99", True),
    ("a capability takes another one's bit", "llaisys/backend.h", r"(#define LLAISYS_CAPABILITY_FILL )", r"#define LLAISYS_CAPABILITY_TOAST (1 << 12)\n\1", True),
    ("a constant is appended", "llaisys/backend.h", r"(#define LLAISYS_LINK_PCIE )", r"#define LLAISYS_LINK_TOAST 40\n\1", False),
    ("a reserved field gets a name", "llaisys/backend.h", r"(typedef struct LlaisysMemoryInfo \{.*?uint32_t )reserved;", r"\1toasts;", False),
    ("a reserved field gets another type", "llaisys/backend.h", r"(typedef struct LlaisysMemoryInfo \{.*?)uint32_t reserved;", r"\1int32_t toasts;", True),
    ("a text changes", "llaisys/backend.h", r"/// The name, for people\.", "/// Its name.", False),
]
# Where an appended field is, for the changes above that append one.
APPENDED = {"toast": ("LlaisysBackendAPI", 8), "toasted": ("LlaisysMemoryInfo", 8), "between": ("LlaisysDeviceProperties", 4)}


def add_to_layout(layout: Path, text: str) -> None:
    places = json.loads(layout.read_text())
    for field, (name, size) in APPENDED.items():
        name = "LlaisysRuntimeAPI" if "void (*toast)(void);" in text else name
        if re.search(rf"\b{field}\b", text) and field not in places[name]["fields"]:
            places[name]["fields"][field] = [places[name]["size"], size]
            places[name]["size"] += size
    for name in places:
        # A renamed field is where it was.
        for was, now in (("processor_count", "processors"), ("reserved", "toasts")):
            if was in places[name]["fields"]:
                places[name]["fields"][now] = places[name]["fields"][was]
    layout.write_text(json.dumps(places))


def self_test() -> int:
    wrong = 0
    for story, file, pattern, replacement, is_break in CHANGES:
        with tempfile.TemporaryDirectory() as scratch:
            include, layout = Path(scratch) / "include", Path(scratch) / "layout.json"
            shutil.copytree(ROOT / "include", include)
            shutil.copy(ROOT / "tests/layout/layout.json", layout)
            promised = Path(scratch) / "promised.json"
            promised.write_text(written(described(include, layout)))
            changed = layout if file == "layout.json" else include / file
            text, count = re.subn(pattern, replacement, changed.read_text(), count=1, flags=re.S)
            assert count == 1, f"the change `{story}` finds nothing to change in {file}"
            changed.write_text(text)
            add_to_layout(layout, text)
            found = check(include, layout, promised, ROOT / "tests/abi/first")
            right = bool(found) == is_break
            wrong += not right
            said = found[0] if found else "no break"
            print(f"{'ok' if right else 'WRONG':5} {story}: {said[:110]}")
    print(f"{len(CHANGES) - wrong} passed, {wrong} failed")
    return 1 if wrong else 0


def main() -> int:
    if "--self-test" in sys.argv[1:]:
        return self_test()
    include, layout = ROOT / "include", ROOT / "tests/layout/layout.json"
    promised = ROOT / "tests/abi/promised.json"
    if not promised.exists() and "--extend" in sys.argv[1:]:
        promised.write_text(written({kind: {} for kind in KINDS}))
    found = check(include, layout, promised, ROOT / "tests/abi/first")
    for text in found:
        print(text)
    if found:
        print(f"{len(found)} breaks: see docs/abi.md")
        return 1
    new = described(include, layout)
    count = additions(json.loads(promised.read_text()), new)
    if "--extend" in sys.argv[1:]:
        promised.write_text(written(new))
        print(f"{count} more are promised")
    else:
        kinds = ", ".join(f"{len(new[kind])} {kind}" for kind in KINDS)
        print(f"no breaks; {kinds}; {count} not promised yet (--extend promises them)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
