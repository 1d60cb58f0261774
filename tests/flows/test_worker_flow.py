"""A worker session looks and reports: what changes something is neither offered nor run."""

from __future__ import annotations

from pathlib import Path

import pytest

import callboard
from callboard.providers.testing.script import reply
from callboard.providers.testing.scripted_server import ScriptedRequest
from callboard.runtime.definitions import SessionKind, Tier
from callboard.runtime.events import SessionCreated
from callboard.runtime.messages import CreateSession
from callboard.tools.builtin import builtin_tools
from support.stage import Stage, on_both_stores, open_stage, play, read_result

WRITE = ("write_file", {"path": "a.txt", "content": "changed"})
READ_ONLY = [
    t.definition.name
    for t in builtin_tools()
    if t.definition.tier is Tier.READ_ONLY and not {"channel", "processes"} & {*t.definition.needs}
]


async def create(stage: Stage, kind: SessionKind) -> callboard.Session:
    """A session of this kind; nothing but the directory makes other ones than main yet."""
    created = SessionCreated(agent="general", workspace=str(stage.workspace), kind=kind)
    host = stage.runtime._host
    return callboard.Session(host, await host.directory.ask(CreateSession(created=created)))


def offered(request: ScriptedRequest) -> list[str]:
    return [tool["function"]["name"] for tool in request.body["tools"]]


@on_both_stores
async def test_a_worker_may_only_read(tmp_path: Path, store: str) -> None:
    steps = [reply(calls=[WRITE, ("read_file", {"path": "a.txt"})]), reply("It says: here.")]
    async with open_stage(tmp_path, steps, store=store) as stage:
        (stage.workspace / "a.txt").write_text("here")
        played = await play(await create(stage, SessionKind.WORKER), "Look, and write if you can.")
        assert played.ended.outcome == "answered"
        assert played.statuses == [("read_file", "success"), ("write_file", "error")]
        results = {result.name: read_result(result) for result in played.results}
        assert results["write_file"]["error_type"] == "tool_not_available"
        assert results["read_file"]["result"]["content"] == "here"
        assert [offered(request) for request in stage.server.requests] == [READ_ONLY] * 2
        assert (stage.workspace / "a.txt").read_text() == "here"


@pytest.mark.parametrize("kind", [SessionKind.MAIN, SessionKind.BRANCH])
async def test_other_sessions_may_do_everything(tmp_path: Path, kind: SessionKind) -> None:
    async with open_stage(tmp_path, [reply(calls=[WRITE]), reply("Done.")]) as stage:
        played = await play(await create(stage, kind), "Write.")
        assert played.statuses == [("write_file", "success")]
        everything = [tool.definition.name for tool in builtin_tools()]
        assert [offered(request) for request in stage.server.requests] == [everything] * 2
        assert (stage.workspace / "a.txt").read_text() == "changed"
