"""Where servers are looked at and changed: in the daemon when one runs, so that it holds there at once, or here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import trio

from ...config.files import config_file, config_folder, load_settings_of
from ...config.keys.store import KeyStore, open_key_store
from ...config.mcp.settings import MCP_KEYS, McpSettings, key_place
from ...config.mcp.wire import McpOffer, McpRow, McpServerState
from ...config.settings import Settings
from ...runtime.errors import ActorStopped, CallboardError, ConflictError
from ...runtime.http.address_guard import AddressGuard
from ...runtime.http.client import HttpClient, open_http_client
from ...runtime.redaction import Secret
from ...tools.mcp.book import McpBook, chosen, chosen_offers, forget_secrets, named, row_of
from ...tools.mcp.server import log_out, look_at
from ...tools.mcp.state import LOGIN_SECONDS, McpPlaces
from ...tools.sandbox.sandbox import Sandbox
from ..backend import FileBackend, ask_daemon, serving_daemon
from ..parameters import data_path
from ..setup.keys import MASTER_KEY_MADE
from ..show.question_text import ANSWERED_BY
from ..terminal.complaint import complain
from .login import TellingStore, open_browser, open_loopback, show_page

if TYPE_CHECKING:
    from ...client.client import Client


class Servers(Protocol):
    """What can be asked here and there; there it is awaited. See `Client.mcp`."""

    def list(self) -> Any:
        """Return the servers."""
        ...

    def get(self, name: str) -> Any:
        """Return a server."""
        ...

    def look(self, name: str, server: McpSettings | None = None) -> Any:
        """Return what a server offers now."""
        ...

    def accept(self, name: str, tools: Mapping[str, str], offers: str | None = None) -> Any:
        """Accept tools of a server."""
        ...

    def add(self, server: McpSettings, tools: Mapping[str, str], offers: str | None = None) -> Any:
        """Add a server."""
        ...

    def update(self, server: McpSettings) -> Any:
        """Change a server."""
        ...

    def remove(self, name: str) -> Any:
        """Remove a server."""
        ...

    def restart(self, name: str) -> Any:
        """Have a server started again."""
        ...


class ServerPlace:
    """The servers of a configuration, and their stored secrets. Everything here blocks."""

    def __init__(self, config: Path | None, data: Path | None) -> None:
        self._file = config_file(config)
        self._data = data_path(data)
        self._daemon = serving_daemon(config, self._data)
        self._backend = FileBackend(self._daemon, lambda: OwnServers(self._file, self._data))

    def rows(self) -> list[McpRow]:
        """Return the servers, sorted by name."""
        return [*self._ask(lambda its: its.list())]

    def get(self, name: str) -> McpServerState:
        """Return a server; raise `NotFoundError`."""
        found: McpServerState = self._ask(lambda its: its.get(name))
        return found

    def look(self, name: str, server: McpSettings | None = None) -> McpOffer:
        """Return what a server offers now, one that there is or a new one; raise `ToolError`."""
        offer: McpOffer = self._ask(lambda its: its.look(name, server))
        for note in offer.notes:
            complain(f"{name}: {note}")
        return offer

    def change(self, change: Callable[[Servers], Any]) -> None:
        """Make a change."""
        self._ask(change)

    def log_in(self, server: McpSettings, port: int) -> bool:
        """Reach a server, where a person may log in; return whether it wanted that.

        The browser comes back to the daemon that has the server, or to a port of this command.
        """
        if self._daemon is None or port or server.name not in OwnServers(self._file, self._data):
            return OwnServers(self._file, self._data).log_in(server, port)
        return ask_daemon(self._daemon, partial(_log_in_there, name=server.name))

    def log_out(self, server: McpSettings) -> str:
        """Have a login taken back by who gave it; return why that failed, or nothing."""
        return OwnServers(self._file, self._data).log_out(server)

    def end(self, name: str) -> None:
        """End the daemon's connection to a server, if there is one."""
        with suppress(ConflictError, ActorStopped):
            self._ask(lambda its: its.restart(name))

    def store(self, server: str, secrets: Mapping[str, Secret]) -> None:
        """Store secrets of a server."""
        for key, secret in secrets.items():
            _, made = self._keys().put(MCP_KEYS, key_place(server, key), secret)
            if made is not None:
                print(MASTER_KEY_MADE.format(place=made))

    def forget(self, server: str, keys: Iterable[str]) -> bool:
        """Remove stored secrets of a server, and the login at a URL; return whether there were any."""
        return forget_secrets(self._keys(), server, keys)

    def _keys(self) -> KeyStore:
        return open_key_store(self._data, load_settings_of(self._file).keys, os.environ)

    def _ask(self, request: Callable[[Servers], Any]) -> Any:
        return self._backend.ask(lambda client: request(client.mcp), request)


async def _log_in_there(client: Client, *, name: str) -> bool:
    begun = await client.mcp.login(name)
    if not begun.url:
        return False
    show_page(begun.url)
    refused: CallboardError | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(open_browser, begun.url, name="browser")
        try:
            await client.mcp.finish_login(begun.login)
        except CallboardError as error:
            refused = error
        nursery.cancel_scope.cancel(reason="the login is over")
    if refused is not None:
        raise refused
    return True


class OwnServers:
    """The servers in the files, as `Client.mcp` has those of a daemon; none runs."""

    def __init__(self, file: Path, data: Path) -> None:
        self._book = McpBook(file)
        self._settings: Settings = load_settings_of(file)
        self._file = file
        self._data = data
        self._offers: dict[str, McpOffer] = {}

    def list(self) -> list[McpRow]:
        """Return the servers, sorted by name."""
        return [self._row(server) for _, server in sorted(self._book.servers().items())]

    def get(self, name: str) -> McpServerState:
        """Return a server; raise `NotFoundError`."""
        server = self._book.server(name)
        return McpServerState(row=self._row(server), settings=server)

    def look(self, name: str, server: McpSettings | None = None) -> McpOffer:
        """Start a server in the sandbox, list its tools, and end it."""
        its = named(self._settings.mcp, name) if server is None else server
        self._offers[name] = offer = trio.run(self._look, its)
        return offer

    async def _look(self, server: McpSettings) -> McpOffer:
        guard = AddressGuard(self._settings.network.endpoints)
        async with open_http_client(connect=guard.connect) as http:
            return await look_at(self._places(guard, http), server)

    def log_in(self, server: McpSettings, port: int) -> bool:
        """Reach a server with a person who may log in; return whether it wanted that."""
        return trio.run(self._log_in, server, port)

    async def _log_in(self, server: McpSettings, port: int) -> bool:
        guard = AddressGuard(self._settings.network.endpoints)
        seconds = server.start_seconds + LOGIN_SECONDS
        async with open_http_client(connect=guard.connect) as http, open_loopback(port) as desk:
            places = msgspec.structs.replace(self._places(guard, http), desk=desk)
            await look_at(places, msgspec.structs.replace(server, start_seconds=seconds))
            return desk.was_asked

    def log_out(self, server: McpSettings) -> str:
        """Have a login taken back by who gave it; return why that failed, or nothing."""
        return trio.run(self._log_out, server)

    async def _log_out(self, server: McpSettings) -> str:
        guard = AddressGuard(self._settings.network.endpoints)
        async with open_http_client(connect=guard.connect) as http:
            return await log_out(self._places(guard, http), server)

    def __contains__(self, name: str) -> bool:
        return name in self._settings.mcp

    def accept(self, name: str, tools: Mapping[str, str], offers: str | None = None) -> None:
        """Accept tools of a server that was looked at, and its prompts."""
        server = self._book.server(name)
        its = chosen_offers(server, self._offers.get(name), offers)
        self._book.accept(name, self._chosen(server, tools), its)

    def add(self, server: McpSettings, tools: Mapping[str, str], offers: str | None = None) -> None:
        """Add a server that was looked at."""
        its = chosen_offers(server, self._offers.get(server.name), offers)
        self._book.add(server, self._chosen(server, tools), its)

    def update(self, server: McpSettings) -> None:
        """Change a server."""
        self._book.update(server)

    def remove(self, name: str) -> None:
        """Remove a server, its accepted tools and its stored secrets."""
        self._book.check_managed(name, "remove it there")
        self.log_out(self._book.server(name))
        self._book.remove(name, open_key_store(self._data, self._settings.keys, os.environ))

    def restart(self, name: str) -> None:
        """Raise `ConflictError`: there is nothing to start again."""
        self._book.server(name)
        raise ConflictError(f"no daemon runs, and so {name} does not: each command starts its own.")

    def _row(self, server: McpSettings) -> McpRow:
        is_own = server.name in self._book.own_names()
        return row_of(server, "callboard.toml" if is_own else "managed", None)

    def _chosen(self, server: McpSettings, tools: Mapping[str, str]) -> Any:
        return chosen(server, self._offers.get(server.name), tools, ANSWERED_BY)

    def _places(self, guard: AddressGuard, http: HttpClient) -> McpPlaces:
        folders = (self._data, config_folder(), self._file.parent)
        store = open_key_store(self._data, self._settings.keys, os.environ)
        return McpPlaces(
            sandbox=Sandbox(self._settings.sandbox, forbidden=folders),
            connect=guard.connect,
            http=http,
            data=self._data,
            environ=os.environ,
            stored=lambda its, key: store.get(MCP_KEYS, key_place(its, key)),
            logins=TellingStore(store),
        )
