"""list_directory, write_file, move_file and delete_file."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from ...runtime.definitions import Artifact, Effect, ToolFailure, ToolResult
from ...runtime.handles import FileInfo, ReadableFiles, WritableFiles
from ..processes.threads import run_read, run_write
from ..schema.parameters import WireName
from ..tool import ToolContext
from ..workspace.paths import shown
from .file_facts import (
    Notes,
    in_bytes,
    made,
    notes,
    overwrite_reason,
    reading,
    reading_tool,
    resource,
    timestamp,
    writing,
    writing_tool,
)
from .preview import preview_of_delete, preview_of_move, preview_of_write
from .text_codec import encode

MAX_LISTED_ENTRIES = 1_000
"""About 100 KB of JSON; for more, a model lists a folder below or searches by glob."""
MAX_NAMED_DELETIONS = 1_000
"""As many names as a listing has; the total is always stated."""


class Entry(TypedDict):
    """One entry of a directory."""

    name: str
    type: Literal["file", "directory", "symlink", "other"]
    size: int
    modified: str


class Listed(TypedDict):
    """What list_directory returns."""

    entries: list[Entry]
    truncated: bool
    total: NotRequired[int]


class WriteOutput(Notes):
    """What write_file returns."""

    path: str
    size: int
    bytes_written: int


Moved = TypedDict(
    "Moved",
    {
        "from": str,
        "to": str,
        "not_undoable": NotRequired[list[str]],
        "warnings": NotRequired[list[str]],
    },
)
"""What move_file returns."""


class Deleted(Notes):
    """What delete_file returns."""

    deleted: list[str]
    truncated: NotRequired[bool]
    total: NotRequired[int]


@reading_tool(output=Listed)
async def list_directory(
    context: ToolContext, path: str, recursive: bool = False, include_hidden: bool = False
) -> ToolResult:
    """Lists what a directory of the workspace holds.

    Args:
        path: Relative to the workspace; . is its root.
        recursive: Whether to list the directories below too (links are not followed).
        include_hidden: Whether to list names that begin with a dot.
    """
    files = reading(context)
    listing = await run_read(_list, files, path, recursive, include_hidden)
    count = len(listing["entries"])
    total = f" of {listing['total']}" if "total" in listing else " and more"
    more = total if listing["truncated"] else ""
    return ToolResult(output=listing, display=f"Listed {shown(path)} (entries: {count}{more})")


def _list(files: ReadableFiles, path: str, recursive: bool, include_hidden: bool) -> dict[str, Any]:
    listing = files.entries(
        path, recursive=recursive, include_hidden=include_hidden, max_entries=MAX_LISTED_ENTRIES
    )
    base = files.normalize(path)
    output: dict[str, Any] = {
        "entries": [_entry(info, base) for info in listing.entries],
        "truncated": listing.truncated,
    }
    if listing.total is not None:
        output["total"] = listing.total
    return output


def _entry(info: FileInfo, base: str) -> dict[str, Any]:
    name = info.path if base == "." else info.path.removeprefix(f"{base}/")
    return {
        "name": shown(name),
        "type": info.kind,
        "size": info.size_bytes,
        "modified": timestamp(info.modified_seconds),
    }


@writing_tool(
    approval=lambda arguments, context: (
        overwrite_reason(context, arguments.path) if arguments.mode == "overwrite" else None
    ),
    # Overwriting twice is harmless, appending twice is not.
    effect=lambda arguments: Effect.IDEMPOTENT if arguments.mode == "overwrite" else Effect.ONCE,
    resources=lambda arguments: resource(arguments.path, write=True),
    preview=preview_of_write,
    output=WriteOutput,
)
async def write_file(
    context: ToolContext,
    path: str,
    content: str,
    mode: Literal["overwrite", "append"] = "overwrite",
    encoding: str = "utf-8",
    create_dirs: bool = True,
) -> ToolResult:
    """Writes a file of the workspace, or appends to it.

    Args:
        path: Relative to the workspace.
        content: The whole new content, or what to append.
        mode: overwrite replaces the file in one step; append adds to its end.
        encoding: utf-8 or another text encoding; base64 when content is base64 of the bytes.
        create_dirs: Whether to make the directories that are missing.
    """
    files = writing(context)
    data = encode(content, encoding)
    # A write that was decided as new stays new: a file that appeared meanwhile is not lost.
    replace = context.approval_reason is not None
    if mode == "append":
        write = partial(files.append, path, data, create_dirs=create_dirs)
    else:
        write = partial(files.write, path, data, replace=replace, create_dirs=create_dirs)
    info = await run_write(write)
    name = shown(info.path)
    verb = "Wrote" if mode == "overwrite" else "Appended to"
    output: dict[str, Any] = {"path": name, "size": info.size_bytes, "bytes_written": len(data)}
    return ToolResult(
        output=output | notes(files),
        display=f"{verb} {name} ({in_bytes(len(data))})",
        artifacts=(made(info),),
    )


@writing_tool(
    approval=lambda arguments, context: (
        overwrite_reason(context, arguments.destination) if arguments.overwrite else None
    ),
    resources=lambda arguments: (
        *resource(arguments.source, write=True),
        *resource(arguments.destination, write=True),
    ),
    preview=preview_of_move,
    output=Moved,
)
async def move_file(
    context: ToolContext,
    source: Annotated[str, WireName("from")],
    destination: Annotated[str, WireName("to")],
    overwrite: bool = False,
) -> ToolResult:
    """Moves or renames a file or a directory of the workspace.

    Args:
        source: What to move, relative to the workspace.
        destination: Its whole new path (not just the folder), relative to the workspace.
        overwrite: Whether a file that is there already may be replaced.
    """
    files = writing(context)
    replace = overwrite and context.approval_reason is not None
    path = files.normalize(destination)
    artifact = await run_write(_move, files, source, destination, replace)
    moved = {"from": shown(files.normalize(source)), "to": shown(path)}
    return ToolResult(
        output=moved | notes(files),
        display=f"Moved {moved['from']} to {moved['to']}",
        artifacts=(artifact,),
    )


def _move(files: WritableFiles, source: str, destination: str, replace: bool) -> Artifact:
    files.move(source, destination, overwrite=replace)
    path = files.normalize(destination)
    with suppress(ToolFailure):  # what was moved may be a link to where nobody may look
        found = files.find(path)
        if found is not None and found.path == path:
            return made(found)
    return Artifact(kind="link", id=path, size_bytes=0)


@writing_tool(
    approval=lambda arguments, context: (
        f"deletes {shown(arguments.path)}{' and all that it holds' if arguments.recursive else ''}"
    ),
    resources=lambda arguments: resource(arguments.path, write=True),
    preview=preview_of_delete,
    output=Deleted,
)
async def delete_file(context: ToolContext, path: str, recursive: bool = False) -> ToolResult:
    """Deletes a file, a link or a directory of the workspace.

    Args:
        path: Relative to the workspace; a link is deleted itself, never what it leads to.
        recursive: Whether a directory may be deleted with all that it holds.
    """
    files = writing(context)
    deleted = await run_write(partial(files.delete, path, recursive=recursive))
    output: dict[str, Any] = {"deleted": [shown(name) for name in deleted[-MAX_NAMED_DELETIONS:]]}
    if len(deleted) > MAX_NAMED_DELETIONS:
        output.update(truncated=True, total=len(deleted))
    inside = f" and all in it ({len(deleted) - 1})" if len(deleted) > 1 else ""
    return ToolResult(output=output | notes(files), display=f"Deleted {shown(path)}{inside}")
