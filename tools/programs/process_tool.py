"""process: the tool for the background processes of a session, which `shell` started."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

import trio

from ...runtime.definitions import Artifact, Capability, Effect, Tier, ToolFailure, ToolResult
from ...runtime.processes import BackgroundProcess, Processes
from ..failures import invalid
from ..schema.parameters import Timeout
from ..schema.validation import TRY_AGAIN
from ..tool import ToolContext, tool
from .program_result import ending, processes, result_fields

SECONDS = 10.0
ANSWER_SECONDS = 0.5
"""The part of a call's time that is kept for reporting that a process still runs."""

READING = frozenset({"list", "output", "wait"})


def _effect(arguments: Any) -> Effect:
    # Output is returned once: what a lost call has read does not come again.
    return Effect.READ if arguments.action in READING else Effect.ONCE


def _preview(arguments: Any, context: ToolContext) -> str:
    if arguments.action == "write":
        return f"writes to {arguments.id}:\n{arguments.text or ''}"
    return f"{arguments.action} {arguments.id or ''}".strip()


class BackgroundOutput(TypedDict):
    """A background process, with its new output where that was asked for."""

    id: str
    command: str
    runs: bool
    seconds: float
    exit_code: NotRequired[int | None]
    killed_by: NotRequired[str]
    killed: NotRequired[int]
    hosts: NotRequired[list[str]]
    refused_hosts: NotRequired[dict[str, str]]
    left_out_bytes: NotRequired[int]
    output: NotRequired[str]


class BackgroundListOutput(TypedDict):
    """What `list` returns."""

    processes: list[BackgroundOutput]


class WrittenTo(TypedDict):
    """What `write` returns."""

    id: str
    written: int


class Closed(TypedDict):
    """What `close` returns."""

    id: str
    closed: bool


@tool(
    tier=Tier.SYSTEM,
    needs=[Capability.PROCESSES],
    timeout_seconds=SECONDS,
    effect=_effect,
    preview=_preview,
    output=(BackgroundListOutput, WrittenTo, Closed, BackgroundOutput),
)
async def process(
    context: ToolContext,
    action: Literal["list", "output", "write", "close", "kill", "wait"],
    id: str | None = None,  # ruff: ignore[builtin-argument-shadowing] the name on the wire
    text: str | None = None,
    timeout_seconds: Timeout = None,
) -> ToolResult:
    """Looks after the background processes that shell has started in this session.

    Args:
        action: list them, give the new output of one, write to its input, close its input, kill it, or wait for its end.
        id: Which one; not for list.
        text: What to write; end it with a newline where the program reads lines.
        timeout_seconds: Seconds to wait; default 10.
    """
    handle = context.processes
    assert handle is not None  # or `needs` would have refused the call
    if action == "list":
        known = handle.list()
        running = sum(each.runs for each in known)
        return ToolResult(
            output={"processes": [_shown(each) for each in known]},
            display=f"{running} running, {len(known) - running} ended",
        )
    if id is None:
        raise _invalid("id", f"{action} needs the id of a process")
    match action:
        case "output":
            return await _output(handle, id)
        case "write":
            if not text:
                raise _invalid("text", "write needs something to write")
            await handle.write(id, text)
            return ToolResult(output={"id": id, "written": len(text)}, display=f"wrote to {id}")
        case "close":
            await handle.close_input(id)
            return ToolResult(output={"id": id, "closed": True}, display=f"closed input of {id}")
        case "kill":
            return await _ended(handle, await handle.kill(id))
        case _:
            return await _wait(handle, id, timeout_seconds or SECONDS)


async def _wait(handle: Processes, process_id: str, seconds: float) -> ToolResult:
    """Wait as long as the call may; a process may still run then."""
    now = trio.current_time()
    end = min(now + seconds, trio.current_effective_deadline())
    with trio.move_on_at(end - min(ANSWER_SECONDS, max(0.0, (end - now) / 4))):
        await handle.wait(process_id)
    found = next((each for each in handle.list() if each.process_id == process_id), None)
    if found is None:
        raise _invalid("id", f"{process_id} was forgotten")
    return await _ended(handle, found)


async def _output(handle: Processes, process_id: str) -> ToolResult:
    new = await handle.output(process_id)
    known = next(each for each in handle.list() if each.process_id == process_id)
    output = {
        **_shown(known),
        **({"left_out_bytes": new.left_out_bytes} if new.left_out_bytes else {}),
        "output": new.text,
    }
    return ToolResult(
        output=output,
        display=f"{process_id}: {len(new.text)} characters",
        artifacts=_gone(known),
    )


async def _ended(handle: Processes, process: BackgroundProcess) -> ToolResult:
    shown = _shown(process)
    if process.ran is None:
        return ToolResult(output=shown, display=f"{process.process_id} still runs")
    new = await handle.output(process.process_id)
    killed = f", {processes(process.ran.killed)}" if process.ran.killed_by else ""
    return ToolResult(
        output={**shown, "output": new.text},
        display=f"{process.process_id}: {ending(process.ran)}{killed}",
        artifacts=_gone(process),
    )


def _gone(process: BackgroundProcess) -> tuple[Artifact, ...]:
    """Return the note by which the session knows that the model has heard of its end."""
    has_ended = process.ran is not None
    return (
        (Artifact(kind="process_ended", id=process.process_id, size_bytes=0),) if has_ended else ()
    )


def _shown(process: BackgroundProcess) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": process.process_id,
        "command": process.command,
        "runs": process.runs,
        "seconds": round(process.seconds, 1),
    }
    if process.ran is not None:
        ended = result_fields(process.ran)
        named = ("exit_code", "killed_by", "killed", "hosts", "refused_hosts")
        shown |= {name: ended[name] for name in named if name in ended}
    return shown


def _invalid(field: str, problem: str) -> ToolFailure:
    return invalid(field, f"process: {field}: {problem}. {TRY_AGAIN}")
