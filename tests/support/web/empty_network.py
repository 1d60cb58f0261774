"""A network namespace of its own, in which every address leads to one server.

Only `lo` is there, and all addresses are local to it, so that a refused request would be answered
if it were let through. Every connection of the process is seen by an audit hook, whoever makes it.
`network_scenes` is what runs in it.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import trio

from callboard.config.settings import NetworkSettings
from callboard.runtime.definitions import ToolFailure
from callboard.runtime.http.address_guard import AddressGuard
from callboard.runtime.http.client import open_http_client
from callboard.runtime.http.url import parse_url
from callboard.tools.web.client import WebClient
from callboard.tools.web.fetch import web_fetch
from callboard.tools.web.http_request import http_request
from support.tools.workbench import context_of
from support.web.web_server import WebServer

PUBLIC = "93.184.216.34"
INSIDE = "10.0.0.5"
NOT_POSSIBLE = 77
"""The exit code of a process that may not set up its namespace; it says why."""

SIOCSIFFLAGS = 0x8914
IFF_UP = 1
RTM_NEWROUTE = 24
NLM_F_REQUEST_CREATE_ACK = 0x1 | 0x400 | 0x4
TABLE_LOCAL, PROTOCOL_BOOT, SCOPE_HOST, TYPE_LOCAL = 255, 3, 254, 2
RTA_OIF = 4

connects: list[str] = []
"""Addresses that were connected since the last look."""


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        connects.append(str(arguments[1][0]))


def enter() -> None:
    """Sets the namespace up that this process was started in."""
    try:
        make_everything_local()
    except OSError as fault:
        sys.stderr.write(f"no network can be set up in the namespace: {fault}")
        sys.exit(NOT_POSSIBLE)
    sys.addaudithook(watch)


def make_everything_local() -> None:
    """Brings `lo` up and routes all addresses of both families to it."""
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))
    index = struct.pack("HHI", 8, RTA_OIF, socket.if_nametoindex("lo"))
    for family in (socket.AF_INET, socket.AF_INET6):
        route = struct.pack(
            "BBBBBBBBI", family, 0, 0, 0, TABLE_LOCAL, PROTOCOL_BOOT, SCOPE_HOST, TYPE_LOCAL, 0
        )
        message = route + index
        head = struct.pack("IHHII", 16 + len(message), RTM_NEWROUTE, NLM_F_REQUEST_CREATE_ACK, 1, 0)
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as kernel:
            kernel.send(head + message)
            code = struct.unpack_from("i", kernel.recv(4096), 16)[0]
        if code and family == socket.AF_INET:
            raise OSError(-code, os.strerror(-code))


class Names(trio.abc.HostnameResolver):
    """Each look-up of a name takes its next answer, the last one stays; others have `default`."""

    def __init__(self, answers: Mapping[str, list[list[str]]], default: list[str]) -> None:
        self._answers = {name: list(given) for name, given in answers.items()}
        self._default = default

    async def getaddrinfo(self, host: Any, port: Any, *_: Any, **__: Any) -> Any:
        name = host.decode()
        if name == "localhost":
            return await trio.to_thread.run_sync(socket.getaddrinfo, host, port, 0, 1)
        await trio.lowlevel.checkpoint()
        answers = self._answers.get(name, [self._default])
        if not answers[0]:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in found]

    async def getnameinfo(self, sockaddr: Any, flags: int) -> Any:
        raise NotImplementedError


def set_names(default: Iterable[str] = (), **answers: list[list[str]]) -> None:
    names = {name.replace("_", "."): given for name, given in answers.items()}
    trio.socket.set_custom_hostname_resolver(Names(names, list(default)))


Row = dict[str, Any]


class Namespace:
    """Requests of a tool, and what became of them.

    Attributes:
        tool: Which one makes them.
        argument: What a scene is told, as JSON.
    """

    def __init__(self, server: WebServer, tool: str, argument: str) -> None:
        self.server = server
        self.tool = tool
        self.argument = argument

    async def fetch(self, network: WebClient, url: str, **arguments: Any) -> Row:
        context = context_of(network=network)
        connects.clear()
        seen = len(self.server.requests)
        try:
            with trio.fail_after(20):
                if self.tool == "web_fetch":
                    fetched = web_fetch.decode(json.dumps({"url": url}))
                    output = (await web_fetch.execute(fetched, context)).output
                else:
                    decoded = http_request.decode(json.dumps({"url": url, **arguments}))
                    output = (await http_request.execute(decoded, context)).output
            body = output["text"] if self.tool == "web_fetch" else output["body"]
            row: Row = {"outcome": output["status"], "body": body[-200:]}
            row["truncated"] = output["truncated"]
            row["note"] = output.get("note", "")
        except ToolFailure as failure:
            row = {"outcome": failure.error_type, "message": str(failure)}
        except trio.TooSlowError:
            row = {"outcome": "no end", "message": ""}
        requests = [request.headers for request in self.server.requests[seen:]]
        return {**row, "connects": list(connects), "requests": requests}

    async def once(self, url: str, *allow: str, **arguments: Any) -> Row:
        """With these entries of `network.allow`."""
        guard = AddressGuard(NetworkSettings(allow=allow).endpoints)
        async with open_http_client(connect=guard.connect) as http:
            return await self.fetch(WebClient(http), url, **arguments)

    async def pair(self, url: str, *allow: str) -> Row:
        """The request as it is, and with its own host allowed."""
        where = parse_url(url)
        host = f"[{where.host}]" if ":" in where.host else where.host
        return {
            "denied": await self.once(url, *allow),
            "control": await self.once(url, *allow, f"{host}:{where.port}"),
        }
