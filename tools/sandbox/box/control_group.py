"""Control groups: the kernel's bounds on all processes of one sandbox together.

Limits of single processes add up, a look from outside comes late, and the limit on the number of
processes does not bind root at all. A control group binds them all, exactly. Where groups can be made
depends on the machine: with version 1, below each controller's folder that this process may write; with
version 2, below the runtime's own group, when that was delegated to it. Without one, the looks of
`running.program` remain.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from ....config.sections import SandboxSettings

MOUNT = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")

TASKS_PER_PROCESS = 2
"""Threads count here; a program with too many processes is ended by the watch, which says so, before."""

STALE_SECONDS = 60.0
"""An empty group of this age was left by a killed runtime."""

RUNTIME_GROUP = "callboard-runtime"
"""Where the runtime itself moves: in version 2 a group that holds processes can bound none below it."""

_PREFIX = "callboard-sandbox-"
_BOUNDED = ("memory", "pids")


class Groups(msgspec.Struct, frozen=True, kw_only=True):
    """The place for groups: below the runtime's own, so that its bounds hold for them too.

    Attributes:
        version: 1 or 2.
        folders: The folder of each controller (`memory`, `pids`); one for both in version 2.
    """

    version: int
    folders: Mapping[str, Path]

    @property
    def bounds(self) -> frozenset[str]:
        """The controllers: what is bounded."""
        return frozenset(self.folders)

    def open(self, settings: SandboxSettings) -> ControlGroup:
        """Make a group for one sandbox; raise `OSError` when it could not be made."""
        name = f"{_PREFIX}{secrets.token_hex(8)}"
        group = ControlGroup({kind: folder / name for kind, folder in self.folders.items()})
        try:
            group.make(settings)
        except BaseException:
            group.close()
            raise
        return group

    def sweep(self) -> None:
        """Remove what killed runtimes left; a group with processes in it can't be removed."""
        for parent in set(self.folders.values()):
            for folder in parent.glob(f"{_PREFIX}*"):
                with suppress(OSError):
                    if time.time() - folder.stat().st_mtime > STALE_SECONDS:
                        folder.rmdir()


class ControlGroup:
    """The group of one sandbox; made by `Groups.open`."""

    def __init__(self, folders: Mapping[str, Path]) -> None:
        self._folders = folders

    def make(self, settings: SandboxSettings) -> None:
        """Make its folders, and write its bounds."""
        for folder in set(self._folders.values()):
            folder.mkdir()
        if (pids := self._folders.get("pids")) is not None:
            _write(pids / "pids.max", TASKS_PER_PROCESS * settings.processes)
        if (memory := self._folders.get("memory")) is None:
            return
        if (memory / "memory.max").exists():
            _write(memory / "memory.max", settings.memory_bytes)
            _write(memory / "memory.oom.group", 1)
            swap, most = memory / "memory.swap.max", 0
        else:
            _write(memory / "memory.limit_in_bytes", settings.memory_bytes)
            swap, most = memory / "memory.memsw.limit_in_bytes", settings.memory_bytes
        if swap.exists():  # not on a kernel that counts no swap
            _write(swap, most)

    def join(self, pid: int) -> None:
        """Move a process into it, and with it all that it will start; may take some milliseconds.

        Raises `OSError` when it could not be moved.
        """
        for folder in set(self._folders.values()):
            _write(folder / "cgroup.procs", pid)

    def is_out_of_memory(self) -> bool:
        """Return whether the kernel ended something in it because there was no memory left."""
        if (memory := self._folders.get("memory")) is None:
            return False
        for name in ("memory.events", "memory.oom_control"):
            with suppress(OSError):
                text = (memory / name).read_text(encoding="ascii")
                if found := re.search(r"^oom_kill (\d+)$", text, re.MULTILINE):
                    return int(found[1]) > 0
        return False

    def close(self) -> None:
        """Remove it, once all in it are gone. Idempotent."""
        for folder in set(self._folders.values()):
            with suppress(OSError):
                folder.rmdir()


def find_groups(mount: Path = MOUNT, own: Path = OWN) -> Groups | None:
    """Return where this process can make groups; `None` when nowhere."""
    try:
        lines = own.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    paths: dict[str, str] = {}
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for controller in controllers.split(","):
            paths[controller] = path.lstrip("/")
    if (mount / "cgroup.controllers").exists():
        folder = _delegated(mount / paths.get("", ""))
        return (
            None if folder is None else Groups(version=2, folders=dict.fromkeys(_BOUNDED, folder))
        )
    folders = {kind: mount / kind / paths[kind] for kind in _BOUNDED if kind in paths}
    usable = {kind: folder for kind, folder in folders.items() if _is_usable(folder)}
    return Groups(version=1, folders=usable) if usable else None


def _delegated(own: Path) -> Path | None:
    """Return the group below which others can be made, if it was delegated to this process."""
    folder = own.parent if own.name == RUNTIME_GROUP else own
    try:
        given = (folder / "cgroup.controllers").read_text(encoding="ascii").split()
        if not _is_usable(folder) or not set(_BOUNDED).issubset(given):
            return None
        divided = (folder / "cgroup.subtree_control").read_text(encoding="ascii").split()
        if set(_BOUNDED).issubset(divided):
            return folder
        # Others in the group must not be moved, and with them in it, it can't be divided.
        if set((folder / "cgroup.procs").read_text(encoding="ascii").split()) - {str(os.getpid())}:
            return None
        (folder / RUNTIME_GROUP).mkdir(exist_ok=True)
        _write(folder / RUNTIME_GROUP / "cgroup.procs", os.getpid())
        _write(folder / "cgroup.subtree_control", " ".join(f"+{kind}" for kind in _BOUNDED))
    except OSError:
        return None
    return folder


def _is_usable(folder: Path) -> bool:
    return os.access(folder, os.W_OK) and os.access(folder / "cgroup.procs", os.W_OK)


def _write(path: Path, value: object) -> None:
    path.write_text(str(value), encoding="ascii")
