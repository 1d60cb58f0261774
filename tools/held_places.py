"""Where the workspaces of sessions really lie: a path that leads elsewhere later is not followed.

A session's workspace may lie in another session's, whose programs can put a link in its place. What
a runtime has opened once stays what that path means; a folder that is made anew there is fine.
"""

from __future__ import annotations

from ..runtime.errors import ValidationError
from .paths import shown

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
