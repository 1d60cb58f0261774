"""Programs that run now, each of which may be writing what nobody has looked for yet.

What a program wrote is marked when it has ended, or when its session looks at it. Until then a file that another
session reads counts as marked if it changed since such a program of a tainted session began; and a program that
runs beside one, in the same folder or in one around it, may have heard from it through anything: a file that is
gone again, a FIFO, a socket.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Protocol

SLACK_NS = 50_000_000
"""Times of files come from a clock that is some ticks behind ours."""
COARSE_NS = 2_000_000_000
"""The same for times without fractions, as on FAT."""
MAX_KNOWN_FOLDERS = 256
"""Folders above marked files that are remembered by inode; with more, any folder may have moved."""
MAX_CLEAN = 1_000
"""Files that sessions which are not tainted wrote meanwhile; with more, the first are forgotten."""


class Marks(Protocol):
    """What `MarkedFiles` says here."""

    def now(self) -> int:
        """See `MarkedFiles`."""
        ...

    def concern(self, workspace: str) -> bool:
        """See `MarkedFiles`."""
        ...

    def note(self, workspace: str) -> None:
        """See `MarkedFiles`."""
        ...

    def has_marked(self, workspace: str, since: int) -> bool:
        """See `MarkedFiles`."""
        ...

    def foreign_in(self, workspace: str) -> list[str]:
        """See `MarkedFiles`."""
        ...

    @staticmethod
    def overlap(one: str, other: str) -> bool:
        """See `MarkedFiles`."""
        ...


class Writer:
    """A program that runs.

    Args:
        marks: The marked files of the runtime.
        workspace: The real path of the folder that it may write to.
        root: The same, as it can be stored.
        since_ns: When it began.
        folders: The folders above marked files; `None` where it is not known which there were.
        is_tainted: Whether its session is.

    Attributes:
        workspace, root: The same.
        is_told: Whether it certainly may have heard untrusted content.
    """

    def __init__(
        self,
        marks: Marks,
        workspace: str,
        root: str,
        since_ns: int,
        folders: Iterable[str] | None,
        is_tainted: Callable[[], bool],
    ) -> None:
        self.workspace = workspace
        self.root = root
        self.is_told = False
        self._marks = marks
        self._since_ns = since_ns
        self._folders = None if folders is None else _folder_ids(folders)
        self._session_is_tainted = is_tainted
        self._begun = marks.now()

    @property
    def is_tainted(self) -> bool:
        """Whether what it writes may be untrusted content: it may also read what others mark while it runs."""
        if not self.is_told:
            self.is_told = (
                self._session_is_tainted()
                or self._marks.concern(self.root)
                or self._marks.has_marked(self.root, self._begun)
            )
        return self.is_told

    def wrote(self, path: str) -> bool:
        """Whether it may have written a file in its workspace, or moved it there with a folder; in doubt, yes."""
        if self._is_newer(path):
            return True
        above = os.path.dirname(path)
        while above.startswith(f"{self.workspace}/"):
            if self._is_newer(above) and self._may_have_moved():
                return True
            above = os.path.dirname(above)
        return False

    def _may_have_moved(self) -> bool:
        marks = self._marks
        if marks.foreign_in(self.workspace) or marks.has_marked(self.root, self._begun):
            return True
        return self.has_moved_folders()

    def has_moved_folders(self) -> bool:
        """Whether folders above files that were marked when it began are others now; in doubt, yes."""
        return self._folders is None or _folder_ids(self._folders) != self._folders

    def _is_newer(self, path: str) -> bool:
        try:
            changed = os.stat(path, follow_symlinks=False).st_ctime_ns
        except OSError:
            return True
        return is_since(changed, self._since_ns)


class Writers:
    """All programs that run, for the calls beside them; used from any thread."""

    def __init__(self, marks: Marks) -> None:
        self._marks = marks
        self._writers: tuple[Writer, ...] = ()
        self._clean: dict[str, tuple[int, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._writers)

    def begin(
        self,
        workspace: str,
        root: str,
        since_ns: int,
        folders: Iterable[str] | None,
        is_tainted: Callable[[], bool],
    ) -> Writer:
        """Note a program, before it begins; its arguments are those of `Writer`."""
        writer = Writer(self._marks, workspace, root, since_ns, folders, is_tainted)
        self._writers += (writer,)
        return writer

    def taint(self, workspace: str) -> None:
        """Note that those in a folder may have heard untrusted content."""
        for each in self._writers:
            each.is_told = each.is_told or each.workspace == workspace

    def end(self, writer: Writer) -> None:
        """Forget a program: what it wrote is marked."""
        if writer.is_tainted:
            self._marks.note(writer.root)  # for programs that ran beside it, and end later
        self._writers = tuple(each for each in self._writers if each is not writer)
        if not self._writers:
            self._clean.clear()

    def is_beside(self, workspace: str) -> bool:
        """Whether one that may write untrusted content runs in a folder, in one of it, or around it."""
        return any(
            self._marks.overlap(each.workspace, workspace) and each.is_tainted
            for each in self._writers
        )

    def wrote(self, path: str) -> bool:
        """Whether a file (a real path) may hold what one of them wrote that may be untrusted."""
        return any(
            path.startswith(f"{each.workspace}/")
            and each.is_tainted
            and not self._is_clean(path)
            and each.wrote(path)
            for each in self._writers
        )

    def clean(self, path: str) -> None:
        """Note that a session which is not tainted wrote the whole of a file."""
        if self._writers and (found := _state(path)) is not None:
            self._clean[path] = found
            if len(self._clean) > MAX_CLEAN:
                del self._clean[next(iter(self._clean))]

    def _is_clean(self, path: str) -> bool:
        return path in self._clean and self._clean[path] == _state(path)


def is_since(changed_ns: int, since_ns: int) -> bool:
    """Whether the time of a file's last change may be later than a time of ours."""
    return changed_ns >= since_ns - (COARSE_NS if changed_ns % 1_000_000_000 == 0 else SLACK_NS)


def _folder_ids(paths: Iterable[str]) -> dict[str, tuple[int, int]] | None:
    """Return device and inode of folders, or `None` if there are too many."""
    found: dict[str, tuple[int, int]] = {}
    for path in paths:
        if len(found) >= MAX_KNOWN_FOLDERS:
            return None
        try:
            info = os.stat(path, follow_symlinks=False)
        except OSError:
            found[path] = 0, 0
        else:
            found[path] = info.st_dev, info.st_ino
    return found


def _state(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns
