"""The program that format_code runs in the sandbox: finds files, formats them, reports what changed.

It runs by any Python, with the standard library alone. Its arguments are the paths; the report goes to stdout
as JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

MAX_FILES = 20_000
MAX_CHANGED = 1000  # files that the report names, beside their number: more would not fit into it
MAX_SAID = 1000
BATCH = 200

SKIPPED = frozenset(
    {"__pycache__", "build", "dist", "node_modules", "site-packages", "target", "vendor", "venv"}
)
"""Folders of what was built or fetched. These and hidden ones are skipped unless they are named."""

# fmt: off
WEB = (
    ".cjs", ".css", ".cts", ".html", ".js", ".json", ".jsx", ".less", ".md", ".mjs", ".mts", ".scss", ".ts",
    ".tsx", ".vue", ".yaml", ".yml",
)
# fmt: on

FORMATTERS = {
    "ruff": (("format", "--quiet", "--"), (".py", ".pyi"), ".venv/bin/ruff"),
    "gofmt": (("-w",), (".go",), ""),
    "rustfmt": (("--color", "never"), (".rs",), ""),
    "prettier": (("--write", "--log-level", "warn", "--"), WEB, "node_modules/.bin/prettier"),
}


def main() -> None:
    """Format the files, and print the report."""
    named = sys.argv[1:]
    paths, missing, is_cut = find(named or ["."])
    kinds: dict[str, list[str]] = {}
    for name, (_, endings, _) in FORMATTERS.items():
        fitting = [path for path in paths if path.endswith(endings)]
        if fitting:
            kinds[name] = fitting
    report: dict[str, Any] = {"checked": 0, "changed": 0, "files": []}
    report |= {"not_installed": {}, "failed": {}, "missing": missing, "truncated": is_cut}
    for name, fitting in () if missing else kinds.items():
        program = program_of(name)
        if program is None:
            report["not_installed"][name] = len(fitting)
            continue
        report["checked"] += len(fitting)
        before = {path: digest(path) for path in fitting}
        said = run([program, *FORMATTERS[name][0]], fitting)
        changed = [path for path in fitting if digest(path) != before[path]]
        report["changed"] += len(changed)
        report["files"] += changed[: MAX_CHANGED - len(report["files"])]
        if said is not None:
            report["failed"][name] = said
    sys.stdout.write(json.dumps(report))


def find(named: list[str]) -> tuple[list[str], list[str], bool]:
    """Return the files under paths, the paths that are missing, and whether there were too many."""
    found: dict[str, None] = {}
    missing: list[str] = []
    endings = tuple(ending for _, each, _ in FORMATTERS.values() for ending in each)
    for path in named:
        if os.path.isfile(path):
            found[os.path.normpath(path)] = None
        elif not os.path.isdir(path):
            missing.append(path)
        for folder, folders, names in os.walk(path):
            folders[:] = sorted(
                each for each in folders if each not in SKIPPED and not each.startswith(".")
            )
            for name in sorted(names):
                whole = os.path.normpath(os.path.join(folder, name))
                if name.endswith(endings) and is_file(whole):
                    if len(found) == MAX_FILES:
                        return list(found), missing, True
                    found[whole] = None
    return list(found), missing, False


def is_file(path: str) -> bool:
    """Return whether it is a regular file: not a link, and nothing that blocks when it is opened."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def program_of(name: str) -> str | None:
    """Return the path of a formatter: the project's own before that of the machine."""
    own = FORMATTERS[name][2]
    if own and os.access(own, os.X_OK):
        return os.path.abspath(own)
    return shutil.which(name)


def digest(path: str) -> bytes | None:
    """Return a digest of a file's content."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).digest()
    except OSError:
        return None


def run(command: list[str], paths: list[str]) -> str | None:
    """Run a formatter on the files, some at a time; return its message about a failure."""
    said = None
    for at in range(0, len(paths), BATCH):
        # Behind ./ a name that begins with - is not an option.
        batch = [
            os.path.join(".", path) if path[0] != "/" else path for path in paths[at : at + BATCH]
        ]
        ran = subprocess.run(
            [*command, *batch],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if ran.returncode != 0 and said is None:
            said = (ran.stderr.strip() or ran.stdout.strip())[
                -MAX_SAID:
            ] or f"exit code {ran.returncode}"
    return said


if __name__ == "__main__":
    main()
