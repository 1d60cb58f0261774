"""Every route of a daemon under attack, and every body that means nothing; each with what is right beside it.

`test_door_attacks.py` has the shapes of requests, and sends all of them to the routes with a body.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

import callboard
from callboard.config.sections import McpServerSettings, ServerSettings
from callboard.config.settings import Settings
from callboard.gateway.door import exchange as door_exchange
from callboard.gateway.door.exchange import Route
from callboard.providers.testing.script import reply
from support.gateway.daemon_scene import Daemon, open_daemon
from support.gateway.door_attacks import ACCEPT, CHANGES, HEADS, SMUGGLED, TARGETS
from support.gateway.door_scene import request
from support.gateway.raw_door import (
    answer_to,
    handshake,
    head_of,
    open_stream,
    read_answer,
    read_end,
)

WEBSOCKET = "/ws"
BY_HEAD = (400, 431, 501)
"""What the door says of a head alone, whatever is at the path."""
RIGHT: dict[str, int] = {
    "/hooks/": 401,  # there is none, or it is not signed
    "/console/session": 403,  # it is not the console's own page that asks
    "/console/logout": 403,
    "/console/assets/": 404,  # no file has this name
    "/oauth/mcp": 400,  # nobody logs in
    "/.well-known/oauth-client.json": 404,  # the daemon has no https name
    "/v1/": 404,  # below it are several
    "/ag-ui/": 404,  # no agent has this name
    "/mcp": 400,  # nobody has begun a session
}
"""How a request is answered in which nothing is wrong but what it asks for; 200 where nothing is."""


@asynccontextmanager
async def attacked(
    monkeypatch: pytest.MonkeyPatch, workspace: str | None = None
) -> AsyncGenerator[tuple[Daemon, dict[str, Route]]]:
    """A daemon and all of its routes, in which nothing must have begun."""
    routes: dict[str, Route] = {}
    as_it_is = door_exchange.Routes.__init__

    def note(self: door_exchange.Routes, given: Mapping[str, Route]) -> None:
        routes.update(given)
        as_it_is(self, given)

    monkeypatch.setattr(door_exchange.Routes, "__init__", note)
    model = callboard.ScriptedModel([reply("Hi.")])
    mcp = McpServerSettings(enabled=True, tools=("read_file",), workspace=workspace)
    own = ServerSettings(port=0, roots=() if workspace is None else (workspace,))
    async with open_daemon(model, settings=own, configured=Settings(mcp_server=mcp)) as daemon:
        yield daemon, routes  # ruff: ignore[fallible-context-manager]  a test that failed is over
        assert model.requests == []
        assert daemon.gateway.turns.count == 0


def target_of(path: str) -> str:
    return f"{path}x" if path.endswith("/") and path != "/" else path


async def test_every_route_refuses_what_a_head_says_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    async with attacked(monkeypatch) as (daemon, routes):
        for path, route in routes.items():
            head = request(
                daemon, target_of(path), method=route.methods[0], accept=ACCEPT, connection="close"
            )
            for lines, status in HEADS:
                if status not in BY_HEAD:
                    continue
                async with open_stream(daemon) as stream:
                    await stream.send_all(
                        head[:-2] + "\r\n".join([*lines, "", ""]).encode() + SMUGGLED
                    )
                    assert (await read_answer(stream)).status == status, (path, lines)
                    assert await read_end(stream) == b"", (path, lines)
            right = await answer_to(daemon, head)
            assert right.status == RIGHT.get(path, 200), (path, right.body)
        assert {*RIGHT} <= {*routes}
        assert {"/metrics", "/"} <= {*routes}


async def test_every_route_keeps_pages_of_others_and_bent_names_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with attacked(monkeypatch) as (daemon, routes):
        for path, route in routes.items():
            for changes, status in CHANGES:
                if "content_type" in changes or (status == 401 and route.token != "required"):
                    continue
                sent = request(daemon, target_of(path), method=route.methods[0], **changes)
                answer = await answer_to(daemon, sent)
                assert answer.status == status, (path, changes)
                assert "access-control-allow-origin" not in answer.headers
            for method in ("PUT", "PATCH", "OPTIONS", "TRACE", "PROPFIND"):
                wrong = await answer_to(daemon, request(daemon, target_of(path), method=method))
                assert (wrong.status, wrong.headers["allow"]) == (405, ", ".join(route.methods))


async def test_a_websocket_begins_with_one_head_of_one_meaning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with attacked(monkeypatch) as (daemon, _):
        head = head_of(handshake(daemon))
        for lines, status in HEADS:
            if status not in BY_HEAD:
                continue
            async with open_stream(daemon) as stream:
                await stream.send_all(head[:-2] + "\r\n".join([*lines, "", ""]).encode() + SMUGGLED)
                assert (await read_answer(stream)).status == status, lines
                assert await read_end(stream) == b"", lines
        for changes, status in CHANGES:
            if "content_type" not in changes:
                sent = head_of(handshake(daemon, **changes))
                assert (await answer_to(daemon, sent)).status == status, changes
        for method in ("POST", "PUT", "OPTIONS", "CONNECT"):
            sent = head_of(handshake(daemon), method=method)
            assert (await answer_to(daemon, sent)).status in {400, 405, 426}, method
        async with open_stream(daemon) as stream:  # nothing stands behind it before it is answered
            await stream.send_all(head + request(daemon, "/v1/models", method="GET"))
            received = await read_end(stream)
        assert re.findall(rb"HTTP/1.1 (\d+)", received) == [b"400"]
        assert (await answer_to(daemon, head)).status == 101


# ── bodies ───────────────────────────────────────────────────────────────────────────────────────

FIELD = {
    "/v1/chat/completions": (b'"messages":', b'"Hello."'),
    "/v1/responses": (b'"input":', b'"Hello."'),
    "/ag-ui/general": (b'"messages":', b'"Hello."'),
    "/mcp": (b'"params":', b'"x"'),
}
"""Of each body, what stands ahead of its main part, and a text in it."""


def bodies_of(target: str) -> dict[str, bytes]:
    """Bodies that mean nothing, made from one that is right."""
    right, (field, text) = TARGETS[target], FIELD[target]
    assert field in right
    assert text in right
    return {
        "nothing": b"",
        "white space": b" \r\n\t",
        "no JSON": b"messages=Hello.",
        "half of it": right[:-1],
        "two of them": right + right,
        "a number": b"7",
        "null": b"null",
        "a text": b'"' + b"x" * 100 + b'"',
        "a mark in front": b"\xef\xbb\xbf" + right,
        "another alphabet": right.decode().encode("utf-16"),
        "a text of no text": right.replace(text, b'"\xff\xfe"'),
        "a text cut in a letter": right.replace(text, b'"\xc3"'),
        "half a pair": right.replace(text, b'"\\ud800"'),
        "a control character": right.replace(text, b'"\x00"'),
        "10,000 levels": right.replace(field, field + b"[" * 10_000 + b"]" * 10_000 + b',"x":'),
        "levels that do not end": right.replace(field, field + b"[" * 10_000),
        "an object in place of a text": right.replace(text, b'{"a":[{}]}'),
        "a large number": right.replace(text, b"1" * 5_000),
        "no number": right.replace(text, b"NaN"),
        "a million texts": right.replace(text, b"[" + b'"",' * 600_000 + b'""]'),
    }


@pytest.mark.parametrize("target", TARGETS)
async def test_a_body_that_means_nothing_is_refused_and_no_fault_is_logged(
    target: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with attacked(monkeypatch) as (daemon, _):
        for name, body in bodies_of(target).items():
            sent = request(daemon, target, body, accept=ACCEPT, connection="close")
            answer = await answer_to(daemon, sent)
            is_refusal = target == "/mcp" and answer.status == 200 and '"error":' in answer.body
            assert answer.status == 400 or is_refusal, (name, answer.status, answer.body[:300])
        assert await daemon.runtime.sessions() == []
    assert [each.message for each in caplog.records if each.levelname == "ERROR"] == []


TOOL_CALLS: dict[str, tuple[bytes, bool]] = {
    "a right one": (b'{"path":"a.txt"}', True),
    "a path above": (b'{"path":"../../etc/passwd"}', False),
    "a whole path": (b'{"path":"/etc/passwd"}', False),
    "a path that ends early": (b'{"path":"a.txt\\u0000.png"}', False),
    "no path": (b"{}", False),
    "a list": (b'{"path":["a.txt"]}', False),
    "more than there is": (b'{"path":"a.txt","root":"/"}', True),
    "a long path": (b'{"path":"' + b"x/" * 100_000 + b'"}', False),
    "a large number": (b'{"path":"a.txt","offset":' + b"9" * 400 + b"}", False),
    "a hundred levels": (b'{"path":' + b"[" * 100 + b"]" * 100 + b"}", False),
    "a text of no text": (b'{"path":"\xff"}', False),
    "half a pair": (b'{"path":"\\ud800"}', False),
}
"""Arguments of `read_file`, and whether the file comes."""


async def test_a_tool_gets_arguments_that_are_right_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.txt").write_text("the file")
    async with attacked(monkeypatch, workspace=str(tmp_path)) as (daemon, _):
        version = "2025-11-25"
        began = request(daemon, "/mcp", TARGETS["/mcp"], accept=ACCEPT, connection="close")
        session = (await answer_to(daemon, began)).headers["mcp-session-id"]
        for name, (arguments, is_right) in TOOL_CALLS.items():
            head = b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"read_file","arguments":'
            sent = request(
                daemon,
                "/mcp",
                head + arguments + b"}}",
                accept=ACCEPT,
                connection="close",
                mcp_session_id=session,
                mcp_protocol_version=version,
            )
            answer = await answer_to(daemon, sent)
            assert ("the file" in answer.body) is is_right, (name, answer.body[:500])
            assert "root:" not in answer.body, name
            if answer.status == 200:
                (data,) = re.findall(r"^data: (\{.*\})", answer.body, re.MULTILINE) or [answer.body]
                said = msgspec.json.decode(data)
                assert is_right or "error" in said or said["result"]["isError"], name
            else:
                assert answer.status == 400, (name, answer.status)
    assert [each.message for each in caplog.records if each.levelname == "ERROR"] == []
