"""The contract's page says which conformance cases show each clause; this keeps that true.

    contract.py PATH-OF-llaisys-conformance [--write]

Without `--write` the list in docs/contract.md is compared with what the suite lists, and it is an error
when the two differ, or when a case names a clause that the page does not have.
"""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "contract.md"
BEGIN = "<!-- made by scripts/check/contract.py --write; do not edit -->\n"
END = "<!-- end -->\n"


def cases(program: str) -> "list[tuple[str, str, str]]":
    """Area, name and clause of every case."""
    text = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout
    return re.findall(r"^(\w+)/(\w+) \[([^\]]+)\]$", text, re.M)


def main() -> int:
    program, write = sys.argv[1], "--write" in sys.argv[2:]
    page = PAGE.read_text()
    head, rest = page.split(BEGIN)
    _, tail = rest.split(END)
    clauses = re.findall(r"^\* \*\*([A-Z]\d+)\*\*", head, re.M)
    shown: "dict[str, list[str]]" = {clause: [] for clause in clauses}
    unknown = []
    found = cases(program)
    for area, name, named in found:
        for clause in re.findall(r"[A-Z]\d+", named):
            if clause in shown:
                shown[clause].append(f"`{area}/{name}`")
            else:
                unknown.append(f"{area}/{name} names clause {clause}, which docs/contract.md does not have")
    lines = []
    for clause, names in shown.items():
        text = f"* **{clause}**: {', '.join(names) or 'none yet'}"
        lines += textwrap.wrap(text, 130, subsequent_indent="  ", break_on_hyphens=False)
    made = head + BEGIN + "\n" + "\n".join(lines) + "\n\n" + END + tail
    if write:
        PAGE.write_text(made)
    for line in unknown:
        print(line)
    print(f"{len(found)} cases, {sum(map(bool, shown.values()))} of {len(clauses)} clauses shown")
    if made != page and not write:
        print("docs/contract.md is stale: run scripts/check/contract.py with --write")
        return 1
    return 1 if unknown or not found else 0


if __name__ == "__main__":
    sys.exit(main())
