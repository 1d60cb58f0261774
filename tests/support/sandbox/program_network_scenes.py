"""What a sandboxed program reaches, in an empty network where everything would be answered.

Started by `test_sandbox_network`, as root in a network namespace of its own:
`python program_network_scenes.py FOLDER COMMAND…` sets the network up and becomes the command, which is
this file again, as the user who plays the scenes and prints what was found as JSON.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import trio

from callboard.config.sections import MIB, SandboxSettings
from callboard.config.settings import NetworkSettings
from callboard.runtime.http.address_guard import AddressGuard
from callboard.runtime.processes import Command
from callboard.runtime.taint.tracked_network import TrackedNetwork
from callboard.tools.sandbox.sandbox import Sandbox
from callboard.tools.sandbox.session_processes import SessionProcesses
from support.web.empty_network import (
    INSIDE,
    PUBLIC,
    connects,
    make_everything_local,
    set_names,
    watch,
)
from support.web.web_server import CERTIFICATE, WebServer, page

OWN_PORT = 8765
"""What the runtime itself listens on."""
OTHER_PORT = 2222

TALK = """
import json, socket, sys
found = {}
for name, text in json.loads(open("/run/callboard/said.json").read()).items():
    with socket.create_connection(("127.0.0.1", 3128), timeout=10) as own:
        own.sendall(text.encode("latin-1"))
        if name != "kept open":
            own.shutdown(socket.SHUT_WR)
        data = b""
        while chunk := own.recv(65536):
            data += chunk
            if name == "kept open" and data.endswith(b"reached"):
                break
    found[name] = data.decode("latin-1")
print(json.dumps(found))
"""

DIRECT = """
import json, socket, sys
found = {}
def attempt(name, function):
    try:
        function()
    except OSError as error:
        found[name] = type(error).__name__
    else:
        found[name] = "worked"
def udp(address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.settimeout(0.5)
        own.sendto(b"x", address)
        own.recv(10)
def own_server():
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), timeout=5).close()
for name, address in json.loads(sys.argv[1]).items():
    attempt("tcp " + name, lambda: socket.create_connection(tuple(address), timeout=2).close())
    attempt("udp " + name, lambda: udp(tuple(address)))
attempt("names", lambda: socket.getaddrinfo("good.test", 80))
attempt("second on the proxy's port", lambda: socket.create_server(("127.0.0.1", 3128)).close())
attempt("own", own_server)
print(json.dumps(found))
"""

FETCH = """
import http.client, json, ssl, sys, urllib.request, urllib.error
found = {}
context = ssl.create_default_context(cafile="/run/callboard/ca.pem")
for url in sys.argv[1:]:
    try:
        with urllib.request.urlopen(url, timeout=10, context=context) as answer:
            body = answer.read().decode()
            found[url] = [answer.status, body[-200:], len(body)]
    except urllib.error.HTTPError as error:
        found[url] = [error.code, error.read().decode()]
    except (OSError, http.client.HTTPException) as error:
        found[url] = [0, str(error)]
print(json.dumps(found))
"""


class Place:
    """Where scenes are played: a workspace, and the server that answers for all addresses."""

    def __init__(self, workspace: Path, server: WebServer) -> None:
        self.workspace = workspace
        self.server = server

    async def run(
        self,
        code: str,
        *args: str,
        allow: tuple[str, ...] = (),
        files: dict[str, bytes] | None = None,
        network: bool = True,
        settings: SandboxSettings | None = None,
    ) -> dict[str, Any]:
        """A program with this way out: what it printed, and what was recorded."""
        refuse = [("127.0.0.1", OWN_PORT), ("localhost", OWN_PORT)]
        guard = AddressGuard(NetworkSettings(allow=allow).endpoints, refuse=refuse)
        way_out = TrackedNetwork(NoRequests(), guard.connect)
        sandbox = Sandbox(settings or SandboxSettings(), os.environ)
        processes = SessionProcesses(sandbox, str(self.workspace), "s", "t", "c", way_out)
        sandbox.status()  # its test connects too
        connects.clear()
        seen = len(self.server.requests)
        command = Command(
            argv=("python3", "-I", "/run/callboard/code.py", *args),
            files={"code.py": code.encode(), **(files or {})},
            seconds=60,
            network=network,
        )
        ran = await processes.run(command)
        assert ran.exit_code == 0, ran
        return {
            "printed": json.loads(ran.stdout),
            "hosts": ran.hosts,
            "recorded": way_out.hosts,
            "refused": dict(ran.refused_hosts),
            "connects": list(connects),
            "requests": [request.headers for request in self.server.requests[seen:]],
        }

    async def talk(self, said: dict[str, str], *allow: str) -> dict[str, Any]:
        """Each text as it is to the proxy, on a connection of its own."""
        return await self.run(TALK, files={"said.json": json.dumps(said).encode()}, allow=allow)

    async def fetch(self, *urls: str, allow: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
        files = {"ca.pem": CERTIFICATE.read_bytes()}
        return await self.run(FETCH, *urls, files=files, allow=allow, **more)


class NoRequests:
    async def request(self, request: Any, *, max_bytes: int) -> Any:
        raise NotImplementedError


Scene = Callable[[Place], Awaitable[Any]]


def connect(target: str, *headers: str) -> str:
    lines = "".join(f"{header}\r\n" for header in headers)
    return f"CONNECT {target} HTTP/1.1\r\n{lines}\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def targets(place: Place) -> Any:
    """Case 23."""
    set_names([PUBLIC], inside_test=[[INSIDE]])
    evil = {
        "NUL": connect("evil.test\0.good.test:443"),
        "port 22": connect("good.test:22"),
        "no port": connect("good.test"),
        "port 0": connect("good.test:0"),
        "port 99999": connect("good.test:99999"),
        "userinfo": connect("evil.test@good.test:443"),
        "userinfo in a URL": "GET http://good.test@evil.test/ HTTP/1.1\r\n\r\n",
        "URL to CONNECT": connect("http://good.test:80/"),
        "path to CONNECT": connect("good.test:443/../evil.test"),
        "two targets": connect("good.test:443 evil.test:443"),
        "https URL": "GET https://good.test/ HTTP/1.1\r\n\r\n",
        "file URL": "GET file:///etc/passwd HTTP/1.1\r\n\r\n",
        "path alone": "GET / HTTP/1.1\r\nHost: good.test\r\n\r\n",
        "bare newlines": "CONNECT good.test:443 HTTP/1.1\n\n",
        "folded header": connect("good.test:443", "A: b", " c"),
        "no HTTP": "EHLO good.test\r\n\r\n",
        "HTTP/2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "TLS": "\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
        "half a head": "CONNECT good.test:443 HTTP/1.1\r\nA: b",
        "huge head": connect("good.test:443", "A: " + "x" * 20_000),
        "endless head": "CONNECT good.test:443 HTTP/1.1\r\n" + "A: b\r\n" * 20_000,
        "300 headers": connect("good.test:443", *["A: b"] * 300),
        "long target": connect("a" * 300 + ".test:443"),
        "other letters": connect("g\xf6\xf6d.test:443"),
    }
    good = {
        "CONNECT": connect("good.test:80"),
        "CONNECT, spelled otherwise": connect("GOOD.test.:80", "Host: evil.test"),
        "URL": "GET http://good.test/ HTTP/1.1\r\nHost: evil.test\r\nProxy-Authorization: k\r\n\r\n",
        "kept open": "GET http://good.test/ HTTP/1.1\r\n\r\n",
    }
    return {"evil": await place.talk(evil), "good": await place.talk(good)}


async def addresses(place: Place) -> Any:
    """The guard is the one of web tools: by address, by name, and between two look-ups."""
    set_names(
        [PUBLIC], inside_test=[[INSIDE]], mixed_test=[[PUBLIC, "127.0.0.1"]], good_test=[[PUBLIC]]
    )
    closed = [
        "127.0.0.1:80", "127.1:80", "0x7f000001:80", "2130706433:80", "0.0.0.0:80", "10.0.0.5:80",
        "169.254.169.254:80", "100.100.100.200:443", "192.168.1.1:443", "[::1]:80",
        "[::ffff:127.0.0.1]:80", "[::ffff:7f00:1]:80", "localhost:80", "inside.test:443",
        "mixed.test:443", f"good.test:{OTHER_PORT}",
    ]  # fmt: skip
    said = {each: connect(each) for each in closed}
    found = await place.talk(said)
    control = await place.talk(said, *closed)
    set_names(rebind_test=[[PUBLIC], ["127.0.0.1"]])
    rebinding = [await place.talk({"": connect("rebind.test:80")})]
    # It was resolved once for that; the next connection gets the other answer.
    rebinding.append(await place.talk({"": connect("rebind.test:80")}))
    return {"closed": found, "control": control, "rebinding": rebinding}


async def own_port(place: Place) -> Any:
    set_names([PUBLIC])
    listed = (f"127.0.0.1:{OWN_PORT}", f"127.0.0.1:{OTHER_PORT}", f"localhost:{OWN_PORT}")
    said = {each: connect(each) for each in listed}
    return await place.talk(said, *listed)


async def direct(place: Place) -> Any:
    """Case 44: no socket leads anywhere but to the proxy."""
    set_names([PUBLIC])
    places = {
        "public": (PUBLIC, 80),
        "inside": (INSIDE, 80),
        "own port": ("127.0.0.1", OWN_PORT),
        "server": ("127.0.0.1", 80),
        "name server": ("1.1.1.1", 53),
    }
    found = await place.run(DIRECT, json.dumps(places))
    # The control: from here each of them answers.
    for address in places.values():
        with socket.socket() as own:
            own.settimeout(5)
            own.connect(address)
    return found


async def fetches(place: Place) -> Any:
    """The control of all denials: what is allowed is reached, encrypted or not."""
    set_names([PUBLIC], listed_test=[[INSIDE]])
    urls = [
        "http://good.test/", "http://good.test/?a=b", "https://good.test/",
        f"http://listed.test:{OTHER_PORT}/", "http://listed.test/", "https://unlisted.test:22/",
    ]  # fmt: skip
    found = await place.fetch(*urls, allow=(f"listed.test:{OTHER_PORT}",))
    without = await place.fetch("http://good.test/", network=False)
    return {"with": found, "without": without}


async def bytes_of_one_program(place: Place) -> Any:
    set_names([PUBLIC])
    place.server.answers["/large"] = page(b"x" * (3 * MIB))
    urls = ["http://good.test/", "http://good.test/large", "http://good.test/?again"]
    small = SandboxSettings(network_bytes=2 * MIB)
    return {
        "small": await place.fetch(*urls, settings=small),
        "large": await place.fetch(*urls),
    }


SCENES: tuple[Scene, ...] = (
    targets,
    addresses,
    own_port,
    direct,
    fetches,
    bytes_of_one_program,
)


async def play(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(CERTIFICATE)
    server = WebServer({"/": page("reached")})
    async with trio.open_nursery() as nursery:
        listeners = []
        for port in (80, 22, 53, OWN_PORT, OTHER_PORT):
            listeners += await trio.open_tcp_listeners(port, host="0.0.0.0")
        await nursery.start(trio.serve_listeners, server.serve, listeners)
        await nursery.start(
            partial(trio.serve_ssl_over_tcp, server.serve, 443, tls, host="0.0.0.0")
        )
        for scene in SCENES:
            workspace = folder / getattr(scene, "__name__", "scene")
            workspace.mkdir()
            found[workspace.name] = await scene(Place(workspace, server))
        nursery.cancel_scope.cancel()
    return found


def main() -> None:
    folder, *command = sys.argv[1:]
    if command:
        make_everything_local()
        # What needs root here is the machine's matter, not the user's who plays.
        Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").write_text("0", encoding="ascii")
        os.execvp(command[0], [*command, __file__, folder])
    sys.addaudithook(watch)
    sys.stdout.write(json.dumps(trio.run(play, Path(folder))))


if __name__ == "__main__":
    main()
