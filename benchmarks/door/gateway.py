"""What the daemon's door costs, against a bare websocket that sends the same bytes.

`python benchmarks/door/gateway.py [--events N] [--subscribers N] [--only ROW…]`

The daemon runs in this process, its clients in another one, which reads raw bytes: what is measured is
the server. Each figure has its floor in the same run: `trio-websocket` with nothing behind it.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio
import trio_websocket

import callboard
from callboard.config.keys.tokens import Credentials
from callboard.config.sections import ServerSettings
from callboard.gateway.feeds.frames import update_frame
from callboard.gateway.gateway import Gateway, open_gateway
from callboard.providers.provider import Emit, ModelRequest
from callboard.runtime.events import StreamBatch
from callboard.runtime.stream import Done, StopReason, TextDelta
from callboard.runtime.wire.fields import Role

READERS = Path(__file__).with_name("readers.py")
ROWS = ("memory", "events-1", "events-many", "latency", "resume", "connections")
END = b'"type":"turn_ended"'
CAUGHT_UP = b'"method":"session/snapshot"'
WORD = "twenty characters, so "
PAUSE_SECONDS = 0.002
"""Between two deltas whose latency is measured: a fast model's pace."""


# ── the clients ──────────────────────────────────────────────────────────────────────────────────


class Readers:
    """The process of the clients."""

    def __init__(self, port: int, token: str, count: int, subscribe: object, end: bytes) -> None:
        self.seconds = 0.0
        """From `ready` to the end, by their own clock."""
        args = json.dumps([port, token, count, subscribe, end.decode()])
        self._process = subprocess.Popen(
            [sys.executable, str(READERS), args], stdout=subprocess.PIPE, text=True
        )

    async def ready(self) -> None:
        await self._line()

    async def done(self) -> list[float]:
        """The latencies that were seen, in milliseconds."""
        found: list[float]
        found, self.seconds = json.loads(await self._line())
        return found

    def end(self) -> None:
        """Ends them, if they have not."""
        self._process.kill()
        self._process.wait()

    async def _line(self) -> str:
        assert self._process.stdout is not None
        return await trio.to_thread.run_sync(self._process.stdout.readline)


# ── the servers ──────────────────────────────────────────────────────────────────────────────────


class Speaker:
    """A model that says so many pieces, with the time in each if it is slow."""

    def __init__(self, pieces: int, pause: float = 0.0) -> None:
        self.pieces, self.pause = pieces, pause

    async def run(self, request: ModelRequest, emit: Emit) -> None:
        for _ in range(self.pieces):
            stamp = f"@{time.monotonic_ns()}@" if self.pause else WORD
            await emit([TextDelta(stamp)])
            await trio.sleep(self.pause)
        await emit([Done(StopReason.END)])


@asynccontextmanager
async def open_daemon(model: Any) -> AsyncGenerator[tuple[callboard.Runtime, Gateway, str]]:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        token = Credentials(data).create("bench", Role.ADMIN).reveal()
        many = 20_000
        settings = ServerSettings(
            port=0,
            max_connections=many,
            max_peer_connections=many,
            max_token_connections=many,
            ping_seconds=3600,  # the clients answer none
        )
        async with (
            callboard.open_runtime(model=model, workspace=folder, environ={}) as runtime,
            open_gateway(runtime, settings, data) as gateway,
        ):
            yield runtime, gateway, token


@asynccontextmanager
async def open_bare(
    speak: Callable[[list[trio_websocket.WebSocketConnection]], Awaitable[None]], count: int
) -> AsyncGenerator[tuple[int, Callable[[], Awaitable[None]]]]:
    """A server with nothing behind it; gives its port, and what makes it speak to all."""
    sockets: list[trio_websocket.WebSocketConnection] = []

    async def serve(request: trio_websocket.WebSocketRequest) -> None:
        sockets.append(await request.accept())
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        server = await nursery.start(trio_websocket.serve_websocket, serve, "127.0.0.1", 0, None)

        async def go() -> None:
            while len(sockets) < count:  # noqa: ASYNC110  once
                await trio.sleep(0.01)
            await speak(sockets)

        try:
            yield server.port, go
        finally:
            nursery.cancel_scope.cancel()


# ── the rows ─────────────────────────────────────────────────────────────────────────────────────


async def events(pieces: int, count: int) -> tuple[float, float]:
    """Deltas a second that reach each of so many subscribers: here, and at the floor."""
    async with open_daemon(Speaker(pieces)) as (runtime, gateway, token):
        session = await runtime.create_session()
        subscribe = {"session_id": session.session_id}
        readers = Readers(gateway.port, token, count, subscribe, END)
        await readers.ready()
        await trio.sleep(0.5)  # for their subscriptions
        start = time.perf_counter()
        await session.submit("Speak.")
        await readers.done()
        ours = pieces / (time.perf_counter() - start)
        readers.end()
    batch = StreamBatch("message_0123456789abcdef", 100_000, [TextDelta(WORD)])
    text = update_frame(session.session_id, batch)

    async def speak(sockets: list[trio_websocket.WebSocketConnection]) -> None:
        async def tell(socket: trio_websocket.WebSocketConnection) -> None:
            for _ in range(pieces):
                await socket.send_message(text)
            await socket.send_message(END.decode())

        async with trio.open_nursery() as nursery:
            for socket in sockets:
                nursery.start_soon(tell, socket)

    async with open_bare(speak, count) as (port, go):
        readers = Readers(port, "", count, {}, END)
        await readers.ready()
        start = time.perf_counter()
        await go()
        await readers.done()
        floor = pieces / (time.perf_counter() - start)
        readers.end()
    return ours, floor


async def latency(pieces: int) -> tuple[list[float], list[float]]:
    """Milliseconds from the model's delta to the client's socket: here, and at the floor."""
    async with open_daemon(Speaker(pieces, PAUSE_SECONDS)) as (runtime, gateway, token):
        session = await runtime.create_session()
        subscribe = {"session_id": session.session_id}
        readers = Readers(gateway.port, token, 1, subscribe, END)
        await readers.ready()
        await trio.sleep(0.3)
        await session.submit("Speak.")
        ours = await readers.done()
        readers.end()

    async def speak(sockets: list[trio_websocket.WebSocketConnection]) -> None:
        for _ in range(pieces):
            await sockets[0].send_message(f"@{time.monotonic_ns()}@")
            await trio.sleep(PAUSE_SECONDS)
        await sockets[0].send_message(END.decode())

    async with open_bare(speak, 1) as (port, go):
        readers = Readers(port, "", 1, {}, END)
        await readers.ready()
        await go()
        floor = await readers.done()
        readers.end()
    return ours, floor


async def resume(number: int) -> tuple[float, int]:
    """Seconds until a client that was away for so many events has them; and how many there were."""
    async with open_daemon(Speaker(1)) as (runtime, gateway, token):
        session = await runtime.create_session()
        while (row := await runtime.store.session(session.session_id)) and row.head_seq < number:
            await session.run("Speak.")
        assert row is not None
        subscribe = {"session_id": session.session_id, "after_seq": 0}
        readers = Readers(gateway.port, token, 1, subscribe, CAUGHT_UP)
        await readers.ready()
        await readers.done()
        readers.end()
        return readers.seconds, row.head_seq


async def connections(count: int) -> tuple[float, float]:
    """Connections a second, and the KiB that each costs while it is idle."""
    async with open_daemon(Speaker(1)) as (_, gateway, token):
        warm = Readers(gateway.port, token, 20, {}, END)
        await warm.ready()
        before, start = resident(), time.perf_counter()
        readers = Readers(gateway.port, token, count, {}, END)
        await readers.ready()
        seconds = time.perf_counter() - start
        size = (resident() - before) / count
        readers.end()
        warm.end()
    return count / seconds, size


async def memory(count: int) -> float:
    """The KiB of an idle session that is loaded and that somebody follows."""
    async with open_daemon(Speaker(1)) as (runtime, _, _):
        for _ in range(20):
            await (await runtime.create_session()).run("Speak.")
        before = resident()
        for _ in range(count):
            await (await runtime.create_session()).run("Speak.")
        return (resident() - before) / count


def resident() -> float:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4.0


def at(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(part * len(values)))] if values else 0.0


async def run(only: list[str], number: int, subscribers: int) -> None:
    print("| row | callboard | floor | ratio |\n|---|---|---|---|")
    if "memory" in only:  # before others leave memory behind
        print(f"| memory | {await memory(min(number, 500)):.1f} KiB a loaded session | | |")
    for row, count in (("events-1", 1), ("events-many", subscribers)):
        if row in only:
            pieces = number if count == 1 else max(1, number // 10)
            ours, floor = await events(pieces, count)
            print(f"| {row} | {ours:,.0f}/s | {floor:,.0f}/s | {floor / ours:.1f}× |", flush=True)
    if "latency" in only:
        found, least = await latency(min(number, 1000))
        for name, part in (("p50", 0.5), ("p99", 0.99)):
            ours, floor = at(found, part), at(least, part)
            print(f"| latency {name} | {ours:.2f} ms | {floor:.2f} ms | +{ours - floor:.2f} ms |")
    if "resume" in only:
        seconds, had = await resume(number)
        print(f"| resume | {had:,} events in {seconds:.2f} s, {had / seconds:,.0f}/s | | |")
    if "connections" in only:
        rate, size = await connections(min(number, 1000))
        print(f"| connections | {rate:,.0f}/s, {size:.1f} KiB each | | |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--events", type=int, default=10_000, metavar="N")
    parser.add_argument("--subscribers", type=int, default=100, metavar="N")
    parser.add_argument("--only", nargs="+", choices=ROWS, default=list(ROWS), metavar="ROW")
    args = parser.parse_args()
    if min(args.events, args.subscribers) < 1:
        parser.error("--events and --subscribers are at least 1")
    trio.run(run, args.only, args.events, args.subscribers)


if __name__ == "__main__":
    main()
