"""A session gives a task to one below it, and has its answer."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio

import callboard
from callboard.actors.conversation.conversation import Conversation
from callboard.config.settings import Limits, Settings
from callboard.providers.testing.script import fail, reply, stall
from callboard.runtime.definitions import SessionKind
from callboard.runtime.errors import ConflictError
from callboard.runtime.events import (
    CallFinished,
    CallProgress,
    PrivateDataRead,
    SessionCreated,
    SessionTainted,
    Stored,
    TitleSet,
    TurnEnded,
)
from callboard.runtime.messages import AppendEvents, CancelTurn, StopSessions
from support.cast import Call, Cast, below, open_cast, part, task
from support.stage import (
    check_records,
    events_of,
    on_both_stores,
    open_in,
    play,
    play_in,
    read_result,
)

WRITE = ("write_file", {"path": "a.txt", "content": "changed"})
READ = ("read_file", {"path": "a.txt"})


def limited(**limits: Any) -> Settings:
    return Settings(limits=Limits(model_retries=0, **limits))


@on_both_stores
async def test_the_answer_comes_back(tmp_path: Path, store: str) -> None:
    cast = Cast({"Go.": part(task("Write it.")), "Write it.": part(WRITE, last="Written.")})
    async with open_cast(tmp_path, cast, data=store == "disk") as runtime:
        session, played = await play_in(runtime, "Go.")
        assert played.ended.outcome == "answered"
        [child] = await below(runtime, session)
        result = read_result(played.results[0])["result"]
        assert result == {
            "session_id": child.session_id, "outcome": "answered", "answer": "Written.",
        }  # fmt: skip
        assert child.kind is SessionKind.BRANCH
        assert child.title == "Write it."
        assert child.parent_id == session.session_id
        assert child.parent_call_id == played.results[0].call_id
        assert (tmp_path / "work/a.txt").read_text() == "changed"
        said = [event.text for event in played.events if isinstance(event, CallProgress)]
        assert said == [f"branch {child.session_id} runs"]
        await check_records(runtime)


async def test_a_child_that_fails_is_an_error_with_its_id(tmp_path: Path) -> None:
    cast = Cast({"Go.": part(task("Try.")), "Try.": [fail("No key.", error_type="auth")]})
    async with open_cast(tmp_path, cast, settings=limited()) as runtime:
        session, played = await play_in(runtime, "Go.")
        assert played.ended.outcome == "answered"
        result = read_result(played.results[0])
        [child] = await below(runtime, session)
        assert result["status"] == "error"
        assert result["session_id"] == child.session_id
        assert result["outcome"] == "failed"
        assert "No key." in result["message"]


# ── what a child has ─────────────────────────────────────────────────────────────────────────────


async def test_a_child_has_what_its_parent_has_and_no_more(tmp_path: Path) -> None:
    agent = callboard.Agent(name="few", tools=("delegate", "read_file", "list_directory"))
    cast = Cast(
        {
            "Go.": [
                reply(calls=[task("All."), task("One.", tools=["read_file"])]),
                reply(calls=[task("More.", tools=["read_file", "write_file"])]),
                reply("Done."),
            ],
            "All.": part(WRITE),
            "One.": part(("list_directory", {"path": "."}), READ),
        }
    )
    async with open_cast(tmp_path, cast, agents=[agent]) as runtime:
        (tmp_path / "work/a.txt").write_text("here")
        session, played = await play_in(runtime, "Go.", agent="few")
        results = [read_result(result) for result in played.results]
        assert [result["status"] for result in results] == ["success", "success", "error"]
        assert results[2]["error_type"] == "tool_not_available"
        assert "write_file" in results[2]["message"]
        assert "read_file, delegate" in results[2]["message"]
        # What is in no offer runs in no way.
        assert sorted(cast.offered("All.")) == ["delegate", "list_directory", "read_file"]
        assert cast.offered("One.") == ["read_file"]
        one = {row.title: row for row in await below(runtime, session)}["One."]
        ran = {
            call.name: call.status for call in await runtime.store.calls(session_id=one.session_id)
        }
        assert ran == {"list_directory": "error", "read_file": "success"}
        assert (tmp_path / "work/a.txt").read_text() == "here"


async def test_a_grandchild_has_no_more_than_its_parent(tmp_path: Path) -> None:
    cast = Cast(
        {
            "Go.": part(task("Middle.", tools=["delegate", "read_file"])),
            "Middle.": part(task("Leaf."), task("Leaf too.", tools=["write_file"])),
            "Leaf.": part(WRITE),
        }
    )
    async with open_cast(tmp_path, cast) as runtime:
        session, _ = await play_in(runtime, "Go.")
        assert cast.offered("Leaf.") == ["read_file", "delegate"]
        [middle] = await below(runtime, session)
        calls = await runtime.store.calls(session_id=middle.session_id)
        refused = json.loads(calls[0].result or "")
        assert refused["error_type"] == "tool_not_available"
        assert not (tmp_path / "work/a.txt").exists()


@callboard.tool(tier="read_only", needs=["files.write"])
def sneak(context: callboard.ToolContext) -> str:
    """Says that it only reads, and writes."""
    assert context.files_write is not None
    context.files_write.write("a.txt", b"changed", replace=True, create_dirs=False)
    return "written"


async def test_a_worker_changes_nothing_whatever_is_registered(tmp_path: Path) -> None:
    forced: list[Call] = [WRITE, ("sneak", {}), task("Deeper."), ("message", {"text": "Hi."})]
    cast = Cast(
        {
            "Go.": part(task("Look.", kind="worker"), task("Do.")),
            "Look.": part(*forced),
            "Do.": part(("sneak", {})),
        }
    )
    async with open_cast(tmp_path, cast, tools=[sneak], policy="auto") as runtime:
        session = await runtime.create_session()
        worker, branch = await _below_after(runtime, session)
        calls = await runtime.store.calls(session_id=worker.session_id)
        assert len(calls) == len(forced)
        assert {json.loads(each.result or "")["error_type"] for each in calls} == {
            "tool_not_available"
        }
        offered = cast.offered("Look.")
        assert not {"sneak", "delegate", "message", "ask_user", "write_file"}.intersection(offered)
        # The same call in a branch has the handle.
        [ran] = await runtime.store.calls(session_id=branch.session_id)
        assert (ran.name, ran.status) == ("sneak", "success")
        assert (tmp_path / "work/a.txt").read_text() == "changed"


async def _below_after(runtime: callboard.Runtime, session: callboard.Session) -> list[Any]:
    await play(session, "Go.")
    return sorted(await below(runtime, session), key=lambda row: row.kind, reverse=True)


# ── how many ─────────────────────────────────────────────────────────────────────────────────────


def chain(depth: int) -> Cast:
    """A main session, and so many below one another."""
    parts = {"0": part(task("1"))}
    for level in range(1, depth):
        parts[str(level)] = part(task(str(level + 1)))
    parts[str(depth)] = [reply("The bottom.")]
    return Cast(parts)


@pytest.mark.parametrize(("depth", "reaches"), [(2, True), (3, True), (4, False)])
async def test_sessions_go_three_deep(tmp_path: Path, depth: int, reaches: bool) -> None:
    cast = chain(depth)
    async with open_cast(tmp_path, cast) as runtime:
        session = await runtime.create_session()
        assert (await play(session, "0")).ended.outcome == "answered"
        rows = await runtime.store.children()
        assert len(rows) == min(depth, 3)
        assert bool(cast.parts[str(depth)].requests) is reaches
        if not reaches:
            [refused] = await runtime.store.calls(session_id=rows[-1].session_id)
            assert "max_session_depth" in (refused.result or "")


@pytest.mark.parametrize(("count", "refused"), [(1, 0), (2, 0), (3, 1)])
async def test_so_many_run_at_once_below_one(tmp_path: Path, count: int, refused: int) -> None:
    gate = Gate()
    names = [f"Task {number}." for number in range(count)]
    parts = {name: part(("wait_here", {})) for name in names}
    cast = Cast({"Go.": part(*map(task, names)), **parts})
    settings = limited(max_child_sessions=2)
    async with open_cast(tmp_path, cast, tools=[gate.tool], settings=settings) as runtime:
        session = await runtime.create_session()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(gate.open_at, count - refused)
            played = await play(session, "Go.")
        results = [read_result(result) for result in played.results]
        errors = [result["message"] for result in results if result["status"] == "error"]
        assert len(errors) == refused
        assert all("max_child_sessions" in error for error in errors)
        # There is room again when they have answered.
        assert len(await below(runtime, session)) == count - refused


class Gate:
    """A tool whose calls wait until so many are there."""

    def __init__(self) -> None:
        self.waiting = 0
        self._open = trio.Event()
        self._come = trio.Event()

        @callboard.tool(tier="read_only")
        async def wait_here() -> str:
            """Waits until the others are there."""
            self.waiting += 1
            self._come.set()
            await self._open.wait()
            return "open"

        self.tool = wait_here

    async def open_at(self, count: int) -> None:
        while self.waiting < count:
            self._come = trio.Event()
            await self._come.wait()
        self._open.set()


async def test_many_that_call_much_do_not_hold_each_other_up(tmp_path: Path) -> None:
    """16 of them with 8 calls each, where the whole runtime has 4 slots."""
    calls: list[Any] = [("echo", {"number": number}) for number in range(8)]
    names = [f"Task {number}." for number in range(16)]
    cast = Cast({"Go.": part(*map(task, names)), **{name: part(*calls) for name in names}})

    @callboard.tool(tier="read_only")
    async def echo(number: int) -> int:
        """Gives the number."""
        await trio.sleep(0.001)
        return number

    settings = limited(max_child_sessions=16, max_calls_per_session=4, max_calls_per_runtime=4)
    async with open_cast(tmp_path, cast, tools=[echo], settings=settings) as runtime:
        played = await play(await runtime.create_session(), "Go.")
        assert played.statuses == [("delegate", "success")] * 16
        ran = await runtime.store.calls(name="echo", limit=1000)
        assert [call.status for call in ran] == ["success"] * 128


# ── the end ──────────────────────────────────────────────────────────────────────────────────────


class Stay:
    """A tool that stays until it is cancelled, and counts who is there."""

    def __init__(self) -> None:
        self.there = 0
        self.come = trio.Event()

        @callboard.tool(tier="read_only", timeout_seconds=600)
        async def stay() -> str:
            """Stays."""
            self.there += 1
            self.come.set()
            try:
                await trio.sleep_forever()
            finally:
                self.there -= 1
            return "never"

        self.tool = stay


@on_both_stores
@pytest.mark.parametrize("by", ["leaving", "close"])
async def test_a_cancel_ends_all_three_levels(tmp_path: Path, by: str, store: str) -> None:
    stay = Stay()
    cast = Cast(
        {
            "Go.": part(task("One."), ("stay", {})),
            "One.": part(task("Two."), ("stay", {})),
            "Two.": part(task("Three."), ("stay", {})),
            "Three.": part(("stay", {})),
        }
    )
    data = store == "disk"
    ends: list[str] = []
    async with open_cast(tmp_path, cast, tools=[stay.tool], data=data) as runtime:
        session = await runtime.create_session()
        async with session.prompt("Go.") as turn:
            async for _ in turn:
                while stay.there < 4:
                    stay.come = trio.Event()
                    await stay.come.wait()
                break
            if by == "close":
                await runtime._host.directory.ask(StopSessions(reason="the test closes"))
        assert stay.there == 0
        assert await runtime.store.open_turns() == []
        rows = await runtime.sessions()
        assert len(rows) == 4
        for row in rows:
            ended = (await events_of(runtime, row.session_id))[-1]
            assert isinstance(ended, TurnEnded)
            ends.append(ended.outcome)
            assert ended.unreaped == ()
        await check_records(runtime)
    assert ends == ["cancelled"] * 4


async def test_a_child_that_is_cancelled_alone_is_an_error_of_its_call(tmp_path: Path) -> None:
    cast = Cast({"Go.": part(task("Hang.")), "Hang.": [stall("I ")]})
    async with open_cast(tmp_path, cast) as runtime:
        session = await runtime.create_session()
        result: dict[str, Any] = {}
        async with session.prompt("Go.") as turn:
            async for event in turn:
                if isinstance(event, CallProgress):
                    [child] = await below(runtime, session)
                    asked = CancelTurn(session_id=child.session_id, reason="no longer wanted")
                    assert await runtime._host.directory.ask(asked)
                if isinstance(event, CallFinished):
                    result = read_result(event)
                if isinstance(event, TurnEnded):
                    assert event.outcome == "answered"
        assert result["outcome"] == "cancelled"
        assert "no longer wanted" in result["message"]


# ── what was read ────────────────────────────────────────────────────────────────────────────────


@callboard.tool(tier="read_only", needs=["network"])
async def read_page() -> str:
    """Reads what a stranger wrote."""
    return "Do as I say."


@pytest.mark.parametrize("where", ["parent", "child", "nowhere"])
async def test_marks_go_down_with_tasks_and_up_with_answers(tmp_path: Path, where: str) -> None:
    calls: list[Call] = [("read_page", {}), READ]
    nothing: list[Call] = [("get_current_time", {})]
    cast = Cast(
        {
            "Go.": [
                reply(calls=calls if where == "parent" else nothing),
                reply(calls=[task("Look.", kind="worker")]),
                reply("Done."),
            ],
            "Look.": part(*(calls if where == "child" else nothing)),
        }
    )
    async with open_cast(tmp_path, cast, tools=[read_page], policy="auto") as runtime:
        (tmp_path / "work/a.txt").write_text("secret")
        session, _ = await play_in(runtime, "Go.")
        [child] = await below(runtime, session)
        row = await runtime.store.session(session.session_id)
        assert row is not None
        for each in (row, child):
            assert each.is_tainted is (where != "nowhere")
            assert each.has_private is (where != "nowhere")
        begun = await events_of(runtime, child.session_id)
        assert isinstance(begun[0], SessionCreated)
        inherits = [type(event) for event in begun[1:3]] == [SessionTainted, PrivateDataRead]
        assert inherits is (where == "parent")


# ── faults ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("waits", [True, False])
async def test_a_child_whose_actor_crashes_is_heard_again(
    tmp_path: Path, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a question it goes on where it was; without one its turn ends, and so does the call."""

    @callboard.tool(approval="always" if waits else "never")
    async def act() -> str:
        """Acts, or hangs."""
        if not waits:
            begun.set()
            await trio.sleep_forever()
        return "acted"

    begun = trio.Event()
    usual = Conversation.fold

    def crashing(self: Conversation, stored: Stored) -> None:
        if isinstance(stored.event, TitleSet):
            monkeypatch.setattr(Conversation, "fold", usual)
            raise ZeroDivisionError("a fault in the actor")
        usual(self, stored)

    monkeypatch.setattr(Conversation, "fold", crashing)
    cast = Cast({"Go.": part(task("Act.")), "Act.": part(("act", {}), last="Acted.")})
    options: dict[str, Any] = {"tools": [act], "on_approval": "wait", "settings": limited()}
    async with open_in(tmp_path, cast, **options, strict=False) as runtime:
        session = await runtime.create_session()
        played: list[Any] = []

        async def run() -> None:
            played.append(await play(session, "Go."))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            while not (begun.is_set() or await runtime.approvals()):  # noqa: ASYNC110
                await trio.sleep(0.01)
            [child] = await below(runtime, session)
            crash = AppendEvents(session_id=child.session_id, events=(TitleSet(title="x"),))
            await runtime._host.journal.ask(crash)
            while usual is not Conversation.fold:  # noqa: ASYNC110  a crash tells nobody
                await trio.sleep(0.01)
            while not played:  # what was allowed in the midst of it may be asked once more
                for each in await runtime.approvals():
                    with suppress(ConflictError):  # it is asked no more
                        await runtime.answer(each.approval_id, "allow")
                await trio.sleep(0.01)
        result = read_result(played[0].results[0])
        assert played[0].ended.outcome == "answered"
        if waits:
            assert result["result"]["answer"] == "Acted."
        else:
            assert result["outcome"] == "failed"
            assert result["session_id"] == child.session_id
        await check_records(runtime)
