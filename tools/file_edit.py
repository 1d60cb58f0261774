"""edit_file: exact replacements in a text file, all of them or none."""

from __future__ import annotations

import hashlib
import operator
from typing import Annotated, Any

import msgspec

from ..runtime.definitions import (
    Artifact,
    Capability,
    Effect,
    ErrorType,
    Tier,
    ToolFailure,
    ToolResult,
)
from ..runtime.handles import WritableFiles
from .file_facts import in_bytes, resource, writing
from .paths import shown
from .threads import run_write
from .tool import ToolContext, tool

MAX_EDITED_BYTES = 10 * 1024 * 1024
"""The file is held in memory a few times over; source files are a hundred times smaller."""
MAX_EDITS = 100
"""A model that wants more should write the file anew."""
MAX_COMPARED_LINES = 5_000
"""Looking for the nearest lines costs some 20 microseconds a line, and others share the process."""
MAX_COMPARED_CHARACTERS = 200
"""Enough to know a line again."""
MAX_NEAREST = 3
"""What helps a model to see its mistake; more only fills its window."""
MAX_DIFF_LINES = 2_000
"""difflib grows with the square of what differs."""
CONTEXT_LINES = 3
"""As in diff -u."""


class Edit(msgspec.Struct, frozen=True):
    """One replacement."""

    old_text: Annotated[
        str,
        msgspec.Meta(min_length=1, description="The exact text to replace, with enough around it."),
    ]
    new_text: Annotated[str, msgspec.Meta(description="What stands there afterwards.")]
    count: Annotated[
        int, msgspec.Meta(ge=1, description="How often old_text occurs; all are replaced.")
    ] = 1


@tool(
    tier=Tier.WORKSPACE,
    needs=[Capability.FILES_WRITE],
    timeout_seconds=10,
    effect=Effect.ONCE,
    resources=lambda arguments: resource(arguments.path, write=True),
)
async def edit_file(
    context: ToolContext,
    path: str,
    edits: Annotated[list[Edit], msgspec.Meta(min_length=1, max_length=MAX_EDITS)],
) -> ToolResult:
    """Replaces exact pieces of text in a file of the workspace, all of them or none.

    Args:
        path: Relative to the workspace; a UTF-8 text file.
        edits: Done in order, each on the outcome of the one before.
    """
    return await run_write(_edit, writing(context), path, edits)


def _edit(files: WritableFiles, path: str, edits: list[Edit]) -> ToolResult:
    content = files.read(path, limit=MAX_EDITED_BYTES + 1)
    name = shown(files.normalize(path))
    before = _text(content.data, name)
    after = before
    for index, edit in enumerate(edits):
        after = _replace(after, edit, index, name)
    info = files.replace_unchanged(
        path, after.encode(), digest=hashlib.sha256(content.data).digest()
    )
    replacements = sum(edit.count for edit in edits)
    times = "1 replacement" if replacements == 1 else f"{replacements} replacements"
    return ToolResult(
        output={"path": name, "replacements": replacements, "diff": diff(before, after, name)},
        display=f"Edited {name} ({times})",
        artifacts=(Artifact(kind="file", id=info.path, size_bytes=info.size_bytes),),
    )


def _text(data: bytes, name: str) -> str:
    if len(data) > MAX_EDITED_BYTES:
        raise ToolFailure(
            ErrorType.FILE_TOO_LARGE,
            f"{name}: edit_file takes files up to {in_bytes(MAX_EDITED_BYTES)}.",
        )
    try:
        if b"\0" in data:
            raise UnicodeError("it holds NUL bytes")
        return data.decode()
    except UnicodeError as error:
        raise ToolFailure(
            ErrorType.BINARY_FILE,
            f"{name}: edit_file changes UTF-8 text only ({error}). Read it with its own encoding "
            "and write it whole with write_file.",
        ) from error


def _replace(text: str, edit: Edit, index: int, name: str) -> str:
    old, new = edit.old_text, edit.new_text
    if "\r\n" in text and "\n" not in text.replace("\r\n", ""):
        # Models write \n; the file's own line ends are kept.
        old, new = (piece.replace("\r\n", "\n").replace("\n", "\r\n") for piece in (old, new))
    found = text.count(old)
    if found == edit.count:
        return text.replace(old, new)
    details: dict[str, Any] = {"edit": index, "found": found}
    if found == 0:
        details["nearest"] = nearest = _nearest(text, old)
        lines = "; ".join(f"line {item['line']}: {item['text']!r}" for item in nearest)
        advice = f"The nearest lines are {lines}" if nearest else "No line comes near it"
        problem = f"old_text was not found. {advice}. Read the file and copy the text exactly"
    else:
        details["lines"] = lines_of = _lines_of(text, old)
        where = ", ".join(map(str, lines_of))
        problem = (
            f"old_text occurs {found} times (lines {where}), not {edit.count}. Take in more of "
            "the text around it, or set count"
        )
    raise ToolFailure(
        ErrorType.EDIT_CONFLICT,
        f"{name}: edits[{index}]: {problem}. Nothing was written.",
        **details,
    )


def _lines_of(text: str, old: str) -> list[int]:
    lines: list[int] = []
    at = text.find(old)
    while at >= 0 and len(lines) < 10 * MAX_NEAREST:
        lines.append(text.count("\n", 0, at) + 1)
        at = text.find(old, at + len(old))
    return lines


def _nearest(text: str, old: str) -> list[dict[str, Any]]:
    """The lines that look most like the first line of a text that was not found."""
    import difflib  # here, as below: it costs a program that edits nothing its start

    wanted = next((line for line in old.splitlines() if line.strip()), old).strip()
    lines = text.splitlines()[:MAX_COMPARED_LINES]
    cut = [line.strip()[:MAX_COMPARED_CHARACTERS] for line in lines]
    close = difflib.get_close_matches(wanted[:MAX_COMPARED_CHARACTERS], set(cut), n=MAX_NEAREST)
    found = []
    for line in close:
        number = cut.index(line)
        found.append({"line": number + 1, "text": lines[number][:MAX_COMPARED_CHARACTERS]})
    return sorted(found, key=operator.itemgetter("line"))


def diff(before: str, after: str, name: str) -> str:
    """A unified diff; what is the same at both ends is not even looked at."""
    import difflib

    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    first = max(0, start - CONTEXT_LINES)
    tail = max(0, end - CONTEXT_LINES)
    old, new = old[first : len(old) - tail], new[first : len(new) - tail]
    if max(len(old), len(new)) > MAX_DIFF_LINES:
        return f"(the changes span {len(old)} lines from line {first + 1}: too many to show)"
    pieces = [f"--- {name}\n", f"+++ {name}\n"]
    matcher = difflib.SequenceMatcher(None, old, new)
    for group in matcher.get_grouped_opcodes(CONTEXT_LINES):
        pieces.extend(_hunk(group, old, new, first))
    return "".join(pieces) if len(pieces) > 2 else ""


def _hunk(
    group: list[tuple[Any, int, int, int, int]], old: list[str], new: list[str], first: int
) -> list[str]:
    ranges = [
        f"{first + low + (1 if high > low else 0)},{high - low}"
        for low, high in ((group[0][1], group[-1][2]), (group[0][3], group[-1][4]))
    ]
    lines = [f"@@ -{ranges[0]} +{ranges[1]} @@\n"]
    for tag, old_low, old_high, new_low, new_high in group:
        if tag == "equal":
            lines.extend(_marked(" ", old[old_low:old_high]))
            continue
        lines.extend(_marked("-", old[old_low:old_high]))
        lines.extend(_marked("+", new[new_low:new_high]))
    return lines


def _marked(mark: str, lines: list[str]) -> list[str]:
    ending = "\n\\ No newline at end of file\n"
    return [f"{mark}{line}" if line.endswith("\n") else f"{mark}{line}{ending}" for line in lines]
