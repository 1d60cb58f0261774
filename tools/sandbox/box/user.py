"""Who runs sandboxes: the runtime's own user, or as root one that the operator names."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import TypedDict

import msgspec

from ....runtime.definitions import ErrorType, ToolFailure
from ...workspace.paths import shown
from .roots import View

LOOK_SECONDS = 10.0
"""For one look at some paths as that user, on a machine that is busy."""

# Prints each of its arguments that can be read; folders must be enterable too.
_READABLE = 'for path; do if [ -r "$path" ] && { [ ! -d "$path" ] || [ -x "$path" ]; }; then printf "%s\\0" "$path"; fi; done'
_WRITABLE = '[ -r "$1" ] && [ -w "$1" ] && [ -x "$1" ]'


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A user of this machine."""

    name: str
    uid: int
    gid: int


class PopenUser(TypedDict, total=False):
    """What `subprocess.Popen` takes of it."""

    user: int
    group: int
    extra_groups: list[int]


def own_user() -> User:
    """The one that the runtime runs as."""
    return User(name="", uid=os.getuid(), gid=os.getgid())


def find_user(name: str | None) -> User | None:
    """The user of `sandbox.run_as`; `None` when none is named.

    Raises:
        ValueError: There is no such user, or this process can't become that one.
    """
    if name is None:
        return None
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise ValueError(
            f"sandbox.run_as: there is no user {name!r} on this machine; make one: "
            f"`useradd --system {name}`."
        ) from None
    if entry.pw_uid == 0:
        raise ValueError(
            "sandbox.run_as: name an ordinary user; root is what it is there to avoid."
        )
    if os.geteuid() == entry.pw_uid:
        return None
    if os.geteuid() != 0:
        raise ValueError(
            f"sandbox.run_as: only root can run programs as {name!r}, and callboard runs as user "
            f"{os.geteuid()}; leave it out, or start callboard as {name!r}."
        )
    return User(name=name, uid=entry.pw_uid, gid=entry.pw_gid)


def as_user(user: User | None) -> PopenUser:
    """How a process is started as that user."""
    if user is None:
        return {}
    return {"user": user.uid, "group": user.gid, "extra_groups": []}


def readable(user: User, paths: Iterable[str]) -> frozenset[str]:
    """Those of the paths that the user can read; asks the kernel, as that user."""
    ran = subprocess.run(
        ["/bin/sh", "-c", _READABLE, "sh", *paths],
        env={},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=LOOK_SECONDS,
        check=False,
        cwd="/",
        **as_user(user),
    )
    return frozenset(map(os.fsdecode, ran.stdout.split(b"\0"))) - {""}


def check_workspace(user: User | None, folder: str) -> None:
    """Asks the kernel, as that user, whether it can work in a folder.

    Raises:
        ToolFailure: It can't.
    """
    if user is None or _can_write(user, folder):
        return
    raise ToolFailure(
        ErrorType.SANDBOX_UNAVAILABLE,
        f"Nothing was run: {user.name}, who runs programs here (sandbox.run_as), can't read and "
        f"write {shown(folder)}. Give it to that user: `chown -R {user.name} FOLDER`, and let it "
        "into the folders above.",
        reason="the workspace is not that user's",
    )


def _can_write(user: User, folder: str) -> bool:
    ran = subprocess.run(
        ["/bin/sh", "-c", _WRITABLE, "sh", folder],
        env={},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=LOOK_SECONDS,
        check=False,
        cwd="/",
        **as_user(user),
    )
    return ran.returncode == 0


MAX_NAMED = 4
"""Places in a sentence of advice."""


def seen_by(user: User, view: View) -> View:
    """What of it that user can read; bubblewrap fails with what it can't."""
    folders = view.path.split(os.pathsep)
    pythons = [os.path.join(folder, "python3") for folder in folders]
    pythons = [path for path in pythons if os.path.exists(path)]
    wanted = [*view.shown, *folders, *pythons]
    can = readable(user, wanted)
    return msgspec.structs.replace(
        view,
        shown=tuple(path for path in view.shown if path in can),
        masked=tuple(path for path in view.masked if _is_below(path, can)),
        path=os.pathsep.join(folder for folder in folders if folder in can),
        unread=tuple(dict.fromkeys(path for path in wanted if path not in can)),
    )


def unread_advice(user: User, view: View) -> str:
    """What that user has not, for people."""
    if not view.unread:
        return ""
    some = ", ".join(view.unread[:MAX_NAMED])
    more = len(view.unread) - MAX_NAMED
    rest = f" and {more} more" if more > 0 else ""
    return (
        f"{user.name}, who runs programs here (sandbox.run_as), can't read {some}{rest}. Programs take "
        "what comes next on PATH; install tools where that user can read them, as in /usr/local."
    )


def _is_below(path: str, roots: frozenset[str]) -> bool:
    return any(str(parent) in roots for parent in Path(path).parents)
