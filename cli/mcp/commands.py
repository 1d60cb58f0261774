"""The commands of `callboard mcp`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from cyclopts import App, Parameter
from cyclopts.validators import Number

from ...config.mcp.settings import McpSettings, references
from ...config.mcp.wire import McpRow
from ...runtime.disk.core_dumps import forbid_core_dumps
from ...runtime.errors import ConflictError, ToolError, ValidationError
from ..exit_codes import ANSWERED, FAILED
from ..hints import runnable
from ..parameters import Config, Data, Json, data_path, offered
from ..setup.keys import asked_secret
from ..terminal.complaint import complain
from ..terminal.escaping import safe_line, safe_text
from ..terminal.json_lines import json_line
from ..terminal.listing import write_list
from ..terminal.style import counted
from .importing import Imported, read_servers, server_of
from .place import ServerPlace
from .review import agrees, changes_of, show_changes, show_offers, show_tool

MAX_ERROR_CHARS = 4000
"""Of what a program wrote last: a screen."""

ServerName = Annotated[str, Parameter(completer=offered("mcp_servers"), help="The server's name.")]
NewName = Annotated[str, Parameter(help="A name for it, which the names of its tools begin with.")]
Word = Annotated[
    str,
    Parameter(
        help="The address of the server; or behind --: the program that is the server, and its arguments.",
        allow_leading_hyphen=True,
    ),
]
Env = Annotated[
    tuple[str, ...],
    Parameter(
        name="--env",
        help="A variable of the program, as NAME=VALUE; a secret as NAME='${key:NAME}'.",
        negative=(),
    ),
]
Header = Annotated[
    tuple[str, ...],
    Parameter(
        name="--header",
        help="What is sent to an address with each request, as NAME=VALUE; a secret as NAME='${key:NAME}'.",
        negative=(),
    ),
]
Kind = Annotated[
    Literal["http", "sse"],
    Parameter(name="--type", help="How an address speaks; sse is that of the revision 2024-11-05."),
]
Network = Annotated[
    tuple[str, ...],
    Parameter(
        name="--network", help="A host that the program may reach, as HOST:PORT.", negative=()
    ),
]
ReadOnly = Annotated[
    tuple[Path, ...],
    Parameter(name="--read-only", help="A file or folder that the program may read.", negative=()),
]
Files = Annotated[
    Literal["none", "read", "write"],
    Parameter(name="--files", help="What the program sees of the workspace in which it is called."),
]
State = Annotated[
    bool, Parameter(help="Keep a home folder for it, in the data folder.", negative=())
]
TierOption = Annotated[
    Literal["read_only", "workspace", "system", "elevated"] | None,
    Parameter(
        name="--tier", help="How dangerous its tools are; elevated, by default: each call asks."
    ),
]
Annotations = Annotated[
    Literal["untrusted", "trusted"],
    Parameter(
        name="--annotations",
        help="Whether the tier of its tools follows from what it says of them, as readOnlyHint.",
    ),
]
Instructions = Annotated[
    bool,
    Parameter(
        name="--instructions",
        help="Tell models how to use its tools in its own words, as you accept them.",
        negative=(),
    ),
]
Sampling = Annotated[
    bool,
    Parameter(
        name="--sampling",
        help="Let it ask for answers of the session's model; a person is asked each time.",
        negative=(),
    ),
]
Yes = Annotated[
    bool, Parameter(name="--yes", help="Accept what is shown, without a question.", negative=())
]
File = Annotated[Path, Parameter(help="The file of another program, with mcpServers or servers.")]
KeyName = Annotated[str, Parameter(help="The name of the secret, as in ${key:NAME}.")]

Port = Annotated[
    int,
    Parameter(
        name="--port",
        help="The port of this machine to which the browser comes back; any that is free, by default.",
        show_default=False,
        validator=Number(gte=0, lte=65535),
    ),
]

Agents = Annotated[
    tuple[str, ...],
    Parameter(
        name="--agent",
        completer=offered("agents"),
        help="An agent that the program may ask; all, by default.",
        negative=(),
    ),
]
Tools = Annotated[
    tuple[str, ...],
    Parameter(
        name="--tool",
        completer=offered("tools"),
        help="A tool of callboard's that the program may call itself.",
        negative=(),
    ),
]

mcp = App(name="mcp", help="Add, review, test and remove servers of the Model Context Protocol.")


@mcp.command(name="add")
def add_server(
    name: NewName,
    /,
    *command: Word,
    env: Env = (),
    header: Header = (),
    type: Kind = "http",  # ruff: ignore[builtin-argument-shadowing]  the name of the option
    network: Network = (),
    read_only: ReadOnly = (),
    files: Files = "none",
    state: State = False,
    tier: TierOption = None,
    annotations: Annotations = "untrusted",
    instructions: Instructions = False,
    sampling: Sampling = False,
    yes: Yes = False,
    config: Config = None,
    data: Data = None,
) -> int:
    """Add a server: callboard mcp add NAME https://…, or callboard mcp add NAME -- COMMAND ….

    It is started once, in the sandbox, or reached at its address. Its tools are shown; those that you accept
    can be used.
    """
    is_url = len(command) == 1 and command[0].startswith(("https://", "http://"))
    fields: dict[str, Any] = {"name": name, "network": network, "state": state, "type": type}
    fields |= {
        "files": files,
        "annotations": annotations,
        "instructions": instructions,
        "sampling": sampling,
    }
    fields |= {"url": command[0]} if is_url else {"command": command}
    fields["read_only"] = [str(path.expanduser().absolute()) for path in read_only]
    fields["env"], fields["headers"] = _pairs("env", env), _pairs("header", header)
    if tier is not None:
        fields["tier"] = tier
    return _add(ServerPlace(config, data), server_of(fields), is_yes=yes)


@mcp.command(name="list")
def list_servers(*, json: Json = False, config: Config = None, data: Data = None) -> int:
    """List the servers: what they do, and how many of their tools are accepted."""
    rows = ServerPlace(config, data).rows()
    if json:
        sys.stdout.writelines(map(json_line, rows))
    else:
        heads = ("server", "state", ">tools", "tier", "what it is")
        write_list(heads, map(_cells, rows))
        for row in rows:
            _say_problems(row)
    if not rows:
        complain("There are no servers: `callboard mcp add NAME -- COMMAND` adds one.")
    return ANSWERED


@mcp.command(name="show")
def show_server(name: ServerName, /, *, config: Config = None, data: Data = None) -> int:
    """Show a server: its settings, and its accepted tools with all that models read of them."""
    found = ServerPlace(config, data).get(name)
    server = found.settings
    defaults = {f.name: f.default for f in msgspec.structs.fields(McpSettings)}
    print(f"state: {_state(found.row)}")
    for field in McpSettings.__struct_fields__:
        value = getattr(server, field)
        if field not in {"name", "tools", "offers"} and value not in (
            defaults[field],
            {},
            (),
            None,
        ):
            print(f"{field}: {safe_line(msgspec.json.encode(value).decode())}")
    for tool in server.tools:
        show_tool(server, tool, "withheld: " if tool.name in found.row.withheld else "")
    show_offers(server, server.offers, found.row.withheld_prompts)
    _say_problems(found.row)
    if found.errors and found.row.problem:
        complain(f"its program wrote last:\n{safe_text(found.errors[-MAX_ERROR_CHARS:].strip())}")
    if not server.tools:
        complain(f"None of its tools is accepted: `callboard mcp review {name}` shows them.")
    return ANSWERED


@mcp.command(name="test")
def try_server(name: ServerName, /, *, config: Config = None, data: Data = None) -> int:
    """Say whether a server answers and offers what was accepted; it is started if it does not run.

    Exits with 1 when it does not.
    """
    place = ServerPlace(config, data)
    server = place.get(name).settings
    offer = place.look(name)
    its = safe_line(f"{offer.info.name} {offer.info.version}".strip())
    print(f"{name} answers: {its}, revision {offer.info.protocol}.")
    _say_old(server)
    changes = changes_of(server, offer)
    print(f"{counted(len(changes.same), 'tool')} as accepted.")
    if changes.is_any:
        print(
            f"{len(changes.new)} new, {len(changes.changed)} changed, {len(changes.gone)} gone: "
            + runnable(f"`callboard mcp review {name}` shows them.")
        )
    for original, why in changes.refused.items():
        print(f"can't be used: {safe_line(original)}: {safe_line(why)}")
    lost = [each.name for each in server.offers.prompts if each not in offer.offers.prompts]
    if lost:
        its = ", ".join(map(safe_line, lost))
        print(
            runnable(
                f"Other prompts than were accepted: {its}. `callboard mcp review {name}` shows them."
            )
        )
    return FAILED if changes.changed or changes.gone or lost else ANSWERED


@mcp.command(name="review")
def review_server(
    name: ServerName, /, *, yes: Yes = False, config: Config = None, data: Data = None
) -> int:
    """Show what is new or has changed of a server's tools since you accepted them, and accept it."""
    place = ServerPlace(config, data)
    return _review(place, place.get(name).settings, is_yes=yes)


@mcp.command(name="restart")
def restart_server(name: ServerName, /, *, config: Config = None, data: Data = None) -> int:
    """End a server of the daemon; the next call starts it again, also one that was given up."""
    ServerPlace(config, data).change(lambda its: its.restart(name))
    print(f"{name} is started again by the next call.")
    return ANSWERED


@mcp.command(name="remove")
def remove(name: ServerName, /, *, config: Config = None, data: Data = None) -> int:
    """Remove a server, its accepted tools and its stored secrets."""
    ServerPlace(config, data).change(lambda its: its.remove(name))
    print(f"Removed {name}.")
    return ANSWERED


@mcp.command
def enable(name: ServerName, /, *, config: Config = None, data: Data = None) -> int:
    """Use a server again."""
    return _switch(ServerPlace(config, data), name, is_on=True)


@mcp.command
def disable(name: ServerName, /, *, config: Config = None, data: Data = None) -> int:
    """Stop using a server; what you accepted stays."""
    return _switch(ServerPlace(config, data), name, is_on=False)


@mcp.command
def login(name: ServerName, /, *, port: Port = 0, config: Config = None, data: Data = None) -> int:
    """Log in at a server that is reached over HTTP, in a browser.

    The address is shown, and opened where there is a browser. What the server gives is stored, encrypted, and renewed
    by itself.
    """
    forbid_core_dumps()
    place = ServerPlace(config, data)
    server = place.get(name).settings
    if server.url is None:
        raise ValidationError(f"{name} is a program; only a server with a url wants a login.")
    done = "Logged in at" if place.log_in(server, port) else "No login is wanted by"
    print(f"{done} {name}.")
    return ANSWERED


@mcp.command
def logout(name: ServerName, /, *, config: Config = None, data: Data = None) -> int:
    """Forget the login at a server."""
    place = ServerPlace(config, data)
    server = place.get(name).settings
    problem = place.log_out(server)
    if server.url is None or not place.forget(name, (server.url,)):
        print(f"There is no login at {name}.")
        return ANSWERED
    place.end(name)
    if problem:
        held = f"What the server gave may hold there until it ends: {safe_line(problem)}."
        print(f"Forgot the login at {name}. {held}")
    else:
        print(f"Forgot the login at {name}, which its issuer has taken back.")
    return ANSWERED


@mcp.command(name="key")
def set_key(name: ServerName, key: KeyName, /, *, config: Config = None, data: Data = None) -> int:
    """Store a secret of a server, encrypted; its settings refer to it as ${key:NAME}.

    It is asked for without being shown, or read from stdin when that is not a terminal.
    """
    forbid_core_dumps()
    place = ServerPlace(config, data)
    is_there = any(row.name == name for row in place.rows())
    if not is_there or ("key", key) not in references(place.get(name).settings):
        complain(f"Nothing of {name} refers to ${{key:{key}}} yet.")
    place.store(name, {key: asked_secret(f"{key} of {name}: ")})
    print(f"Stored {key} of {name}; it has it when it is started the next time.")
    return ANSWERED


@mcp.command(name="import")
def import_servers(
    file: File, /, *, yes: Yes = False, config: Config = None, data: Data = None
) -> int:
    """Add the servers of another program's file, each as `add` does.

    Values that look like secrets go to the key store. Nothing is started before it is shown here.
    """
    forbid_core_dumps()
    place = ServerPlace(config, data)
    codes = [_take(place, found, is_yes=yes) for found in read_servers(file.expanduser())]
    return max(codes, default=ANSWERED)


def _add(place: ServerPlace, server: McpSettings, *, is_yes: bool) -> int:
    """Add a server that is new, after a person has seen its tools."""
    if any(row.name == server.name for row in place.rows()):
        raise ConflictError(
            f"There is a server {server.name} already: `callboard mcp review {server.name}` looks at it "
            f"again, `callboard mcp remove {server.name}` removes it."
        )
    code = FAILED
    try:
        if server.url is not None:
            place.log_in(server, 0)
        code = _review(place, server, is_yes=is_yes, is_new=True)
    finally:
        if code != ANSWERED and server.url is not None:
            place.forget(server.name, (server.url,))
    return code


def _say_old(server: McpSettings) -> None:
    if server.type == "sse":
        complain(
            f"{server.name} speaks SSE, as in the revision 2024-11-05, which the protocol has given up: ask who runs it "
            "for its address of streamable HTTP."
        )


def _take(place: ServerPlace, found: Imported, *, is_yes: bool) -> int:
    """Add a server of another program's file."""
    name = found.server.name
    for note in found.notes:
        complain(f"{name}: {note}.")
    if any(row.name == name for row in place.rows()):
        complain(f"{name}: there is a server of that name already; it stays as it is.")
        return FAILED
    place.store(name, found.secrets)
    code = FAILED
    try:
        code = _add(place, found.server, is_yes=is_yes)
    finally:
        if code != ANSWERED:
            place.forget(name, found.secrets)
    return code


def _review(place: ServerPlace, server: McpSettings, *, is_yes: bool, is_new: bool = False) -> int:
    """Show what a server offers beside what was accepted, and take what the person says."""
    print(f"{server.name}: {safe_line(server.place)}")
    try:
        offer = place.look(server.name, server if is_new else None)
    except ToolError:
        _say_relative(server)
        raise
    _say_old(server)
    changes = changes_of(server, offer)
    show_changes(server, changes)
    if is_new or offer.offers != server.offers:
        show_offers(server, offer.offers)
    elif not changes.is_any:
        print("Nothing has changed.")
        return ANSWERED
    count = counted(len(changes.new) + len(changes.changed), "tool")
    if not agrees(f"Accept {count} as shown?", is_yes=is_yes):
        print("Nothing was changed.")
        return FAILED
    digests = {tool.original: tool.digest for tool in offer.tools}
    if is_new:
        place.change(lambda its: its.add(server, digests, offer.offers.digest))
    else:
        place.change(lambda its: its.accept(server.name, digests, offer.offers.digest))
    done = "Added" if is_new else "Accepted"
    print(f"{done} {server.name}: {counted(len(digests), 'tool')} can be used.")
    return ANSWERED


def _say_relative(server: McpSettings) -> None:
    """Say that a server does not start in this folder, when words of its command are files of it."""
    for word in server.command:
        path = Path(word)
        if not path.is_absolute() and path.is_file():
            complain(
                f"{safe_line(word)} is a file of this folder, and a server starts in an empty one: write "
                f"{safe_line(str(path.absolute()))}, and --read-only for what it reads."
            )


def _switch(place: ServerPlace, name: str, *, is_on: bool) -> int:
    """Use a server, or stop using it."""
    server = msgspec.structs.replace(place.get(name).settings, enabled=is_on)
    place.change(lambda its: its.update(server))
    print(f"{name} is {'used again' if is_on else 'not used any more'}.")
    return ANSWERED


def _cells(row: McpRow) -> tuple[str, ...]:
    return row.name, _state(row), str(len(row.tools)), str(row.tier), safe_line(row.place)


def _state(row: McpRow) -> str:
    state = "on" if row.state == "unknown" else row.state
    count = len(row.withheld) + len(row.withheld_prompts)
    return f"{state}, {count} withheld" if count else state


def _say_problems(row: McpRow) -> None:
    """Say what keeps a server, or tools of it, from being used."""
    if row.problem:
        again = f"; `callboard mcp restart {row.name}`" if row.state == "failed" else ""
        complain(f"{row.name} is {row.state}: {safe_line(row.problem)}{again}")
    if row.withheld:
        names = ", ".join(row.withheld)
        complain(
            f"{row.name}: withheld until you have looked at them again, since its definition of them has "
            f"changed: {names}: `callboard mcp review {row.name}`"
        )


def _pairs(option: str, given: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in given:
        name, is_pair, value = each.partition("=")
        if not is_pair:
            raise ValidationError(f"--{option} is NAME=VALUE.", field=option)
        found[name] = value
    return found


@mcp.command(name="serve")
def serve_mcp(
    *,
    agent: Agents = (),
    tools: Tools = (),
    config: Config = None,
    data: Data = None,
) -> int:
    """Be an MCP server on stdin and stdout, for a program that starts its servers.

    It offers callboard's agents, and tools that you name, in the folder that it is started in: docs/mcp-server.md.
    """
    from .serve import serve  # here: the package takes a second to import

    return serve(config, data_path(data), tools, agent)
