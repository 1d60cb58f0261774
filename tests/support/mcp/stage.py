"""Runtimes with the fake server, whose tools are accepted as it lists them."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
import trio

import callboard
from callboard.config.mcp.settings import McpSettings
from callboard.config.mcp.wire import McpOffer
from callboard.embedding.runtime import Runtime, host_of
from callboard.runtime.http.address_guard import AddressGuard, parse_endpoint
from callboard.runtime.http.client import open_http_client
from callboard.tools.mcp.server import look_at
from callboard.tools.mcp.servers import McpServers
from callboard.tools.mcp.state import McpPlaces
from callboard.tools.sandbox.sandbox import Sandbox

from .web import McpWebServer

FOLDER = str(Path(__file__).parent)
PYTHON = os.path.join(sys.base_prefix, "bin", "python3")
SANDBOX = callboard.SandboxSettings(read_only=(FOLDER,))


def fake(*options: str, name: str = "fake", **fields: Any) -> McpSettings:
    """Return the settings of the fake server, in which nothing is accepted."""
    command = (PYTHON, "-I", "-S", f"{FOLDER}/server.py", *options)
    return McpSettings(name=name, command=command, **{"start_seconds": 20.0, **fields})


def web(server: McpWebServer, name: str = "web", **fields: Any) -> McpSettings:
    """Return the settings of a server over HTTP, in which nothing is accepted."""
    return McpSettings(name=name, url=server.url, **{"start_seconds": 20.0, **fields})


class Agreeing:
    """A `LoginDesk` with a person who agrees to every login."""

    redirect_uri = "http://127.0.0.1:3000/callback"

    async def authorize(self, url: str) -> dict[str, str]:
        location = await trio.to_thread.run_sync(sent_to, url)
        came = dict(parse_qsl(urlsplit(location).query))
        return {name: came[name] for name in ("code", "state", "iss") if name in came}


def sent_to(url: str) -> str:
    """Return where a browser is sent to by an address."""
    where = urlsplit(url)
    connection = HTTPConnection(where.netloc, timeout=30)
    try:
        connection.request("GET", f"{where.path}?{where.query}")
        return connection.getresponse().headers["location"]
    finally:
        connection.close()


_OFFERS: dict[bytes, McpOffer] = {}
"""What programs offer at each start, so that one of them is not started twice to be called."""


async def looked_at(
    server: McpSettings, *, allow: tuple[str, ...] | None = None, **places: Any
) -> McpOffer:
    """Look at a server; one over HTTP may be where it is, unless `allow` says where it may be.

    One that is a program and keeps nothing is looked at once: it offers the same at each start.
    """
    is_same = server.url is None and allow is None and not places
    key = msgspec.json.encode(server)
    if not is_same or key not in _OFFERS:
        offer = await _looked_at(server, allow, **places)
        if not is_same:
            return offer
        _OFFERS[key] = offer
    return _OFFERS[key]


async def _looked_at(server: McpSettings, allow: tuple[str, ...] | None, **places: Any) -> McpOffer:
    if allow is None:
        allow = () if server.url is None else (urlsplit(server.url).netloc,)
    guard = AddressGuard(map(parse_endpoint, allow))
    async with open_http_client(connect=guard.connect) as http:
        sandbox = Sandbox(SANDBOX)
        return await look_at(McpPlaces(sandbox=sandbox, http=http, **places), server)


async def accepted(server: McpSettings, **places: Any) -> McpSettings:
    """Return the settings with all that it offers accepted, as it lists it now."""
    offer = await looked_at(server, **places)
    return msgspec.structs.replace(server, tools=offer.tools, offers=offer.offers)


@asynccontextmanager
async def open_stage(
    *servers: McpSettings,
    allow: tuple[str, ...] = (),
    others: callboard.Settings | None = None,
    **options: Any,
) -> AsyncGenerator[Runtime]:
    """A runtime with servers; `others` are settings beside theirs."""
    settings = msgspec.structs.replace(
        others or callboard.Settings(),
        network=callboard.NetworkSettings(allow=allow),
        mcp={server.name: server for server in servers},
        sandbox=SANDBOX,
        policy=callboard.Preset.BALANCED,
    )
    given = {"model": "rehearsal", "on_approval": "allow", "environ": {}, **options}
    async with callboard.open_runtime(settings=settings, strict=True, **given) as runtime:
        yield runtime


def servers_of(runtime: Runtime) -> McpServers:
    servers = host_of(runtime).mcp
    assert servers is not None
    return servers
