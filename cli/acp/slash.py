"""Commands that begin with a slash: what a person does about a session without asking its model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Protocol

import msgspec

from ...client.client import Client
from ...runtime.definitions import CallStatus
from ...runtime.errors import ValidationError
from ...runtime.event_types.plan import PlanItem, plan_lines
from ...runtime.store.lists import CallPage
from ...runtime.store.rows import SessionRow
from ...runtime.wire.daemon import ListCalls
from ..terminal.escaping import safe_line
from ..terminal.style import counted
from . import wire
from .content import EditorPrompt
from .options import Choices

if TYPE_CHECKING:
    from ...config.mcp.wire import McpPromptRow


class _Planned(msgspec.Struct):
    items: tuple[PlanItem, ...] = ()


_PLANNED = msgspec.json.Decoder(_Planned)


class ToldSession(Protocol):
    """The session that is told a command: an `EditorSession`."""

    client: Client
    row: SessionRow
    choices: Choices

    async def choose(self, name: str, value: object) -> None:
        """See `EditorSession.choose`."""

    def show_choices(self) -> None:
        """See `EditorSession.show_choices`."""


class EditorCommand(msgspec.Struct, frozen=True):
    """A command: what it does in a few words, what may follow it, and how it is done."""

    summary: str
    hint: str
    run: Callable[[ToldSession, str], Awaitable[str]]


async def _undo(session: ToldSession, argument: str) -> str:
    done = await session.client.undo(session.row.session_id, call_id=argument or None)
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


async def _usage(session: ToldSession, argument: str) -> str:
    from ..show.usage import usage_line  # here: with all that sums are made by

    report = await session.client.usage(by="model", session_id=session.row.session_id)
    return (
        "\n".join(f"- {usage_line(each).strip()}" for each in report.sums) or "No model was called."
    )


async def _skills(session: ToldSession, argument: str) -> str:
    skills = await session.client.skills.list(workspace=session.row.workspace)
    lines = [
        f"- {safe_line(each.name)} ({each.state}): {safe_line(each.description)}" for each in skills
    ]
    return "\n".join(lines) or "There are no skills here."


async def _tools(session: ToldSession, argument: str) -> str:
    return ", ".join(safe_line(tool.name) for tool in (await session.client.tools()).tools)


async def _status(session: ToldSession, argument: str) -> str:
    client = session.client
    status, row = await client.status(), await client.session(session.row.session_id)
    return "\n".join(
        (
            f"- daemon: {client.welcome.server.version}, you are {client.welcome.role}",
            f"- default model: {safe_line(status.model)} ({safe_line(status.model_reason)})",
            f"- session: {row.session_id}, agent {safe_line(row.agent)}",
            f"- folder: {safe_line(row.workspace)}",
        )
    )


async def _plan(session: ToldSession, argument: str) -> str:
    wanted = ListCalls(
        session_id=session.row.session_id, name="plan", status=CallStatus.SUCCESS, limit=1
    )
    found = (await session.client.request("tool/history", wanted, CallPage)).calls
    items = _PLANNED.decode(found[0].arguments).items if found else ()
    lines = [f"- {safe_line(line)}" for line in plan_lines(items)]
    return "\n".join(lines) or "There is no plan."


async def _model(session: ToldSession, argument: str) -> str:
    return await _chosen(session, "model", argument, "answers from your next prompt on")


async def _agent(session: ToldSession, argument: str) -> str:
    return await _chosen(
        session, "_agent", argument, "is the session's agent from the next turn on"
    )


async def _chosen(session: ToldSession, option: str, wanted: str, said: str) -> str:
    """Choose a value of an option by its name, or the end of one behind a slash; without a name, list the values."""
    found = next(each for each in session.choices.config() if each.id == option)
    values = [each.value for each in found.options]
    if not wanted:
        marks = ("*" if value == found.current_value else "" for value in values)
        return "\n".join(
            f"- {mark}{safe_line(value)}{mark}" for value, mark in zip(values, marks, strict=True)
        )
    meant = [value for value in values if wanted in (value, value.partition("/")[2])]
    if len(meant) != 1:
        from difflib import get_close_matches  # here: few mistype one

        like = [value for value in values if wanted in value] or get_close_matches(wanted, values)
        hint = f"; like it are {', '.join(like[:MAX_LIKE])}" if like else ""
        raise ValidationError(f"there is no {found.name.lower()} {wanted!r:.80}{hint}")
    await session.choose(option, meant[0])
    session.show_choices()
    return f"{safe_line(meant[0])} {said}."


COMMANDS = {
    "undo": EditorCommand(
        "take back what calls changed in files", "one call, or one undoing", _undo
    ),
    "plan": EditorCommand("show the model's plan", "", _plan),
    "model": EditorCommand("take another model, or list them", "PROVIDER/MODEL", _model),
    "agent": EditorCommand("give the session another agent, or list them", "NAME", _agent),
    "usage": EditorCommand("show tokens and cost of this session", "", _usage),
    "skills": EditorCommand("list the skills for this folder", "", _skills),
    "tools": EditorCommand("list the tools that models can ask for", "", _tools),
    "status": EditorCommand("show daemon, model and session", "", _status),
}


SEND = "send"
"""The command that sends what a server made of a prompt."""
COMPACT = "compact"
"""The command that is a prompt all the same: a model sums up, in a turn."""
MAX_LIKE = 5
"""Values that are shown of those that somebody may have meant."""


def available(
    prompts: Mapping[str, McpPromptRow] | None = None,
) -> wire.SessionUpdateAvailableCommandsUpdate:
    """Return the commands as an editor lists them, with the prompts of servers."""
    commands = [
        _command(COMPACT, "have a summary in place of what was said", "what matters in it"),
        *(_command(name, each.summary, each.hint) for name, each in COMMANDS.items()),
    ]
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


def compacting(prompt: EditorPrompt) -> EditorPrompt:
    """Return the prompt as one that asks for a summary, if it is that command."""
    if prompt.text.strip().partition(" ")[0] != f"/{COMPACT}":
        return prompt
    return msgspec.structs.replace(prompt, text=prompt.text.strip(), attachments=(), compacts=True)


def command_of(text: str) -> tuple[EditorCommand, str] | None:
    """Return the command that a prompt is, with what follows it; `None` for what is meant for the model."""
    name, _, argument = text.strip().partition(" ")
    command = COMMANDS.get(name.removeprefix("/")) if name.startswith("/") else None
    return None if command is None else (command, argument.strip())
