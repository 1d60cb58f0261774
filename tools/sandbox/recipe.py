"""The arguments of one sandbox: what bubblewrap is told, and in which order it builds the box.

They are handed over through a descriptor (`--args`), so that no value of an environment stands in
a command line. bubblewrap itself is started with an empty environment: the sandbox's first process
is bubblewrap, and its /proc/1/environ shows with what that was started.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import msgspec

from ...config.sandbox_settings import SandboxSettings
from .protected import Mount
from .roots import View

HOME = "/tmp/home"
FILES = "/run/callboard"
"""Where the bytes lie that come with a command: what was approved is what runs."""
HOST_NAME = "sandbox"
SHARED_MEMORY_BYTES = 64 * 1024 * 1024
"""/dev/shm, as container engines have it; it is in memory and counts for nobody."""
MAX_OPEN_FILES = 256
"""Of each process; with the bound of processes it keeps the machine's table of files free."""
CPU_GRACE_SECONDS = 5
"""Between the signal that says that the processor time is over, and the one that ends it."""


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """What all sandboxes of a runtime share.

    Attributes:
        bwrap: The path of bubblewrap.
        prlimit: The path of prlimit, inside too.
        disables_userns: Whether this bubblewrap knows `--disable-userns` (0.8 and later).
        view: What is seen of the machine.
        settings: The bounds.
        forbidden: Folders that are never shown, wherever they lie.
    """

    bwrap: str
    prlimit: str
    disables_userns: bool
    view: View
    settings: SandboxSettings
    forbidden: tuple[str, ...] = ()

    def limited(self, argv: Sequence[str]) -> list[str]:
        """The command under its limits.

        They are set inside: the number of processes is counted in the sandbox's own user namespace
        there, and outside together with everything else that the user runs.
        """
        its = self.settings
        return [
            self.prlimit,
            f"--cpu={its.cpu_seconds}:{its.cpu_seconds + CPU_GRACE_SECONDS}",
            f"--fsize={its.file_bytes}",
            f"--nofile={MAX_OPEN_FILES}",
            f"--nproc={its.processes}",
            f"--data={its.memory_bytes}",
            "--core=0",
            "--",
            *argv,
        ]


class Box(msgspec.Struct, frozen=True, kw_only=True):
    """What one sandbox has of its own.

    Attributes:
        workspace: The real path of the folder that is writable, at its own place.
        cwd: Where the program starts, absolute.
        environment: What it gets besides PATH, HOME and the like; it wins.
        mounts: What protects parts of the workspace.
        data: Descriptors of files that are put below `FILES`, by name.
        users, groups: Descriptors of /etc/passwd and /etc/group.
        seccomp: The descriptor of the filter.
    """

    workspace: str
    cwd: str
    environment: Mapping[str, str]
    mounts: Sequence[Mount]
    data: Mapping[str, int]
    users: int
    groups: int
    seccomp: int


def arguments(recipe: Recipe, box: Box) -> bytes:
    """What `--args` reads."""
    view, its = recipe.view, recipe.settings
    words = ["--unshare-all", "--unshare-user"]
    words += ["--disable-userns"] if recipe.disables_userns else []
    words += ["--die-with-parent", "--cap-drop", "ALL", "--hostname", HOST_NAME, "--clearenv"]
    for name, value in _environment(view, box).items():
        words += ["--setenv", name, value]
    words += ["--proc", "/proc", "--dev", "/dev"]
    words += ["--size", str(SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm"]
    words += ["--size", str(its.temporary_bytes), "--tmpfs", "/tmp", "--dir", HOME]
    for target, path in view.links:
        words += ["--symlink", target, path]
    for path in view.shown:
        # Links on the way to a program stand for themselves; what they lead to is shown too.
        words += ["--ro-bind", os.path.realpath(path), path]
    for path in view.masked:
        words += ["--ro-bind", os.devnull, path]
    words += ["--perms", "0444", "--ro-bind-data", str(box.users), "/etc/passwd"]
    words += ["--perms", "0444", "--ro-bind-data", str(box.groups), "/etc/group"]
    words += ["--bind", box.workspace, box.workspace]
    for how, path in box.mounts:
        words += [how, path, path]
    for path in recipe.forbidden:
        if os.path.isdir(path) and _is_below(path, (*view.shown, box.workspace)):
            words += ["--size", "4096", "--tmpfs", path, "--remount-ro", path]
    for name, descriptor in box.data.items():
        words += ["--perms", "0444", "--ro-bind-data", str(descriptor), f"{FILES}/{name}"]
    words += ["--remount-ro", "/dev", "--remount-ro", "/"]
    words += ["--chdir", box.cwd, "--seccomp", str(box.seccomp)]
    return b"".join(os.fsencode(word) + b"\0" for word in words)


def users_file() -> bytes:
    """The one user that there is inside: whoever it runs as."""
    return f"{_name()}:x:{os.getuid()}:{os.getgid()}::{HOME}:/bin/sh\n".encode()


def groups_file() -> bytes:
    """The one group."""
    return f"{_name()}:x:{os.getgid()}:\n".encode()


def _name() -> str:
    return "root" if os.getuid() == 0 else "user"


def _environment(view: View, box: Box) -> dict[str, str]:
    return {
        "PATH": view.path,
        "HOME": HOME,
        "USER": _name(),
        "LOGNAME": _name(),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "TMPDIR": "/tmp",
        **view.environment,
        **box.environment,
    }


def _is_below(path: str, roots: Sequence[str]) -> bool:
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)
