"""A key that comes back, in a refusal, an exception, a file or the environment, is kept nowhere."""

from __future__ import annotations

import base64
import logging
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import callboard
from callboard.providers.testing.script import reply, status
from callboard.providers.testing.scripted_server import ServerStep, open_scripted_server
from support.stage import make_workspace, open_in, play

KEY = "canary/7f3a9c51+d2e84b06=="
SPELLINGS = (KEY, quote(KEY, safe=""), base64.b64encode(KEY.encode()).decode())


@callboard.tool(tier="read_only")
async def crash() -> str:
    """Fails with the key in a URL and over several lines."""
    raise RuntimeError(f"GET https://models.test/v1?key={quote(KEY, safe='')} failed\r\nwith {KEY}")


@callboard.tool(tier="read_only")
async def show_environment() -> str:
    """Says what the process was started with."""
    return f"KEY={os.environ['TEST_OF_SECRETS']} and {SPELLINGS[2]}; the rest is plain"


async def run_turn(
    tmp_path: Path, steps: list[ServerStep]
) -> tuple[str, str, list[dict[str, str]], str]:
    """What was printed of the turn's events, what was sent, the heads, and what is on disk."""
    work = make_workspace(tmp_path)
    (work / ".env").write_text(f"API_KEY={KEY}\nPLAIN=fine\n")
    async with open_scripted_server(steps) as server:
        options: dict[str, Any] = {"base_url": server.base_url, "policy": "auto"}
        options["tools"], environ = [crash, show_environment], {"CALLBOARD_API_KEY": KEY}
        async with open_in(tmp_path, "m", "disk", environ=environ, **options) as runtime:
            played = await play(await runtime.create_session(), "Go.")
        sent = str([request.body for request in server.requests])
        heads = [dict(request.headers) for request in server.requests]
    disk = b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
    return str(played.events), sent, heads, disk.decode("latin-1")


def assert_masked(*places: str) -> None:
    for place in places:
        for spelling in SPELLINGS:
            assert spelling not in place


async def test_case_64_a_key_that_a_provider_or_an_exception_repeats_is_kept_nowhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    said = f"bad key {KEY}, also as {SPELLINGS[1]} or {SPELLINGS[2]}\r\nSet-Cookie: k={KEY}"
    steps: list[ServerStep] = [
        reply(calls=[("crash", {})]),
        status(401, {"error": {"message": said + "x" * 20_000}}, x_key=KEY),
    ]
    events, sent, heads, disk = await run_turn(tmp_path, steps)
    assert all(KEY in head["authorization"] for head in heads)  # the control: it was used
    assert "bad key ***" in events
    assert "bad key ***" in disk
    assert "the tool crash crashed" in caplog.text
    assert_masked(events, sent, disk, caplog.text)
    assert all("\n" not in record.getMessage() for record in caplog.records)


async def test_case_65_a_key_that_a_tool_prints_is_masked_before_it_is_stored_or_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_OF_SECRETS", KEY)
    calls = [
        ("read_file", {"path": ".env"}),
        ("search_files", {"pattern": "API_KEY"}),
        ("show_environment", {}),
    ]
    events, sent, heads, disk = await run_turn(tmp_path, [reply(calls=calls), reply("Done.")])
    assert all(KEY in head["authorization"] for head in heads)
    for place in (events, sent, disk):
        assert "API_KEY=***" in place
        assert "PLAIN=fine" in place
        assert "the rest is plain" in place
    assert_masked(events, sent, disk)
