"""Where callboard's own code lies: what is changed there runs outside of every sandbox.

With an installation in a project's own `.venv`, that is in the workspace. It can be read there, and
neither file tools nor programs write to it.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

from .paths import is_below


@cache
def own_code() -> tuple[str, ...]:
    """The real paths of the package, of its parts that lie elsewhere, and of what it runs in."""
    package = Path(sys.modules[__name__.partition(".")[0]].__path__[0])
    found = {os.path.realpath(package)}
    with os.scandir(package) as entries:
        found.update(os.path.realpath(entry.path) for entry in entries if entry.is_symlink())
    found.update(os.path.realpath(prefix) for prefix in (sys.prefix, sys.exec_prefix))
    return tuple(sorted(found))


def own_code_in(workspace: str) -> tuple[str, ...]:
    """Of it what lies in a workspace (a real path), outer places first."""
    inside: list[str] = []
    for path in own_code():
        if is_below(path, workspace) and not any(is_below(path, outer) for outer in inside):
            inside.append(path)
    return tuple(inside)


def holds(workspace: str) -> str | None:
    """The part of it in which a workspace lies, or which it is; `None` when there is none."""
    package = own_code()
    shared = {os.path.realpath(sys.base_prefix), "/usr", "/usr/local"}
    return next(
        (
            path
            for path in package
            if path not in shared and (path == workspace or is_below(workspace, path))
        ),
        None,
    )
