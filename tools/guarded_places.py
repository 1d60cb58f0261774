"""What file tools don't write in one workspace, besides the names that are protected everywhere.

That depends on the workspace: where its repository's settings keep hooks and further settings, and
whether callboard's own code lies in it. It is looked up each time, since people change it meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from .git_settings import paths_in_settings
from .own_code import own_code_in
from .paths import BARE_REPOSITORY
from .resolver import Names


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
