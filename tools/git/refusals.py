"""What git refuses because of what it was asked for, as the errors that other tools have for it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...runtime.definitions import ErrorType, ToolFailure
from ...runtime.processes import Ran
from ..schema.validation import TRY_AGAIN
from ..workspace.paths import not_allowed, shown, split_path

_OUTSIDE = re.compile(r"^fatal: (.*): '.*' is outside repository at '", re.MULTILINE)
_NO_REVISION = re.compile(
    r"^fatal: (?:bad revision|ambiguous argument|Invalid object name|bad object) '?(.*?)'?"
    r"(?:: unknown revision .*|[.])?$",
    re.MULTILINE,
)


def check_paths(paths: Sequence[str] | None) -> None:
    """Refuses paths that lead out of the workspace; of absolute ones git says it."""
    for path in paths or ():
        if not path.startswith("/"):
            split_path(path)


def refused(ran: Ran) -> ToolFailure | None:
    """What is wrong with the call, when that is why git failed."""
    if outside := _OUTSIDE.search(ran.stderr):
        return not_allowed(outside[1])
    if missing := _NO_REVISION.search(ran.stderr):
        name = shown(missing[1])
        if name == "HEAD":
            return ToolFailure(
                ErrorType.EXECUTION_ERROR, "There is no commit yet in the workspace's repository."
            )
        return ToolFailure(
            ErrorType.VALIDATION_ERROR,
            f"There is no branch, tag or commit {name} in the workspace's repository; git_log lists "
            f"commits. {TRY_AGAIN}",
        )
    return None
