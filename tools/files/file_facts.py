"""What the file tools share: handles, resource keys, sizes and times, notes on what can't be undone."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import NoReturn, TypedDict

from ...runtime.changes.file_versions import KeepsVersions
from ...runtime.definitions import (
    Artifact,
    Capability,
    Effect,
    ErrorType,
    Resource,
    Tier,
    ToolFailure,
)
from ...runtime.handles import FileInfo, ReadableFiles, WritableFiles
from ..processes.threads import run_read
from ..tool import ToolContext, tool_family
from ..workspace.paths import shown, split_path

NOTE = "can't be undone"


class Notes(TypedDict, total=False):
    """What `notes` adds to a result."""

    not_undoable: list[str]
    warnings: list[str]


reading_tool = tool_family(
    tier=Tier.READ_ONLY,
    needs=[Capability.FILES_READ],
    timeout_seconds=10,
    effect=Effect.READ,
    resources=lambda arguments: resource(arguments.path, write=False),
)
writing_tool = tool_family(tier=Tier.WORKSPACE, needs=[Capability.FILES_WRITE], timeout_seconds=10)


def reading(context: ToolContext) -> ReadableFiles:
    """Return the handle to read with; raise `ToolFailure` (`permission_denied`)."""
    return context.files_read or _no_handle("files.read", context)


def writing(context: ToolContext) -> WritableFiles:
    """Return the handle to write with; raise `ToolFailure` (`permission_denied`)."""
    return context.files_write or _no_handle("files.write", context)


def overwrite_reason(context: ToolContext, path: str) -> str | None:
    """Return why writing to a path is worth a question: a file there would be lost."""
    try:
        present = writing(context).find(path)
    except ToolFailure:
        return None  # the call will fail by itself: nothing to ask about
    if present is None or present.kind == "directory":
        return None
    return f"overwrites {shown(present.path)} ({in_bytes(present.size_bytes)})"


def resource(path: str, *, write: bool) -> tuple[Resource, ...]:
    """Return the key of a path in the tree of its workspace."""
    try:
        if path.startswith("/"):
            # The root's place is not known here, and its own key overlaps every other.
            return (Resource("", write=write),)
        return (Resource("/".join(split_path(path)), write=write),)
    except ToolFailure:
        return ()  # the call touches nothing: its execution refuses the path


def made(info: FileInfo) -> Artifact:
    """Return what a call made as an artifact."""
    if info.kind == "directory":
        return Artifact(kind="directory", id=info.path, size_bytes=0)
    return Artifact(kind="file", id=info.path, size_bytes=info.size_bytes)


def in_bytes(count: int) -> str:
    """Return a size for people."""
    return "1 byte" if count == 1 else f"{count} bytes"


def timestamp(seconds: float) -> str:
    """Return a time for models: ISO 8601 in UTC, to the second."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _no_handle(name: str, context: ToolContext) -> NoReturn:
    raise ToolFailure(
        ErrorType.PERMISSION_DENIED,
        f"a {context.session_kind} session has no {name} handle here",
        reason=f"no {name} handle",
    )


def notes(files: ReadableFiles) -> dict[str, list[str]]:
    """Return the fields of a result that name what was not kept, and what went wrong afterwards, if any."""
    if not isinstance(files, KeepsVersions):
        return {}
    found = {"not_undoable": list(files.unkept), "warnings": list(files.warnings)}
    return {name: lines for name, lines in found.items() if lines}


def undo_warning(files: WritableFiles | None, path: str, *, follow: bool = False) -> str:
    """Return the lines of a preview on what would be lost for good; empty when nothing.

    With `follow`, a link at the end stands for the file that it names.
    """
    if files is None or not isinstance(files, KeepsVersions):
        return ""
    if follow and (found := files.find(path)) is not None:
        path = found.path
    return "".join(f"\n{NOTE}: {why}" for why in files.why_unkept(path))


async def with_undo_warning(
    text: str, context: ToolContext, path: str, *, follow: bool = False
) -> str:
    """Return a preview with these lines after its first, so that a cut never takes them."""
    warning = await run_read(partial(undo_warning, context.files_write, path, follow=follow))
    first, line_end, rest = text.partition("\n")
    return f"{first}{warning}{line_end}{rest}"
