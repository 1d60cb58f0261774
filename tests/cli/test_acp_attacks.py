"""The bridge to an editor under attack: what is no message is answered, or passed over, and the next one is read.

Whoever is at stdin is the person's own program; but what it passes on comes from anywhere.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from callboard.cli.acp import connection as acp_connection
from callboard.cli.acp import wire
from callboard.cli.acp.connection import (
    MAX_REQUESTS,
    AnsweredRequest,
    EditorConnection,
    EditorRefused,
    EditorRequest,
    read_params,
)
from callboard.cli.terminal.output import Output
from support.waits import until

PARSE, INVALID, NO_METHOD, PARAMS = -32700, -32600, -32601, -32602
HEAD = b'{"jsonrpc":"2.0","id":7,"method":"work","params":'
NOTICE = b'{"jsonrpc":"2.0","method":"note","params":'
READ = msgspec.json.Decoder(wire.ReadTextFileResponse)

LINES: dict[str, tuple[bytes, int | None]] = {
    "no JSON": (b"GET / HTTP/1.1", PARSE),
    "half of it": (b'{"jsonrpc":"2.0"', PARSE),
    "two on a line": (b'{"jsonrpc":"2.0","id":1,"method":"work"}{}', PARSE),
    "a mark in front": (b"\xef\xbb\xbf" + HEAD + b"{}}", PARSE),
    "another alphabet": ('{"jsonrpc":"2.0"}'.encode("utf-16"), PARSE),
    "bytes of no text": (b"\xff\xfe\x00\x80", PARSE),
    "10,000 levels": (HEAD + b"[" * 10_000 + b"]" * 10_000 + b"}", PARSE),
    "10,000 levels that do not end": (HEAD + b"[" * 10_000, PARSE),
    "a batch": (b"[" + HEAD + b"{}}]", INVALID),
    "a number": (b"7", INVALID),
    "another version": (b'{"jsonrpc":"1.0","id":7,"method":"work"}', INVALID),
    "no version": (b'{"id":7,"method":"work"}', INVALID),
    "an id that is an object": (b'{"jsonrpc":"2.0","id":{},"method":"work"}', INVALID),
    "a method that is a list": (b'{"jsonrpc":"2.0","id":7,"method":["work"]}', INVALID),
    "a method of no text": (b'{"jsonrpc":"2.0","id":7,"method":"\xff"}', PARSE),
    "no such method": (b'{"jsonrpc":"2.0","id":7,"method":"\\u0000../work"}', NO_METHOD),
    "parameters of no text": (HEAD + b'{"requestId":"\xff"}}', PARAMS),
    "parameters cut in a letter": (HEAD + b'{"requestId":"\xc3"}}', PARAMS),
    "parameters that are a list": (HEAD + b"[1]}", PARAMS),
    "a notice of no text": (NOTICE + b'{"requestId":"\xff"}}', None),
    "a notice of another kind": (NOTICE + b"[[]]}", None),
    "a notice that nobody knows": (b'{"jsonrpc":"2.0","method":"\\u0000"}', None),
    "an answer to nothing": (b'{"jsonrpc":"2.0","id":"callboard-99","result":{}}', None),
    "an answer to nobody": (b'{"jsonrpc":"2.0","id":null,"error":"\xff"}', None),
}
"""Lines, and the code of the answer; `None` where there is none."""


class Heard(Output):
    """Output that keeps what was written."""

    def __init__(self) -> None:
        super().__init__(-1)
        self.lines: list[dict[str, Any]] = []

    def write(self, text: str) -> None:
        self.lines += [json.loads(line) for line in text.splitlines()]


class Bridge:
    """A bridge whose editor is the test."""

    def __init__(self, near: trio.abc.SendStream, nursery: trio.Nursery) -> None:
        self.heard = Heard()
        self.near = near
        self.noticed: list[object] = []
        self.connection = EditorConnection(self.heard, nursery)
        self.connection.methods = {"work": self._work, "wait": self._wait}
        self.connection.notices = {"note": self._note}
        self.let_go = trio.Event()
        self._count = 1000

    async def _work(self, request: EditorRequest) -> AnsweredRequest:
        await trio.lowlevel.checkpoint()
        read_params(request.params, wire.CancelRequestNotification)
        return AnsweredRequest()

    async def _wait(self, request: EditorRequest) -> AnsweredRequest:
        await self.let_go.wait()
        return AnsweredRequest()

    def _note(self, params: msgspec.Raw) -> None:
        self.noticed.append(read_params(params, wire.CancelRequestNotification).request_id)

    async def control(self) -> None:
        """A right request behind all that was sent is answered, and a right notice heard."""
        self._count += 1
        body = f'{{"requestId":{self._count}}}}}\n'.encode()
        head = f'{{"jsonrpc":"2.0","id":{self._count},"method":"work","params":'.encode()
        await self.near.send_all(NOTICE + body + head + body)
        with trio.fail_after(20):
            await until(lambda: self.answer(self._count) is not None)
        assert self.answer(self._count) == {"jsonrpc": "2.0", "id": self._count, "result": {}}
        assert self.noticed[-1] == self._count

    def answer(self, number: object) -> dict[str, Any] | None:
        found = (each for each in self.heard.lines if "method" not in each)
        return next((each for each in found if each["id"] == number), None)


@asynccontextmanager
async def open_bridge() -> AsyncGenerator[Bridge]:
    near, far = trio.testing.memory_stream_one_way_pair()
    async with trio.open_nursery() as nursery:
        bridge = Bridge(near, nursery)
        nursery.start_soon(bridge.connection.run, far)
        yield bridge  # ruff: ignore[fallible-context-manager]  a test that failed is over
        await bridge.control()
        await near.aclose()


@pytest.mark.parametrize("name", LINES)
async def test_a_line_that_is_none_is_answered_and_the_next_one_read(name: str) -> None:
    line, code = LINES[name]
    async with open_bridge() as bridge:
        for _ in range(3):
            await bridge.near.send_all(line + b"\n")
            await bridge.control()
        errors = [each["error"]["code"] for each in bridge.heard.lines if "error" in each]
    assert errors == ([] if code is None else [code] * 3)


async def test_lines_that_drip_and_lines_without_end_hold_a_bounded_part_of_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(acp_connection, "MAX_LINE_BYTES", 1000)
    async with open_bridge() as bridge:
        for byte in HEAD + b'{"requestId":"a"}}\n':
            await bridge.near.send_all(bytes([byte]))
        await until(lambda: bridge.answer(7) is not None)
        for _ in range(100):
            await bridge.near.send_all(b"[" * 1000)
        assert [each["error"]["code"] for each in bridge.heard.lines[1:]] == [PARSE]  # said once
        await bridge.near.send_all(b"\n")


async def test_no_more_requests_are_at_work_than_may_be_and_an_id_is_taken_once() -> None:
    async with open_bridge() as bridge:
        for number in range(MAX_REQUESTS + 10):
            line = {"jsonrpc": "2.0", "id": number, "method": "wait"}
            await bridge.near.send_all(json.dumps(line).encode() + b"\n")
        again = {"jsonrpc": "2.0", "id": 0, "method": "wait"}
        await bridge.near.send_all(json.dumps(again).encode() + b"\n")
        with trio.fail_after(20):
            await until(lambda: len(bridge.heard.lines) == 11)
        assert {each["id"] for each in bridge.heard.lines} == {
            0,
            *range(MAX_REQUESTS, MAX_REQUESTS + 10),
        }
        bridge.let_go.set()
        with trio.fail_after(20):
            await until(lambda: len(bridge.heard.lines) == 11 + MAX_REQUESTS)


ANSWERS: dict[str, tuple[bytes, bool]] = {
    "of no text": (b'"result":{"content":"\xff"}', False),
    "of another kind": (b'"result":[1]', False),
    "10,000 levels": (b'"result":' + b"[" * 900 + b"]" * 900, False),
    "an error that is cut in a letter": (
        b'"error":"' + b"x" * 498 + "é".encode() * 9 + b'"',
        False,
    ),
    "an error of no text": (b'"error":"\xff\xff"', False),
    "neither": (b'"method":null', False),
    "a right one": (b'"result":{"content":"x"}', True),
}


@pytest.mark.parametrize("name", ANSWERS)
async def test_an_answer_that_is_none_is_a_refusal_of_that_question(name: str) -> None:
    said, is_right = ANSWERS[name]
    found: list[wire.ReadTextFileResponse | EditorRefused] = []
    async with open_bridge() as bridge, trio.open_nursery() as nursery:

        async def ask() -> None:
            asked = wire.ReadTextFileRequest(session_id="s", path="/a")
            answer = await bridge.connection.ask("fs/read_text_file", asked, READ)
            found.append(answer)

        nursery.start_soon(ask)
        await until(lambda: bridge.heard.lines)
        line = b'{"jsonrpc":"2.0","id":"callboard-1",' + said + b"}\n"
        await bridge.near.send_all(line * 2)  # the second one answers nothing
        with trio.fail_after(20):
            await until(lambda: found)
    assert isinstance(found[0], EditorRefused) is not is_right
