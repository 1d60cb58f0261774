"""What a model and a person are told of a program that ran."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from ..runtime.definitions import ErrorType, ToolFailure, ToolResult
from ..runtime.processes import ChangedFiles, Ran
from .paths import shown
from .schema import WireName

Timeout = Annotated[Annotated[float, msgspec.Meta(gt=0)] | None, WireName("timeout")]
"""The argument that the dispatcher reads too: a call runs for no longer."""

MAX_TITLE_CHARACTERS = 80

ENDED_BY = {
    "memory": "used more memory than it may",
    "cpu": "used more processor time than it may",
    "processes": "started more processes than it may",
    "output": "put out more than anybody can read",
    "file_size": "wrote a larger file than it may",
    "timeout": "ran longer than it may",
    "cancel": "was ended",
}


def result_of_program(name: str, ran: Ran) -> ToolResult:
    """The result of a call; a program that ran out of time is a failure of its own type."""
    output = facts(ran)
    if ran.killed_by == "timeout":
        raise ToolFailure(
            ErrorType.TIMEOUT,
            f"{name} was stopped after {ran.duration_seconds:.1f} s, and {processes(ran.killed)}. "
            "Ask for more time with timeout, or run it with background=true where there is that.",
            elapsed_seconds=round(ran.duration_seconds, 3),
            **output,
        )
    return ToolResult(output=output, display=f"{name}: {ending(ran)}")


def facts(ran: Ran) -> dict[str, Any]:
    """The fields of a result; what is as it should be is left out."""
    return {
        "exit_code": ran.exit_code,
        "duration_ms": round(ran.duration_seconds * 1000),
        **({"killed_by": ran.killed_by, "killed": ran.killed} if ran.killed_by else {}),
        **({"truncated": True} if ran.is_truncated else {}),
        "sandbox": ran.sandbox,
        **({"hosts": list(ran.hosts)} if ran.hosts else {}),
        **({"refused_hosts": dict(ran.refused_hosts)} if ran.refused_hosts else {}),
        **changes(ran.changed),
        "stdout": ran.stdout,
        "stderr": ran.stderr,
    }


def changes(changed: ChangedFiles) -> dict[str, Any]:
    """What is other in the workspace, and can't be undone; nothing is said where nothing is."""
    if changed.why_not:
        return {"changed": {"not_looked_at": changed.why_not}}
    kinds = {name: list(getattr(changed, name)) for name in ("created", "modified", "deleted")}
    told: dict[str, Any] = {name: paths for name, paths in kinds.items() if paths}
    if changed.more:
        told["more"] = changed.more
    return {"changed": told, **unkept(changed)} if told else {}


def unkept(changed: ChangedFiles) -> dict[str, Any]:
    """What of it can't be undone."""
    return {"not_undoable": list(changed.not_undoable)} if changed.not_undoable else {}


def ending(ran: Ran) -> str:
    """How it ended, in a line for people."""
    seconds = f"{ran.duration_seconds:.1f} s"
    if ran.killed_by:
        return f"{ENDED_BY.get(ran.killed_by, ran.killed_by)}, ended after {seconds}"
    return f"exit code {ran.exit_code} after {seconds}"


def processes(count: int) -> str:
    """How many processes a kill took, in words."""
    return "1 process was killed" if count == 1 else f"{count} processes were killed"


def title(text: str) -> str:
    """A command in a list: one line, not too long."""
    line = shown(" ".join(text.split()))
    if len(line) <= MAX_TITLE_CHARACTERS:
        return line
    return line[: MAX_TITLE_CHARACTERS - 1] + "…"
