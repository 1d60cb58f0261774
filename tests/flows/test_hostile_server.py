"""A server that floods, drips, breaks anywhere or stalls harms one turn, and nothing that follows."""

from __future__ import annotations

import gzip
import os
import random
import tracemalloc
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

import callboard
from callboard.actors.model import answer as answers
from callboard.config.settings import Limits, ProviderSettings, Settings
from callboard.providers import answer_body
from callboard.providers.testing import chat_wire as scripted_wire
from callboard.providers.testing.script import reply
from callboard.providers.testing.scripted_server import open_scripted_server
from callboard.runtime.events import CallFinished
from support.stage import Played, check_records, make_workspace, open_in, play
from support.tools.workbench import wait_until
from support.web.raw_server import HEAD, Answer, RawServer, Wire, open_raw_server

MIB = 1024 * 1024
BOMB_BYTES = 16 * MIB
SOAK = bool(os.environ.get("CALLBOARD_SOAK"))
LINE = b'data: {"choices":[{"delta":{"content":"%b"}}]}\n\n' % (b"x" * 1000)
TWO_CALLS = reply(
    "So.",
    calls=[
        ("write_file", {"path": "a.txt", "content": "x"}),
        ("write_file", {"path": "b.txt", "content": "y"}),
    ],
    usage=None,
)


class Scene:
    """A runtime between a hostile server and a good one."""

    def __init__(self, runtime: callboard.Runtime, server: RawServer, workspace: Path) -> None:
        self.runtime = runtime
        self.server = server
        self.workspace = workspace

    async def suffer(self) -> Played:
        """A turn on the hostile server; when it is over, nothing of it is left."""
        session = await self.runtime.create_session(model="hostile/m")
        played = await play(session, "Go.")
        await self.server.wait_idle()
        # The turn may end before its connection is closed.
        await wait_until(lambda: self.runtime._host.http.statistics().active == 0)
        return played

    async def check_good(self) -> None:
        """A turn on the good server works."""
        assert await (await self.runtime.create_session()).run("Go.") == "Here I am."
        assert self.runtime._host.http.statistics().active == 0


@asynccontextmanager
async def open_scene(
    folder: Path, *hostile: Answer, limits: Limits | None = None
) -> AsyncGenerator[Scene]:
    """A scene for so many hostile turns; at its end the good server is asked, and records read."""
    async with (
        open_raw_server(*hostile) as server,
        open_scripted_server([reply("Here I am.")]) as good,
    ):
        urls = {"hostile": server.base_url, "good": good.base_url}
        providers = {name: ProviderSettings(name=name, base_url=url) for name, url in urls.items()}
        settings = Settings(providers=providers, limits=limits or Limits(model_retries=0))
        workspace = make_workspace(folder)
        async with open_in(folder, "good/m", settings=settings) as runtime:
            scene = Scene(runtime, server, workspace)
            yield scene  # ruff: ignore[fallible-context-manager] a flow that failed needs no more
            await scene.check_good()
            await check_records(runtime)
        good.assert_complete()


def chunked(data: bytes, extension: bytes = b"") -> bytes:
    return b"%x%b\r\n%b\r\n" % (len(data), extension, data)


def check_failed(played: Played) -> str:
    """One clear line; nothing ran."""
    assert (played.ended.outcome, played.results) == ("failed", [])
    assert 10 < len(played.ended.message) < 800
    assert played.ended.message.isprintable()
    return played.ended.message


# ── floods ───────────────────────────────────────────────────────────────────────────────────────


def flood(head: bytes, piece: bytes, most: int = 256 * MIB) -> Answer:
    """The head, and then the piece again and again; far too much, unless somebody stops it."""

    async def answer(wire: Wire) -> None:
        await wire.send(head)
        many = piece * (65_536 // len(piece) + 1)
        for _ in range(most // len(many)):
            await wire.send(many)
        raise AssertionError("nobody stopped the flood")

    return answer


EVENTS = chunked(LINE)
GZIP = HEAD % b"content-encoding: gzip\r\n"
FLOODS: dict[str, tuple[bytes, bytes, str]] = {
    "text": (HEAD % b"", EVENTS, "longer than"),
    "calls": (
        HEAD % b"",
        chunked(b'data: {"choices":[{"delta":{"tool_calls":[{"id":"","function":{"name":"f",'
                b'"arguments":"{}"}}]}}]}\n\n'),
        "tools in one answer",
    ),
    "comments": (HEAD % b"", chunked(b": ping\n\n" * 100), "more than any answer"),
    "other answers": (
        HEAD % b"",
        chunked(b'data: {"choices":[{"index":1,"delta":{"content":"x"}}]}\n\n'),
        "more than any answer",
    ),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"x: y\r\n", "does not speak HTTP"),
    "one header": (b"HTTP/1.1 200 OK\r\nx: ", b"y", "does not speak HTTP"),
    "a chunk extension": (HEAD % b"" + b"5;", b"x", "does not speak HTTP"),
    "a chunk size": (HEAD % b"", b"1", "does not speak HTTP"),
    "trailers": (HEAD % b"" + b"0\r\n", b"x: y\r\n", "does not speak HTTP"),
    "no HTTP": (b"", b"\x00\xff", "does not speak HTTP"),
    "an error body": (b"HTTP/1.1 500 No\r\ncontent-length: 104857600\r\n\r\n", b"no! ", "no! no!"),
    "a web page": (b"HTTP/1.1 200 OK\r\n\r\n", b"<p>", "more than any answer"),
}  # fmt: skip


@pytest.mark.parametrize("kind", FLOODS)
async def test_a_flood_is_stopped_and_its_socket_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(answers, "MAX_ANSWER_CHARS", MIB // 2)
    monkeypatch.setattr(answer_body, "MAX_ANSWER_BYTES", MIB)
    head, piece, words = FLOODS[kind]
    async with open_scene(tmp_path, flood(head, piece)) as scene:
        tracemalloc.start()
        try:
            played = await scene.suffer()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert words in check_failed(played)
        # What was sent beyond the bound was under way in buffers of the system.
        assert scene.server.sent_bytes < 24 * MIB
        assert peak < 24 * MIB


async def test_long_extensions_of_many_chunks_are_only_skipped(tmp_path: Path) -> None:
    events = scripted_wire.reply_events(reply("Fine."), 1)

    async def answer(wire: Wire) -> None:
        await wire.send(HEAD % b"")
        for event in events:
            await wire.send(chunked(event, b";" + b"x" * 10_000))
        await wire.send(b"0\r\n\r\n")

    async with open_scene(tmp_path, answer) as scene:
        assert (await scene.suffer()).text == "Fine."


@pytest.mark.parametrize(
    ("inside", "words"),
    [
        (b": ping\n\n" * 9, "more than any answer"),
        (LINE, "longer than"),
        (b"\x00" * 64, "more than any answer"),
    ],
    ids=["comments", "text", "zeros"],
)
async def test_a_small_answer_does_not_become_a_large_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inside: bytes, words: str
) -> None:
    monkeypatch.setattr(answers, "MAX_ANSWER_CHARS", MIB // 2)
    monkeypatch.setattr(answer_body, "MAX_ANSWER_BYTES", MIB)
    bomb = gzip.compress(inside * (BOMB_BYTES // len(inside)), 1)

    async def answer(wire: Wire) -> None:
        await wire.send(GZIP + chunked(bomb))

    async with open_scene(tmp_path, answer) as scene:
        tracemalloc.start()
        try:
            assert words in check_failed(await scene.suffer())
            assert tracemalloc.get_traced_memory()[1] < BOMB_BYTES
        finally:
            tracemalloc.stop()


# ── drips ────────────────────────────────────────────────────────────────────────────────────────


def whole(compressed: bool = False) -> bytes:
    """The bytes of an answer with two calls; one that nothing may follow."""
    body = b"".join(scripted_wire.reply_events(TWO_CALLS, 1))
    head = GZIP if compressed else HEAD % b""
    return head + chunked(gzip.compress(body) if compressed else body) + b"0\r\n\r\n"


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gzip"])
async def test_an_answer_that_drips_byte_by_byte_is_whole(tmp_path: Path, compressed: bool) -> None:
    async def drip(wire: Wire) -> None:
        head, end, body = whole(compressed).partition(b"\r\n\r\n")
        # Else the next request may be on this connection in the moment in which it is closed.
        for byte in head + b"\r\nconnection: close" + end + body:
            await wire.send(bytes([byte]))
            await trio.lowlevel.checkpoint()

    async def done(wire: Wire) -> None:
        body = b"".join(scripted_wire.reply_events(reply("Done."), 2))
        await wire.send(HEAD % b"" + chunked(body) + b"0\r\n\r\n")

    async with open_scene(tmp_path, drip, done) as scene:
        played = await scene.suffer()
        assert played.ended.outcome == "answered"
        assert played.statuses == [("write_file", "success")] * 2
        assert sorted(path.name for path in scene.workspace.iterdir()) == ["a.txt", "b.txt"]


# ── breaks ───────────────────────────────────────────────────────────────────────────────────────


def places(data: bytes) -> list[int]:
    """Where to break: everywhere in a soak, else at some places and at all near the end."""
    if SOAK:
        return list(range(len(data)))
    return sorted(
        {*random.Random(7).sample(range(len(data)), 30), *range(len(data) - 8, len(data))}
    )


async def test_an_answer_that_breaks_at_any_byte_runs_whole_or_not_at_all(tmp_path: Path) -> None:
    """Whole from the terminal event's last byte on, as the record then shows."""
    data = whole()
    end = data.index(b'"finish_reason":"tool_calls"')

    left: list[int] = []

    async def broken(wire: Wire) -> None:
        """The turn's first request gets its piece; the one with the results gets nothing."""
        await wire.send(data[: left.pop() if left else 0])

    ran = 0
    async with open_scene(tmp_path, *[broken] * (2 * len(data))) as scene:
        for size in places(data):
            left.append(size)
            played = await scene.suffer()
            assert played.ended.outcome == "failed"
            results = [event for event in played.events if isinstance(event, CallFinished)]
            assert len(results) in ((0,) if size < end else (0, 2))
            ran += bool(results)
            files = list(scene.workspace.iterdir())
            assert len(files) == len(results)
            for path in files:
                path.unlink()
        assert ran > 0


# ── stalls ───────────────────────────────────────────────────────────────────────────────────────

PHASES: dict[str, tuple[bytes, str]] = {
    "before the head": (b"", "said nothing"),
    "in the status line": (b"HTTP/1.1 2", "said nothing"),
    "in the head": (b"HTTP/1.1 200 OK\r\ncontent-ty", "said nothing"),
    "behind the head": (HEAD % b"", "said nothing"),
    "behind a promise": (b"HTTP/1.1 103 Early Hints\r\n\r\n", "said nothing"),
    "in a chunk's size": (HEAD % b"" + b"4", "said nothing"),
    "in the first event": (HEAD % b"" + b"400\r\n" + LINE[:30], "fell silent"),
    "behind an event": (HEAD % b"" + EVENTS, "fell silent"),
    "in a call": (whole()[: whole().index(b"b.txt")], "fell silent"),
    "in an error": (b"HTTP/1.1 500 No\r\ncontent-length: 50\r\n\r\n{", "said nothing"),
}


async def test_a_stall_in_any_phase_has_its_deadline(tmp_path: Path) -> None:
    """All of them at once, since each takes its time."""

    def stall(data: bytes) -> Answer:
        async def answer(wire: Wire) -> None:
            await wire.send(data)
            await wire.wait_gone()

        return answer

    limits = Limits(first_byte_seconds=2, idle_seconds=2, model_retries=0)
    stalls = [stall(data) for data, _ in PHASES.values()]
    messages: list[str] = []
    async with open_scene(tmp_path, *stalls, limits=limits) as scene:

        async def suffer() -> None:
            played = await scene.suffer()
            messages.append(check_failed(played))
            assert played.ended.error_type == "timeout"

        async with trio.open_nursery() as nursery:
            for _ in PHASES:
                nursery.start_soon(suffer)
        for words in {words for _, words in PHASES.values()}:
            expected = sum(words == each for _, each in PHASES.values())
            assert sum(words in message for message in messages) == expected
