"""What a model and a person are told of a program that ran."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from ...runtime.definitions import Capability, ErrorType, Tier, ToolFailure, ToolResult
from ...runtime.processes import ChangedFiles, Ran
from ..context import ToolContext
from ..schema.parameters import WireName
from ..workspace.paths import shown

Timeout = Annotated[Annotated[float, msgspec.Meta(gt=0)] | None, WireName("timeout")]
"""The argument that the dispatcher reads too: a call runs for no longer."""

MAX_TITLE_CHARACTERS = 80
MAX_REASON_CHARACTERS = 160
"""In the line for people, of why something can't be undone: the result has it all."""

ENDED_BY = {
    "memory": "used more memory than it may",
    "cpu": "used more processor time than it may",
    "processes": "started more processes than it may",
    "output": "put out more than anybody can read",
    "file_size": "wrote a larger file than it may",
    "timeout": "ran longer than it may",
    "cancel": "was ended",
    "kill": "was killed",
}

REPOSITORIES = (
    "A git repository was made inside the workspace. Its settings are not protected: git run here "
    "outside the sandbox, also in the workspace itself, may run programs that they name. Tell the "
    "user to look at its .git/config first."
)


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
    return ToolResult(
        output=output,
        display=f"{name}: {ending(ran)}{told_of(ran.changed)}",
        both_ends=("stdout", "stderr"),
    )


def told_of(changed: ChangedFiles) -> str:
    """What a person must know of it at once: how much it changed, and that it can't be undone."""
    if changed.why_not:
        return f"; what it changed is not known: {changed.why_not}"
    kinds = [(name, len(getattr(changed, name))) for name in ("created", "modified", "deleted")]
    counts = [f"{count} {name}" for name, count in kinds if count]
    if changed.more:
        counts.append(f"{changed.more} more")
    told = f"; {', '.join(counts)}" if counts else ""
    if counts and changed.not_undoable:
        first, *others = changed.not_undoable
        rest = f"; and {len(others)} more" if others else ""
        told += f"; can't be undone: {_cut(first, MAX_REASON_CHARACTERS)}{rest}"
    if changed.repositories:
        where = ", ".join(changed.repositories)
        told += f"; it made a git repository in {where}: look at its .git/config"
    return told


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
    if changed.repositories:
        told["repositories_made"] = list(changed.repositories)
        told["warning"] = REPOSITORIES
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
    return _cut(shown(" ".join(text.split())), MAX_TITLE_CHARACTERS)


def _cut(line: str, most: int) -> str:
    return line if len(line) <= most else line[: most - 1] + "…"


PREVIEW = "(may reach hosts on the internet)"


def tier_with_network(arguments: Any) -> Tier:
    """A program that reaches hosts is the system's matter, in whatever language it is."""
    return Tier.SYSTEM if arguments.network else Tier.READ_ONLY


def needs_with_network(arguments: Any) -> tuple[Capability, ...]:
    """What it needs besides."""
    return (Capability.NETWORK,) if arguments.network else ()


def asks_with_network(arguments: Any, context: ToolContext) -> str | None:
    """Why a person is asked; raises `ToolFailure` when the operator lets no program reach hosts."""
    if not arguments.network:
        return None
    if context.processes is not None and not context.processes.offers_network:
        raise ToolFailure(
            ErrorType.PERMISSION_DENIED,
            "Not run: programs reach no hosts here. Run it without network, or fetch what it needs "
            "with web_fetch or http_request first. The operator may allow it in callboard.toml: "
            "[sandbox] network = true.",
            tier=Tier.SYSTEM,
            reason="[sandbox] network is off",
        )
    return "its program may reach hosts, and send there what it reads"
