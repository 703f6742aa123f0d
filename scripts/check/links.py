"""Every link and every file that the documentation names is there.

Checked in all Markdown files: relative links with their anchors, and names of files in `code`: a path
from the repository's root, or the bare name of a source file.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^```.*?^```", re.M | re.S)
SOURCE = re.compile(r"^[\w./-]+\.(rs|py|sh|hpp|h|c|cpp|md|toml)$")
# Made by a build or written by a user, so not in the tree.
NOT_OURS = re.compile(r"^(target|dist|/)|^libllaisys|^libcuda")


def tracked() -> "list[Path]":
    """The files of the project, those that are not committed yet included."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        paths = [Path(name) for name in names.splitlines()]
    except (OSError, subprocess.CalledProcessError):
        paths = [path.relative_to(ROOT) for path in ROOT.rglob("*")]
        paths = [path for path in paths if path.parts[0] not in ("target", "dist", ".git")]
    return [path for path in paths if (ROOT / path).is_file()]


def anchors(text: str) -> "set[str]":
    """The anchors that headings get."""
    found = set()
    for heading in re.findall(r"^#+ +(.*)$", FENCE.sub("", text), re.M):
        words = re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower())
        found.add(words.replace(" ", "-"))
    return found


def main() -> int:
    files = tracked()
    names = {path.name for path in files}
    folders = {part for path in files for part in map(str, path.parents)}
    complaints = []
    pages = [path for path in files if path.suffix == ".md"]
    for page in pages:
        text = (ROOT / page).read_text()
        prose = FENCE.sub("", text)
        for target in LINK.findall(prose):
            if re.match(r"^[a-z]+:", target):
                continue
            where, _, anchor = target.partition("#")
            path = (ROOT / page).parent / where if where else ROOT / page
            if not path.exists():
                complaints.append(f"{page}: link to {target}, which is not there")
            elif anchor and anchor not in anchors(path.read_text()):
                complaints.append(f"{page}: link to {target}, which has no such heading")
        for code in CODE.findall(prose):
            if NOT_OURS.match(code) or "*" in code:
                continue
            path = code.rstrip("/")
            if SOURCE.match(code) and "/" not in code:
                if code not in names:
                    complaints.append(f"{page}: names `{code}`, which is not there")
            elif SOURCE.match(code) or (code.endswith("/") and re.match(r"^[\w./-]+$", code)):
                here = page.parent / path
                inside = [path, f"include/{path}", str(here)]
                known = any((ROOT / one).exists() for one in inside)
                if not known and not any(str(file).endswith("/" + path) for file in files):
                    if not any(f"/{folder}".endswith(f"/{path}") for folder in folders):
                        complaints.append(f"{page}: names `{code}`, which is not there")
    for complaint in complaints:
        print(complaint)
    print(f"{len(pages)} pages looked at")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
