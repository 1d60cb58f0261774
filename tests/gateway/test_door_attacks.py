"""The door under attack: each route with a body answers each shape of a bad request in the same way, and begins nothing.

A new route with a body stands in `TARGETS` of tests/support. What attacks cost those beside them is measured by `benchmarks/door/attack.py`.
"""

from __future__ import annotations

import gc
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

import callboard
from callboard.config.sections import McpServerSettings, OpenAiSettings
from callboard.config.settings import Settings
from callboard.gateway.door import exchange as door_exchange
from callboard.gateway.door import http as door_http
from callboard.gateway.door.exchange import Exchange
from callboard.gateway.mcp import endpoint
from callboard.providers.testing.script import reply
from support.gateway.daemon_scene import Daemon, open_daemon
from support.gateway.door_attacks import (
    ACCEPT,
    CHANGES,
    CHUNKS,
    HEADS,
    MAX_BODY,
    SMUGGLED,
    TARGETS,
)
from support.gateway.door_scene import request
from support.gateway.raw_door import PATIENCE, answer_to, open_stream, read_answer, read_end
from support.waits import until


@asynccontextmanager
async def attacked(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Daemon]:
    """A daemon whose bounds are small, and in which nothing must have begun."""
    monkeypatch.setattr(endpoint, "MAX_BODY_BYTES", MAX_BODY)
    monkeypatch.setattr(door_http, "MAX_SMALL_CHUNKS", 50)
    model = callboard.ScriptedModel([reply("Hi.")] * len(TARGETS))
    configured = Settings(
        openai=OpenAiSettings(max_body_bytes=MAX_BODY), mcp_server=McpServerSettings(enabled=True)
    )
    async with open_daemon(model, configured=configured) as daemon:
        yield daemon  # ruff: ignore[fallible-context-manager]  a test that failed is over
        assert model.requests == []
        assert await daemon.runtime.sessions() == []
        assert daemon.gateway.turns.count == 0
        await until(lambda: daemon.gateway.daemon.quotas.size == 0)
        for target, body in TARGETS.items():  # and whoever is right is answered
            sent = request(
                daemon,
                target,
                body,
                accept=ACCEPT,
                connection="close",
            )
            assert (await answer_to(daemon, sent)).status == 200, target


async def refused(daemon: Daemon, sent: bytes, status: int, what: object) -> None:
    """Sends, with another request behind: it is refused, and nothing behind it is answered."""
    async with open_stream(daemon) as stream:
        await stream.send_all(sent + SMUGGLED)
        assert (await read_answer(stream)).status == status, what
        assert await read_end(stream) == b"", what


@pytest.mark.parametrize("target", TARGETS)
async def test_a_request_with_two_meanings_is_refused(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with attacked(monkeypatch) as daemon:
        head = request(daemon, target, b"", content_length=None)[:-2]
        for lines, status in HEADS:
            sent = head + "\r\n".join([*lines, "", ""]).encode()
            await refused(daemon, sent, status, lines)
        whole = request(
            daemon,
            target,
            b"",
            content_length=None,
            transfer_encoding="chunked",
            accept=ACCEPT,
        )
        for body, status in CHUNKS:
            await refused(daemon, whole + body, status, body[:40])
        # An extension is part of no body, and the right request behind it is one of its own.
        again = request(daemon, target, b"[]")
        async with open_stream(daemon) as stream:
            await stream.send_all(whole + b"2;x=1;y\r\n[]\r\n0\r\n\r\n" + again)
            assert (await read_answer(stream)).status == 400


@pytest.mark.parametrize("target", TARGETS)
async def test_a_foreign_page_and_a_bent_name_reach_nothing(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with attacked(monkeypatch) as daemon:
        for changes, status in CHANGES:
            answer = await answer_to(daemon, request(daemon, target, TARGETS[target], **changes))
            assert answer.status == status, changes
            assert "access-control-allow-origin" not in answer.headers
        for method in ("PUT", "PATCH", "OPTIONS", "TRACE", "PROPFIND"):
            wrong = await answer_to(daemon, request(daemon, target, b"{}", method=method))
            assert (wrong.status, "POST" in wrong.headers["allow"]) == (405, True), method


@pytest.mark.parametrize("target", TARGETS)
async def test_requests_sent_ahead_have_their_answers_in_order(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with attacked(monkeypatch) as daemon, open_stream(daemon) as stream:
        models = request(daemon, "/v1/models", method="GET")
        last = request(daemon, "/v1/models", method="GET", connection="close")
        await stream.send_all(models + request(daemon, target, b"[]", accept=ACCEPT) + last)
        received = await read_end(stream)
        assert re.findall(rb"HTTP/1.1 (\d+)", received) == [b"200", b"400", b"200"]


@pytest.mark.parametrize("target", TARGETS)
async def test_a_body_that_drips_has_its_time(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_exchange, "BODY_SECONDS", 0.05)
    async with attacked(monkeypatch) as daemon, open_stream(daemon) as stream:
        await stream.send_all(request(daemon, target, b"", content_length="100") + b"{")
        assert (await read_answer(stream)).status == 408
        assert await read_end(stream) == b""
        monkeypatch.undo()


async def test_what_drips_is_read_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each read wakes a task and h11: two hundred clients of single bytes held everybody up for half a second."""
    reads: list[int] = []
    client, server = trio.testing.memory_stream_pair()
    monkeypatch.setattr(door_http, "MAX_SMALL_READS", 8)
    connection = door_http.HttpServerConnection(server)
    await client.send_all(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 400\r\n\r\n")
    await connection.read_head()

    async def drip() -> None:
        for _ in range(400):
            await client.send_all(b"x")
            await trio.testing.wait_all_tasks_blocked()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(drip)
        while (piece := await connection.read_piece()) is not None:
            reads.append(len(piece))
    assert sum(reads) == 400
    assert len(reads) <= 8 + 4


@pytest.mark.parametrize("target", [each for each in TARGETS if each != "/mcp"])
async def test_nothing_of_a_request_waits_for_the_garbage_collector(target: str) -> None:
    """Whoever is refused over and over would leave bodies in memory, and then hold the loop up for all of them."""

    async def status(body: bytes, token: str) -> int:
        sent = request(
            daemon, target, body, authorization=f"Bearer {token}", connection="close", accept=ACCEPT
        )
        return (await answer_to(daemon, sent)).status

    again = TARGETS[target].replace(b'"r"', b'"r2"').replace(b'"t"', b'"t2"')
    large = b'{"model":"general","input":"x","top_p":[' + b"[]," * 600_000 + b"1]}"
    model = callboard.ScriptedModel([reply("Hi.")] * 2)
    async with open_daemon(model) as daemon:
        assert await status(TARGETS[target], daemon.token) == 200  # what answers is imported now
        gc.collect()
        gc.disable()
        try:
            assert await status(again, daemon.token) == 200
            assert await status(b"{", daemon.token) == 400
            assert await status(large, daemon.token) == 400
            assert await status(b"{}", "cb_wrong") == 401
            with trio.fail_after(PATIENCE):
                await until(
                    lambda: not any(isinstance(each, Exchange) for each in gc.get_objects())
                )
        finally:
            gc.enable()
