"""web_fetch and web_search in whole turns: presets, new hosts, marks, workers, and the key's way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

import callboard
from callboard.config.settings import NetworkSettings, SearchEngine, SearchSettings, Settings
from callboard.providers.testing.script import reply
from callboard.runtime.events import SessionTainted
from support.stage import make_workspace, on_both_stores, open_stage, play, read_result
from support.web.web_server import WebServer, open_web_server, page

KEY = "canary-of-the-engine-0123456789"
PAGE = page("<title>News</title><p>All is well.", content_type="text/html")
HITS = {"results": [{"title": "News", "url": "https://news.example/", "content": "All is well."}]}


def answers() -> dict[str, bytes]:
    return {"/": PAGE, "/search": page(json.dumps(HITS), content_type="application/json")}


def settings(server: WebServer) -> Settings:
    return Settings(
        network=NetworkSettings(
            allow=(f"127.0.0.1:{server.port}",), auto=(f"127.0.0.1:{server.port}",)
        ),
        search=SearchSettings(engine=SearchEngine.TAVILY, base_url=server.url("")),
    )


def call_of(name: str, server: WebServer) -> tuple[str, dict[str, Any]]:
    return (name, {"url": server.url()} if name == "web_fetch" else {"query": "news"})


def script(*calls: tuple[str, dict[str, Any]]) -> list[Any]:
    return [*(reply(calls=[call]) for call in calls), reply("Done.")]


def stored(folder: Path) -> bytes:
    """All that stands in files."""
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


class Person:
    """Says yes, and keeps what was asked."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    async def __call__(self, request: callboard.ApprovalRequest) -> str:
        self.reasons.append(request.reason)
        return "allow"


@on_both_stores
async def test_both_work_in_a_turn_and_taint_their_session(tmp_path: Path, store: str) -> None:
    async with open_web_server(answers()) as server:
        calls = script(call_of("web_fetch", server), call_of("web_search", server))
        async with open_stage(
            tmp_path, calls, store=store, settings=settings(server), environ={"TAVILY_API_KEY": KEY}
        ) as stage:
            played = await play(await stage.runtime.create_session(), "Look.")
            told = msgspec.json.encode(played.events).decode()
        sent = [request.headers.get("authorization") for request in server.requests]
    fetched, searched = [read_result(result)["result"] for result in played.results]
    assert (fetched["title"], fetched["text"]) == ("News", "All is well.")
    assert [hit["url"] for hit in searched["results"]] == ["https://news.example/"]
    tainted = [event for event in played.events if isinstance(event, SessionTainted)]
    assert [event.source for event in tainted] == ["web_fetch"]
    # The key went to the engine alone, and stands nowhere on record.
    assert sent == [None, f"Bearer {KEY}"]
    assert KEY not in told
    assert KEY.encode() not in stored(tmp_path)


@pytest.mark.parametrize(
    ("tool", "policy", "asks"),
    [
        ("web_fetch", "auto", None),
        ("web_fetch", "balanced", None),  # its host is listed
        ("web_search", "auto", None),
        ("web_search", "balanced", None),
        ("web_search", "strict", "strict asks for each new host"),
    ],
)
async def test_the_presets_decide(tmp_path: Path, tool: str, policy: str, asks: str | None) -> None:
    person = Person()
    async with open_web_server(answers()) as server:
        calls = script(call_of(tool, server), call_of(tool, server))
        async with open_stage(
            tmp_path,
            calls,
            settings=settings(server),
            policy=policy,
            on_approval=person,
            environ={"TAVILY_API_KEY": KEY},
        ) as stage:
            played = await play(await stage.runtime.create_session(), "Go.")
    assert played.statuses == [(tool, "success")] * 2
    tainted = [event for event in played.events if isinstance(event, SessionTainted)]
    assert [event.source for event in tainted] == [tool]
    if asks is None:
        assert person.reasons == []
    else:
        # A host is known once it was let through; of a search it is the engine's.
        assert [asks in reason for reason in person.reasons] == [True]
        assert "127.0.0.1 is new to it" in person.reasons[0]


@pytest.mark.parametrize("tool", ["web_fetch", "web_search"])
@pytest.mark.parametrize("reads", [False, True])
async def test_balanced_asks_where_it_could_leave(tmp_path: Path, tool: str, reads: bool) -> None:
    person = Person()
    (make_workspace(tmp_path) / "notes.md").write_text("the code is 1234")
    first = ("read_file", {"path": "notes.md"}) if reads else ("get_current_time", {})
    async with open_web_server(answers()) as server:
        # The page taints it; a search afterwards, or another page, could carry the notes out.
        calls = script(first, call_of("web_fetch", server), call_of(tool, server))
        async with open_stage(
            tmp_path,
            calls,
            settings=settings(server),
            policy="balanced",
            on_approval=person,
            environ={"TAVILY_API_KEY": KEY},
        ) as stage:
            await play(await stage.runtime.create_session(), "Go.")
    exposed = "the session has read untrusted content and private data"
    assert [exposed in reason for reason in person.reasons] == ([True] if reads else [])


async def test_an_exposed_session_is_asked_about_every_search(tmp_path: Path) -> None:
    """Where it is made is known; what was read could leave in the words all the same."""
    person = Person()
    (make_workspace(tmp_path) / "notes.md").write_text("the code is 1234")
    async with open_web_server(answers()) as server:
        search = call_of("web_search", server)
        read = ("read_file", {"path": "notes.md"})
        async with open_stage(
            tmp_path,
            script(search, search, read, search, search),
            settings=settings(server),
            policy="strict",
            on_approval=person,
            environ={"TAVILY_API_KEY": KEY},
        ) as stage:
            await play(await stage.runtime.create_session(), "Go.")
    exposed = "the session has read untrusted content and private data"
    assert [exposed in reason for reason in person.reasons] == [False, True, True]


async def test_a_worker_may_read_the_web_and_its_parent_is_tainted(tmp_path: Path) -> None:
    async with open_web_server(answers()) as server:
        task = {"kind": "worker", "task": "Look."}
        steps = [
            reply(calls=[("delegate", task)]),
            reply(calls=[call_of("web_fetch", server), call_of("web_search", server)]),
            reply("All is well, it says."),
            reply("Done."),
        ]
        async with open_stage(
            tmp_path, steps, settings=settings(server), environ={"TAVILY_API_KEY": KEY}
        ) as stage:
            played = await play(await stage.runtime.create_session(), "Ask somebody.")
    assert "All is well, it says." in str(played.results[0])
    assert [request.target for request in server.requests] == ["/", "/search"]
    assert any(isinstance(event, SessionTainted) for event in played.events)


async def test_without_an_engine_the_model_is_told_how_to_get_one(tmp_path: Path) -> None:
    async with open_stage(tmp_path, script(("web_search", {"query": "news"}))) as stage:
        [result] = (await play(await stage.runtime.create_session(), "Go.")).results
    assert read_result(result)["error_type"] == "execution_error"
    assert "[search] engine" in read_result(result)["message"]
