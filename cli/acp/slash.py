"""Commands that begin with a slash: what a person does about a session without asking its model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from ...client.client import Client
from ...runtime.store.rows import SessionRow
from ..terminal.escaping import safe_line
from ..terminal.style import counted
from . import wire
from .content import EditorPrompt

if TYPE_CHECKING:
    from ...config.mcp.wire import McpPromptRow


class EditorCommand(msgspec.Struct, frozen=True):
    """A command: what it does in a few words, what may follow it, and how it is done."""

    summary: str
    hint: str
    run: Callable[[Client, SessionRow, str], Awaitable[str]]


async def _undo(client: Client, row: SessionRow, argument: str) -> str:
    done = await client.undo(row.session_id, call_id=argument or None)
    lines = [f"- {safe_line(line)}" for line in done.lines]
    lines += [
        f"- left as it is, since it was changed later: {safe_line(line)}" for line in done.left
    ]
    lines += [
        f"- a program did it, and it can't be undone: {safe_line(line)}" for line in done.programs
    ]
    if not lines:
        return "No file changes to take back."
    lines.insert(0, f"Taken back: {counted(len(done.lines), 'path')}.")
    if done.lines:
        lines.append(f"\n`/undo {done.undo_id}` does it again.")
    return "\n".join(lines)


async def _usage(client: Client, row: SessionRow, argument: str) -> str:
    from ..show.usage import usage_line  # here: with all that sums are made by

    report = await client.usage(by="model", session_id=row.session_id)
    return (
        "\n".join(f"- {usage_line(each).strip()}" for each in report.sums) or "No model was called."
    )


async def _skills(client: Client, row: SessionRow, argument: str) -> str:
    skills = await client.skills.list(workspace=row.workspace)
    lines = [
        f"- {safe_line(each.name)} ({each.state}): {safe_line(each.description)}" for each in skills
    ]
    return "\n".join(lines) or "There are no skills here."


async def _tools(client: Client, row: SessionRow, argument: str) -> str:
    return ", ".join(safe_line(tool.name) for tool in (await client.tools()).tools)


async def _status(client: Client, row: SessionRow, argument: str) -> str:
    status = await client.status()
    return "\n".join(
        (
            f"- daemon: {client.welcome.server.version}, you are {client.welcome.role}",
            f"- default model: {safe_line(status.model)} ({safe_line(status.model_reason)})",
            f"- session: {row.session_id}, agent {safe_line(row.agent)}",
            f"- folder: {safe_line(row.workspace)}",
        )
    )


COMMANDS = {
    "undo": EditorCommand(
        "take back what calls changed in files", "one call, or one undoing", _undo
    ),
    "usage": EditorCommand("show tokens and cost of this session", "", _usage),
    "skills": EditorCommand("list the skills for this folder", "", _skills),
    "tools": EditorCommand("list the tools that models can ask for", "", _tools),
    "status": EditorCommand("show daemon, model and session", "", _status),
}


SEND = "send"
"""The command that sends what a server made of a prompt."""


def available(
    prompts: Mapping[str, McpPromptRow] | None = None,
) -> wire.SessionUpdateAvailableCommandsUpdate:
    """Return the commands as an editor lists them, with the prompts of servers."""
    commands = [_command(name, each.summary, each.hint) for name, each in COMMANDS.items()]
    if prompts:
        from ..mcp.prompts import summary_of  # few servers have any

        said = "send what a server made of its prompt, and what you write behind it"
        commands.append(_command(SEND, said, "more to say"))
        for name, row in prompts.items():
            hint = " ".join(
                each.name if each.required else f"[{each.name}]" for each in row.arguments
            )
            commands.append(_command(safe_line(name), summary_of(row), safe_line(hint)))
    return wire.SessionUpdateAvailableCommandsUpdate(available_commands=tuple(commands))


def _command(name: str, description: str, hint: str) -> wire.AvailableCommand:
    shown = wire.AvailableCommandInput(hint=hint) if hint else None
    return wire.AvailableCommand(name=name, description=description, input=shown)


def offered_in(prompt: EditorPrompt, offered: EditorPrompt | None) -> EditorPrompt:
    """Return what a server made, when that is what a prompt sends, with what the person wrote behind it."""
    name, *rest = prompt.text.strip().split(None, 1)
    if name != f"/{SEND}" or offered is None:
        return prompt
    text = "\n\n".join((offered.text, *rest))
    files = (*offered.attachments, *prompt.attachments)
    return msgspec.structs.replace(offered, text=text, attachments=files, trace=prompt.trace)


def command_of(text: str) -> tuple[EditorCommand, str] | None:
    """Return the command that a prompt is, with what follows it; `None` for what is meant for the model."""
    name, _, argument = text.strip().partition(" ")
    command = COMMANDS.get(name.removeprefix("/")) if name.startswith("/") else None
    return None if command is None else (command, argument.strip())
