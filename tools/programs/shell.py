"""shell: the tool that runs a command in a sandbox, on the workspace; also in the background."""

from __future__ import annotations

import shutil
from typing import Annotated, Any

import msgspec

from ...runtime.definitions import Capability, Effect, Resource, Tier, ToolResult
from ...runtime.processes import Command
from ..files.preview import command_line
from ..tool import ToolContext, tool
from .program_result import (
    PREVIEW,
    Timeout,
    asks_with_network,
    needs_with_network,
    result_of_program,
    tier_with_network,
    title,
)

SECONDS = 120.0
BACKGROUND_SECONDS = 24 * 3600.0
"""A day; mostly the runtime ends before."""
MAX_WORDS = 1000

Words = Annotated[list[str], msgspec.Meta(min_length=1, max_length=MAX_WORDS)]
Line = Annotated[str, msgspec.Meta(min_length=1)]


def _argv(command: str | list[str]) -> list[str]:
    """Return the words to run; a list is not interpreted by a shell."""
    if isinstance(command, list):
        return command
    return [_shell(), "-c", command]


def _shell() -> str:
    return "bash" if shutil.which("bash", path="/usr/bin:/bin") else "sh"


def _preview(arguments: Any, context: ToolContext) -> str:
    line = command_line(_argv(arguments.command), arguments.cwd)
    if isinstance(arguments.command, str):
        line = f"(in {arguments.cwd or '.'})\n{arguments.command}"
    line += f"\n{PREVIEW}" if arguments.network else ""
    return f"{line}\n(in the background)" if arguments.background else line


@tool(
    tier=Tier.SYSTEM,
    needs=[Capability.PROCESSES],
    timeout_seconds=SECONDS,
    effect=Effect.ONCE,
    resources=lambda arguments: [Resource("")],
    approval=asks_with_network,
    raise_tier=tier_with_network,
    more_needs=needs_with_network,
    preview=_preview,
)
async def shell(
    context: ToolContext,
    command: Line | Words,
    cwd: str | None = None,
    timeout_seconds: Timeout = None,
    background: bool = False,
    network: bool = False,
) -> ToolResult:
    """Runs a command in a sandbox: the workspace is writable; no network unless asked for.

    Args:
        command: A line for the shell, or a list of the program and its arguments.
        cwd: Where it runs, relative to the workspace; default its root.
        timeout_seconds: Seconds it may run; default 120, in the background a day.
        background: Whether it goes on beside the conversation; then the result is its id.
        network: Whether it may reach public hosts, where the operator allows that.
    """
    assert context.processes is not None  # or `needs` would have refused the call
    longest = BACKGROUND_SECONDS if background else SECONDS
    wanted = Command(
        argv=tuple(_argv(command)),
        cwd=cwd or ".",
        seconds=timeout_seconds or longest,
        network=network,
        lists_changes=True,
        title=title(command if isinstance(command, str) else command_line(command)),
    )
    if background:
        begun = await context.processes.start(wanted)
        output = {"id": begun.process_id, "runs": begun.runs}
        return ToolResult(output=output, display=f"shell: {begun.process_id} runs: {wanted.title}")
    ran = await context.processes.run(wanted, context.progress)
    return result_of_program("shell", ran)
