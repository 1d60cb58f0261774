"""Starts the program of a server: in the sandbox, with a home of its own and no other way out than it is given."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial

import msgspec
import trio

from ...config.mcp.settings import McpSettings, resolved
from ...config.private_file import make_private_folder
from ...runtime.definitions import ErrorType, ToolFailure
from ...runtime.errors import CallboardError
from ...runtime.http.address_guard import AddressRefused, Endpoint
from ...runtime.http.url import HttpUrl, not_allowed
from ...runtime.redaction import Secret, redactor
from ...runtime.taint.tracked_network import Connect
from ..processes.threads import run_read, run_write
from ..sandbox.box.recipe import Recipe, why_no_room
from ..sandbox.box.roots import HostView, hidden_places
from ..sandbox.network.proxy import EgressProxy
from ..sandbox.network.sockets import SandboxSockets
from ..sandbox.piped import PipedProgram, open_piped
from ..sandbox.running.process import Order
from .state import McpPlaces
from .work import ServedWorkspace

FOLDER = "mcp"
"""In the data folder; holds the homes of servers that keep one."""
MAX_STATE_BYTES = 1024 * 1024 * 1024
MAX_STATE_FILES = 100_000
"""What such a home may hold when its server is started."""


@asynccontextmanager
async def open_program(
    places: McpPlaces, server: McpSettings, work: ServedWorkspace | None = None
) -> AsyncGenerator[PipedProgram]:
    """Run the program of a server around the block; nothing of it is left when that ends.

    It begins in the workspace that it works on, in its home, or in an empty folder. Raises `ToolFailure` when it
    can't be started.
    """
    if places.sandbox is None:
        raise ToolFailure(
            ErrorType.SANDBOX_UNAVAILABLE,
            "There is no sandbox here, and no server runs outside of one.",
        )
    sandbox = places.sandbox
    variables = await trio.to_thread.run_sync(values_of, places, server, server.env)
    home = await run_write(_made_folder, places, server)
    try:
        folder = home if work is None else work.folder
        recipe, strength = await sandbox.recipe_in(folder)
        if recipe.user is not None and folder == home and not server.state:
            await run_write(partial(os.chown, home, recipe.user.uid, -1))
        if server.read_only:
            recipe = await run_read(_showing, recipe, server)
        order = Order(
            argv=server.command,
            workspace=folder,
            cwd=folder,
            environment={**({"HOME": home} if server.state else {}), **variables},
            files={},
            is_fed=True,
            name=f"mcp {server.name}",
            sockets=_way_out(places, server),
            is_read_only=not server.state,
            is_home=server.state,
        )
        if work is not None:
            if why := why_no_room(folder):
                raise ToolFailure(ErrorType.SANDBOX_UNAVAILABLE, f"Nothing was run: {why}.")
            order = msgspec.structs.replace(
                order,
                identity=work.identity,
                is_read_only=not work.is_writable,
                is_home=False,
                home=home if server.state else None,
            )
            if work.is_writable:
                order = await sandbox.prepared(recipe, order)
        program = PipedProgram(
            recipe,
            order,
            sandbox=str(strength),
            running=sandbox.running,
            watchdog=sandbox.watchdog,
        )
        async with open_piped(program):
            yield program
    finally:
        if not server.state:
            with trio.CancelScope(shield=True):  # one empty folder
                await run_write(lambda: shutil.rmtree(home, ignore_errors=True))


def _showing(recipe: Recipe, server: McpSettings) -> Recipe:
    try:
        return recipe.showing(server.read_only)
    except ValueError as error:
        raise ToolFailure(
            ErrorType.EXECUTION_ERROR, f"The server {server.name} is not started: {error}"
        ) from error


def advice_on_hidden(server: McpSettings, view: HostView, is_of_session: bool = False) -> str:
    """Return what to do about paths of a command that are there and that the sandbox hides, or `""`; blocks."""
    hidden = hidden_places(view, server.command)
    if not hidden:
        return ""
    options = " ".join(f"--read-only {shlex.quote(path)}" for path in hidden)
    if is_of_session:
        return (
            f"; the sandbox hides {', '.join(hidden)} from it: `callboard mcp add` with {options} has a server that "
            "sees it, for all sessions"
        )
    return (
        f"; the sandbox hides {', '.join(hidden)} from it: read_only of [mcp.{server.name}] shows it, as "
        f"`callboard mcp add` with {options}"
    )


def values_of(places: McpPlaces, server: McpSettings, values: Mapping[str, str]) -> dict[str, str]:
    """Return variables or headers with their secrets, which are masked from now on; blocks.

    Raises `ToolFailure` for a reference to what is not there.
    """

    def find(kind: str, name: str) -> str:
        if kind == "env":
            found = places.environ.get(name)
            advice = f"set {name} in the environment of callboard"
        else:
            secret = places.stored(server.name, name)
            found = None if secret is None else secret.reveal()
            advice = f"store it with `callboard mcp key {server.name} {name}`"
        if found is None:
            raise ToolFailure(
                ErrorType.EXECUTION_ERROR,
                f"The server {server.name} is not started: ${{{kind}:{name}}} is not there; {advice}.",
            )
        redactor.add(Secret(found))
        return found

    try:
        return resolved(values, find)
    except CallboardError as error:
        if isinstance(error, ToolFailure):
            raise
        raise ToolFailure(
            ErrorType.EXECUTION_ERROR, f"The server {server.name} is not started: {error}"
        ) from error


def _made_folder(places: McpPlaces, server: McpSettings) -> str:
    """Make the folder in which a program starts: its home, or one that is empty and stays so."""
    if not server.state:
        return os.path.realpath(tempfile.mkdtemp(prefix="callboard-mcp-"))
    if places.data is None:
        raise ToolFailure(
            ErrorType.EXECUTION_ERROR,
            f"The server {server.name} keeps a home (state = true), and there is no data folder for it.",
        )
    make_private_folder(places.data / FOLDER)
    folder = places.data / FOLDER / server.name
    make_private_folder(folder)
    size = files = 0
    for place, _, names in os.walk(folder):
        files += len(names)
        size += sum(os.lstat(os.path.join(place, name)).st_size for name in names)
        if size > MAX_STATE_BYTES or files > MAX_STATE_FILES:
            raise ToolFailure(
                ErrorType.STORAGE_FULL,
                f"The server {server.name} is not started: its home {folder} holds more than "
                f"{MAX_STATE_BYTES} bytes or {MAX_STATE_FILES} files. Remove some.",
            )
    return os.path.realpath(folder)


def _way_out(places: McpPlaces, server: McpSettings) -> SandboxSockets | None:
    if not server.network or places.connect is None or places.sandbox is None:
        return None
    hosts = ListedHosts(server.name, server.endpoints, places.connect)
    return SandboxSockets(EgressProxy(hosts, places.sandbox.settings.network_bytes), {})


class ListedHosts:
    """A `Connector` to the hosts that the configuration lists for a server, and no others."""

    def __init__(self, server: str, endpoints: tuple[Endpoint, ...], connect: Connect) -> None:
        self._server = server
        self._endpoints = frozenset(endpoints)
        self._connect = connect

    async def connect(self, url: HttpUrl) -> trio.SocketStream:
        """See `Connector`."""
        if not self._is_listed(url.host, url.port):
            raise ToolFailure(
                ErrorType.URL_NOT_ALLOWED,
                f"{url.authority} is not among the hosts of [mcp.{self._server}] network",
            )
        try:
            return await self._connect(url.host, url.port)
        except AddressRefused:
            raise not_allowed(url.authority) from None

    def _is_listed(self, host: str, port: int) -> bool:
        labels = host.split(".")
        below = ("." + ".".join(labels[n:]) for n in range(1, len(labels)))
        return any((name, port) in self._endpoints for name in (host, *below))
