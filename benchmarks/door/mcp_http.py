"""What callboard costs as a server of MCP, at `/mcp` of its daemon.

`python benchmarks/door/mcp_http.py [--calls N] [--listeners N] [--only ROW…]`

The daemon runs in this process and its clients in another one, which speaks raw HTTP: what is measured is the server.
"""

from __future__ import annotations

import argparse
import gc
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio
from gateway import resident

import callboard
from callboard.config.keys.tokens import Credentials
from callboard.config.sections import McpServerSettings, ServerSettings
from callboard.config.settings import Settings
from callboard.gateway.gateway import Gateway, open_gateway
from callboard.runtime.wire.fields import Role

ROWS = ("listeners", "calls")
VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


# ── the client, in a process of its own ──────────────────────────────────────────────────────────


def message(port: int, token: str, method: str, params: dict[str, Any], name: str) -> bytes:
    body = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}
    ).encode()
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
        f"MCP-Protocol-Version: {VERSION}\r\nMcp-Method: {method}\r\nContent-Length: {len(body)}\r\n"
    )
    if name:
        head += f"Mcp-Name: {name}\r\n"
    return head.encode() + b"\r\n" + body


def ask(port: int, token: str, method: str, params: dict[str, Any], name: str, count: int) -> None:
    """Asks so many times over one connection, or listens over so many."""
    sent = message(port, token, method, params, name)
    held: list[socket.socket] = []
    is_stream = method == "subscriptions/listen"
    for _ in range(count):
        if is_stream or not held:
            held.append(socket.create_connection(("127.0.0.1", port)))
        held[-1].sendall(sent)
        heard = b""
        wanted = b"subscriptions/acknowledged" if is_stream else b'"result"'
        while wanted not in heard or (not is_stream and not _is_whole(heard)):
            data = held[-1].recv(1 << 16)
            if not data:
                raise SystemExit(f"the server says {heard.decode(errors='replace')}")
            heard += data
        if not is_stream and b'"isError":true' in heard:
            raise SystemExit(heard.decode())
    print("done", flush=True)
    sys.stdin.read()  # they stay open until this process is ended


def _is_whole(heard: bytes) -> bool:
    head, _, body = heard.partition(b"\r\n\r\n")
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return len(body) >= int(line.partition(b":")[2])
    return body.endswith(b"0\r\n\r\n")


def started(args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(Path(__file__).resolve()), "--client", args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


async def asked(
    gateway: Gateway, token: str, method: str, params: dict[str, Any], name: str, count: int
) -> subprocess.Popen[str]:
    """Has a process ask; returns it when it has its answers."""
    args = json.dumps([gateway.port, token, method, params, name, count])
    process = started(args)
    assert process.stdout is not None
    said = await trio.to_thread.run_sync(process.stdout.readline)
    if said != "done\n":
        raise SystemExit("the client has failed")
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


# ── the rows ─────────────────────────────────────────────────────────────────────────────────────


def workspace(folder: str) -> Path:
    work = Path(folder).resolve() / "work"
    work.mkdir()
    (work / "a.txt").write_text("hello\n")
    return work


@asynccontextmanager
async def open_daemon() -> AsyncGenerator[tuple[callboard.Runtime, Gateway, str]]:
    with tempfile.TemporaryDirectory() as folder:
        data, work = Path(folder) / "data", workspace(folder)
        token = Credentials(data).create("bench", Role.ADMIN).reveal()
        many = 20_000
        door = ServerSettings(
            port=0,
            max_connections=many,
            max_peer_connections=many,
            max_token_connections=many,
            roots=(str(work),),
        )
        offered = McpServerSettings(enabled=True, workspace=str(work), tools=("read_file",))
        settings = Settings(mcp_server=offered)
        async with (
            callboard.open_runtime(
                model="rehearsal", workspace=work, environ={}, settings=settings
            ) as runtime,
            open_gateway(runtime, door, data) as gateway,
        ):
            yield runtime, gateway, token


async def listeners(count: int) -> float:
    """The KiB of an open stream that listens to a session."""
    async with open_daemon() as (runtime, gateway, token):
        session = await runtime.create_session()
        uri = f"callboard://session/{session.session_id}"
        wanted = {"notifications": {"resourceSubscriptions": [uri]}}
        given: Any = gateway, token, "subscriptions/listen", wanted, ""
        warm = await asked(*given, 20)
        gc.collect()
        before = resident()
        its = await asked(*given, count)
        taken = (resident() - before) / count
        end(its)
        end(warm)
        return taken


async def calls(count: int) -> float:
    """Milliseconds of CPU of the daemon for a `read_file`."""
    async with open_daemon() as (_, gateway, token):
        params = {"name": "read_file", "arguments": {"path": "a.txt"}}
        given: Any = gateway, token, "tools/call", params, "read_file"
        end(await asked(*given, 20))
        began = time.process_time()
        end(await asked(*given, count))
        return (time.process_time() - began) * 1000 / count


async def run(only: list[str], number: int, count: int) -> None:
    print("| row | figure |\n|---|---|")
    if "listeners" in only:  # before others leave memory behind
        print(f"| open listener | {await listeners(count):.1f} KiB |", flush=True)
    if "calls" in only:
        print(f"| read_file | {await calls(number):.2f} ms of CPU |", flush=True)


def main() -> None:
    if sys.argv[1:2] == ["--client"]:
        ask(*json.loads(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", type=int, default=300, metavar="N")
    parser.add_argument("--listeners", type=int, default=100, metavar="N")
    parser.add_argument("--only", nargs="+", choices=ROWS, default=list(ROWS), metavar="ROW")
    args = parser.parse_args()
    trio.run(run, args.only, args.calls, args.listeners)


if __name__ == "__main__":
    main()
