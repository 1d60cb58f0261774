"""What the file tools share: their handles, their resource keys, how they say size and time."""

from __future__ import annotations

from datetime import UTC, datetime

from ...runtime.definitions import ErrorType, Resource, ToolFailure
from ...runtime.handles import ReadableFiles, WritableFiles
from ..tool import ToolContext
from ..workspace.paths import shown, split_path


def reading(context: ToolContext) -> ReadableFiles:
    """The handle to read with; `permission_denied` when the session has none."""
    if context.files_read is None:
        raise _no_handle("files.read", context)
    return context.files_read


def writing(context: ToolContext) -> WritableFiles:
    """The handle to write with; `permission_denied` when the session has none."""
    if context.files_write is None:
        raise _no_handle("files.write", context)
    return context.files_write


def overwrite_reason(context: ToolContext, path: str) -> str | None:
    """Why writing to a path is worth a question: there is a file that would be lost."""
    try:
        present = writing(context).find(path)
    except ToolFailure:
        return None  # The call is going to fail by itself: nothing to ask a person about.
    if present is None or present.kind == "directory":
        return None
    return f"overwrites {shown(present.path)} ({in_bytes(present.size_bytes)})"


def resource(path: str, *, write: bool) -> tuple[Resource, ...]:
    """The key of a path in the tree of its workspace."""
    try:
        if path.startswith("/"):
            # Where the root is, is not known here: the root's own key overlaps every other.
            return (Resource("", write=write),)
        return (Resource("/".join(split_path(path)), write=write),)
    except ToolFailure:
        return ()  # The call touches nothing: its execution refuses the path.


def in_bytes(count: int) -> str:
    """A size for people."""
    return "1 byte" if count == 1 else f"{count} bytes"


def timestamp(seconds: float) -> str:
    """A time for the model: ISO 8601 in UTC, to the second."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _no_handle(name: str, context: ToolContext) -> ToolFailure:
    return ToolFailure(
        ErrorType.PERMISSION_DENIED,
        f"a {context.session_kind} session has no {name} handle here",
        reason=f"no {name} handle",
    )
