"""A data folder that callboard 0.1.0 wrote opens, and nothing in it is lost.

`data/data-0.1.0.tar.xz` was written by the last commit before the modules were moved into folders
(583cd0e), with a scripted model: a session with two calls, one with a memory and a delegated worker,
one whose question waits for an answer, and one that was deleted.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

import callboard
from callboard.providers.testing.script import reply
from callboard.runtime.events import CallFinished, TurnSuspended
from callboard.runtime.store.lists import SessionFilter

ARCHIVE = Path(__file__).parent / "data" / "data-0.1.0.tar.xz"
EVENTS = 45


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "data"


async def test_every_session_is_there_with_its_messages(data: Path) -> None:
    async with callboard.open_runtime(model="rehearsal", data=data, wake=False) as runtime:
        rows = {row.title: row for row in await runtime.sessions()}
        assert set(rows) == {
            "Waits for an answer",
            "Remembers and delegates",
            "Count the lines of notes.txt.",
            "Writes a file",
        }
        messages = await runtime.store.messages(rows["Writes a file"].session_id)
        assert [message.type for message in messages][:3] == ["user", "assistant", "tool_call"]
        assert messages[0].content.startswith("What time is it in Tokyo?")
        assert messages[-1].content == "It is written."
        [hit] = await runtime.search("tokyo")
        assert hit.session.title == "Writes a file"


async def test_every_event_is_read(data: Path) -> None:
    async with callboard.open_runtime(model="rehearsal", data=data, wake=False) as runtime:
        events = []
        everything = SessionFilter(deleted="also", limit=100)
        for row in (await runtime.store.session_page(everything)).sessions:
            events += await runtime.store.events(row.session_id)
        # The question on record has expired since, which opening the store adds.
        added = [s for s in events if getattr(s.event, "decision", "") == "expired"]
        assert len(events) - len(added) == EVENTS
        results = [stored.event for stored in events if isinstance(stored.event, CallFinished)]
        assert {result.name for result in results} == {
            "write_file",
            "read_file",
            "memory_store",
            "delegate",
        }


async def test_a_question_that_waited_still_waits(data: Path) -> None:
    async with callboard.open_runtime(model="rehearsal", data=data, wake=False) as runtime:
        [row] = await runtime.store.approvals(state=None)
        assert (row.tool, row.arguments) == (
            "write_file",
            '{"content":"asked\\n","path":"asked.txt"}',
        )
        events = await runtime.store.events(row.session_id)
        assert any(isinstance(stored.event, TurnSuspended) for stored in events)


async def test_what_was_remembered_and_what_it_cost_is_there(data: Path) -> None:
    async with callboard.open_runtime(model="rehearsal", data=data, wake=False) as runtime:
        report = await runtime.usage(by="session")
        assert (report.total.calls, report.total.input_tokens) == (8, 80)


async def test_changes_of_files_can_still_be_listed(data: Path) -> None:
    async with callboard.open_runtime(model="rehearsal", data=data, wake=False) as runtime:
        [row] = [row for row in await runtime.sessions() if row.title == "Writes a file"]
        [changed] = await (await runtime.get_session(row.session_id)).changes()
        assert changed.paths == ("now.txt",)


async def test_a_session_goes_on(data: Path, tmp_path: Path) -> None:
    model = callboard.ScriptedModel([reply("Still here.")])
    async with callboard.open_runtime(model=model, data=data, workspace=tmp_path) as runtime:
        [row] = [row for row in await runtime.sessions() if row.title == "Remembers and delegates"]
        session = await runtime.get_session(row.session_id)
        assert await session.run("Are you there?") == "Still here."
    assert len(model.requests[0].rounds) > 4  # those of the record stand before the new one
