"""Somebody else's client of MCP: the official one, over HTTP, or at a command's stdin and stdout."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import trio
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation

from callboard.tools.mcp.streams import LineReader, LineWriter
from support.cli.command import Command
from support.cli.warm_process import start_warm
from support.gateway.daemon_scene import Daemon

PATIENCE = 30.0
"""For a command that ends at once: a test that waits in vain fails."""


@asynccontextmanager
async def open_mcp(
    daemon: Daemon, token: str | None = None, *, mode: Any = "auto", **options: Any
) -> AsyncGenerator[Any]:
    """A client that has greeted; `legacy` is a session of an earlier revision."""
    headers = {"authorization": f"Bearer {daemon.token if token is None else token}"}
    url = f"http://127.0.0.1:{daemon.gateway.port}/mcp"
    async with httpx2.AsyncClient(headers=headers, timeout=30, trust_env=False) as http:
        transport = streamable_http_client(url, http_client=http)
        info = Implementation(name="probe", version="1")
        async with Client(transport, mode=mode, client_info=info, cache=None, **options) as client:
            yield client


@asynccontextmanager
async def open_stdio(
    command: Command, *options: str, mode: Any = "auto", **others: Any
) -> AsyncGenerator[Any]:
    """The official client of `callboard mcp serve`, which ends when the client has gone."""
    stdin, out = os.pipe()
    into, stdout = os.pipe()
    try:
        tokens = ("mcp", "serve", *options)
        process = start_warm(tokens, (stdin, stdout, 2), command.workspace, command.environ)
    finally:
        os.close(stdin)
        os.close(stdout)
    pipes = _Pipes(out, into)
    try:
        reader = LineReader(pipes, "callboard")
        streams = _Streams(reader, LineWriter(pipes, reader))
        info = Implementation(name="probe", version="1")
        async with Client(
            streams,  # pyright: ignore[reportArgumentType]
            mode=mode,
            client_info=info,
            cache=None,
            **others,
        ) as client:
            yield client
        await pipes.aclose()
        with trio.fail_after(PATIENCE):
            assert await trio.to_thread.run_sync(process.wait, abandon_on_cancel=True) == 0
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await pipes.aclose()
            await trio.to_thread.run_sync(process.wait)


class _Pipes:
    def __init__(self, out: int, into: int) -> None:
        self._out, self._into = trio.lowlevel.FdStream(out), trio.lowlevel.FdStream(into)

    async def receive_some(self) -> bytes:
        return bytes(await self._into.receive_some())

    async def write(self, text: bytes) -> None:
        await self._out.send_all(text)

    def kill(self, why: str) -> None:
        raise AssertionError(why)

    async def aclose(self) -> None:
        await self._out.aclose()
        await self._into.aclose()


class _Streams:
    """The pair as the package takes it."""

    def __init__(self, *streams: Any) -> None:
        self._streams = streams

    async def __aenter__(self) -> Any:
        return self._streams

    async def __aexit__(self, *_: object) -> None:
        pass
