"""Previews: what a person sees of a call before they allow it, as a diff, a list, a command line.

A preview only reads, through the handles of the call itself. It shows what would happen at the time
of the question; what may run is bound by the arguments, which are shown beside it in full.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

from ...runtime.handles import FileInfo, ReadableFiles
from ..context import ToolContext
from ..processes.threads import run_read
from ..workspace.paths import UNSHOWABLE, shown
from .file_facts import in_bytes, reading, with_undo_warning
from .text_codec import BASE64, codec_name, encode
from .text_diff import whole_diff

MAX_PREVIEW_BYTES = 64 * 1024
"""Some thousand lines, more than anybody reads; it is journaled with the question."""
MAX_SHOWN_END_BYTES = 16 * 1024
"""The end of a preview that is cut: in a diff, new lines come after lost ones."""
MAX_COMPARED_BYTES = 1024 * 1024
"""The largest file that is compared: as much as the arguments of a call may hold."""
MAX_COUNTED_ENTRIES = 10_000
"""As many as one call deletes; a larger tree is refused."""
MAX_NAMED_ENTRIES = 500
"""Names that are shown of a deleted tree, beside the number of all."""


def bounded(text: str) -> str:
    """Return the preview; a long one as its beginning and end, with a line on what is left out."""
    data = text.encode(errors="replace")
    if len(data) <= MAX_PREVIEW_BYTES:
        return text
    head = data[: MAX_PREVIEW_BYTES - MAX_SHOWN_END_BYTES].decode(errors="ignore")
    tail = data[-MAX_SHOWN_END_BYTES:].decode(errors="ignore")
    left_out = len(data) - len(head.encode()) - len(tail.encode())
    return f"{head}\n(… {left_out} of {len(data)} bytes are not shown here …)\n{tail}"


def command_line(argv: Sequence[str], cwd: str | None = None) -> str:
    """Return a command as a shell would take it: each word quoted, so that none can pass for two.

    A word with invisible characters is written as `$'…'`, with escapes for them.
    """
    line = " ".join(map(_word, argv))
    return line if cwd is None else f"(in {_word(cwd)}) {line}"


def _word(word: str) -> str:
    if not UNSHOWABLE.search(word):
        return shlex.quote(word)
    escaped = word.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{UNSHOWABLE.sub(_escape, escaped)}'"


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if 0xDC80 <= code <= 0xDCFF:  # how Python keeps a byte that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(found[0], f"\\u{code:04x}")


# ── files ────────────────────────────────────────────────────────────────────────────────────────


async def preview_of_write(arguments: Any, context: ToolContext) -> str:
    """Return what becomes of the file that `write_file` names."""
    text = await run_read(_write, reading(context), arguments)
    return await with_undo_warning(text, context, arguments.path, follow=True)


async def preview_of_move(arguments: Any, context: ToolContext) -> str:
    """Return what `move_file` puts where, and what is lost there."""
    text = await run_read(_move, reading(context), arguments)
    if not arguments.overwrite:
        return text
    return await with_undo_warning(text, context, arguments.destination)


async def preview_of_delete(arguments: Any, context: ToolContext) -> str:
    """Return what `delete_file` would remove."""
    text = await run_read(_delete, reading(context), arguments.path, arguments.recursive)
    return await with_undo_warning(text, context, arguments.path)


def _write(files: ReadableFiles, arguments: Any) -> str:
    data = encode(arguments.content, arguments.encoding)
    present = files.find(arguments.path)
    if present is None:
        name = shown(files.normalize(arguments.path))
        added = _diff(None, data, name, arguments.encoding)
        return f"new file {name} ({in_bytes(len(data))})\n{added}"
    name = _named(present)
    if present.kind != "file":
        return f"{name} is there: nothing can be written in its place"
    old = _content(files, arguments.path)
    if arguments.mode == "append":
        changed = f"{name}: {in_bytes(len(data))} are added to its end"
        new = None if old is None else old + data
    else:
        changed = f"{name} is replaced by {in_bytes(len(data))}"
        new = data
    return f"{changed}\n{_change(old, new, shown(present.path), arguments.encoding)}"


def _move(files: ReadableFiles, arguments: Any) -> str:
    moved = files.find(arguments.source, follow=False)
    if moved is None:
        return f"{shown(files.normalize(arguments.source))}: there is nothing to move"
    present = files.find(arguments.destination, follow=False)
    name = shown(files.normalize(arguments.destination))
    line = f"{_named(moved)} becomes {name}"
    if present is None:
        return line
    if not arguments.overwrite:
        return f"{line}: refused, {_named(present)} is there"
    line = f"{line}\n{_named(present)} is lost"
    if (moved.kind, present.kind) != ("file", "file"):
        return line
    old, new = (_content(files, path) for path in (arguments.destination, arguments.source))
    return f"{line}\n{_change(old, new, name, 'utf-8')}"


def _delete(files: ReadableFiles, path: str, recursive: bool) -> str:
    found = files.find(path, follow=False)
    if found is None:
        return f"{shown(files.normalize(path))}: there is nothing to delete"
    if found.kind == "symlink":
        return f"{_named(found)}: the link itself, not what it leads to"
    if found.kind != "directory":
        return _named(found)
    listing = files.entries(
        path, recursive=recursive, include_hidden=True, max_entries=MAX_COUNTED_ENTRIES
    )
    if not listing.entries:
        return f"{_named(found)}, which is empty"
    if not recursive:
        return f"{_named(found)}: refused, it is not empty"
    count = len(listing.entries)
    # The bound of a deletion: a larger tree is not deleted at all.
    more = f"more than {count}: too many, it is refused" if listing.truncated else f"{count}"
    lines = [f"{_named(found)} and all that it holds ({more})"]
    lines += [f"  {_named(entry)}" for entry in listing.entries[:MAX_NAMED_ENTRIES]]
    if count > MAX_NAMED_ENTRIES:
        lines.append(f"  (… and {count - MAX_NAMED_ENTRIES} more …)")
    return "\n".join(lines)


def _named(info: FileInfo) -> str:
    name = shown(info.path)
    match info.kind:
        case "file":
            return f"{name} ({in_bytes(info.size_bytes)})"
        case "directory":
            return f"{name}/ (directory)"
        case "symlink":
            return f"{name} (link)"
        case _:
            return f"{name} (a FIFO, socket or device)"


def _content(files: ReadableFiles, path: str) -> bytes | None:
    data = files.read(path, limit=MAX_COMPARED_BYTES + 1).data
    return data if len(data) <= MAX_COMPARED_BYTES else None


def _change(old: bytes | None, new: bytes | None, name: str, encoding: str) -> str:
    if old is None or new is None:
        return f"(no diff: a file of more than {in_bytes(MAX_COMPARED_BYTES)} is not compared)"
    return _diff(old, new, name, encoding)


def _diff(old: bytes | None, new: bytes, name: str, encoding: str) -> str:
    before = None if old is None else _text(old, encoding)
    after = _text(new, encoding)
    if after is None or (before is None and old is not None):
        if old == new:
            return "(the content stays the same)"
        return "(no diff: what is there, or what comes, is not text)"
    if before == after:
        return "(the content stays the same)"
    return whole_diff(before, after, name)


def _text(data: bytes, encoding: str) -> str | None:
    codec = codec_name(encoding)
    try:
        text = data.decode("utf-8" if codec == BASE64 else codec)
    except ValueError:
        return None
    return None if "\0" in text else text
