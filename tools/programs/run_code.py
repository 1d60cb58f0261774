"""run_code: the tool that runs a program text in a sandbox, on the workspace."""

from __future__ import annotations

from typing import Annotated, Any, Literal

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

SECONDS = 60.0
MAX_ARGUMENTS = 1000
"""Arguments of the program; longer data belongs into a file."""

_RUNS = {"python": ("python3", "code.py"), "bash": ("bash", "code.sh")}
"""For each language the interpreter, which is looked up on PATH inside, and the name of the file."""

FOLDER = "/run/callboard"


def _preview(arguments: Any, context: ToolContext) -> str:
    """Return the command with the text that it runs."""
    variables = [f"{name}={value}" for name, value in (arguments.env or {}).items()]
    line = command_line([*variables, *_argv(arguments.language, arguments.args)])
    line += f"\n{PREVIEW}" if arguments.network else ""
    return f"{line}\n\n{arguments.code}"


def _argv(language: str, args: list[str] | None) -> list[str]:
    interpreter, name = _RUNS[language]
    return [interpreter, f"{FOLDER}/{name}", *(args or [])]


@tool(
    tier=Tier.WORKSPACE,
    needs=[Capability.PROCESSES],
    timeout_seconds=SECONDS,
    effect=Effect.ONCE,
    resources=lambda arguments: [Resource("")],
    approval=asks_with_network,
    raise_tier=tier_with_network,
    more_needs=needs_with_network,
    preview=_preview,
)
async def run_code(
    context: ToolContext,
    language: Literal["python", "bash"],
    code: str,
    args: Annotated[list[str], msgspec.Meta(max_length=MAX_ARGUMENTS)] | None = None,
    env: dict[str, str] | None = None,
    timeout_seconds: Timeout = None,
    network: bool = False,
) -> ToolResult:
    """Runs Python or Bash code in a sandbox: the workspace is writable; no network unless asked for.

    Args:
        language: python or bash.
        code: The whole program.
        args: Its arguments.
        env: Environment variables.
        timeout_seconds: Seconds it may run; default 60.
        network: Whether it may reach public hosts, where the operator allows that.
    """
    assert context.processes is not None  # or `needs` would have refused the call
    own = {"PYTHONUNBUFFERED": "1"}  # what it prints is seen while it runs, and when it is killed
    ran = await context.processes.run(
        Command(
            argv=tuple(_argv(language, args)),
            env={**own, **(env or {})},
            files={_RUNS[language][1]: code.encode(errors="replace")},
            seconds=timeout_seconds or SECONDS,
            network=network,
            lists_changes=True,
            title=title(f"{language}: {code}"),
        ),
        context.progress,
    )
    return result_of_program("run_code", ran)
