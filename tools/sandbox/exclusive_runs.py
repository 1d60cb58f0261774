"""Which programs run in which workspaces, for a program that no other may disturb.

What somebody allowed to run is looked at just before it starts. A program that runs beside could put
another one in its place behind that look: no mount holds a name against a rename that is made in
another sandbox. So none may run there then.
"""

from __future__ import annotations

from collections.abc import Callable

from ..workspace.paths import is_below


class Neighbours:
    """The programs of a runtime that run, by their workspaces; on the Trio thread alone."""

    def __init__(self) -> None:
        self._running: dict[object, tuple[str, str]] = {}

    def enter(self, workspace: str, name: str) -> Callable[[], None]:
        """Notes a program that begins; call what this gives when nothing of it is left."""
        key = object()
        self._running[key] = workspace, name
        return lambda: self._drop(key)

    def of(self, workspace: str) -> tuple[str, ...]:
        """Those that can write in a workspace: theirs is the same, or lies around it or within."""
        return tuple(
            name
            for place, name in self._running.values()
            if place == workspace or is_below(place, workspace) or is_below(workspace, place)
        )

    def _drop(self, key: object) -> None:
        self._running.pop(key, None)
