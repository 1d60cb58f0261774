"""The arguments of one sandbox: what bubblewrap is told, and in which order it builds the box.

They are handed over through a descriptor (`--args`), so that no value of an environment stands in
a command line. bubblewrap itself is started with an empty environment: the sandbox's first process
is bubblewrap, and its /proc/1/environ shows with what that was started.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from ....config.sections import SandboxSettings
from .control_group import Groups
from .protected import EMPTY, Mount
from .roots import View
from .user import User, own_user

HOME = "/tmp/home"
FILES = "/run/callboard"
"""Where the bytes lie that come with a command: what was approved is what runs."""
CONFINED = Path(__file__).parent.parent / "tiers" / "landlock_exec.py"
HOST_NAME = "sandbox"
SHARED_MEMORY_BYTES = 64 * 1024 * 1024
"""/dev/shm, as container engines have it; it is in memory and counts for nobody."""

SOCKETS_BYTES = 64 * 1024
"""Of the folder in which sockets are made: it is the program's, who can keep nothing else there."""


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """What all sandboxes of a runtime share.

    Attributes:
        bwrap: The path of bubblewrap.
        disables_userns: Whether this bubblewrap knows `--disable-userns` (0.8 and later).
        view: What is seen of the machine.
        settings: The bounds.
        forbidden: Folders that are never shown, wherever they lie.
        bound: Of what is shown as it is, where it really is and where it is shown: links on the
            way to a program stand for themselves, and what they lead to is shown too.
        sealed: What of /proc could be written, and is the machine's: it is read-only.
        copied: Small files of what is shown; a copy costs less than a mount.
        groups: Where control groups are made; `None` where they can't be.
        user: Who runs sandboxes, when it is not the runtime's own user.
        confiner: The Python that confines programs where bubblewrap can't: the second tier.
    """

    bwrap: str
    disables_userns: bool
    view: View
    settings: SandboxSettings
    forbidden: tuple[str, ...] = ()
    bound: tuple[tuple[str, str], ...]
    sealed: tuple[str, ...] = ()
    copied: tuple[str, ...] = ()
    groups: Groups | None = None
    user: User | None = None
    confiner: str | None = None

    @property
    def name(self) -> str:
        """What builds the sandbox, for people."""
        return self.bwrap if self.confiner is None else "Landlock"

    def command(self, said: int, info: int, argv: Sequence[str]) -> list[str]:
        """What is started: bubblewrap, the descriptors that steer it, and the program in it.

        Args:
            said: What `arguments` gives.
            info: Where it tells which process is the first inside.
            argv: The program.
        """
        # `env` ends with 127 where there is no such program, as shells do, and others with another
        # code; words with `=` it would take for variables.
        found = argv if "=" in argv[0] else ["/usr/bin/env", "--", *argv]
        if self.confiner is not None:
            steered = [str(said), str(info), "--", *argv]
            return [self.confiner, "-I", "-S", str(CONFINED), *steered]
        steering = {"--args": said, "--info-fd": info}
        words = [word for name, fd in steering.items() for word in (name, str(fd))]
        return [self.bwrap, *words, "--", *found]

    def end(self, pid: int) -> None:
        """Ends what `command` started, and with it all that runs in it; does not wait.

        With bubblewrap's group the namespace goes. The second tier's confiner is told, and ends all
        that it confines before it ends itself.
        """
        with suppress(ProcessLookupError):
            if self.confiner is None:
                os.killpg(pid, signal.SIGKILL)
            else:
                os.kill(pid, signal.SIGTERM)


class Box(msgspec.Struct, frozen=True, kw_only=True):
    """What one sandbox has of its own.

    Attributes:
        workspace: The real path of the folder that is writable, at its own place.
        cwd: Where the program starts, absolute.
        environment: What it gets besides PATH, HOME and the like; it wins.
        mounts: What protects parts of the workspace.
        data: Descriptors of files that are put below `FILES`, by name.
        copies: Descriptors of files of the system, by path.
        masks: Descriptors of nothing, by the path of what reads as empty.
        gate: The descriptor where its first process waits for the filter.
        has_sockets: Whether sockets are made below `FILES`; what lies there stays as it is.
    """

    workspace: str
    cwd: str
    environment: Mapping[str, str]
    mounts: Sequence[Mount]
    data: Mapping[str, int]
    copies: Mapping[str, int]
    masks: Mapping[str, int]
    gate: int
    has_sockets: bool = False


def arguments(recipe: Recipe, box: Box) -> bytes:
    """What `--args` reads."""
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
    words += ["--bind", box.workspace, box.workspace]
    for how, path in box.mounts:
        words += _nothing_at(path, "0555") if how == EMPTY else [how, path, path]
    for path in recipe.forbidden:
        if os.path.isdir(path) and _is_below(path, (*view.shown, box.workspace)):
            words += _nothing_at(path)
    words += ["--size", str(SOCKETS_BYTES), "--tmpfs", FILES] if box.has_sockets else []
    for name, descriptor in box.data.items():
        words += ["--perms", "0444", "--file", str(descriptor), f"{FILES}/{name}"]
    words += ["--remount-ro", "/dev", "--remount-ro", "/"]
    words += ["--chdir", box.cwd, "--seccomp", str(box.gate)]
    return b"".join(os.fsencode(word) + b"\0" for word in words)


def _nothing_at(path: str, mode: str = "0755") -> list[str]:
    """A folder of its own, in which nothing is or can be."""
    return ["--perms", mode, "--size", "4096", "--tmpfs", path, "--remount-ro", path]


def users_file(user: User | None = None) -> bytes:
    """The one user that there is inside: whoever it runs as."""
    its = user or own_user()
    return f"{_name(its)}:x:{its.uid}:{its.gid}::{HOME}:/bin/sh\n".encode()


def groups_file(user: User | None = None) -> bytes:
    """The one group."""
    its = user or own_user()
    return f"{_name(its)}:x:{its.gid}:\n".encode()


def _name(user: User) -> str:
    return "root" if user.uid == 0 else "user"


def environment(recipe: Recipe, box: Box) -> dict[str, str]:
    """The variables of a program; what the call sets wins."""
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


def _is_below(path: str, roots: Sequence[str]) -> bool:
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)
