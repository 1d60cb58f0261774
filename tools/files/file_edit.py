"""edit_file: exact replacements in a text file, all of them or none."""

from __future__ import annotations

import hashlib
import operator
from typing import Annotated, Any

import msgspec

from ...runtime.definitions import ErrorType, ToolFailure, ToolResult
from ...runtime.handles import ReadableFiles, WritableFiles
from ..processes.threads import run_read, run_write
from ..tool import ToolContext
from ..workspace.paths import shown
from .file_facts import Notes, in_bytes, made, notes, reading, resource, writing, writing_tool
from .text_diff import diff, whole_diff

MAX_EDITED_BYTES = 10 * 1024 * 1024
"""A file is held in memory a few times over; source files are a hundred times smaller."""
MAX_EDITS = 100
"""A model that wants more should write the whole file."""
MAX_COMPARED_LINES = 5_000
"""Looking for the nearest lines costs some 20 microseconds a line, and others share the process."""
MAX_COMPARED_CHARACTERS = 200
"""Enough to recognise a line."""
MAX_NEAREST = 3
"""Enough for a model to see its mistake."""


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


async def _preview(arguments: Any, context: ToolContext) -> str:
    return await run_read(_shown, reading(context), arguments.path, arguments.edits)


def _shown(files: ReadableFiles, path: str, edits: list[Edit]) -> str:
    edited = _edited(files, path, edits)
    changes = whole_diff(edited.before, edited.after, edited.name)
    return changes or "(the content stays the same)"


class EditResult(Notes):
    """What edit_file returns."""

    path: str
    replacements: int
    diff: str


@writing_tool(
    resources=lambda arguments: resource(arguments.path, write=True),
    preview=_preview,
    output=EditResult,
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
    edited = _edited(files, path, edits)
    before, after, name = edited.before, edited.after, edited.name
    replacements = sum(edit.count for edit in edits)
    output: dict[str, Any] = {"path": name, "replacements": replacements}
    output["diff"] = diff(before, after, name)
    info = files.replace_unchanged(path, after.encode(), digest=edited.digest)
    times = "1 replacement" if replacements == 1 else f"{replacements} replacements"
    return ToolResult(
        output=output | notes(files),
        display=f"Edited {name} ({times})",
        artifacts=(made(info),),
    )


class _Edited(msgspec.Struct, frozen=True):
    """A text before and after all edits; `digest` is the file's, of its bytes."""

    name: str
    before: str
    after: str
    digest: bytes


def _edited(files: ReadableFiles, path: str, edits: list[Edit]) -> _Edited:
    """Read a file and apply the edits to its text; write nothing."""
    content = files.read(path, limit=MAX_EDITED_BYTES + 1)
    name = shown(files.normalize(path))
    before = _text(content.data, name)
    after = before
    for index, edit in enumerate(edits):
        after = _replace(after, edit, index, name)
    return _Edited(name, before, after, hashlib.sha256(content.data).digest())


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
    """Return the lines that look most like the first line of a text that was not found."""
    import difflib  # here, so that a start does not pay for it

    wanted = next((line for line in old.splitlines() if line.strip()), old).strip()
    lines = text.splitlines()[:MAX_COMPARED_LINES]
    cut = [line.strip()[:MAX_COMPARED_CHARACTERS] for line in lines]
    close = difflib.get_close_matches(wanted[:MAX_COMPARED_CHARACTERS], set(cut), n=MAX_NEAREST)
    found = []
    for line in close:
        number = cut.index(line)
        found.append({"line": number + 1, "text": lines[number][:MAX_COMPARED_CHARACTERS]})
    return sorted(found, key=operator.itemgetter("line"))
