"""What `callboard doctor` says to do where the sandbox is not as strong as the configuration wants it."""

from __future__ import annotations

from pathlib import Path

from ..config.sandbox_settings import Strength
from ..tools.sandbox.sandbox import Sandbox
from ..tools.sandbox.strength import INSTALL, USER_NAMESPACES
from .finding import Finding, good, problem

CHECK = "sandbox"


def sandbox_finding(sandbox: Sandbox, config: Path) -> Finding:
    """Whether programs can be run; where they can't, what to do comes behind what is missing."""
    found, minimum = sandbox.status(), sandbox.settings.minimum
    if sandbox.problem() is None:
        return good(CHECK, f"{found.strength}")
    words = f"it is {found.strength}, and must be {minimum}: {found.reason}"
    return problem(CHECK, words.rstrip(": "), _fix(found.reason, found.strength, config))


def _fix(reason: str, strength: Strength, config: Path) -> str:
    for known in (INSTALL, USER_NAMESPACES):
        if known in reason:
            return known
    if reason.startswith("sandbox."):  # a setting, by its name
        return f"mend it: $EDITOR {config}"
    if strength is Strength.PARTIAL:
        return (
            "mend what is missing, or, where this is enough, write into the configuration: "
            '[sandbox] minimum = "partial"'
        )
    return "docs/sandbox.md says what it takes; until then no program runs"
