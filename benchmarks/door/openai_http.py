"""What OpenAI's API costs, against the daemon's own websocket; and open streams and hostile bodies of AG-UI.

`python benchmarks/door/openai_http.py [--deltas N] [--streams N] [--only ROW…]`

The daemon runs in this process and its clients in another one, which reads raw bytes: what is measured is the server.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import AsyncExitStack, contextmanager
from typing import Any

import msgspec
import trio
from gateway import PAUSE_SECONDS, Readers, Speaker, at, open_daemon, resident

from callboard.gateway.gateway import Gateway
from callboard.providers.provider import Emit, ModelRequest

ROWS = ("first", "deltas", "streams", "bodies")
CHAT = "/v1/chat/completions"
RESPONSES = "/v1/responses"
AG_UI = "/ag-ui/general"  # whose other figures are those of OpenAI's API, nearly
BEGUN = {CHAT: "role", AG_UI: "RUN_STARTED"}
ENDS = {CHAT: "data: [DONE]", RESPONSES: "event: response.completed"}
ASKED: dict[str, dict[str, Any]] = {
    CHAT: {"model": "general", "stream": True, "messages": [{"role": "user", "content": "Speak."}]},
    RESPONSES: {"model": "general", "stream": True, "input": "Speak."},
    AG_UI: {
        "threadId": "NUMBER",
        "runId": "NUMBER",
        "messages": [{"id": "1", "role": "user", "content": "Speak."}],
    },
}
LARGE = 8 * 1024 * 1024
STAMP = re.compile(rb"@(\d+)@")


# ── the client, in a process of its own ──────────────────────────────────────────────────────────


def read(
    port: int, token: str, target: str, body: str, end: str, count: int, parallel: bool
) -> None:
    """Asks so many times, one after the other or at once; says `ready` when heads have come, then the stamps' ages."""
    ages: list[float] = []
    held: list[socket.socket] = []
    for number in range(count):
        line = socket.create_connection(("127.0.0.1", port))
        sent = body.replace("NUMBER", f"{os.getpid()}.{number}").encode()
        head = (
            f"POST {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
        )
        head += f"Content-Type: application/json\r\nContent-Length: {len(sent)}\r\n\r\n"
        line.sendall(head.encode() + sent)
        tail = b""
        while data := line.recv(1 << 16):
            now = time.monotonic_ns()
            if (found := STAMP.search(data)) and not tail.count(b"@"):
                ages.append((now - int(found[1])) / 1e6)
            tail += data
            if end.encode() in tail or (parallel and BEGUN[target].encode() in tail):
                break
            tail = tail[-4096:]
        held.append(line)
        if not parallel:
            line.close()
    print(json.dumps(ages), flush=True)
    if parallel:
        sys.stdin.read()  # they stay open until this process is ended


class Client:
    """That process."""

    def __init__(
        self, gateway: Gateway, token: str, target: str, *, body: str = "", end: str = "",
        count: int = 1, parallel: bool = False,
    ) -> None:  # fmt: skip
        text = body or json.dumps(ASKED[target])
        args = [
            gateway.port,
            token,
            target,
            None,
            end or ENDS.get(target, ""),
            count,
            parallel,
        ]
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--client", json.dumps(args)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdin is not None
        self._process.stdin.write(text + "\n")
        self._process.stdin.flush()

    async def done(self) -> list[float]:
        assert self._process.stdout is not None
        ages: list[float] = json.loads(await trio.to_thread.run_sync(self._process.stdout.readline))
        return ages

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def client(*args: Any, **options: Any) -> Generator[Client]:
    its = Client(*args, **options)
    try:
        yield its
    finally:
        its.end()


# ── the rows ─────────────────────────────────────────────────────────────────────────────────────


async def first(count: int) -> list[float]:
    """Milliseconds from the model's first delta to the client's socket."""
    async with open_daemon(Speaker(1, PAUSE_SECONDS)) as (_, gateway, token):
        with client(gateway, token, CHAT, count=count) as its:
            ages = await its.done()
        return ages[1:]  # the first one imports what answers


async def cpu(pieces: int, target: str) -> float:
    """CPU seconds of this process for so many deltas, to one client."""
    async with open_daemon(Speaker(pieces)) as (runtime, gateway, token):
        if target != "websocket":
            with client(gateway, token, target) as its:
                await its.done()
            with client(gateway, token, target) as its:
                began = time.process_time()
                await its.done()
                return time.process_time() - began
        for _ in range(2):
            session = await runtime.create_session()
            subscribe = {"session_id": session.session_id}
            readers = Readers(gateway.port, token, 1, subscribe, b'"type":"turn_ended"')
            await readers.ready()
            await trio.sleep(0.3)
            began = time.process_time()
            await session.submit("Speak.")
            await readers.done()
            taken = time.process_time() - began
            readers.end()
        return taken


class Silent:
    """A model that never says anything."""

    async def run(self, request: ModelRequest, emit: Emit) -> None:
        await trio.sleep_forever()


async def streams(count: int, target: str) -> float:
    """The KiB of an open stream, its session and turn included; without a target, of these alone."""
    async with open_daemon(Silent()) as (runtime, gateway, token), AsyncExitStack() as stack:
        settings = gateway.daemon.settings
        gateway.daemon.settings = msgspec.structs.replace(settings, max_http_turns=count + 50)

        async def begin(many: int) -> None:
            if target:
                its = stack.enter_context(client(gateway, token, target, count=many, parallel=True))
                await its.done()
                return
            for _ in range(many):
                session = await runtime.create_session()
                await session.submit("Speak.")

        await begin(20)
        gc.collect()
        before = resident()
        await begin(count)
        await trio.sleep(1)
        return (resident() - before) / count


def bodies() -> dict[str, str]:
    """Bodies of 8 MiB that are hard to read."""
    many, some = LARGE // 30_000 - 90, LARGE // 10_000 - 90
    deep = "[" * 10_000 + "]" * 10_000
    items = ",".join(f'{{"role":"user","content":"{"x" * many}"}}' for _ in range(30_000))
    taken = ",".join(f'{{"role":"user","content":"{"x" * some}"}}' for _ in range(10_000))
    return {
        "10,000 messages": f'{{"model":"nobody","messages":[{taken}]}}',
        "30,000 messages": f'{{"model":"nobody","messages":[{items}]}}',
        "depth 10,000": f'{{"model":"nobody","messages":{deep},"pad":"{"x" * (LARGE - 40_000)}"}}',
        "a field of depth 10,000": f'{{"model":"nobody","metadata":{deep},"messages":[{{"role":"user","content":"{"x" * (LARGE - 40_000)}"}}]}}',
        "4 million numbers": f'{{"model":"nobody","metadata":[{"1," * (LARGE // 2 - 100)}1],"messages":[]}}',
    }


async def stall(body: str) -> tuple[float, float]:
    """The longest time, in milliseconds, for which a task that always wants to run did not; and its CPU."""
    worst = used = 0.0
    async with open_daemon(Silent()) as (_, gateway, token):
        wrong = '{"model":"nobody"}'
        with client(gateway, token, CHAT, body=wrong, end="error") as its:
            await its.done()  # imports what answers

        async def watch() -> None:
            nonlocal worst, used
            last, before = time.perf_counter(), time.thread_time()
            while True:
                await trio.sleep(0.001)
                now, so_far = time.perf_counter(), time.thread_time()
                worst, used = max(worst, now - last), max(used, so_far - before)
                last, before = now, so_far

        with client(gateway, token, CHAT, body=body, end="error") as its:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(watch)
                await its.done()
                nursery.cancel_scope.cancel()
    return worst * 1000, used * 1000


async def run(only: list[str], deltas: int, count: int) -> None:
    print("| row | figure |\n|---|---|")
    if "streams" in only:
        rows = ("open stream", CHAT), ("open stream of AG-UI", AG_UI), ("its turn alone", "")
        for name, target in rows:  # in a process each: they leave memory behind
            own = [sys.executable, __file__, "--open", target, str(count)]
            found = await trio.run_process(own, capture_stdout=True)
            print(f"| {name} | {found.stdout.decode().strip()} KiB |", flush=True)
    if "first" in only:
        ages = await first(min(count, 100) + 1)
        print(f"| first byte p50 | {at(ages, 0.5):.2f} ms |")
        print(f"| first byte p99 | {at(ages, 0.99):.2f} ms |", flush=True)
    if "deltas" in only:
        base = await cpu(deltas, "websocket")
        print(f"| websocket | {base * 1e6 / deltas:.1f} µs of CPU a delta |", flush=True)
        for name, target in (("chat", CHAT), ("responses", RESPONSES)):
            taken = await cpu(deltas, target)
            each = taken * 1e6 / deltas
            print(f"| {name} | {each:.1f} µs of CPU a delta, {taken / base:.2f}× |", flush=True)
    if "bodies" in only:
        for name, body in bodies().items():
            took, used = await stall(body)
            print(f"| {name} | the loop is held up {took:.0f} ms, of CPU {used:.0f} |", flush=True)


def main() -> None:
    if sys.argv[1:2] == ["--client"]:
        args = json.loads(sys.argv[2])
        args[3] = sys.stdin.readline().rstrip("\n")
        read(*args)
        return
    if sys.argv[1:2] == ["--open"]:
        print(f"{trio.run(streams, int(sys.argv[3]), sys.argv[2]):.1f}")
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--deltas", type=int, default=20_000, metavar="N")
    parser.add_argument("--streams", type=int, default=500, metavar="N")
    parser.add_argument("--only", nargs="+", choices=ROWS, default=list(ROWS), metavar="ROW")
    args = parser.parse_args()
    trio.run(run, args.only, args.deltas, args.streams)


if __name__ == "__main__":
    main()
