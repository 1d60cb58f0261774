"""What `callboard doctor` finds that killed runtimes left in workspaces."""

from __future__ import annotations

from pathlib import Path

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
