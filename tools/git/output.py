"""Parsers of git's formats for programs: records that end with NUL, since names may hold all else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ...runtime.processes import Ran

STATES = {
    "M": "modified",
    "T": "type_changed",
    "A": "added",
    "D": "deleted",
    "R": "renamed",
    "C": "copied",
}

_LEFT_OUT = r"\n\(… \d+ of \d+ bytes are left out …\)\n"
"""The mark of a capture that was cut."""


def records(ran: Ran) -> list[str]:
    """Return the whole records of git's output, up to where it was cut."""
    text = ran.stdout
    if ran.is_truncated:
        text = re.split(_LEFT_OUT, text)[0]
    return text.split("\0")[:-1]


def read_status(lines: list[str]) -> dict[str, Any]:
    """Return branch and entries of `status --porcelain=v2 --branch -z`."""
    status: dict[str, Any] = {"branch": None, "commit": None}
    entries: list[dict[str, Any]] = []
    waiting = iter(lines)
    for line in waiting:
        kind, _, rest = line.partition(" ")
        match kind:
            case "#":
                status |= _header(*rest.split(" ", 1))
            case "1":
                state, path = _field(rest, 0), rest.split(" ", 7)[7]
                entries.append({"path": path, **_change(state)})
            case "2":
                state, path = _field(rest, 0), rest.split(" ", 8)[8]
                entries.append({"path": path, **_change(state), "from": next(waiting, "")})
            case "u":
                entries.append({"path": rest.split(" ", 9)[9], "conflict": _field(rest, 0)})
            case _:  # `?`: ignored files (`!`) are not asked for
                entries.append({"path": rest, "unstaged": "untracked"})
    return {**status, "entries": entries}


def _field(rest: str, index: int) -> str:
    return rest.split(" ", index + 1)[index]


def _header(name: str, value: str = "") -> dict[str, Any]:
    match name:
        case "branch.oid":
            return {"commit": None if value == "(initial)" else value}
        case "branch.head":
            return {"branch": None if value == "(detached)" else value}
        case "branch.upstream":
            return {"upstream": value}
        case "branch.ab":
            ahead, behind = value.split(" ")
            return {"ahead": abs(int(ahead)), "behind": abs(int(behind))}
        case _:
            return {}


def _change(state: str) -> dict[str, str]:
    index, tree = state[0], state[1]
    change = {}
    if index != ".":
        change["staged"] = STATES.get(index, index)
    if tree != ".":
        change["unstaged"] = STATES.get(tree, tree)
    return change


def read_diff(text: str) -> tuple[list[dict[str, Any]], str]:
    """Return files and patch of `diff --numstat --patch -z`: records, an empty one, and the patch."""
    files: list[dict[str, Any]] = []
    rest = text
    while rest and not rest.startswith("\0"):
        record, _, rest = rest.partition("\0")
        added, deleted, path = record.split("\t", 2)
        counts = {} if added == "-" else {"added": int(added), "deleted": int(deleted)}
        entry: dict[str, Any] = {"path": path, **(counts or {"binary": True})}
        if not path:  # a rename: both names follow
            old, _, rest = rest.partition("\0")
            entry["path"], _, rest = rest.partition("\0")
            entry["from"] = old
        files.append(entry)
    return files, rest.removeprefix("\0")


LOG_FORMAT = "%H%x00%an <%ae>%x00%aI%x00%s"
"""With `-z`, four records for each commit."""


def read_log(lines: list[str]) -> list[dict[str, str]]:
    """Return the commits of `log -z --format=LOG_FORMAT`."""
    names = ("commit", "author", "date", "subject")
    return [dict(zip(names, lines[at : at + 4], strict=True)) for at in range(0, len(lines) - 3, 4)]


def read_name_status(lines: list[str]) -> Iterator[dict[str, str]]:
    """Yield the files of `diff-tree -z --name-status --no-renames`."""
    for at in range(0, len(lines) - 1, 2):
        yield {"path": lines[at + 1], "state": STATES.get(lines[at], lines[at])}
