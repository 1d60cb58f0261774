"""The keys on which parallel calls must not overlap."""

from __future__ import annotations

import msgspec

from .errors import ValidationError


class Resource(msgspec.Struct, frozen=True, order=True):
    """A key on which parallel calls must not overlap: a path in the tree of one workspace.

    Readers share; a writer is alone on the path, all that lies under it and all that it lies under.

    Attributes:
        path: Names with slashes in between, as in `a/b`; `""` is the root and overlaps everything.
        write: Whether the call changes what is there.

    Raises:
        ValidationError: `path` is no such path.

    Example:
        def keys(arguments):
            return [callboard.Resource(arguments.path, write=False)]

        @callboard.tool(needs=["files.read"], resources=keys)
        def count_bytes(path: str, context: callboard.ToolContext) -> int:
            '''Counts the bytes of a file.'''
            return context.files_read.read(path, limit=1).info.size_bytes
    """

    path: str
    write: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.path, str) or not isinstance(self.write, bool):
            given = f"path={self.path!r}, write={self.write!r}"
            raise ValidationError(
                f"Resource({given}): the path is a text, and write is true or false.", field="path"
            )
        if self.path and not _NO_NAMES.isdisjoint(self.path.split("/")):
            raise ValidationError(
                f"{self.path[:100]!r} can't be a key of parallel calls: write it like `a/b`, with no "
                "slash at either end, no empty name, no `.` and no `..`.",
                field="path",
            )


_NO_NAMES = frozenset({"", ".", ".."})
"""Between the slashes of a path they would make two keys of one place."""
