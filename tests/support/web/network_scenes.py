"""Scenes in an empty network: run as a program, it plays some and prints what happened as JSON.

`namespaces` starts it, with one argument: a list of scenes, each with its tool and its arguments; `test_http_request_confinement` and `test_http_request_floods` judge.
"""

from __future__ import annotations

import gzip
import json
import os
import ssl
import sys
import tempfile
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import trio

import callboard
from callboard.runtime.events import CallFinished, CallProposed
from callboard.runtime.http.address_guard import AddressGuard
from callboard.runtime.http.client import open_http_client
from callboard.tools.web.client import WebClient
from support.web import floods
from support.web.empty_network import INSIDE, PUBLIC, Namespace, Row, connects, enter, set_names
from support.web.web_server import CERTIFICATE, WebServer, page, redirect


async def literals(space: Namespace) -> Row:
    set_names()
    return {url: await space.pair(url) for url in json.loads(space.argument)}


async def no_urls(space: Namespace) -> Row:
    set_names([PUBLIC])
    return {url: await space.once(url) for url in json.loads(space.argument)}


async def names(space: Namespace) -> Row:
    set_names(
        good_test=[[PUBLIC]],
        mixed_test=[[PUBLIC, "127.0.0.1"]],
        inside_test=[[INSIDE]],
        first_test=[["127.0.0.1", PUBLIC]],
    )
    found: Row = {
        "public": await space.once("http://good.test/"),
        "mixed": await space.pair("http://mixed.test/"),
        "first": await space.pair("http://first.test/"),
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


async def listed(space: Namespace) -> Row:
    """Every name leads inside: what is answered was let through by the list."""
    set_names([INSIDE])
    entry, *urls = json.loads(space.argument)
    return {url: await space.pair(url, entry) for url in urls}


async def redirects(space: Namespace) -> Row:
    set_names(good_test=[[PUBLIC]], other_test=[[PUBLIC]], inside_test=[[INSIDE]])
    found = {}
    for name, (target, *allow) in json.loads(space.argument).items():
        space.server.answers["/go"] = redirect(target)
        headers = {"Authorization": "Bearer k", "Cookie": "id=1"}
        url = "http://good.test/go"
        found[name] = {
            "denied": await space.once(url, headers=headers),
            "control": await space.once(url, *allow, headers=headers),
        }
    return found


def logged_keys() -> bool:
    key_log = Path(os.environ["SSLKEYLOGFILE"])
    return key_log.exists() and key_log.stat().st_size > 0


async def environment(space: Namespace) -> Row:
    set_names(good_test=[[PUBLIC]])
    found: Row = {
        "http": await space.once("http://good.test/"),
        "https": await space.once("https://good.test/"),
        "logged_keys": logged_keys(),
    }
    # The control: a client that asks the environment.
    connects.clear()
    seen = len(space.server.requests)
    async with httpx.AsyncClient(auth=httpx.NetRCAuth()) as http:
        await http.get("http://good.test/")
    [request] = space.server.requests[seen:]
    found["control"] = {"connects": list(connects), "request": request.headers}
    context = ssl.create_default_context(cafile=CERTIFICATE)
    tcp = await trio.open_tcp_stream(PUBLIC, 443)
    async with trio.SSLStream(tcp, context, server_hostname="good.test") as stream:
        await stream.do_handshake()
    found["control"]["logged_keys"] = logged_keys()
    return found


def peak_kib() -> int:
    """The most memory so far. Not getrusage's: that begins with what the parent had."""
    with open("/proc/self/status", encoding="ascii") as status:
        [line] = [line for line in status if line.startswith("VmHWM:")]
    return int(line.split()[1])


async def bodies(space: Namespace) -> Row:
    set_names()
    space.server.answers.update(floods.bodies())
    before = None
    found: Row = {}
    # Honest ones first: they are the controls, and what they take is not counted.
    for path in sorted(space.server.answers, key=lambda path: path not in floods.HONEST):
        if path not in floods.HONEST and before is None:
            before = peak_kib()
        found[path] = await space.once(f"http://{PUBLIC}{path}")
    assert before is not None
    found["rise_kib"] = peak_kib() - before
    # The control of the measure: what a sixteenth of a bomb would take, decompressed at once.
    packed = gzip.compress(bytes(2**26))
    after = peak_kib()
    assert len(gzip.decompress(packed)) == 2**26
    found["control_kib"] = peak_kib() - after
    return found


async def deadlines(space: Namespace) -> Row:
    """A turn of a whole runtime, with no host of this machine allowed."""
    set_names()
    space.server.answers.update(floods.drips())
    paths = ["/", *floods.drips()]
    calls = [
        ("http_request", {"url": f"http://{PUBLIC}{path}", "timeout": floods.DEADLINE_SECONDS})
        for path in paths
    ]
    model = callboard.ScriptedModel([callboard.reply(calls=calls), callboard.reply("Done.")])
    with tempfile.TemporaryDirectory() as folder:
        async with callboard.open_runtime(
            model=model, workspace=Path(folder), environ={}, strict=True, policy="auto"
        ) as runtime:
            session = await runtime.create_session()
            async with session.prompt("Go.") as turn:
                events = [event async for event in turn]
    order = [event.call_id for event in events if isinstance(event, CallProposed)]
    results = {e.call_id: json.loads(e.result) for e in events if isinstance(e, CallFinished)}
    return {path: results[call] for path, call in zip(paths, order, strict=True)}


Scene = Callable[[Namespace], Coroutine[Any, Any, Row]]
SCENES: dict[str, Scene] = {
    scene.__name__: scene
    for scene in (*(literals, no_urls, names, listed, redirects, environment, bodies, deadlines),)
}


async def bye(stream: Any) -> None:
    await stream.send_all(page("bye", connection="close"))


async def run(scene: Scene, tool: str, argument: str = "") -> Row:
    server = WebServer({"/": page("inside"), "/bye": bye})
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(CERTIFICATE)
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(80, host="0.0.0.0")
        with suppress(OSError):  # without IPv6, its controls are answered by nobody
            listeners += await trio.open_tcp_listeners(80, host="::")
        await nursery.start(trio.serve_listeners, server.serve, listeners)
        await nursery.start(
            partial(trio.serve_ssl_over_tcp, server.serve, 443, tls, host="0.0.0.0")
        )
        found = await scene(Namespace(server, tool, argument))
        nursery.cancel_scope.cancel()
    return found


if __name__ == "__main__":
    enter()
    plays = json.loads(sys.argv[1])
    sys.stdout.write(json.dumps([trio.run(run, SCENES[name], *given) for name, *given in plays]))
