"""Runs requests in a network namespace of its own, in which every address leads to one server.

Only `lo` is there, and all addresses are local to it, so that a refused request would be answered
if it were let through. Prints what happened as JSON; `test_http_request_confinement` judges it.
Every connection of the process is seen by an audit hook, whoever makes it.
"""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import socket
import struct
import sys
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any

import trio
from web_server import WebServer, bomb, page, redirect

from callboard.runtime.address_guard import AddressGuard, normalize_host
from callboard.runtime.definitions import Agent, SessionKind, ToolFailure
from callboard.runtime.http import open_http_client
from callboard.runtime.http_url import parse_url
from callboard.runtime.web_client import WebClient
from callboard.tools.http_request import http_request
from callboard.tools.tool import ToolContext

PUBLIC = "93.184.216.34"
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
    """Each look-up of a name takes its next answer; the last one stays."""

    def __init__(self, answers: Mapping[str, list[list[str]]]) -> None:
        self._answers = {name: list(given) for name, given in answers.items()}

    async def getaddrinfo(self, host: Any, port: Any, *_: Any, **__: Any) -> Any:
        name = host.decode()
        if name == "localhost":
            return await trio.to_thread.run_sync(socket.getaddrinfo, host, port, 0, 1)
        await trio.lowlevel.checkpoint()
        if name not in self._answers:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        answers = self._answers[name]
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in found]

    async def getnameinfo(self, sockaddr: Any, flags: int) -> Any:
        raise NotImplementedError


Row = dict[str, Any]


class Namespace:
    """Requests of the tool, and what became of them."""

    def __init__(self, server: WebServer) -> None:
        self.server = server

    async def fetch(self, network: WebClient, url: str, **arguments: Any) -> Row:
        context = ToolContext(
            session_id="s",
            turn_id="t",
            call_id="c",
            session_kind=SessionKind.MAIN,
            agent=Agent(),
            network=network,
        )
        connects.clear()
        seen = len(self.server.requests)
        try:
            with trio.fail_after(20):
                decoded = http_request.decode(json.dumps({"url": url, **arguments}))
                output = (await http_request.execute(decoded, context)).output
            row: Row = {"outcome": output["status"], "body": output["body"][-200:]}
        except ToolFailure as failure:
            row = {"outcome": failure.error_type, "message": str(failure)}
        requests = [request.headers for request in self.server.requests[seen:]]
        return {**row, "connects": list(connects), "requests": requests}

    async def once(self, url: str, allow: list[tuple[str, int]], **arguments: Any) -> Row:
        async with open_http_client(connect=AddressGuard(allow).connect) as http:
            return await self.fetch(WebClient(http), url, **arguments)

    async def pair(self, url: str, *, allowed: list[str] | None = None) -> Row:
        """The request as it is, and with its host allowed."""
        where = parse_url(url)
        hosts = [where.host] if allowed is None else [normalize_host(host) for host in allowed]
        allow = [(host, where.port) for host in hosts]
        return {"denied": await self.once(url, []), "control": await self.once(url, allow)}


def set_names(**answers: list[list[str]]) -> None:
    names = {name.replace("_", "."): given for name, given in answers.items()}
    trio.socket.set_custom_hostname_resolver(Names(names))


async def literals(space: Namespace) -> Row:
    set_names()
    return {url: await space.pair(url) for url in json.loads(sys.argv[2])}


async def octal(space: Namespace) -> Row:
    return {"row": await space.once("http://0177.0.0.1/", [("0177.0.0.1", 80)])}


async def names(space: Namespace) -> Row:
    set_names(good_test=[[PUBLIC]], mixed_test=[[PUBLIC, "127.0.0.1"]], inside_test=[["10.0.0.5"]])
    found: Row = {
        "public": await space.once("http://good.test/", []),
        "mixed": await space.pair("http://mixed.test/"),
        "inside": await space.pair("http://inside.test/"),
    }
    set_names(rebind_test=[[PUBLIC], ["127.0.0.1"]])
    async with open_http_client(connect=AddressGuard().connect) as http:
        network = WebClient(http)
        url = "http://rebind.test"
        found["rebind"] = [
            await space.fetch(network, f"{url}{path}") for path in ("/", "/bye", "/")
        ]
    return found


async def redirects(space: Namespace) -> Row:
    set_names(good_test=[[PUBLIC]], other_test=[[PUBLIC]])
    found = {}
    for name, target in json.loads(sys.argv[2]).items():
        space.server.answers["/go"] = redirect(target)
        headers = {"Authorization": "Bearer k", "Cookie": "id=1"}
        where = parse_url(target) if target.startswith("http") else None
        allow = [] if where is None else [(where.host, where.port)]
        url = "http://good.test/go"
        found[name] = {
            "denied": await space.once(url, [], headers=headers),
            "control": await space.once(url, allow, headers=headers),
        }
    return found


async def environment(space: Namespace) -> Row:
    set_names(good_test=[[PUBLIC]])
    return {"row": await space.once("http://good.test/", [])}


def peak_kib() -> int:
    """The most memory so far. Not getrusage's: that begins with what the parent had."""
    with open("/proc/self/status", encoding="ascii") as status:
        [line] = [line for line in status if line.startswith("VmHWM:")]
    return int(line.split()[1])


async def bodies(space: Namespace) -> Row:
    set_names()
    space.server.answers["/bomb"] = bomb()
    url = f"http://{PUBLIC}"
    await space.once(url, [])
    before = peak_kib()
    row = await space.once(f"{url}/bomb", [])
    after = peak_kib()
    # The control: what a sixteenth of it would take, decompressed at once.
    packed = gzip.compress(bytes(2**26))
    assert len(gzip.decompress(packed)) == 2**26
    control = peak_kib()
    return {"row": row, "rise_kib": after - before, "control_kib": control - after}


Scene = Callable[[Namespace], Coroutine[Any, Any, Row]]
SCENES: dict[str, Scene] = {
    scene.__name__: scene for scene in (literals, octal, names, redirects, environment, bodies)
}


async def bye(stream: trio.SocketStream) -> None:
    await stream.send_all(page("bye", connection="close"))


async def run(scene: Scene) -> Row:
    server = WebServer({"/": page("inside"), "/bye": bye})
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(80, host="0.0.0.0")
        with suppress(OSError):  # without IPv6, its controls are answered by nobody
            listeners += await trio.open_tcp_listeners(80, host="::")
        await nursery.start(trio.serve_listeners, server.serve, listeners)
        found = await scene(Namespace(server))
        nursery.cancel_scope.cancel()
    return found


if __name__ == "__main__":
    make_everything_local()
    sys.addaudithook(watch)
    sys.stdout.write(json.dumps(trio.run(run, SCENES[sys.argv[1]])))
