"""The recipe of all sandboxes, and the arguments of one: what bubblewrap builds, and in which order.

Later mounts lie over earlier ones, so the order is part of the protection: the system and tools first,
masks over credentials, then the workspace, then what protects parts of it, then empty folders over what is
never shown, and at last the root is made read-only.

The arguments go through a descriptor (`--args`), so that no value of an environment stands in a command
line. bubblewrap itself starts with an empty environment: it is the sandbox's first process, whose
/proc/1/environ shows what it was started with.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from ....config.sections import SandboxSettings
from .control_group import Groups
from .mounts import CLOSED
from .protected import EMPTY, Mount
from .roots import HostView, is_within, with_folders
from .user import User, own_user, seen_by

HOME = "/tmp/home"
FILES = "/run/callboard"
"""Where the files lie that come with a command, so that what was approved is what runs."""
CONFINED = Path(__file__).parent.parent / "tiers" / "landlock_exec.py"
HOST_NAME = "sandbox"
SHARED_MEMORY_BYTES = 64 * 1024 * 1024
"""The size of /dev/shm, as with container engines; no limit of a process counts it."""

SOCKETS_BYTES = 64 * 1024
"""The size of the folder in which sockets are made, where the program may write too."""


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """The parts that all sandboxes of a runtime share.

    Attributes:
        bwrap: The path of bubblewrap.
        disables_userns: Whether this bubblewrap knows `--disable-userns` (0.8 and later).
        view: What programs see of the machine.
        settings: The bounds.
        forbidden: Folders that are never shown, wherever they lie.
        bound: Pairs of where something really is and where it is shown. Links on the way to a program
            stand for themselves, and what they lead to is shown too.
        sealed: Files of /proc that are made read-only.
        copied: Small files that are copied in: a copy costs less than a mount.
        groups: Where control groups are made; `None` where they can't be.
        user: Who runs sandboxes, when it is not the runtime's own user.
        confiner: In the second tier, the Python that confines programs in bubblewrap's place.
    """

    bwrap: str
    disables_userns: bool
    view: HostView
    settings: SandboxSettings
    forbidden: tuple[str, ...] = ()
    bound: tuple[tuple[str, str], ...]
    sealed: tuple[str, ...] = ()
    copied: tuple[str, ...] = ()
    groups: Groups | None = None
    user: User | None = None
    confiner: str | None = None

    def showing(self, paths: Sequence[str]) -> Recipe:
        """Return the recipe of programs that see these paths too, read-only; looks at the disk.

        Raises:
            ValueError: One of them is not there, or lies in what is never shown.
        """
        for path in paths:
            if any(is_within(place, self.forbidden) for place in (path, os.path.realpath(path))):
                raise ValueError(f"read_only: {path} is callboard's own, and shown to no program")
        view = with_folders(self.view, paths)
        view = view if self.user is None else seen_by(self.user, view)
        more = [path for path in view.shown if path not in self.view.shown]
        bound = (*self.bound, *((os.path.realpath(path), path) for path in more))
        return msgspec.structs.replace(self, view=view, bound=bound)

    @property
    def name(self) -> str:
        """The name of what builds the sandbox, for people."""
        return self.bwrap if self.confiner is None else "Landlock"

    def command(self, said: int, info: int, argv: Sequence[str]) -> list[str]:
        """Return what to start: bubblewrap, the descriptors that steer it, and the program in it.

        It reads its arguments from `said`, and says on `info` which process is the first inside.
        """
        # `env` exits with 127 when there is no such program, as shells do. A word with `=` it would take
        # for a variable.
        found = argv if "=" in argv[0] else ["/usr/bin/env", "--", *argv]
        if self.confiner is not None:
            steered = [str(said), str(info), "--", *argv]
            return [self.confiner, "-I", "-S", str(CONFINED), *steered]
        steering = {"--args": said, "--info-fd": info}
        words = [word for name, fd in steering.items() for word in (name, str(fd))]
        return [self.bwrap, *words, "--", *found]

    def end(self, pid: int) -> None:
        """End what `command` started, and all that runs in it, without waiting.

        With bubblewrap's process group the namespace goes. The second tier's confiner gets SIGTERM, and
        ends all that it confines before it ends itself.
        """
        with suppress(ProcessLookupError):
            if self.confiner is None:
                os.killpg(pid, signal.SIGKILL)
            else:
                os.kill(pid, signal.SIGTERM)


class Box(msgspec.Struct, frozen=True, kw_only=True):
    """The parts that only one sandbox has.

    Attributes:
        workspace: The real path of the folder that is writable, at its own place.
        cwd: Where the program starts, absolute.
        environment: Variables besides PATH, HOME and the like; they win.
        mounts: What protects parts of the workspace.
        covers: What hides other file systems in it.
        data: Descriptors of files below `FILES`, by name.
        copies: Descriptors of files of the system, by path.
        masks: Descriptors of empty files, by the path of what must read as empty.
        gate: The descriptor where its first process waits for the filter.
        has_sockets: Whether sockets are made below `FILES`, which is writable then.
        is_read_only: Whether the workspace is only shown.
        is_home: Whether it is writable as a whole.
        home: Another folder that is, at its own place.
    """

    workspace: str
    cwd: str
    environment: Mapping[str, str]
    mounts: Sequence[Mount]
    covers: Sequence[Mount] = ()
    data: Mapping[str, int]
    copies: Mapping[str, int]
    masks: Mapping[str, int]
    gate: int
    has_sockets: bool = False
    is_read_only: bool = False
    is_home: bool = False
    home: str | None = None


def arguments(recipe: Recipe, box: Box) -> bytes:
    """Return bubblewrap's arguments, as `--args` reads them."""
    view, its = recipe.view, recipe.settings
    words = ["--unshare-all", "--unshare-user"]
    words += ["--disable-userns"] if recipe.disables_userns else []
    words += ["--die-with-parent", "--cap-drop", "ALL", "--hostname", HOST_NAME, "--clearenv"]
    for name, value in environment(recipe, box).items():
        words += ["--setenv", name, value]
    words += ["--proc", "/proc", "--dev", "/dev"]
    for path in recipe.sealed:
        words += ["--ro-bind", path, path]
    words += ["--size", str(SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm"]
    words += ["--size", str(its.temporary_bytes), "--tmpfs", "/tmp", "--dir", HOME]
    for target, path in view.links:
        words += ["--symlink", target, path]
    for source, path in recipe.bound:
        words += ["--ro-bind", source, path]
    for path, descriptor in box.masks.items():
        words += ["--perms", "0444", "--ro-bind-data", str(descriptor), path]
    for path, descriptor in box.copies.items():
        words += ["--perms", "0444", "--file", str(descriptor), path]
    words += ["--ro-bind" if box.is_read_only else "--bind", box.workspace, box.workspace]
    words += _mounted(box.mounts)
    for path in recipe.forbidden:
        if os.path.isdir(path) and is_within(path, (*view.shown, box.workspace)):
            words += _nothing_at(path)
    words += ["--bind", box.home, box.home] if box.home else []
    words += _mounted(box.covers)
    words += ["--size", str(SOCKETS_BYTES), "--tmpfs", FILES] if box.has_sockets else []
    for name, descriptor in box.data.items():
        words += ["--perms", "0444", "--file", str(descriptor), f"{FILES}/{name}"]
    words += ["--remount-ro", "/dev", "--remount-ro", "/"]
    words += ["--chdir", box.cwd, "--seccomp", str(box.gate)]
    return b"".join(os.fsencode(word) + b"\0" for word in words)


def why_no_room(workspace: str) -> str | None:
    """Return why a folder (a real path) can't be the one that is writable inside; `None` if it can.

    The files of a call are made at `FILES` when the workspace is in its place already: with a
    workspace around that, on the disk of this machine.
    """
    if is_within(FILES, (workspace,)) or is_within(workspace, (FILES,)):
        return f"no program runs with the workspace {workspace}: a sandbox has its own files in {FILES}"
    return None


def _mounted(mounts: Sequence[Mount]) -> Iterator[str]:
    for how, path in mounts:
        if how == EMPTY:
            yield from _nothing_at(path, "0555")
        elif how == CLOSED:  # mounted without devices, so that it can't be opened
            yield from ("--ro-bind", "/dev/null", path)
        else:
            yield from (how, path, path)


def _nothing_at(path: str, mode: str = "0755") -> list[str]:
    """Return arguments that mount an empty folder there, which stays empty."""
    return ["--perms", mode, "--size", "4096", "--tmpfs", path, "--remount-ro", path]


def account_files(user: User | None = None) -> dict[str, bytes]:
    """Return an /etc/passwd and an /etc/group with the one user that there is inside."""
    its = user or own_user()
    line = f"{_name(its)}:x:{its.uid}:{its.gid}::{HOME}:/bin/sh\n"
    return {"/etc/passwd": line.encode(), "/etc/group": f"{_name(its)}:x:{its.gid}:\n".encode()}


def _name(user: User) -> str:
    return "root" if user.uid == 0 else "user"


def environment(recipe: Recipe, box: Box) -> dict[str, str]:
    """Return the variables of a program; those that the call sets win."""
    view, name = recipe.view, _name(recipe.user or own_user())
    return {
        "PATH": view.path,
        "HOME": HOME,
        "USER": name,
        "LOGNAME": name,
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "TMPDIR": "/tmp",
        **view.environment,
        **box.environment,
    }
