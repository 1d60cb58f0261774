"""A process that dies at one operation of its disk, and a disk that loses what was not flushed.

Every write, flush and truncation of the store is an operation (by a VFS of SQLite), and so is every change of
a file by `os`, before it and behind it. The product knows nothing of this.

To kill a process at each of 400 operations is to play all that came before 400 times. So `States` copies what a death
would leave, at each operation of one life: a killed process leaves its files as they are, and nothing else of what
counts but its programs, which end with it (a flow with programs is killed).
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import random
import shlex
import shutil
import signal
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable, Container
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, Literal, TypeAlias

import apsw
import trio

from callboard.runtime.store.ledger import PreparedAppend

How: TypeAlias = Literal["kill", "power", "flip"]
"""How a process dies: killed; with the power, so that what was not flushed may be lost or torn; killed, and then a
bit of the store's log flips."""

SECTOR = 512
_write, _open, _pwrite, _truncate = os.write, os.open, os.pwrite, os.truncate
_readlink = os.readlink
_system = ctypes.PyDLL(None).system
"""Runs a command while no other thread of this process does: it holds Python's lock meanwhile."""
OF_A_DESCRIPTOR = frozenset({"write", "pwrite", "ftruncate", "fsync"})
OF_A_PATH = frozenset({"rename", "replace", "link", "unlink", "rmdir", "mkdir", "symlink"})


class Death:
    """Counts operations, and kills the process at one of them.

    Attributes:
        names: Where in the program they are, in order, when no place is given.
        one_by_one: Is held for an operation, so that there is a moment between two.
    """

    def __init__(self, place: int | None, how: How = "kill") -> None:
        self.count = 0
        self.names: dict[str, None] = {}
        self.one_by_one = threading.RLock()
        self._place = place
        self._has_power = how != "power"
        self._unsynced: list[tuple[str, int, bytes, int]] = []

    def step(self, what: str) -> None:
        """Note one operation, ahead of it."""
        if self.count == self._place:
            if not self._has_power:
                self._lose(random.Random(self.count))
            os.kill(os.getpid(), signal.SIGKILL)
        self.count += 1
        if self._place is None:
            self.names[f"{_where(sys._getframe(1))}: {what}"] = None

    def wrote(self, path: str, offset: int, size: int) -> None:
        """Note what is there before a write that is not flushed."""
        if self._has_power:
            return
        with suppress(OSError):  # removed, or no file: nothing to lose
            fd = _open(path, os.O_RDONLY)
            try:
                before = os.pread(fd, size, offset)
                self._unsynced.append((path, offset, before, os.fstat(fd).st_size))
            finally:
                os.close(fd)

    def synced(self, path: str) -> None:
        """Note that a file was flushed."""
        self._unsynced = [each for each in self._unsynced if each[0] != path]

    def renamed(self, path: str, new: str) -> None:
        """Note that what was written to one path is at another."""
        self._unsynced = [
            (new if each[0] == path else each[0], *each[1:]) for each in self._unsynced
        ]

    def _lose(self, chosen: random.Random, folder: str = "", copy: str = "") -> None:
        """Take back some of the writes that were not flushed, whole or from a sector on; in a copy, if given."""
        for path, offset, before, size in reversed(self._unsynced):
            kept = chosen.choice((None, 0, SECTOR))
            if kept is None or not path.startswith(folder):
                continue
            path = copy + path.removeprefix(folder)
            with suppress(OSError):
                fd = _open(path, os.O_WRONLY)
                _pwrite(fd, before[kept:], offset + kept)
                os.close(fd)
                if offset + kept >= size:
                    _truncate(path, max(size, offset + kept))


class States(Death):
    """Copies what a death at each of some places would leave of a folder, unless it is as at an earlier one.

    A copy is made below `to`, under the number of its place.
    """

    def __init__(self, places: Container[int], how: How, folder: Path, to: Path) -> None:
        super().__init__(None, how)
        self._places, self._folder, self._to = places, folder, to
        self._seen: set[bytes] = set()
        self._is_copying = False
        to.mkdir(exist_ok=True)

    def step(self, what: str) -> None:
        if self._is_copying:
            return
        if self.count in self._places:
            self._is_copying = True
            self._copy(self._to / str(self.count))
            self._is_copying = False
        self.count += 1

    def _copy(self, copy: Path) -> None:
        words = shlex.join(["cp", "-a", str(self._folder), str(copy)])
        assert _system(words.encode()) == 0, words
        if not self._has_power:
            self._lose(random.Random(self.count), str(self._folder), str(copy))
        state = _digest(copy)
        if state in self._seen:
            shutil.rmtree(copy)
        self._seen.add(state)


def _digest(folder: Path) -> bytes:
    """What its files are called and hold, but for an index in shared memory, which is made anew."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if not path.name.endswith("-shm"):
            content = path.read_bytes() if path.is_file() else b""
            found.update(f"{path.relative_to(folder)} {len(content)} ".encode() + content)
    return found.digest()


def _where(frame: FrameType | None) -> str:
    """Name the function of the product that acts, and what a commit stores."""
    found = ""
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.startswith("callboard."):
            found = found or f"{name.removeprefix('callboard.')}.{frame.f_code.co_qualname}"
            if frame.f_code.co_name == "_transact":
                entries = [e for e in frame.f_locals["entries"] if isinstance(e, PreparedAppend)]
                types = [type(event).__name__ for entry in entries for event, _ in entry.events]
                return f"commit of {'+'.join(dict.fromkeys(types))}"
        frame = frame.f_back
    return found or "elsewhere"


class MortalFile(apsw.VFSFile):
    """A file of the store."""

    def __init__(self, name: Any, flags: list[int], death: Death) -> None:
        self._path = "" if name is None else name.filename() if hasattr(name, "filename") else name
        self._kind = self._path.rpartition(".db")[2] or "-db"
        self._death = death
        super().__init__("unix", name, flags)

    def xLock(self, level: int) -> None:
        try:
            super().xLock(level)
        except apsw.IOError:
            # A file that is open to be read can't be locked to be written back. SQLite takes that as it is at
            # its close; of Python's errors it only does so with this one.
            raise apsw.BusyError("it is only read") from None

    def xWrite(self, data: bytes, offset: int) -> None:
        with self._death.one_by_one:
            self._death.step(f"write {self._kind}")
            if self._path:
                self._death.wrote(self._path, offset, len(data))
            super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        with self._death.one_by_one:
            self._death.step(f"before sync {self._kind}")
            super().xSync(flags)
            self._death.synced(self._path)
            self._death.step(f"behind sync {self._kind}")

    def xTruncate(self, newsize: int) -> None:
        with self._death.one_by_one:
            self._death.step(f"truncate {self._kind}")
            super().xTruncate(newsize)


class MortalDisk(apsw.VFS):
    """SQLite's way to the disk."""

    def __init__(self, death: Death) -> None:
        self._death = death
        super().__init__("mortal", "unix", makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        kept = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_MAIN_DB
        return (
            MortalFile(name, flags, self._death) if flags[0] & kept else super().xOpen(name, flags)
        )

    def xDelete(self, filename: str, syncdir: bool) -> None:
        kind = filename.rpartition(".db")[2]
        with self._death.one_by_one:
            self._death.step(f"before delete {kind}")
            super().xDelete(filename, syncdir)
            self._death.step(f"behind delete {kind}")


def mortal(death: Death) -> MortalDisk:
    """Make this process die where `death` says."""
    for name in OF_A_DESCRIPTOR | OF_A_PATH:
        setattr(os, name, _stepping(name, getattr(os, name), death))
    return MortalDisk(death)


def _stepping(name: str, function: Callable[..., Any], death: Death) -> Callable[..., Any]:
    def call(*args: Any, **options: Any) -> Any:
        path = _file(args[0]) if name in OF_A_DESCRIPTOR else ""
        if name in OF_A_DESCRIPTOR and not path:
            return function(*args, **options)  # a pipe, a socket
        with death.one_by_one:
            death.step(f"before {name}")
            if name == "write":
                death.wrote(path, os.fstat(args[0]).st_size, len(args[1]))  # they only append
            elif name == "pwrite":
                death.wrote(path, args[2], len(args[1]))
            done = function(*args, **options)
            if name == "fsync":
                death.synced(path)
            elif name in {"rename", "replace"} and not options:
                death.renamed(os.fspath(args[0]), os.fspath(args[1]))
            death.step(f"behind {name}")
            return done

    return call


def _file(descriptor: int) -> str:
    """The path of an open file or folder; empty for a pipe and the like."""
    path = _readlink(f"/proc/self/fd/{descriptor}")
    return path if path.startswith("/") and not path.startswith("/dev/") else ""


def say(path: Path, line: str) -> None:
    """Append a line, by a way that is no operation."""
    fd = _open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    _write(fd, f"{line}\n".encode())
    os.close(fd)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def live(
    act: Callable[[], Awaitable[None]],
    death: Death | None = None,
    names: Path | None = None,
    counted: Path | None = None,
) -> int:
    """Fork a life that acts; return its exit status, negative when it was killed.

    `names` gets the places that it passed, `counted` how many there were.
    """
    child = os.fork()
    if child == 0:
        code = 1
        try:
            disk = mortal(death) if death is not None else None
            trio.run(act)
            code = 0
            if death is not None and names is not None:
                say(names, "\n".join(death.names))
            if death is not None and counted is not None:
                say(counted, str(death.count))
            del disk  # the last connection is closed
        except BaseException:  # noqa: ASYNC103
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
