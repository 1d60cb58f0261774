"""The second tier: Landlock, where bubblewrap is missing or the kernel refuses it user namespaces.

Landlock confines files and TCP, a stricter filter (`landlock_filter`) denies what namespaces would keep
apart, and a confiner process (`landlock_exec`) stays the parent of all that a program starts, and ends it.
Its strength is `partial`: a program sees which process numbers are taken, and its private folder lies on
the disk. Landlock can't take away below what it has allowed above. So a program can change only what is in
the folders of a workspace, and its files, but make or remove nothing at its top, and change nothing of `.git`.
"""

from __future__ import annotations

import json
import os

from ....runtime.definitions import ErrorType, ToolFailure
from ...workspace.paths import is_below
from ..box.protected import AT_TOP
from ..box.recipe import FILES, Box, Recipe, environment
from ..box.roots import is_within
from ..box.seccomp import seccomp_program
from .landlock_exec import MIN_ABI, SIGNAL_ABI, landlock_abi
from .landlock_filter import strict_program

ACCEPTED = frozenset({"see processes of the machine", "share a namespace with the machine"})
"""What a program can do here that it can't do with namespaces."""

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
SEEN = ("/proc/cpuinfo", "/proc/meminfo")
"""All that is shown of /proc: the rest describes other processes."""
PLACES = ("/tmp", "/tmp/home")
"""Values of HOME and TMPDIR that are replaced by the program's private folder."""

_SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/etc")


def why_none() -> str | None:
    """Return why there can be no second tier here; `None` when there can."""
    if (abi := landlock_abi()) < MIN_ABI:
        return f"Landlock is missing or too old (its version is {abi}, and {MIN_ABI} is needed)"
    return None


def filter_of(recipe: Recipe) -> bytes:
    """Return the filter of system calls that sandboxes of this recipe need, on this kernel."""
    if recipe.confiner is None:
        return seccomp_program()
    return strict_program(denies_signals=landlock_abi() < SIGNAL_ABI)


def check_sockets(recipe: Recipe, *, has_sockets: bool) -> None:
    """Raise `ToolFailure` for sockets in the second tier, which has none."""
    if recipe.confiner is not None and has_sockets:
        raise ToolFailure(
            ErrorType.SANDBOX_UNAVAILABLE,
            "Nothing was run: the sandbox is partial, and there is no network and no socket in it. "
            "Run `callboard doctor` to see what is missing.",
            reason="no network in a partial sandbox",
        )


def plan_of(recipe: Recipe, box: Box) -> bytes:
    """Return what the confiner reads; raise `ToolFailure` when the workspace holds what must not be seen."""
    for path in recipe.forbidden:
        if is_within(path, (box.workspace,)) and not os.path.isfile(
            path
        ):  # of files, names are protected
            raise ToolFailure(
                ErrorType.SANDBOX_UNAVAILABLE,
                "Nothing was run: callboard's own data lies in the workspace, and a partial sandbox "
                "can't hide it there. Choose another workspace.",
                reason="own data in the workspace",
            )
    plan = {
        "parent": os.getpid(),
        "gate": box.gate,
        "files": dict(box.data),
        "files at": FILES,
        "cwd": box.cwd,
        "environment": environment(recipe, box),
        "places": PLACES,
        "places seen": [
            *_seen(recipe),
            *_workspace(box),
            *([(box.home, True)] if box.home else []),
        ],
    }
    return json.dumps(plan).encode()


def _seen(recipe: Recipe) -> list[tuple[str, bool]]:
    hidden = (*recipe.view.masked, *recipe.forbidden)
    shown = [
        source
        for source in (*(source for source, _ in recipe.bound), *recipe.copied)
        # What lies below can't be hidden again. The system's own files may be seen by anybody.
        if source.startswith(_SYSTEM) or not any(path.startswith(source) for path in hidden)
    ]
    return [*((path, False) for path in (*shown, *SEEN)), *((path, True) for path in DEVICES)]


def _workspace(box: Box) -> list[tuple[str, bool]]:
    """Return the places of the workspace, and whether they are writable: all but what is protected.

    A folder that holds something protected is not writable at all.
    """
    if box.is_read_only or box.is_home:
        return [(box.workspace, box.is_home)]
    sealed = [path for how, path in box.mounts if how == "--ro-bind"]
    with os.scandir(box.workspace) as entries:
        writable = [
            (entry.path, True)
            for entry in entries
            if entry.name not in (*AT_TOP, ".git")
            and not entry.is_symlink()
            and not any(path == entry.path or is_below(path, entry.path) for path in sealed)
        ]
    return [(box.workspace, False), *writable]
