"""`callboard agents`: lists agents, makes, changes, copies and deletes them.

When a daemon runs it does the work, and its sessions have the change at once. An agent of callboard.toml
is changed there, with an editor.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

import msgspec
import trio
from cyclopts import App, Parameter

from ...config.files import config_file, load_own_settings, load_settings_of, parse_fields
from ...config.managed import fields_toml, forget_deleted_agent, load_managed
from ...config.settings import Settings
from ...embedding.agents import AgentBook
from ...runtime.definitions import GENERAL_AGENT, Agent, Preset, ToolDefinition
from ...runtime.errors import NotFoundError, ValidationError
from ...runtime.redaction import redact
from ...runtime.store.lists import SessionFilter
from ...runtime.wire.agents import AgentRow, agent_of_row
from ...tools.builtin import KnownTool, builtin_tools
from ...tools.plugins import LoadedPlugins, load_plugins
from ..backend import FileBackend, open_backend, serving_daemon
from ..exit_codes import ANSWERED, USAGE
from ..parameters import Config, Data, Json, Yes, data_path, offered
from ..terminal.complaint import complain
from ..terminal.escaping import safe_line
from ..terminal.json_lines import json_line
from ..terminal.keyboard import agrees
from ..terminal.listing import write_list
from ..terminal.style import counted, minute
from .editor import new_text, of_options, read_text

if TYPE_CHECKING:
    from ...client.client import Client
    from ...config.daemon_file import RunningDaemon

MAX_SHOWN_TOOLS = 5
"""Tools that a question names; the others are counted."""
PAGE_SESSIONS = 1000
"""Sessions that are counted at once."""

AgentName = Annotated[str, Parameter(completer=offered("agents"), help="The agent's name.")]
NewName = Annotated[str, Parameter(help="The name of the new agent.")]
Description = Annotated[str | None, Parameter(help="What it is for, for people.")]
Prompt = Annotated[str | None, Parameter(help="The system prompt.")]
Tools = Annotated[
    str | None, Parameter(help="The tools that it may use, separated by commas; '' is none.")
]
Model = Annotated[
    str | None, Parameter(completer=offered("models"), help="The PROVIDER/MODEL that it prefers.")
]
Fallbacks = Annotated[
    str | None, Parameter(help="Models to use when that one fails, separated by commas.")
]
Policy = Annotated[
    Literal["auto", "balanced", "strict"] | None,
    Parameter(help="How much runs without asking; by default as the configuration says."),
]
AgentFile = Annotated[
    Path | None,
    Parameter(
        name="--file", help="A TOML file with its fields; - is stdin.", allow_leading_hyphen=True
    ),
]


class AgentChanges(Protocol):
    """What can be changed here and there; there it is awaited."""

    def create(self, agent: Agent, /) -> Any:
        """See `AgentBook.create`."""
        ...

    def update(self, agent: Agent, /) -> Any:
        """See `AgentBook.update`."""
        ...

    def clone(self, name: str, new_name: str, /) -> Any:
        """See `AgentBook.clone`."""
        ...


Change = Callable[[AgentChanges], Any]

agents = App(name="agents", help="List, show, make, change, copy and delete agents.")


@agents.command(name="list")
def list_agents(*, json: Json = False, config: Config = None, data: Data = None) -> int:
    """List the agents: what each is for, its model and policy, and where it comes from."""
    rows = _open(config, data).ask(_rows, AgentBook.rows)
    if json:
        sys.stdout.writelines(map(json_line, rows))
    else:
        heads = ("agent", "model", "policy", ">tools", "from", "description")
        write_list(heads, map(_cells, rows))
    return ANSWERED


@agents.command
def show(
    name: AgentName, /, *, json: Json = False, config: Config = None, data: Data = None
) -> int:
    """Show an agent: its fields as TOML, then its tools with what each is for and its tier."""
    row = _get(name, config, data)
    if json:
        sys.stdout.write(json_line(row))
        return ANSWERED
    print(f"# {row.name}, from {row.source}" + (", can't be deleted" if row.built_in else ""))
    for word, at_ms in (("made", row.created_at_ms), ("changed", row.updated_at_ms)):
        if at_ms is not None:
            print(f"# {word} {minute(at_ms)}")
    print(fields_toml(agent_of_row(row)))
    cells = [
        (tool.name, tool.tier or "not here", safe_line(tool.description)) for tool in row.tools
    ]
    write_list(("tool", "tier", "description"), cells)
    return ANSWERED


@agents.command
def create(
    name: NewName,
    /,
    *,
    description: Description = None,
    prompt: Prompt = None,
    tools: Tools = None,
    model: Model = None,
    fallbacks: Fallbacks = None,
    policy: Policy = None,
    file: AgentFile = None,
    json: Json = False,
    config: Config = None,
    data: Data = None,
) -> int:
    """Make an agent, of options or of a TOML file; `callboard run --agent NAME` uses it."""
    given = {
        "description": description,
        "prompt": prompt,
        "tools": None if tools is None else _words(tools),
        "model": model,
        "fallbacks": None if fallbacks is None else _words(fallbacks),
        "policy": policy,
    }
    fields = {field: value for field, value in given.items() if value is not None}
    defaults = {"policy": load_settings_of(config_file(config)).policy, **fields, "name": name}
    if file is None:
        agent = of_options(Agent, defaults)
    else:
        agent = _parsed(*read_text(file), defaults, name)
    return _changed("Made", _open(config, data), lambda its: its.create(agent), name, json=json)


@agents.command
def edit(
    name: AgentName,
    /,
    *,
    file: AgentFile = None,
    json: Json = False,
    config: Config = None,
    data: Data = None,
) -> int:
    """Change an agent as TOML in your editor ($VISUAL or $EDITOR), or to what a file says."""
    row = _get(name, config, data)
    before = agent_of_row(row)
    times = {"name": name, "created_at_ms": row.created_at_ms, "updated_at_ms": row.updated_at_ms}
    with new_text(fields_toml(before), name, file, "callboard agents edit") as (text, place):
        agent = _parsed(text, place, times, name)
        if agent == before:
            print(f"{name} is as it was.")
            return ANSWERED
        backend = _open(config, data)
        return _changed("Changed", backend, lambda its: its.update(agent), name, json=json)


@agents.command
def clone(
    name: AgentName,
    new_name: NewName,
    /,
    *,
    json: Json = False,
    config: Config = None,
    data: Data = None,
) -> int:
    """Copy an agent under another name; later changes of one are none of the other."""
    backend = _open(config, data)
    return _changed("Made", backend, lambda its: its.clone(name, new_name), new_name, json=json)


@agents.command
def delete(
    name: AgentName, /, *, yes: Yes = False, config: Config = None, data: Data = None
) -> int:
    """Delete an agent; its sessions go on with `general`, and turns that run end as they began.

    It asks when the agent has sessions. What was deleted is printed as the command that makes it again.
    """
    folder, file = data_path(data), config_file(config)
    managed = load_managed(file.parent).agents.get(name)
    is_twice = name in load_own_settings(file, required=False).agents
    if managed is not None and is_twice and serving_daemon(None, folder) is None:
        # No runtime opens with two agents of one name; the operator's keeps the sessions.
        AgentBook(file, ()).delete(name)
        forget_deleted_agent(file.parent, name)
        gone, count = managed, 0
    else:
        can_ask = os.isatty(0) and os.isatty(1)
        if not yes and (why := _reason_to_ask(name, folder, file, can_ask=can_ask)):
            if not can_ask:
                complain(f"{why} Nothing was deleted: say --yes to do it.")
                return USAGE
            print(why)
            if not agrees(f"Delete {name}?"):
                complain("Nothing was deleted.")
                return ANSWERED
        gone, count = trio.run(_delete, name, folder, file)
    sessions = "a session goes" if count == 1 else f"{count} sessions go"
    print(f"Deleted {name}." + (f" {sessions.capitalize()} on with general." if count else ""))
    print(f"To make it again:\n\n{_command_for(gone, config)}", end="")
    return ANSWERED


def _reason_to_ask(name: str, folder: Path, file: Path, *, can_ask: bool) -> str:
    """Return what the sessions of an agent may do once it is deleted, if somebody has to agree to that.

    At a terminal that is wherever there are sessions, elsewhere only where they may do more.
    """
    rows = {
        row.name: row
        for row in _backend(serving_daemon(None, folder), file).ask(_rows, AgentBook.rows)
    }
    row = rows.get(name)
    if row is None or row.source != "managed" or not (count := trio.run(_count, name, folder)):
        return ""  # nothing changes hands; what can't be deleted is an error
    gains = _gains(row, rows[GENERAL_AGENT])
    if not gains and not can_ask:
        return ""
    sessions = "a session, which goes" if count == 1 else f"{count} sessions, which go"
    more = f" That may do more: {'; '.join(gains)}." if gains else ""
    return f"{name} has {sessions} on with general.{more}"


def _gains(row: AgentRow, general: AgentRow) -> list[str]:
    """Return what General Assistant may do beyond another agent."""
    gains, order = [], [Preset.STRICT, Preset.BALANCED, Preset.AUTO]
    known = {tool.name for tool in row.tools}
    if more := [tool.name for tool in general.tools if tool.name not in known]:
        rest = f" and {len(more) - MAX_SHOWN_TOOLS} more" if len(more) > MAX_SHOWN_TOOLS else ""
        names = ", ".join(map(safe_line, more[:MAX_SHOWN_TOOLS]))
        gains.append(f"it has {counted(len(more), 'more tool')} ({names}{rest})")
    policies = (row.policy or Preset.BALANCED, general.policy or Preset.BALANCED)
    if order.index(policies[1]) > order.index(policies[0]):
        gains.append(f"its policy is {policies[1]}, not {policies[0]}")
    if hosts := [host for host in general.auto_hosts if host not in row.auto_hosts]:
        gains.append(f"it reads from {', '.join(map(safe_line, hosts))} without a question")
    return gains


async def _count(agent: str, folder: Path) -> int:
    """Return how many sessions an agent has, with delegated and deleted ones."""
    from ..show.sessions import open_record  # here: the other commands need no record

    count, wanted = 0, SessionFilter(agent=agent, deleted="also", limit=PAGE_SESSIONS)
    try:
        async with open_record(folder) as reader:
            while True:
                page = await reader.session_page(wanted)
                count += len(page.sessions)
                if page.next_before is None:
                    return count
                wanted = msgspec.structs.replace(wanted, before=page.next_before)
    except NotFoundError:  # no session was ever begun
        return 0


async def _delete(name: str, folder: Path, file: Path) -> tuple[Agent, int]:
    """Delete an agent; return it as it was, and how many sessions moved."""
    async with open_backend(folder, config=file) as backend:
        gone = agent_of_row(await backend.agents.get(name))
        return gone, (await backend.agents.delete(name)).moved_sessions


def _command_for(agent: Agent, config: Path | None) -> str:
    """Return the lines for a shell that make an agent, with keys masked.

    What a terminal or a shell would act on when it is pasted, as a tab, stands as TOML's escape.
    """
    text = redact(fields_toml(agent))
    text = "".join(c if c.isprintable() or c == "\n" else f"\\U{ord(c):08x}" for c in text)
    end = "END"
    while end in text.splitlines():
        end += "_"
    words = ["callboard", "agents", "create", agent.name, "--file", "-"]
    words += [] if config is None else ["--config", str(config)]
    return f"{shlex.join(words)} <<'{end}'\n{text}{end}\n"


async def _rows(client: Client) -> list[AgentRow]:
    return [*await client.agents.list()]


def _get(name: str, config: Path | None, data: Path | None) -> AgentRow:
    return _open(config, data).ask(
        lambda client: client.agents.get(name), lambda book: book.row(name)
    )


def _open(config: Path | None, data: Path | None) -> FileBackend[AgentBook]:
    """Return where agents are listed and changed: the daemon, or the files."""
    return _backend(serving_daemon(config, data_path(data)), config_file(config))


def _backend(daemon: RunningDaemon | None, file: Path) -> FileBackend[AgentBook]:
    return FileBackend(daemon, lambda: AgentBook(file, _definitions(load_settings_of(file))))


def _definitions(settings: Settings) -> list[ToolDefinition]:
    built_in = builtin_tools()
    brought: LoadedPlugins = trio.run(
        load_plugins, settings.plugins, [tool.name for tool in built_in]
    )
    tools: tuple[KnownTool, ...] = (*built_in, *brought.tools)
    if settings.mcp:
        from ...tools.mcp.tool import accepted_tools  # here: most people have no server

        tools = (*tools, *accepted_tools(settings.mcp))
    return [tool.definition for tool in tools]


def _changed(
    verb: str, backend: FileBackend[AgentBook], change: Change, name: str, *, json: bool
) -> int:
    """Make a change there or here, and say so."""
    backend.ask(lambda client: change(client.agents), change)
    if json:
        row = backend.ask(lambda client: client.agents.get(name), lambda book: book.row(name))
        sys.stdout.write(json_line(row))
    else:
        print(f"{verb} {name}.")
    return ANSWERED


def _parsed(text: str, place: Path, defaults: Mapping[str, object], name: str) -> Agent:
    agent = parse_fields(text, place, Agent, defaults)
    if agent.name != name:
        raise ValidationError(
            f"{place}: name: an agent keeps its name; `callboard agents clone {name} {agent.name}` "
            "makes one of another.",
            field="name",
        )
    return agent


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _cells(row: AgentRow) -> tuple[str, ...]:
    tools = "all" if row.has_all_tools else str(len(row.tools))
    model = safe_line(row.model or "")
    source = row.source.replace("_", "-")
    return row.name, model, str(row.policy), tools, source, safe_line(row.description)
