"""What `callboard doctor` finds that killed runtimes left in workspaces, and purges of sessions."""

from __future__ import annotations

from pathlib import Path

from ..runtime.own_folders import OwnFolders
from ..tools.sandbox.left_stubs import left_stubs
from .escaping import safe_line
from .finding import Finding, good, warning

MAX_NAMED = 20
"""Of one workspace all of them; of more, enough to know what is meant."""


def left_finding(data: Path, *, is_in_use: bool = False) -> Finding:
    """The read-only places of protected names, when nobody works with the data folder."""
    found = left_stubs(data)
    if not found or is_in_use:
        return good("workspaces", "nothing is left in them of programs that ran there")
    named = ", ".join(map(safe_line, found[:MAX_NAMED]))
    rest = f" and {len(found) - MAX_NAMED} more" if len(found) > MAX_NAMED else ""
    return warning(
        "workspaces",
        f"callboard was killed while a program ran, and left these empty places, which can't be "
        f"written: {named}{rest}",
        "the next `callboard run`, in whatever folder, removes them",
    )


def purged_finding(data: Path) -> Finding:
    """The folders of purged sessions of which something could not be removed."""
    left = [str(folder) for folder in OwnFolders(data).left()]
    if not left:
        return good("purged folders", "nothing is left of sessions that were purged")
    named = ", ".join(map(safe_line, left[:MAX_NAMED]))
    rest = f" and {len(left) - MAX_NAMED} more" if len(left) > MAX_NAMED else ""
    return warning(
        "purged folders",
        f"their sessions were purged, and something of them is left: {named}{rest}",
        "callboard tries again when it starts, and each hour; the daemon's log says what is in the way",
    )
