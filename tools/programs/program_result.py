"""Results of programs: what a model and a person learn of one that ran."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from ...runtime.definitions import (
    Artifact,
    Capability,
    ErrorType,
    Resource,
    Tier,
    ToolFailure,
    ToolResult,
)
from ...runtime.processes import ChangedFiles, Ran
from ..tool import ToolContext, tool_family
from ..workspace.paths import shown

MAX_TITLE_CHARACTERS = 80
MAX_REASON_CHARACTERS = 160
"""The longest reason why something can't be undone, in the line for people; the result has all of it."""

ENDED_BY = {
    "memory": "used more memory than it may",
    "cpu": "used more processor time than it may",
    "processes": "started more processes than it may",
    "output": "put out more than anybody can read",
    "file_size": "wrote a larger file than it may",
    "timeout": "ran longer than it may",
    "cancel": "was ended",
    "kill": "was killed",
    "lease": "was ended, since its node had lost touch with the database",
    "mount": "had another file system mounted in its workspace",
}


class Changed(TypedDict, total=False):
    """What a program changed in the workspace."""

    created: list[str]
    modified: list[str]
    deleted: list[str]
    more: int
    repositories_made: list[str]
    warning: str
    not_looked_at: str


class ChangesOutput(TypedDict, total=False):
    """The fields about changes of every program's result."""

    changed: Changed
    not_undoable: list[str]


class ProgramResult(ChangesOutput):
    """What a program's call returns."""

    exit_code: int | None
    duration_ms: int
    killed_by: NotRequired[str]
    killed: NotRequired[int]
    truncated: NotRequired[bool]
    sandbox: str
    hosts: NotRequired[list[str]]
    refused_hosts: NotRequired[dict[str, str]]
    stdout: str
    stderr: str


REPOSITORIES = (
    "A git repository was made inside the workspace. Its settings are not protected: git run here "
    "outside the sandbox, also in the workspace itself, may run programs that they name. Tell the "
    "user to look at its .git/config first."
)


def result_of_program(name: str, ran: Ran) -> ToolResult:
    """Return the result of a call; raise `ToolFailure` (`timeout`) when the program ran out of time."""
    output = result_fields(ran)
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
        display=f"{name}: {ending(ran)}{changes_line(ran.changed)}",
        both_ends=("stdout", "stderr"),
        artifacts=made_files(ran.changed),
    )


def made_files(changed: ChangedFiles) -> tuple[Artifact, ...]:
    """Return the files that a program has made or changed, as far as they are named."""
    return tuple(
        Artifact(kind="file", id=path, size_bytes=size) for path, size in changed.sizes.items()
    )


def changes_line(changed: ChangedFiles) -> str:
    """Return the part of the line for people that says what it changed, and what can't be undone."""
    if changed.why_not:
        return f"; what it changed is not known: {changed.why_not}"
    kinds = [(name, len(getattr(changed, name))) for name in ("created", "modified", "deleted")]
    counts = [f"{count} {name}" for name, count in kinds if count]
    if changed.more:
        counts.append(f"{changed.more} more")
    line = f"; {', '.join(counts)}" if counts else ""
    if counts and changed.not_undoable:
        first, *others = changed.not_undoable
        rest = f"; and {len(others)} more" if others else ""
        line += f"; can't be undone: {_cut(first, MAX_REASON_CHARACTERS)}{rest}"
    if changed.repositories:
        where = ", ".join(changed.repositories)
        line += f"; it made a git repository in {where}: look at its .git/config"
    return line


def result_fields(ran: Ran) -> dict[str, Any]:
    """Return the fields of a result, without those that have nothing to report."""
    return {
        "exit_code": ran.exit_code,
        "duration_ms": round(ran.duration_seconds * 1000),
        **({"killed_by": ran.killed_by, "killed": ran.killed} if ran.killed_by else {}),
        **({"truncated": True} if ran.is_truncated else {}),
        "sandbox": ran.sandbox,
        **({"hosts": list(ran.hosts)} if ran.hosts else {}),
        **({"refused_hosts": dict(ran.refused_hosts)} if ran.refused_hosts else {}),
        **change_fields(ran.changed),
        "stdout": ran.stdout,
        "stderr": ran.stderr,
    }


def change_fields(changed: ChangedFiles) -> dict[str, Any]:
    """Return the fields about changes in the workspace; none when nothing changed."""
    if changed.why_not:
        return {"changed": {"not_looked_at": changed.why_not}}
    kinds = {name: list(getattr(changed, name)) for name in ("created", "modified", "deleted")}
    fields: dict[str, Any] = {name: paths for name, paths in kinds.items() if paths}
    if changed.more:
        fields["more"] = changed.more
    if changed.repositories:
        fields["repositories_made"] = list(changed.repositories)
        fields["warning"] = REPOSITORIES
    return {"changed": fields, **unkept(changed)} if fields else {}


def unkept(changed: ChangedFiles) -> dict[str, Any]:
    """Return the field about what can't be undone."""
    return {"not_undoable": list(changed.not_undoable)} if changed.not_undoable else {}


def ending(ran: Ran) -> str:
    """Return how it ended, in a line for people."""
    seconds = f"{ran.duration_seconds:.1f} s"
    if ran.killed_by:
        return f"{ENDED_BY.get(ran.killed_by, ran.killed_by)}, ended after {seconds}"
    return f"exit code {ran.exit_code} after {seconds}"


def processes(count: int) -> str:
    """Return how many processes were killed, in words."""
    return "1 process was killed" if count == 1 else f"{count} processes were killed"


def title(text: str) -> str:
    """Return a command as one line, not too long."""
    return _cut(shown(" ".join(text.split())), MAX_TITLE_CHARACTERS)


def _cut(line: str, most: int) -> str:
    return line if len(line) <= most else line[: most - 1] + "…"


PREVIEW = "(may reach hosts on the internet)"
NETWORK_REASON = "its program may reach hosts, and send there what it reads"


def _asks(arguments: Any, context: ToolContext) -> str | None:
    """Return why a person is asked; raise `ToolFailure` when the operator lets no program reach hosts."""
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
    return NETWORK_REASON


sandboxed_tool = tool_family(
    needs=[Capability.PROCESSES], resources=lambda arguments: [Resource("")]
)
"""The decorator of tools whose programs may touch all of the workspace: no other call does meanwhile."""

networked_tool = tool_family(
    needs=[Capability.PROCESSES],
    resources=lambda arguments: [Resource("")],
    approval=_asks,
    raise_tier=lambda arguments: Tier.SYSTEM if arguments.network else Tier.READ_ONLY,
    more_needs=lambda arguments: (Capability.NETWORK,) if arguments.network else (),
)
"""The decorator of tools whose program may ask for hosts, too: then its calls are of tier system."""
