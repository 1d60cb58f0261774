"""The commands of `callboard mcp`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import trio
from cyclopts import App, Parameter

from ...config.files import config_file, config_folder, load_settings
from ...config.keys.store import open_key_store
from ...config.managed import load_managed, remove_server, save_server
from ...config.mcp.pins import save_pins
from ...config.mcp.settings import MCP_KEYS, McpSettings, check_servers, key_place, references
from ...config.settings import Settings
from ...runtime.disk.core_dumps import forbid_core_dumps
from ...runtime.errors import ConflictError, NotFoundError, ValidationError
from ...runtime.http.address_guard import AddressGuard
from ...runtime.http.client import open_http_client
from ...runtime.redaction import Secret
from ...runtime.text import did_you_mean
from ...tools.mcp.server import Looked, look_at
from ...tools.mcp.state import McpPlaces
from ...tools.sandbox.sandbox import Sandbox
from ..exit_codes import ANSWERED, FAILED
from ..parameters import Config, Data, Json, data_path, offered
from ..setup.keys import MASTER_KEY_MADE, asked_secret
from ..terminal.complaint import complain
from ..terminal.escaping import safe_line
from ..terminal.json_lines import json_line
from ..terminal.listing import write_list
from ..terminal.style import counted
from .importing import Imported, read_servers, server_of
from .review import accepted, agrees, changes_of, show_changes, show_tool

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
State = Annotated[
    bool, Parameter(help="Keep a home folder for it, in the data folder.", negative=())
]
TierOption = Annotated[
    Literal["read_only", "workspace", "system", "elevated"] | None,
    Parameter(
        name="--tier", help="How dangerous its tools are; elevated, by default: each call asks."
    ),
]
Yes = Annotated[
    bool, Parameter(name="--yes", help="Accept what is shown, without a question.", negative=())
]
File = Annotated[Path, Parameter(help="The file of another program, with mcpServers or servers.")]
KeyName = Annotated[str, Parameter(help="The name of the secret, as in ${key:NAME}.")]

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
    state: State = False,
    tier: TierOption = None,
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
    fields |= {"url": command[0]} if is_url else {"command": command}
    fields["env"], fields["headers"] = _pairs("env", env), _pairs("header", header)
    if tier is not None:
        fields["tier"] = tier
    place = _Place(config, data)
    return place.add(server_of(fields), is_yes=yes)


@mcp.command(name="list")
def list_servers(*, json: Json = False, config: Config = None, data: Data = None) -> int:
    """List the servers: how many of their tools are accepted, and where they are."""
    servers = _Place(config, data).settings.mcp
    if json:
        for name, its in servers.items():
            row = {
                "name": name,
                "enabled": its.enabled,
                "tools": [t.name for t in its.tools],
                "place": its.place,
            }
            sys.stdout.write(json_line(row))
    else:
        rows = [
            (
                name,
                "on" if its.enabled else "off",
                str(len(its.tools)),
                str(its.tier),
                safe_line(its.place),
            )
            for name, its in servers.items()
        ]
        write_list(("server", "state", ">tools", "tier", "what it is"), rows)
    if not servers:
        complain("There are no servers: `callboard mcp add NAME -- COMMAND` adds one.")
    return ANSWERED


@mcp.command(name="show")
def show_server(name: ServerName, /, *, config: Config = None, data: Data = None) -> int:
    """Show a server: its settings, and its accepted tools with all that models read of them."""
    server = _Place(config, data).server(name)
    defaults = {f.name: f.default for f in msgspec.structs.fields(McpSettings)}
    for field in McpSettings.__struct_fields__:
        value = getattr(server, field)
        if field not in {"name", "tools"} and value not in (defaults[field], {}, (), None):
            print(f"{field}: {safe_line(msgspec.json.encode(value).decode())}")
    for tool in server.tools:
        show_tool(server, tool)
    if not server.tools:
        complain(f"None of its tools is accepted: `callboard mcp review {name}` shows them.")
    return ANSWERED


@mcp.command(name="test")
def try_server(name: ServerName, /, *, config: Config = None, data: Data = None) -> int:
    """Start a server once, and say whether it answers and offers what was accepted.

    Exits with 1 when it does not.
    """
    place = _Place(config, data)
    server = place.server(name)
    looked = place.look(server)
    info = looked.info
    print(
        f"{name} answers: {safe_line(info.name)} {safe_line(info.version)}, revision {info.protocol}."
    )
    changes = changes_of(server, looked.listing)
    print(f"{counted(len(changes.same), 'tool')} as accepted.")
    if changes.is_any:
        print(
            f"{len(changes.new)} new, {len(changes.changed)} changed, {len(changes.gone)} gone: "
            f"`callboard mcp review {name}` shows them."
        )
    for original, why in changes.refused.items():
        print(f"can't be used: {safe_line(original)}: {safe_line(why)}")
    return FAILED if changes.changed or changes.gone else ANSWERED


@mcp.command(name="review")
def review_server(
    name: ServerName, /, *, yes: Yes = False, config: Config = None, data: Data = None
) -> int:
    """Show what is new or has changed of a server's tools since you accepted them, and accept it."""
    place = _Place(config, data)
    return place.review(place.server(name), is_yes=yes)


@mcp.command(name="remove")
def remove(name: ServerName, /, *, config: Config = None, data: Data = None) -> int:
    """Remove a server, its accepted tools and its stored secrets."""
    place = _Place(config, data)
    place.server(name)
    if name not in load_managed(place.folder).mcp:
        raise ConflictError(f"[mcp.{name}] stands in {place.file}: remove it there.")
    remove_server(place.folder, name)
    save_pins(place.folder, name, None)
    place.forget(name)
    print(f"Removed {name}.")
    return ANSWERED


@mcp.command
def enable(name: ServerName, /, *, config: Config = None, data: Data = None) -> int:
    """Use a server again."""
    return _Place(config, data).switch(name, is_on=True)


@mcp.command
def disable(name: ServerName, /, *, config: Config = None, data: Data = None) -> int:
    """Stop using a server; what you accepted stays."""
    return _Place(config, data).switch(name, is_on=False)


@mcp.command(name="key")
def set_key(name: ServerName, key: KeyName, /, *, config: Config = None, data: Data = None) -> int:
    """Store a secret of a server, encrypted; its settings refer to it as ${key:NAME}.

    It is asked for without being shown, or read from stdin when that is not a terminal.
    """
    forbid_core_dumps()
    place = _Place(config, data)
    server = place.settings.mcp.get(name)
    if server is None or ("key", key) not in references(server):
        complain(f"Nothing of {name} refers to ${{key:{key}}} yet.")
    place.store(name, {key: asked_secret(f"{key} of {name}: ")})
    print(f"Stored {key} of {name}.")
    return ANSWERED


@mcp.command(name="import")
def import_servers(
    file: File, /, *, yes: Yes = False, config: Config = None, data: Data = None
) -> int:
    """Add the servers of another program's file, each as `add` does.

    Values that look like secrets go to the key store. Nothing is started before it is shown here.
    """
    forbid_core_dumps()
    place = _Place(config, data)
    codes = [place.take(found, is_yes=yes) for found in read_servers(file.expanduser())]
    return max(codes, default=ANSWERED)


class _Place:
    """The files that the commands read and write, and how a server is started for a look."""

    def __init__(self, config: Path | None, data: Path | None) -> None:
        self.file = config_file(config)
        self.folder = self.file.parent
        self.data = data_path(data)
        self.settings: Settings = load_settings(config)

    def server(self, name: str) -> McpSettings:
        """Return a server; raise `NotFoundError`."""
        servers = self.settings.mcp
        if name not in servers:
            close = did_you_mean(name, servers)
            raise NotFoundError(
                f"There is no server {name!r}.{close} `callboard mcp list` lists them."
            )
        return servers[name]

    def look(self, server: McpSettings) -> Looked:
        """Start a server in the sandbox, or reach it, list its tools, and end it."""
        sandbox = Sandbox(
            self.settings.sandbox, forbidden=(self.data, config_folder(), self.folder)
        )
        guard = AddressGuard(self.settings.network.endpoints)
        store = open_key_store(self.data, self.settings.keys, os.environ)
        places = McpPlaces(
            sandbox=sandbox,
            connect=guard.connect,
            data=self.data,
            environ=os.environ,
            stored=lambda its, key: store.get(MCP_KEYS, key_place(its, key)),
        )

        async def look() -> Looked:
            async with open_http_client(connect=guard.connect) as http:
                return await look_at(msgspec.structs.replace(places, http=http), server)

        looked = trio.run(look)
        for note in looked.notes:
            complain(f"{server.name}: {note}")
        return looked

    def add(self, server: McpSettings, *, is_yes: bool) -> int:
        """Add a server that is new, after a person has seen its tools."""
        if server.name in self.settings.mcp:
            raise ConflictError(
                f"There is a server {server.name} already: `callboard mcp review {server.name}` looks at it "
                f"again, `callboard mcp remove {server.name}` removes it."
            )
        try:
            check_servers({**self.settings.mcp, server.name: server})
        except ValueError as error:
            raise ValidationError(f"Nothing was added: {error}.") from error
        return self.review(server, is_yes=is_yes, is_new=True)

    def take(self, found: Imported, *, is_yes: bool) -> int:
        """Add a server of another program's file."""
        name = found.server.name
        for note in found.notes:
            complain(f"{name}: {note}.")
        if name in self.settings.mcp:
            complain(f"{name}: there is a server of that name already; it stays as it is.")
            return FAILED
        self.store(name, found.secrets)
        code = FAILED
        try:
            code = self.add(found.server, is_yes=is_yes)
        finally:
            if code != ANSWERED:
                self.forget(name, found.secrets)
        return code

    def review(self, server: McpSettings, *, is_yes: bool, is_new: bool = False) -> int:
        """Show what a server offers beside what was accepted, and take what the person says."""
        print(f"{server.name}: {safe_line(server.place)}")
        listing = self.look(server).listing
        changes = changes_of(server, listing)
        show_changes(server, changes)
        if not changes.is_any and not is_new:
            print("Nothing has changed.")
            return ANSWERED
        count = counted(len(changes.new) + len(changes.changed), "tool")
        if not agrees(f"Accept {count} as shown?", is_yes=is_yes):
            print("Nothing was changed.")
            return FAILED
        pins = {tool.original: tool for tool in changes.same}
        offered_now = [pins.get(tool.original, tool) for tool in listing.tools]
        save_pins(self.folder, server.name, accepted(offered_now))
        if is_new:
            save_server(self.folder, server)
        done = "Added" if is_new else "Accepted"
        print(f"{done} {server.name}: {counted(len(offered_now), 'tool')} can be used.")
        return ANSWERED

    def switch(self, name: str, *, is_on: bool) -> int:
        """Use a server, or stop using it."""
        self.server(name)
        managed = load_managed(self.folder).mcp.get(name)
        if managed is None:
            raise ConflictError(f"[mcp.{name}] stands in {self.file}: say enabled = … there.")
        save_server(self.folder, msgspec.structs.replace(managed, enabled=is_on))
        print(f"{name} is {'used again' if is_on else 'not used any more'}.")
        return ANSWERED

    def forget(self, server: str, keys: Iterable[str] | None = None) -> None:
        """Remove stored secrets of a server: these, or all."""
        store = open_key_store(self.data, self.settings.keys, os.environ)
        for row in store.rows():
            owner, _, key = row.binding.origin.partition("/")
            if (
                row.binding.provider == MCP_KEYS
                and owner == server
                and (keys is None or key in keys)
            ):
                store.remove(MCP_KEYS, row.binding.origin)

    def store(self, server: str, secrets: dict[str, Secret]) -> None:
        """Store secrets of a server."""
        if not secrets:
            return
        store = open_key_store(self.data, self.settings.keys, os.environ)
        for key, secret in secrets.items():
            _, made = store.put(MCP_KEYS, key_place(server, key), secret)
            if made is not None:
                print(MASTER_KEY_MADE.format(place=made))


def _pairs(option: str, given: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in given:
        name, is_pair, value = each.partition("=")
        if not is_pair:
            raise ValidationError(f"--{option} is NAME=VALUE.", field=option)
        found[name] = value
    return found
