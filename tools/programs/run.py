"""shell and run_code: the tools that run a command, or a program text, in a sandbox on the workspace."""

from __future__ import annotations

import shutil
from typing import Annotated, Any, Literal, TypedDict

import msgspec

from ...runtime.definitions import Artifact, Tier, ToolResult
from ...runtime.processes import Command
from ..files.preview import command_line
from ..schema.parameters import Timeout
from ..tool import ToolContext
from .program_result import PREVIEW, ProgramResult, networked_tool, result_of_program, title

SECONDS = 120.0
CODE_SECONDS = 60.0
BACKGROUND_SECONDS = 24 * 3600.0
"""A day; mostly the runtime ends before."""
MAX_WORDS = 1000
MAX_ARGUMENTS = 1000
"""Arguments of the program; longer data belongs into a file."""

_RUNS = {"python": ("python3", "code.py"), "bash": ("bash", "code.sh")}
"""The interpreter of each language, which is looked up on PATH inside, and the name of the file."""

FOLDER = "/run/callboard"

Words = Annotated[list[str], msgspec.Meta(min_length=1, max_length=MAX_WORDS)]
Line = Annotated[str, msgspec.Meta(min_length=1)]


def _argv(command: str | list[str]) -> list[str]:
    """Return the words to run; a list is not interpreted by a shell."""
    if isinstance(command, list):
        return command
    shell = "bash" if shutil.which("bash", path="/usr/bin:/bin") else "sh"
    return [shell, "-c", command]


def _preview(arguments: Any, context: ToolContext) -> str:
    line = command_line(_argv(arguments.command), arguments.cwd)
    if isinstance(arguments.command, str):
        line = f"(in {arguments.cwd or '.'})\n{arguments.command}"
    line += f"\n{PREVIEW}" if arguments.network else ""
    return f"{line}\n(in the background)" if arguments.background else line


class Started(TypedDict):
    """What shell returns of a process in the background."""

    id: str
    started: bool
    runs: bool


@networked_tool(
    tier=Tier.SYSTEM,
    timeout_seconds=SECONDS,
    preview=_preview,
    output=(ProgramResult, Started),
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
        name = begun.process_id
        return ToolResult(
            # What comes of it, nobody knows yet.
            output={"id": name, "started": True, "runs": begun.runs},
            display=f"shell: {name} started: {wanted.title}",
            artifacts=(Artifact(kind="process", id=name, size_bytes=0),),
        )
    ran = await context.processes.run(wanted, context.progress)
    return result_of_program("shell", ran)


def _preview_code(arguments: Any, context: ToolContext) -> str:
    variables = [f"{name}={value}" for name, value in (arguments.env or {}).items()]
    line = command_line([*variables, *_code_argv(arguments.language, arguments.args)])
    line += f"\n{PREVIEW}" if arguments.network else ""
    return f"{line}\n\n{arguments.code}"


def _code_argv(language: str, args: list[str] | None) -> list[str]:
    interpreter, name = _RUNS[language]
    return [interpreter, f"{FOLDER}/{name}", *(args or [])]


@networked_tool(
    tier=Tier.WORKSPACE,
    timeout_seconds=CODE_SECONDS,
    preview=_preview_code,
    output=ProgramResult,
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
            argv=tuple(_code_argv(language, args)),
            env={**own, **(env or {})},
            files={_RUNS[language][1]: code.encode(errors="replace")},
            seconds=timeout_seconds or CODE_SECONDS,
            network=network,
            lists_changes=True,
            title=title(f"{language}: {code}"),
        ),
        context.progress,
    )
    return result_of_program("run_code", ran)
