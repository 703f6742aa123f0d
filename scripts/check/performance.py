"""docs/performance.md says what the rows in docs/performance/ say; this keeps that true.

    performance.py [--write]          compares the page with the rows, or makes it from them
    performance.py --header COMMAND   prints what must be before the rows that COMMAND printed here
    performance.py --self-test        shows that wrong rows are found

A file of rows has lines of JSON: a header (when, where, which command, which commit), then what `llaisys-rt
bench --json` or `benches/peers/run --json` printed, which prints its header itself. Of rows of the same
measurement on the same machine the latest is shown; a file of which nothing is shown is to be deleted.
"""

import json
import re
import sys
import textwrap
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "performance.md"
KEPT = ROOT / "docs" / "performance"
BEGIN = "<!-- made by scripts/check/performance.py --write; do not edit -->\n"
END = "<!-- end -->\n"
HEADER = ("date", "machine", "command", "commit")
FIELDS = ("goal", "bench", "backend", "device", "unit", "ours", "peer", "theirs", "ratio", "p50", "p99", "runs")


def read(name: str, text: str, goals: "dict[str, dict]", complaints: "list[str]") -> "list[dict]":
    """The rows of a file, each with its header."""
    rows, header = [], None
    for number, line in enumerate(text.splitlines(), 1):
        def complain(why: str) -> None:
            complaints.append(f"{name}, line {number}: {why}")

        try:
            row = json.loads(line)
        except ValueError:
            complain("no JSON")
            continue
        if "header" in row:
            header = row["header"]
            for field in HEADER:
                if not header.get(field):
                    complain(f"the header has no {field}")
        elif missing := [field for field in FIELDS if field not in row]:
            complain(f"the row has no {', '.join(missing)}")
        elif header is None:
            complain("a row with no header before it; see --header")
        elif row["goal"] not in goals:
            complain(f"there is no goal {row['goal']}")
        elif "(fake)" in row["device"]:
            complain("a fake device measures nothing")
        else:
            rows.append({**row, "header": header, "file": name})
    return rows


def latest(rows: "list[dict]", names: "list[str]", complaints: "list[str]") -> "list[dict]":
    """The rows that no later one replaces, in their order."""
    shown: "dict[tuple, dict]" = {}
    for row in sorted(rows, key=lambda row: row["header"]["date"]):
        key = tuple(row[field] for field in ("goal", "bench", "backend", "device", "peer"))
        shown.pop((key, row["unit"]), None)
        shown[(key, row["unit"])] = row
    for name in names:
        if not any(row["file"] == name for row in shown.values()):
            complaints.append(f"{name}: nothing of it is shown, for there are later rows; delete it")
    return [row for row in rows if any(row is one for one in shown.values())]


def judge(row: dict, rules: "list[dict]", rows: "list[dict]") -> "bool | None":
    """Whether a row meets its goal; nothing when it is not judged."""
    verdict = None
    for rule in rules:
        fits = re.search(rule["bench"], row["bench"]) and re.search(rule.get("peer", ""), row["peer"])
        if not fits or row["ours"] is None:
            continue
        ours, ratio = row["ours"], row["ratio"]
        well = ours <= rule.get("ours_at_most", ours) and ours >= rule.get("ours_at_least", ours)
        well = well and (ratio is None or ratio >= rule.get("ratio_at_least", ratio))
        if "of_one_thread" in rule:
            bench = re.sub(r"\d+ threads", "1 thread", row["bench"])
            alone = [one["ours"] for one in rows if one["bench"] == bench and one["peer"] == row["peer"]
                     and one["backend"] == row["backend"] and one["header"] == row["header"]]
            well = well and (not alone or ours <= rule["of_one_thread"] * alone[0])
        verdict = well if verdict is None else verdict and well
    return verdict


def figure(value: "float | None", unit: str) -> str:
    if value is None:
        return "–"
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f} {unit}".replace(" x", " ×")


def number(value: "float | None") -> str:
    return "–" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def cell(text: object) -> str:
    return str(text).replace("|", "\\|").replace("<", "&lt;")


def section(name: str, goal: dict, rows: "list[dict]", runs: "list[dict]") -> "list[str]":
    """A goal's heading, verdict and table."""
    mine = [row for row in rows if row["goal"] == name]
    verdicts = {id(row): judge(row, goal["rules"] if row["backend"] == goal["backend"] else [], rows) for row in mine}
    judged = [verdict for verdict in verdicts.values() if verdict is not None]
    said = "not measured" if not judged else "met" if all(judged) else f"missed in {judged.count(False)} of {len(judged)} rows"
    lines = [f"## {name}: {goal['title']}", ""]
    lines += textwrap.wrap(f"**Goal** ({'NVIDIA H200' if goal['backend'] == 'nvidia' else 'CPU'}): {goal['goal']}. **{said.capitalize()}.** "
                           + goal.get("note", ""), 130, break_on_hyphens=False)
    if mine:
        lines += ["", "| what | ours | theirs | ratio | ours, p99 | peer | goal | run |", "|---|--:|--:|--:|--:|---|---|--:|"]
    for row in sorted(mine, key=lambda row: (row["backend"] != goal["backend"], row["bench"])):
        verdict = {None: "", True: "met", False: "missed"}[verdicts[id(row)]]
        where = "" if row["backend"] in (goal["backend"], "pocl") else f" ({row['backend']})"
        lines.append("| " + " | ".join([
            cell(row["bench"]) + where, figure(row["ours"], row["unit"]), figure(row["theirs"], row["unit"]), number(row["ratio"]),
            figure(row["p99"] if row["ours"] is not None else None, row["unit"]), cell(row["peer"]), verdict,
            str(runs.index(row["header"]) + 1)]) + " |")
    return lines + [""]


def made(rows: "list[dict]", goals: "dict[str, dict]") -> str:
    """What is between the marks."""
    runs: "list[dict]" = []
    for row in rows:
        if row["header"] not in runs:
            runs.append(row["header"])
    lines = [""]
    for name, goal in goals.items():
        lines += section(name, goal, rows, runs)
    lines += ["## Runs", "", "| run | date | machine | load | commit | command |", "|--:|---|---|--:|---|---|"]
    for index, run in enumerate(runs, 1):
        note = f" ({cell(run['note'])})" if run.get("note") else ""
        lines.append(f"| {index} | {run['date']} | {cell(run['machine'])}{note} | {run.get('load', '')} | `{run['commit']}` "
                     f"| `{cell(run['command'])}` |")
    return "\n".join(lines) + "\n\n"


def self_test() -> int:
    goals = {"G1": {"title": "t", "goal": "g", "backend": "cpu",
                    "rules": [{"bench": "thread", "ours_at_most": 20, "ratio_at_least": 2, "of_one_thread": 1.2}]}}
    header = json.dumps({"header": {"date": "2026-01-01", "machine": "m", "command": "c", "commit": "1"}})
    row = {"goal": "G1", "bench": "b, 1 thread", "backend": "cpu", "device": "d", "unit": "ns", "ours": 10, "peer": "p",
           "theirs": 30, "ratio": 3, "p50": 10, "p99": 11, "runs": 5}

    def complaints(*lines: object) -> str:
        found: "list[str]" = []
        read("f", "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), goals, found)
        return "; ".join(found)

    def verdict(**changed: object) -> "bool | None":
        rows = [{**row, "header": 1}, {**row, **changed, "header": 1}]
        return judge(rows[1], goals["G1"]["rules"], rows)

    old = {**row, "header": {"date": "1"}, "file": "old"}
    new = {**row, "header": {"date": "2"}, "file": "new"}
    stale: "list[str]" = []
    checks = [
        complaints(header, row) == "",
        "no header before" in complaints(row),
        "has no date" in complaints('{"header": {"machine": "m", "command": "c", "commit": "1"}}'),
        "has no peer, runs" in complaints(header, {key: row[key] for key in FIELDS if key not in ("peer", "runs")}),
        "no goal G99" in complaints(header, {**row, "goal": "G99"}),
        "fake device" in complaints(header, {**row, "device": "NVIDIA H200 (fake)"}),
        "no JSON" in complaints(header, "thread panicked"),
        latest([old, new], ["old", "new"], stale) == [new] and "old" in stale[0],
        verdict() is True, verdict(ours=21) is False, verdict(ratio=1.9) is False, verdict(bench="other") is None,
        verdict(bench="b, 8 threads", ours=12.1) is False, verdict(bench="b, 8 threads", ours=11.9) is True,
    ]
    for index, well in enumerate(checks):
        if not well:
            print(f"check {index} of the self-test fails")
    print(f"{sum(checks)} passed, {checks.count(False)} failed")
    return 0 if all(checks) else 1


def main() -> int:
    arguments = sys.argv[1:]
    if arguments[:1] == ["--header"] and len(arguments) == 2:
        sys.path.insert(0, str(ROOT / "benches" / "peers"))
        from lib.machine import machine
        print(json.dumps({"header": machine(ROOT, arguments[1])}))
        return 0
    if arguments == ["--self-test"]:
        return self_test()
    if arguments not in ([], ["--write"]):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    goals = tomllib.loads((KEPT / "goals.toml").read_text())
    complaints: "list[str]" = []
    rows, files = [], sorted(KEPT.glob("*.jsonl"))
    for file in files:
        rows += read(file.name, file.read_text(), goals, complaints)
    rows = latest(rows, [file.name for file in files], complaints)
    page = PAGE.read_text()
    head, rest = page.split(BEGIN)
    _, tail = rest.split(END)
    new = head + BEGIN + made(rows, goals) + END + tail
    if arguments == ["--write"]:
        PAGE.write_text(new)
    elif new != page:
        complaints.append("docs/performance.md is stale: run scripts/check/performance.py with --write")
    for complaint in complaints:
        print(complaint)
    print(f"{len(rows)} rows of {len(files)} files")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
