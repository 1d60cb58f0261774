"""The user that runs sandboxes: the runtime's own; for a runtime of root, one that the operator names, or the owner
of the workspace.

Rights of another user are not worked out here: the kernel is asked, by a process of that user.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Iterable
from functools import cache
from typing import TypedDict

import msgspec

from ....runtime.definitions import ErrorType, ToolFailure
from ...workspace.paths import shown
from .roots import HostView, is_within

LOOK_SECONDS = 10.0
"""The time for one such question, on a busy machine."""

# Prints each of its arguments that can be read; folders must be enterable too.
_READABLE = 'for path; do if [ -r "$path" ] && { [ ! -d "$path" ] || [ -x "$path" ]; }; then printf "%s\\0" "$path"; fi; done'
_WRITABLE = '[ -r "$1" ] && [ -w "$1" ] && [ -x "$1" ]'


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A user of this machine."""

    name: str
    uid: int
    gid: int


class PopenUser(TypedDict, total=False):
    """Arguments of `subprocess.Popen`."""

    user: int
    group: int
    extra_groups: list[int]


def own_user() -> User:
    """Return the one that the runtime runs as."""
    return User(name="", uid=os.getuid(), gid=os.getgid())


def find_user(name: str | None) -> User | None:
    """Return the user of `sandbox.run_as`; `None` when none is named, or that is the runtime's own.

    Raises `ValueError` when there is no such user, or this process can't become that one.
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
    if os.geteuid() == entry.pw_uid:
        return None
    if os.geteuid() != 0:
        raise ValueError(
            f"sandbox.run_as: only root can run programs as {name!r}, and callboard runs as user "
            f"{os.geteuid()}; leave it out, or start callboard as {name!r}."
        )
    return User(name=name, uid=entry.pw_uid, gid=entry.pw_gid)


def ordinary_owner(run_as: str | None, workspace: str) -> str | None:
    """Return who runs programs in a workspace for a runtime of root that was told nothing (`sandbox.run_as`).

    It is the ordinary user that the workspace belongs to; `None` when there is none.
    """
    if run_as is not None or os.geteuid() != 0:
        return None
    try:
        uid = os.stat(workspace).st_uid
    except OSError:
        return None
    return _account(uid) if uid else None


@cache
def _account(uid: int) -> str | None:
    """Return the name of a user; asked once, since it may come from a server."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


def as_user(user: User | None) -> PopenUser:
    """Return how to start a process as that user."""
    if user is None:
        return {}
    return {"user": user.uid, "group": user.gid, "extra_groups": []}


def readable(user: User, paths: Iterable[str]) -> frozenset[str]:
    """Return those of the paths that the user can read."""
    found = _ask(user, _READABLE, *paths).stdout
    return frozenset(map(os.fsdecode, found.split(b"\0"))) - {""}


def _ask(user: User, script: str, *words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["/bin/sh", "-c", script, "sh", *words],
        env={},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=LOOK_SECONDS,
        check=False,
        cwd="/",
        **as_user(user),
    )


def check_workspace(user: User | None, folder: str) -> None:
    """Raise `ToolFailure` when that user can't work in a folder."""
    if user is None:
        return
    ran = _ask(user, _WRITABLE, folder)
    if ran.returncode == 0:
        return
    raise ToolFailure(
        ErrorType.SANDBOX_UNAVAILABLE,
        f"Nothing was run: {user.name}, who runs programs here (sandbox.run_as), can't read and "
        f"write {shown(folder)}. Give it to that user: `chown -R {user.name} FOLDER`, and let it "
        "into the folders above.",
        reason="that user can't work in the workspace",
    )


MAX_NAMED = 4
"""Places that the advice names."""


def seen_by(user: User, view: HostView) -> HostView:
    """Return what of it that user can read: bubblewrap fails on anything else."""
    folders = view.path.split(os.pathsep)
    pythons = [os.path.join(folder, "python3") for folder in folders]
    pythons = [path for path in pythons if os.path.exists(path)]
    wanted = [*view.shown, *folders, *pythons]
    can = readable(user, wanted)
    return msgspec.structs.replace(
        view,
        shown=tuple(path for path in view.shown if path in can),
        masked=tuple(path for path in view.masked if is_within(path, can)),
        path=os.pathsep.join(folder for folder in folders if folder in can),
        unread=tuple(dict.fromkeys(path for path in wanted if path not in can)),
    )


def unread_advice(user: User, view: HostView) -> str:
    """Return what that user can't read, in words for people."""
    if not view.unread:
        return ""
    some = ", ".join(view.unread[:MAX_NAMED])
    more = len(view.unread) - MAX_NAMED
    rest = f" and {more} more" if more > 0 else ""
    return (
        f"{user.name}, who runs programs here (sandbox.run_as), can't read {some}{rest}. Programs take "
        "what comes next on PATH; install tools where that user can read them, as in /usr/local."
    )
