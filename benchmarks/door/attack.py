"""How long a well-behaved turn waits while others attack the door.

`python benchmarks/door/attack.py [--seconds N] [--only ATTACK…]`

The daemon is a process of its own, with its data on the disk; each attack is another one, and the well-behaved client
is this one. It streams turns of the OpenAI route, whose model says a word every `PAUSE_SECONDS` with the time in it. What is
measured is the delay of each word behind that, as the client reads it, with no attack (`peace`) and with each. Beside it
stands how much CPU the daemon took at most, in all of its threads, while a task of its loop waited for its turn: what holds the loop or the
interpreter's lock is in it, and what else the machine does is not. The exit code says whether that is within the bar.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import mmap
import os
import re
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

PAUSE_SECONDS = 0.005
WORDS = 200
STAMP = re.compile(rb"@(\d+)@")
MIB = 1024 * 1024
BAR_MS = 50.0


# ── the daemon ───────────────────────────────────────────────────────────────────────────────────


def serve(folder: str) -> None:
    """Serve until killed; the port and a token go out in one line."""
    import trio

    import callboard
    from callboard.config.keys.tokens import Credentials
    from callboard.config.sections import McpServerSettings, ServerSettings
    from callboard.config.settings import Settings
    from callboard.gateway.gateway import open_gateway
    from callboard.providers.provider import Emit, ModelRequest
    from callboard.runtime.history import Input
    from callboard.runtime.stream import Done, StopReason, TextDelta
    from callboard.runtime.wire.fields import Role

    class Paced:
        """Says the time, word by word, to who asks for it; to others a word."""

        async def run(self, request: ModelRequest, emit: Emit) -> None:
            asked = request.rounds[-1].items[-1]
            is_paced = isinstance(asked, Input) and asked.text == "Tell the time."
            for _ in range(WORDS if is_paced else 1):
                await emit([TextDelta(f"@{time.monotonic_ns()}@")])
                await trio.sleep(PAUSE_SECONDS)
            await emit([Done(StopReason.END)])

    async def watch(held: mmap.mmap) -> None:
        last = time.process_time()
        while True:
            await trio.sleep(0.001)
            now = time.process_time()
            held[:] = struct.pack("d", max(now - last, *struct.unpack("d", held[:])))
            last = now

    async def main() -> None:
        data = Path(folder) / "data"
        token = Credentials(data).create("bench", Role.ADMIN).reveal()
        settings = Settings(mcp_server=McpServerSettings(enabled=True))
        own = ServerSettings(port=0, max_peer_connections=400)
        async with (
            callboard.open_runtime(
                model=Paced(), settings=settings, data=data, workspace=folder, on_approval="wait"
            ) as runtime,
            open_gateway(runtime, own, data) as gateway,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(watch, _held(folder))
            print(json.dumps([gateway.port, token]), flush=True)
            await trio.sleep_forever()

    gc.freeze()  # as `callboard serve` does
    logging.disable(logging.WARNING)  # such as that wrong tokens came: they did
    trio.run(main)


def _held(folder: str) -> mmap.mmap:
    """The seconds of CPU that the daemon took at most between two turns of a task, since they were set to 0."""
    with (Path(folder) / "held").open("a+b") as file:
        file.truncate(8)
        return mmap.mmap(file.fileno(), 8)


# ── attacks ──────────────────────────────────────────────────────────────────────────────────────


class Door:
    """Where the daemon is."""

    def __init__(self, port: int, token: str) -> None:
        self.port = port
        self.token = token

    def request(self, target: str, body: bytes = b"", **changes: str | None) -> bytes:
        """A POST with a token; `changes` to its headers, `None` leaves one out."""
        headers: dict[str, str | None] = {
            "host": f"127.0.0.1:{self.port}",
            "authorization": f"Bearer {self.token}",
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "content-length": str(len(body)),
        } | {name.replace("_", "-"): value for name, value in changes.items()}
        lines = [f"{name}: {value}" for name, value in headers.items() if value is not None]
        return "\r\n".join([f"POST {target} HTTP/1.1", *lines, "", ""]).encode() + body

    def send(self, data: bytes, *, seconds: float = 10.0) -> bytes:
        """What the daemon says first."""
        with socket.create_connection(("127.0.0.1", self.port), seconds) as connection:
            try:
                connection.sendall(data)
                return connection.recv(65536)
            except OSError:
                return b""


CHAT, RESPONSES, MCP = "/v1/chat/completions", "/v1/responses", "/mcp"
AG_UI = "/ag-ui/general"
ROUTES = (CHAT, RESPONSES, MCP, AG_UI)


def _chat(*messages: object, **fields: object) -> bytes:
    return json.dumps({"model": "general", "messages": messages} | fields).encode()


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def imports(door: Door) -> Iterator[bytes]:
    """The first whole body of each route, which has the daemon import what answers it: the SDK of MCP for a second."""
    for target in ROUTES:
        yield door.request(target, b"{}")


def smuggling(door: Door) -> Iterator[bytes]:
    """Heads with two lengths, odd codings, folded lines and another request behind."""
    behind = b"0\r\n\r\nGET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n"
    for target in ROUTES:
        yield door.request(target, transfer_encoding="chunked") + behind
        yield door.request(target, content_length="5, 5") + behind
        yield door.request(target, transfer_encoding="xchunked", content_length=None) + behind
        yield door.request(target, x="1\r\n folded: 1") + behind


def extensions(door: Door) -> Iterator[bytes]:
    """Chunks of one byte, with extensions as long as a line may be."""
    for target in ROUTES:
        head = door.request(target, content_length=None, transfer_encoding="chunked")
        yield head + (b"1;" + b"x" * 200 + b"\r\n1\r\n") * 4096 + b"0\r\n\r\n"


def huge(door: Door) -> Iterator[bytes]:
    """24 MiB: more than any route takes, said and not said."""
    for target in ROUTES:
        yield door.request(target, b"[" * 24 * MIB)
        head = door.request(target, content_length=None, transfer_encoding="chunked")
        yield head + (b"100000\r\n" + b"[" * MIB + b"\r\n") * 24


def whole(door: Door) -> Iterator[bytes]:
    """8 MiB that are taken."""
    yield door.request(CHAT, _chat(_user("x" * (8 * MIB - 1000))))
    yield door.request(
        RESPONSES, json.dumps({"model": "general", "input": "x" * 8_000_000}).encode()
    )


def messages(door: Door) -> Iterator[bytes]:
    """10,000 messages, as many as are taken."""
    said = [_user("x" * 200), {"role": "assistant", "content": "y" * 200}] * 4_999
    yield door.request(CHAT, _chat(*said, _user("?")))
    yield door.request(
        RESPONSES, json.dumps({"model": "general", "input": [*said, _user("?")]}).encode()
    )


def front_end(door: Door) -> Iterator[bytes]:
    """As many messages as are taken, more, and 8 MiB of brackets, to AG-UI."""
    run = {"threadId": "t", "runId": "r"}
    said = [{"id": str(at), "role": "user", "content": "x" * 200} for at in range(30_000)]
    for count in (10_000, 30_000):
        now = {"threadId": f"t{time.monotonic_ns()}", "messages": said[:count]}
        yield door.request(AG_UI, json.dumps(run | now).encode())
    many = b"[" + b"[]," * 2_700_000 + b"1]}"
    yield door.request(
        AG_UI, json.dumps(run | {"messages": []}).encode()[:-1] + b',"state":' + many
    )


def calls(door: Door) -> Iterator[bytes]:
    """10,000 calls in a row, as many as are taken."""
    call = {"type": "function_call", "name": "f", "arguments": "{}"}
    items = [call | {"call_id": f"c{at}"} for at in range(9_998)]
    said = [_user("x"), *items, _user("?")]
    yield door.request(RESPONSES, json.dumps({"model": "general", "input": said}).encode())


def values(door: Door) -> Iterator[bytes]:
    """8 MiB of nothing but brackets."""
    many = b"[" + b"[]," * 2_700_000 + b"1]}"
    yield door.request(CHAT, _chat(_user("x"))[:-1] + b',"seed":' + many)
    yield door.request(RESPONSES, b'{"model":"general","input":"x","top_p":' + many)


def deep(door: Door) -> Iterator[bytes]:
    """10,000 levels: each reader stops at some hundreds."""
    nested = b"[" * 10_000 + b"]" * 10_000 + b"}"
    yield door.request(AG_UI, b'{"threadId":"t","runId":"r","messages":' + nested)
    yield door.request(CHAT, b'{"model":"general","messages":' + nested)
    yield door.request(RESPONSES, b'{"model":"general","input":' + nested)
    yield door.request(MCP, b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":' + nested)


def mcp_values(door: Door) -> Iterator[bytes]:
    """4 MiB of brackets to MCP."""
    head = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":['
    yield door.request(MCP, head + b"{}," * 1_300_000 + b"1]}}}")


def pipelined(door: Door) -> Iterator[bytes]:
    """1,000 requests in one write."""
    one = door.request("/v1/models").replace(b"POST", b"GET", 1)
    yield one * 1000


def foreign(door: Door) -> Iterator[bytes]:
    """Forms of foreign pages, and names that are not the daemon's."""
    for target in ROUTES:
        yield door.request(target, b"a=b", content_type="application/x-www-form-urlencoded")
        yield door.request(target, b"{}", origin="http://evil.example")
        yield door.request(target, b"{}", host="evil.example:80")
        yield door.request(target, b"{}", authorization="Bearer cb_wrong")


def slow(door: Door) -> Iterator[bytes]:
    """Bodies that do not come: a connection each, until the attack ends."""
    held: list[socket.socket] = []
    while True:
        if len(held) < 200:
            connection = socket.create_connection(("127.0.0.1", door.port))
            connection.sendall(door.request(CHAT, content_length=str(MIB)))
            held.append(connection)
        for connection in held:
            try:
                connection.send(b"x")
            except OSError:
                held.remove(connection)
                break
        yield b""


ATTACKS: dict[str, Callable[[Door], Iterator[bytes]]] = {
    each.__name__: each
    for each in (
        imports, smuggling, extensions, huge, whole, messages, front_end, calls, values, deep, mcp_values, pipelined, foreign, slow
    )
}  # fmt: skip


def attack(name: str, port: int, token: str) -> None:
    """Attack until killed."""
    door = Door(port, token)
    print("ready", flush=True)
    while True:
        for data in ATTACKS[name](door):
            if data:
                door.send(data)
            else:
                time.sleep(0.001)


# ── the well-behaved client ──────────────────────────────────────────────────────────────────────


def delays(door: Door, seconds: float) -> list[float]:
    """The delay of each word, in milliseconds."""
    found: list[float] = []
    end = time.monotonic() + seconds
    with socket.create_connection(("127.0.0.1", door.port), 60) as connection:
        while time.monotonic() < end:
            connection.sendall(door.request(CHAT, _chat(_user("Tell the time."), stream=True)))
            seen = b""
            while b"data: [DONE]" not in seen:
                if not (data := connection.recv(65536)):
                    raise SystemExit(f"cut off behind {seen[-500:]!r}")
                now = time.monotonic_ns()
                found += [(now - int(stamp)) / 1e6 for stamp in STAMP.findall(data)]
                seen = seen[-20:] + data
    return found


def line(name: str, found: list[float], held: mmap.mmap) -> float:
    """Print what was found, and begin anew; return the milliseconds of CPU between two turns of the loop."""
    ordered = sorted(found)
    used_ms: float = struct.unpack("d", held[:])[0] * 1000
    print(
        f"{name:12} {len(found):6} words  middle {statistics.median(found):6.1f} ms  "
        f"99 % {ordered[int(len(ordered) * 0.99)]:6.1f} ms  worst {ordered[-1]:6.1f} ms  "
        f"between turns {used_ms:6.1f} ms of CPU",
        flush=True,
    )
    held[:] = bytes(8)
    return used_ms


def main() -> None:
    """Measure, and print a line for each attack."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--only", nargs="*", default=[*ATTACKS], choices=ATTACKS)
    given = parser.parse_args()
    late: list[str] = []
    over: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        daemon = _begin("serve", folder)
        try:
            assert daemon.stdout is not None
            port, token = json.loads(daemon.stdout.readline())
            door = Door(port, token)
            held = _held(folder)
            delays(door, 1.0)
            held[:] = bytes(8)
            line("peace", delays(door, given.seconds), held)
            if (
                "imports" not in given.only
            ):  # else it would be taken for the first attack with a whole body
                for data in imports(door):
                    door.send(data)
            for name in given.only:
                attacker = _begin("attack", name, str(port), token)
                try:
                    assert attacker.stdout is not None
                    attacker.stdout.readline()
                    found = delays(door, given.seconds)
                finally:
                    attacker.kill()
                    attacker.wait()
                used_ms = line(name, found, held)
                late += [name] if max(found) > BAR_MS else []
                over += [name] if used_ms > BAR_MS else []
                delays(door, 1.0)  # what it left behind
                held[:] = bytes(8)
        finally:
            daemon.kill()
            daemon.wait()
    print(f"later than {BAR_MS:g} ms by the clock: {', '.join(late) or 'none'}")
    print(f"more than {BAR_MS:g} ms of CPU between turns: {', '.join(over) or 'none'}")
    sys.exit(bool(over))


def _begin(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, __file__, *words], stdout=subprocess.PIPE, text=True, env={**os.environ}
    )


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", folder]:
            serve(folder)
        case ["attack", name, port, token]:
            attack(name, int(port), token)
        case _:
            main()
