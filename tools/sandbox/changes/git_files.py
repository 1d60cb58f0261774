"""Which files git would keep: those that its index names, and those that no .gitignore covers.

git itself is not run: the repository may be a stranger's, and what it configures would have to be disarmed
each time. The index is read for names alone, and nothing else in it is trusted.
"""

from __future__ import annotations

import os
import struct

from ....runtime.definitions import ToolFailure
from ....runtime.handles import FileInfo
from ...search.ignore_rules import IgnoreRules
from ...workspace.paths import root_names
from ...workspace.reader import FileReader, OpenRoot
from ...workspace.resolver import open_resolver

MAX_INDEX_BYTES = 16 * 1024 * 1024
"""More than 100,000 files take, and more than a scan of the workspace covers."""

NO_REPOSITORY = "the workspace is no git repository, so that what programs change is not kept"

_HEAD = struct.Struct(">4sLL")
_FACTS_BYTES = 40
"""Times, numbers and sizes of an entry, before its digest."""
_DIGEST_BYTES = (20, 32)
"""SHA-1 and SHA-256. Nothing in the file says which it is, so both are tried."""
_IS_EXTENDED, _LENGTH = 0x4000, 0x0FFF
_COMPRESSED = 4
"""From this version on, a name holds only what differs from the one before."""


class _NoIndex(Exception):
    pass


def open_reader(workspace: str) -> FileReader:
    """Open the workspace for reading; raise `OSError`."""
    root = os.open(workspace, getattr(os, "O_PATH", 0) | os.O_DIRECTORY | os.O_CLOEXEC)
    return FileReader(OpenRoot(root, open_resolver(root), (root_names(workspace),)))


def is_repository(files: FileReader) -> bool:
    """Return whether there is a git repository: a `.git` folder, or a file that says where it is."""
    try:
        found = files.find(".git", follow=False)
        if found is None:
            return False
        if found.kind == "directory":
            return files.find(".git/HEAD", follow=False) is not None
        return found.kind == "file" and files.read(".git", limit=8).data == b"gitdir: "
    except ToolFailure:
        return False


class GitFiles:
    """Which files git would keep, by the rules as they are now and the names in its index."""

    def __init__(self, files: FileReader, tracked: frozenset[str]) -> None:
        self._tracked = tracked
        self._rules = IgnoreRules(files)
        self._folders = {"": False}

    def ignores(self, path: str) -> bool:
        """Return whether git ignores a file; one that it tracks is never ignored."""
        if path in self._tracked:
            return False
        return self._ignores_folder(path.rpartition("/")[0]) or self._covers(path, "file")

    def _ignores_folder(self, folder: str) -> bool:
        known = self._folders.get(folder)
        if known is None:
            above = folder.rpartition("/")[0]
            known = self._ignores_folder(above) or self._covers(folder, "directory")
            self._folders[folder] = known
        return known

    def _covers(self, path: str, kind: str) -> bool:
        return self._rules.covers(FileInfo(path=path, kind=kind, size_bytes=0, modified_seconds=0))


def tracked_files(files: FileReader) -> frozenset[str]:
    """Return the names in the repository's index; none if it can't be read."""
    try:
        data = files.read(".git/index", limit=MAX_INDEX_BYTES + 1).data
    except ToolFailure:
        return frozenset()
    return frozenset() if len(data) > MAX_INDEX_BYTES else names_in_index(data)


def names_in_index(data: bytes) -> frozenset[str]:
    """Return the names in an index of git; none when it is not one."""
    for digest_bytes in _DIGEST_BYTES:
        try:
            return frozenset(map(os.fsdecode, _names(data, digest_bytes)))
        except (_NoIndex, struct.error, ValueError, IndexError):
            continue
    return frozenset()


def _names(data: bytes, digest_bytes: int) -> list[bytes]:
    sign, version, count = _HEAD.unpack_from(data)
    if sign != b"DIRC" or version not in {2, 3, _COMPRESSED}:
        raise _NoIndex
    names: list[bytes] = []
    at, name = _HEAD.size, b""
    for _ in range(count):
        begin = at
        at += _FACTS_BYTES + digest_bytes
        [flags] = struct.unpack_from(">H", data, at)
        at += 4 if flags & _IS_EXTENDED else 2
        kept = b""
        if version == _COMPRESSED:
            dropped, at = _number(data, at)
            kept = name[: len(name) - dropped]
        end = data.index(b"\0", at)
        name = kept + data[at:end]
        if not name or min(len(name), _LENGTH) != flags & _LENGTH:
            raise _NoIndex
        names.append(name)
        # Entries that are not compressed are padded to a multiple of eight, with one to eight zeros.
        at = end + 1 if version == _COMPRESSED else begin + ((end - begin) // 8 + 1) * 8
    return names


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Read a number of variable length; return it and where it ends."""
    number = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        number = (number + 1 << 7) | (data[at] & 0x7F)
        if number > MAX_INDEX_BYTES:
            raise _NoIndex
    return number, at + 1
