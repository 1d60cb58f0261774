"""Tool calls as editors show them: a title, a kind, places in files, changes of text."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from ...runtime.definitions import CallStatus
from ...runtime.events import CallFinished
from ..show.call_text import CallText
from . import wire

MAX_DIFF_BYTES = 256 * 1024
"""A file whose text is shown before and behind a change; of a larger one the call's own words are."""
MAX_SHOWN_CHARS = 8 * 1024
"""Of the output of a call; editors keep all of a conversation in memory, and `callboard show` has the rest."""

_KINDS = {
    "read": ("read_file", "list_directory", "git_status", "git_diff", "git_log"),
    "search": ("search_files", "memory_search"),
    "edit": ("write_file", "edit_file", "format_code"),
    "delete": ("delete_file",),
    "move": ("move_file",),
    "execute": ("shell", "run_code", "process", "run_tests", "install_package", "git_commit", "git_push"),
    "fetch": ("web_search", "web_fetch", "http_request"),
    "think": ("plan", "skill"),
}  # fmt: skip
KINDS = {tool: kind for kind, tools in _KINDS.items() for tool in tools}
_PATHS = ("path", "from", "to")
"""The arguments of built-in tools that name a file."""


class ShownCall(msgspec.Struct, frozen=True, kw_only=True):
    """What an editor shows of a call before it has run."""

    title: str
    name: str
    kind: str
    raw_input: msgspec.Raw
    locations: tuple[wire.ToolCallLocation, ...]
    content: tuple[wire.ToolCallContent, ...]

    def has(self, arguments: str) -> bool:
        """Return whether it is shown with these arguments, which are canonical JSON: a person may have changed them."""
        try:
            shown = msgspec.json.decode(self.raw_input)
        except (msgspec.DecodeError, RecursionError):
            return False
        return msgspec.json.encode(shown, order="deterministic") == arguments.encode()


def shown_call(
    name: str,
    arguments: str,
    folder: Path,
    *,
    reads: Path | None = None,
    before: ShownCall | None = None,
) -> ShownCall:
    """Return a call as it was proposed, or as it ran.

    With `reads`, the file below it that would be replaced is read, which may block. Once the call has run, its old
    text is what was shown `before`.
    """
    text = CallText(name, arguments)
    values, raw = _decoded(arguments)
    kind = KINDS.get(name, "other")
    paths = [path for key in _PATHS if (path := _path(values.get(key), folder)) is not None]
    return ShownCall(
        title=f"{text.name} {text.subject}".strip(),
        name=name,
        kind=kind,
        raw_input=raw,
        locations=tuple(wire.ToolCallLocation(path=str(path)) for path in paths),
        content=_changes(name, values, paths[0], reads, before) if kind == "edit" and paths else (),
    )


def outcome_of(event: CallFinished) -> tuple[str, msgspec.Raw, str]:
    """Return the status of a call that has ended, its raw output, and what it says to people."""
    status = "completed" if event.status is CallStatus.SUCCESS else "failed"
    values, raw = _decoded(event.result)
    said = event.display
    if status == "failed":
        error = values.get("error")
        why = error.get("message") if isinstance(error, dict) else None
        said = str(why or event.display or event.status)
    return status, raw, said


def text_content(text: str) -> wire.ToolCallContentContent:
    """Return text as content of a call; of a long one the end, behind which nothing was left out."""
    if len(text) > MAX_SHOWN_CHARS:
        text = "…" + text[-MAX_SHOWN_CHARS:]
    return wire.ToolCallContentContent(content=wire.ContentBlockText(text=text))


def fenced(text: str, language: str = "") -> str:
    """Return a text as a block of Markdown that nothing in it can close."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def file_of_uri(uri: str) -> Path | None:
    """Return the path that a `file:` URI names on this machine, or `None`."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme != "file" or parts.netloc not in {"", "localhost"}:
        return None
    path = Path(unquote(parts.path))
    return path if path.is_absolute() and "\0" not in str(path) else None


def is_within(path: Path, folder: Path) -> bool:
    """Return whether a path leads into a folder, links resolved; may block."""
    try:
        return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))
    except (OSError, ValueError):
        return False


def file_text(path: Path, folder: Path, most: int = MAX_DIFF_BYTES) -> str | None:
    """Return the text of a regular file of the workspace, or `None`; may block."""
    if not is_within(path, folder):
        return None
    try:
        # Without O_NONBLOCK, opening a pipe would wait for somebody who writes to it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            data = file.read(most + 1)
        return data.decode() if len(data) <= most else None
    except (OSError, UnicodeDecodeError):
        return None


def _decoded(text: str) -> tuple[dict[str, Any], msgspec.Raw]:
    """Return a JSON object, or an empty one; and the text as JSON, whatever it is."""
    try:
        values = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return {}, msgspec.Raw(msgspec.json.encode(text))
    return (values if isinstance(values, dict) else {}), msgspec.Raw(text.encode())


def _path(value: object, folder: Path) -> Path | None:
    """Return the absolute path of an argument; what `artifact:` names is no file."""
    if not isinstance(value, str) or not value or ":" in value.partition("/")[0] or "\0" in value:
        return None
    return Path(os.path.normpath(folder / value))


def _changes(
    name: str,
    values: dict[str, Any],
    path: Path,
    reads: Path | None,
    before: ShownCall | None,
) -> tuple[wire.ToolCallContent, ...]:
    """Return the changes that a call proposes, by its own arguments."""
    if name == "write_file":
        new = values.get("content")
        if (
            not isinstance(new, str)
            or len(new) > MAX_DIFF_BYTES
            or values.get("encoding") == "base64"
        ):
            return ()
        old = _old_text(path, before) if reads is None else file_text(path, reads)
        new = f"{old or ''}{new}" if values.get("mode") == "append" else new
        return (wire.ToolCallContentDiff(path=str(path), old_text=old, new_text=new),)
    edits = values.get("edits")
    found = []
    for edit in edits if isinstance(edits, list) else ():
        old, new = (
            (edit.get("old_text"), edit.get("new_text")) if isinstance(edit, dict) else ("", "")
        )
        if isinstance(old, str) and isinstance(new, str):
            found.append(wire.ToolCallContentDiff(path=str(path), old_text=old, new_text=new))
    return tuple(found)


def _old_text(path: Path, before: ShownCall | None) -> str | None:
    """Return the text that a file had when the call was shown, as far as that is known."""
    for each in () if before is None else before.content:
        if isinstance(each, wire.ToolCallContentDiff) and each.path == str(path):
            return each.old_text
    return None
