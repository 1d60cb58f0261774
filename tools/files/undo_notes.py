"""What a person and a model are told of changes that can't be undone."""

from __future__ import annotations

from functools import partial

from ...runtime.changes.file_versions import KeepsVersions
from ...runtime.handles import ReadableFiles, WritableFiles
from ..context import ToolContext
from ..processes.threads import run_read

NOTE = "can't be undone"


def undo_note(files: ReadableFiles) -> dict[str, list[str]]:
    """The field of a result that names what was changed and not kept; none when all was."""
    unkept = files.unkept if isinstance(files, KeepsVersions) else ()
    return {"not_undoable": list(unkept)} if unkept else {}


def undo_warning(files: WritableFiles | None, path: str, *, follow: bool = False) -> str:
    """The lines of a preview about what would be lost for good; empty when nothing is.

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
    """A preview with these lines behind its first one: what is cut of it are others."""
    warning = await run_read(partial(undo_warning, context.files_write, path, follow=follow))
    first, line_end, rest = text.partition("\n")
    return f"{first}{warning}{line_end}{rest}"
