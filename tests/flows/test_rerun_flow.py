"""The last turn once more: retried when it was not answered, or answered anew."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import trio

import callboard
from callboard.embedding.runtime import host_of
from callboard.providers.testing.script import Step, fail, reply, stall
from callboard.runtime.errors import ConflictError, NotFoundError
from callboard.runtime.events import (
    InputAccepted,
    MessageCompleted,
    TurnEnded,
    TurnSetAside,
    TurnStarted,
)
from callboard.runtime.history import Attachment
from callboard.runtime.store.rows import Append
from callboard.runtime.store.sqlite_store import open_disk_store
from support.stage import Messages, on_both_stores, open_stage, play, play_in, run_in, text_of


def said(messages: Messages) -> list[tuple[str, object]]:
    """Who said what, behind the prompt of the agent."""
    return [(message["role"], message["content"]) for message in messages[1:]]


async def played(turn: callboard.Turn) -> list[callboard.TurnEvent]:
    async with turn:
        return [event async for event in turn]


@on_both_stores
async def test_a_retried_turn_says_the_request_once(tmp_path: Path, store: str) -> None:
    steps: list[Step] = [reply("One."), fail("It broke."), reply("Two.")]
    async with open_stage(tmp_path, steps, store=store) as stage:
        session, _ = await play_in(stage.runtime, "Say one.")
        failed = await play(session, "Say two.")
        assert failed.ended.outcome == "failed"
        events = await played(session.retry())
        aside, started, *_, ended = events
        assert isinstance(aside, TurnSetAside)
        assert (aside.turn_id, aside.why) == (failed.ended.turn_id, "retry")
        assert isinstance(started, TurnStarted)
        assert started.input_ids == aside.input_ids
        assert isinstance(ended, TurnEnded)
        assert (ended.outcome, ended.turn_id) == ("answered", started.turn_id)
        wanted = [("user", "Say one."), ("assistant", "One."), ("user", "Say two.")]
        assert said(stage.sent[1]) == said(stage.sent[2]) == wanted
        record = [each.event for each in await stage.record(session)]
        assert sum(isinstance(event, InputAccepted) for event in record) == 2


@on_both_stores
async def test_a_regenerated_answer_replaces_the_old_one(tmp_path: Path, store: str) -> None:
    call = ("write_file", {"path": "a.txt", "content": "a"})
    steps = [reply(calls=[call]), reply("Old."), reply("New."), reply("Fine.")]
    async with open_stage(tmp_path, steps, store=store) as stage:
        session, old = await play_in(stage.runtime, "Go.")
        async with session.regenerate() as turn:
            assert await turn.answer() == "New."
        assert await session.run("And now?") == "Fine."
        assert said(stage.sent[2]) == [("user", "Go.")]
        assert said(stage.sent[3]) == [("user", "Go."), ("assistant", "New."), ("user", "And now?")]
        assert (stage.workspace / "a.txt").exists()  # what tools did stays done
        [change] = await session.changes()
        assert change.call_id == old.results[0].call_id
        rows = await stage.runtime.store.messages(session.session_id)
        assert [(row.type, row.is_set_aside) for row in rows] == [
            ("user", False),
            ("assistant", True),
            ("tool_call", True),
            ("tool_result", True),
            ("assistant", True),
            ("assistant", False),
            ("user", False),
            ("assistant", False),
        ]
        record = [each.event for each in await stage.record(session)]
        kept = [text_of(event) for event in record if isinstance(event, MessageCompleted)]
        assert kept == ["", "Old.", "New.", "Fine."]
        usage = await session.usage()
        assert usage.total.calls == 4


async def test_a_cancelled_turn_is_retried_with_attachments_and_budget(tmp_path: Path) -> None:
    note = Attachment("text/plain", b"The number is 7.", name="note.txt")
    budget = callboard.Budget(tool_calls=1)
    call: tuple[str, dict[str, str]] = ("get_current_time", {})
    steps: list[Step] = [stall(), reply(calls=[call]), reply(calls=[call])]
    async with open_stage(tmp_path, steps, complete=False) as stage:
        session = await stage.runtime.create_session()
        turn = session.prompt("Which number?", [note], budget=budget)
        async with turn:
            # ruff: ignore[async-busy-wait] a server tells nobody what it got
            while not stage.server.requests:  # noqa: ASYNC110
                await trio.sleep(0.001)
            await turn.cancel()
        events = await played(session.retry())
        assert [e.outcome for e in events if isinstance(e, TurnEnded)] == ["budget"]
        assert stage.sent[0][1] == stage.sent[1][1]
        assert "The number is 7." in str(stage.sent[1])


async def test_a_turn_is_run_again_as_often_as_one_likes(tmp_path: Path) -> None:
    texts = ["A", "B", "C", "D"]
    async with open_stage(tmp_path, [reply(text) for text in texts]) as stage:
        session = await stage.runtime.create_session()
        assert await session.run("Letter?") == "A"
        for text in texts[1:]:
            async with session.regenerate() as turn:
                assert await turn.answer() == text
        assert all(said(messages) == [("user", "Letter?")] for messages in stage.sent)
        rows = await stage.runtime.store.messages(session.session_id)
        assert [row.content for row in rows if not row.is_set_aside] == ["Letter?", "D"]


async def test_what_was_told_meanwhile_is_part_of_the_turn_run_again(tmp_path: Path) -> None:
    go_on = trio.Event()

    @callboard.tool(tier="read_only")
    async def wait() -> str:
        """Waits."""
        await go_on.wait()
        return "waited"

    steps = [reply(calls=[("wait", {})]), reply("Old."), reply("New.")]
    async with open_stage(tmp_path, steps, tools=[wait]) as stage:
        session = await stage.runtime.create_session()
        async with session.prompt("Go.") as turn:
            async for event in turn:
                if isinstance(event, callboard.CallProposed):
                    await session.submit("In French.", mode="steer")
                    go_on.set()
        async with session.regenerate() as turn:
            assert await turn.answer() == "New."
        assert "In French." in str(stage.sent[1])
        assert said(stage.sent[2]) == [("user", "Go.\n\nIn French.")]


async def test_what_the_last_turn_is_not_can_not_be_run_again(tmp_path: Path) -> None:
    async with open_stage(tmp_path, [reply("One."), fail("It broke."), reply("Two.")]) as stage:
        session = await stage.runtime.create_session()
        for turn in (session.retry(), session.regenerate()):
            with pytest.raises(ConflictError, match="no turn has ended") as refused:
                await played(turn)
            assert refused.value.kind == "state"
        await play(session, "Say one.")
        with pytest.raises(ConflictError, match="nothing to retry") as refused:
            await played(session.retry())
        assert refused.value.kind == "state"
        rows = await stage.runtime.store.messages(session.session_id)
        await play(session, "Say two.")
        with pytest.raises(ConflictError, match="nothing to regenerate"):
            await played(session.regenerate())
        for row in rows:  # of the turn before
            with pytest.raises(NotFoundError, match="no message of the last turn"):
                await played(session.retry(row.message_id))
        other = await stage.runtime.create_session()
        with pytest.raises(NotFoundError):
            await played(other.retry(rows[0].message_id))
        record = await stage.record(session)
        assert not any(isinstance(each.event, TurnSetAside) for each in record)
        error = (await stage.runtime.store.messages(session.session_id))[-1]
        assert error.type == "error"
        async with session.retry(error.message_id) as turn:  # the control
            assert await turn.answer() == "Two."


async def test_while_a_turn_runs_none_is_run_again(tmp_path: Path) -> None:
    async with open_stage(tmp_path, [reply("One."), stall(), reply("Two.")]) as stage:
        session, _ = await play_in(stage.runtime, "Say one.")
        async with session.prompt("Say two.") as turn:
            with pytest.raises(ConflictError, match="runs or waits"):
                await played(session.regenerate())
            await turn.cancel()
        async with session.retry() as again:  # the control
            assert await again.answer() == "Two."


async def test_what_is_run_again_is_the_same_after_a_restart(tmp_path: Path) -> None:
    """Loading a session folds the same history: its next request is what it would have been."""
    steps = [reply("One."), reply("Old."), reply("New."), reply("Third.")]
    async with open_stage(tmp_path, steps[:3], store="disk") as stage:
        session = await run_in(stage.runtime, "Say one.")
        await session.run("Say two.")
        async with session.regenerate() as turn:
            assert await turn.answer() == "New."
    async with open_stage(tmp_path, [reply("Newer."), steps[3]], store="disk") as stage:
        session = await stage.runtime.get_session(session.session_id)
        async with session.regenerate() as turn:
            assert await turn.answer() == "Newer."
        await session.run("Say three.")
        assert said(stage.sent[1]) == [
            ("user", "Say one."),
            ("assistant", "One."),
            ("user", "Say two."),
            ("assistant", "Newer."),
            ("user", "Say three."),
        ]


async def test_a_turn_that_was_killed_when_it_was_run_again_is_retried(tmp_path: Path) -> None:
    async with open_stage(tmp_path, [reply("Old.")], store="disk") as stage:
        session = await run_in(stage.runtime, "Go.")
        record = [each.event for each in await stage.record(session)]
    [old] = [event for event in record if isinstance(event, TurnStarted)]
    store = await open_disk_store(tmp_path / "data")
    aside = TurnSetAside(turn_id=old.turn_id, input_ids=old.input_ids, why="regenerate")
    begun = msgspec.structs.replace(old, turn_id="turn_2")
    assert isinstance((await store.commit([Append(session.session_id, (aside, begun))]))[0], tuple)
    await store.aclose()
    async with open_stage(tmp_path, [reply("New.")], store="disk") as stage:
        session = await stage.runtime.get_session(session.session_id)
        async with session.retry() as turn:
            assert await turn.answer() == "New."
        assert said(stage.sent[0]) == [("user", "Go.")]
        assert await stage.runtime.store.open_inputs(session.session_id) == []


async def test_a_session_whose_turn_was_run_again_is_exported_and_imported(tmp_path: Path) -> None:
    async with open_stage(tmp_path, [reply("Old."), reply("New."), reply("Third.")]) as stage:
        session = await run_in(stage.runtime, "Go.")
        async with session.regenerate() as turn:
            await turn.answer()
        keeping = host_of(stage.runtime).keeping
        lines = await keeping.export(session.session_id)
        copy = await keeping.import_lines(lines, str(stage.workspace))
        imported = await stage.runtime.get_session(copy)
        await imported.run("And?")
        assert said(stage.sent[2]) == [("user", "Go."), ("assistant", "New."), ("user", "And?")]
        rows = await stage.runtime.store.messages(copy)
        assert [row.is_set_aside for row in rows] == [False, True, False, False, False]
