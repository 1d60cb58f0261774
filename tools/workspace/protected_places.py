"""What file tools don't write in one workspace, besides the names that are protected everywhere.

That depends on the workspace: where its repository's settings keep hooks and further settings, and
whether callboard's own code lies in it. It is looked up each time, since people change it meanwhile.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from ...runtime.errors import ValidationError
from .git_settings import paths_in_settings
from .paths import BARE_REPOSITORY, is_below, shown
from .resolver import Names

MAX_HELD = 4096
"""Paths of workspaces that one runtime has opened; of more, the oldest are forgotten."""


class HeldPlaces:
    """The real path of each workspace, as it was when it was first opened."""

    def __init__(self) -> None:
        self._real: dict[str, str] = {}

    def check(self, path: str, real: str) -> None:
        """Raises `ValidationError` when a path has led to another place before."""
        held = self._real.setdefault(path, real)
        if held != real:
            raise ValidationError(
                f"{shown(path)} leads to {shown(real)} now, and led to {shown(held)}: something put "
                "a link in its place. Put the folder back, or start callboard anew if that was "
                "meant.",
                field="workspace",
            )
        if len(self._real) > MAX_HELD:
            del self._real[next(iter(self._real))]


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


class GuardedPlaces:
    """The guarded places of one workspace.

    Args:
        workspace: Its real path.
    """

    def __init__(self, workspace: str) -> None:
        self._workspace = workspace

    def covers(self, names: Names) -> bool:
        """Whether a path is such a place or lies in one, or would make the workspace a repository."""
        folded = _folded(names)
        if any(folded[: len(place)] == place for place in self._places()):
            return True
        return self._makes_repository(folded)

    def leads_to(self, names: Names) -> bool:
        """Whether such a place lies below a folder, so that it would be moved along or made anew."""
        folded = _folded(names)
        return any(place[: len(folded)] == folded for place in self._places())

    def _places(self) -> list[Names]:
        paths = (*paths_in_settings(self._workspace), *own_code_in(self._workspace))
        return [_folded(os.path.relpath(path, self._workspace).split("/")) for path in paths]

    def _makes_repository(self, folded: Names) -> bool:
        """Whether what is missing of a repository without `.git` would be there then."""
        parts = {name.casefold(): name for name in BARE_REPOSITORY}
        own = parts.pop(folded[0], None) if folded else None
        return (
            own is not None
            and all(os.path.lexists(os.path.join(self._workspace, name)) for name in parts.values())
            and not os.path.lexists(os.path.join(self._workspace, own))
        )


def _folded(names: Sequence[str]) -> Names:
    return tuple(name.casefold().rstrip(". ") for name in names)
