"""The program that format_code runs in the sandbox: finds files, formats them, says what changed.

It runs by whatever Python the sandbox has, without callboard: the standard library only. On stdin is
nothing; its arguments are the paths; what it found goes to stdout as JSON.
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
MAX_SAID = 1000
BATCH = 200

SKIPPED = frozenset(
    {"__pycache__", "build", "dist", "node_modules", "site-packages", "target", "vendor", "venv"}
)
"""Folders of what was built or fetched, when they are not named themselves; so are hidden ones."""

WEB: tuple[str, ...] = (
    ".cjs",
    ".css",
    ".cts",
    ".html",
    ".js",
    ".json",
    ".jsx",
    ".less",
    ".md",
    ".mjs",
    ".mts",
)
WEB += (".scss", ".ts", ".tsx", ".vue", ".yaml", ".yml")

FORMATTERS = {
    "ruff": (("format", "--quiet", "--"), (".py", ".pyi"), ".venv/bin/ruff"),
    "gofmt": (("-w",), (".go",), ""),
    "rustfmt": (("--color", "never"), (".rs",), ""),
    "prettier": (
        ("--write", "--log-level", "warn", "--"),
        WEB,
        "node_modules/.bin/prettier",
    ),
}


def main() -> None:
    """Formats, and says what came of it."""
    named = sys.argv[1:]
    paths, missing, is_cut = find(named or ["."])
    kinds: dict[str, list[str]] = {}
    for name, (_, endings, _) in FORMATTERS.items():
        fitting = [path for path in paths if path.endswith(endings)]
        if fitting:
            kinds[name] = fitting
    report: dict[str, Any] = {"checked": 0, "changed": [], "not_installed": {}, "failed": {}}
    report["missing"], report["truncated"] = missing, is_cut
    for name, fitting in kinds.items():
        program = program_of(name)
        if program is None:
            report["not_installed"][name] = len(fitting)
            continue
        report["checked"] += len(fitting)
        before = {path: digest(path) for path in fitting}
        said = run([program, *FORMATTERS[name][0]], fitting)
        report["changed"] += [path for path in fitting if digest(path) != before[path]]
        if said is not None:
            report["failed"][name] = said
    sys.stdout.write(json.dumps(report))


def find(named: list[str]) -> tuple[list[str], list[str], bool]:
    """The files under paths, those that are not there, and whether there are more."""
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
    """Whether it is a file itself; no link, and nothing that blocks who opens it."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def program_of(name: str) -> str | None:
    """Where a formatter is: the project's own before that of the machine."""
    own = FORMATTERS[name][2]
    if own and os.access(own, os.X_OK):
        return os.path.abspath(own)
    return shutil.which(name)


def digest(path: str) -> bytes | None:
    """What a file holds, as a number."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).digest()
    except OSError:
        return None


def run(command: list[str], paths: list[str]) -> str | None:
    """Runs a formatter on the files, some at a time; gives what it said about a failure."""
    said = None
    for at in range(0, len(paths), BATCH):
        # A name that begins with - is none of an option behind ./
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
