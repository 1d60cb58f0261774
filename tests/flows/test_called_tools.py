"""Tools that a program calls itself: the gate, the limits and the record are those of a model's calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

import callboard
from callboard.config.settings import Limits, Settings
from callboard.embedding.runtime import host_of
from callboard.providers.testing.script import reply
from callboard.runtime.errors import AuthError, BudgetError, NotFoundError, ValidationError
from callboard.runtime.events import (
    ApprovalAsked,
    CallFinished,
    InputAccepted,
    SessionTainted,
    TurnEnded,
)
from callboard.runtime.messages import SubmitInput
from callboard.runtime.turn_options import GivenCall, TurnOptions
from callboard.runtime.wire.fields import Role
from support.flows.person import Person
from support.gateway.daemon_scene import open_client, open_daemon
from support.stage import make_workspace, open_in, open_local_stage

Calls = list[tuple[str, dict[str, Any]]]


async def test_no_model_is_asked_and_the_next_one_reads_what_was_called(tmp_path: Path) -> None:
    async with open_local_stage(tmp_path, [reply("It says so.")]) as (runtime, model):
        session = await runtime.create_session()
        (tmp_path / "work" / "a.txt").write_text("the code is 1234")
        called = await runtime.call_tool("read_file", {"path": "a.txt"}, session=session)
        assert (called.session_id, called.output["content"]) == (
            session.session_id, "the code is 1234",
        )  # fmt: skip
        assert model.requests == []
        assert await session.run("What does it say?") == "It says so."
    [request] = model.requests
    items = [item for each in request.rounds for item in each.items]
    assert [type(item).__name__ for item in items] == ["Input", "Answer", "Result", "Input"]
    assert "the code is 1234" in str(items[2])


async def test_it_is_a_turn_on_record_that_can_be_undone_and_replayed(tmp_path: Path) -> None:
    async with open_in(tmp_path, [], "disk") as runtime:
        session = await runtime.create_session()
        called = await runtime.call_tool(
            "write_file", {"path": "a.txt", "content": "a"}, session=session.session_id
        )
        events = [each.event for each in await runtime.store.events(session.session_id)]
        [finished] = [event for event in events if isinstance(event, CallFinished)]
        assert (finished.call_id, finished.status) == (called.call_id, "success")
        [ended] = [event for event in events if isinstance(event, TurnEnded)]
        assert ended.outcome == "answered"
        assert [each.call_id for each in await session.changes()] == [called.call_id]
        await session.undo()
        assert not (tmp_path / "work" / "a.txt").exists()


async def test_calls_run_side_by_side(tmp_path: Path) -> None:
    both = trio.Event()
    running: list[str] = []

    @callboard.tool(tier="read_only", effect="read")
    async def meet(name: str) -> str:
        """Waits for the other."""
        running.append(name)
        if len(running) == 2:
            both.set()
        with trio.fail_after(30):
            await both.wait()
        return name

    async with open_in(tmp_path, [], tools=[meet]) as runtime:
        found = await runtime.call_tools([("meet", {"name": "b"}), ("meet", {"name": "a"})])
    assert [each.output for each in found] == ["b", "a"]


async def test_the_budget_and_the_agents_tools_hold(tmp_path: Path) -> None:
    reader = callboard.Agent(name="reader", tools=("read_file", "list_directory"))
    async with open_in(tmp_path, [], agents=[reader]) as runtime:
        refused = await runtime.call_tool(
            "write_file", {"path": "a", "content": ""}, agent="reader"
        )
        assert refused.error["error_type"] == "tool_not_available"
        assert not (tmp_path / "work" / "a").exists()
        looks: Calls = [("list_directory", {"path": "."})] * 3
        budget = callboard.Budget(tool_calls=2)
        session = await runtime.create_session()
        found = await runtime.call_tools(looks, session=session, budget=budget)
        assert [each.status for each in found] == ["success", "success", "error"]
        assert "budget" in found[2].error["message"]
        await session.set_budget(callboard.Budget(seconds=0.0))
        with pytest.raises(BudgetError):
            await runtime.call_tools(looks, session=session)


async def test_what_is_cut_for_a_model_is_whole_for_the_program(tmp_path: Path) -> None:
    settings = Settings(limits=Limits(max_result_bytes=2000))
    (make_workspace(tmp_path) / "a.txt").write_text("x" * 500)

    @callboard.tool(tier="read_only", effect="read")
    def long() -> dict[str, str]:
        """Says much."""
        return {"text": "y" * 9000}

    async with open_in(tmp_path, [], settings=settings, tools=[long]) as runtime:
        called = await runtime.call_tool("long")
    assert called.output == {"text": "y" * 9000}


async def test_strangers_words_taint_and_a_cancel_ends_it(tmp_path: Path) -> None:
    begun = trio.Event()

    @callboard.tool(tier="read_only", effect="read", needs=["network"])
    async def look() -> str:
        """Looks."""
        return "seen"

    @callboard.tool(tier="read_only", effect="read")
    async def hang() -> str:
        """Hangs."""
        begun.set()
        await trio.sleep_forever()
        return ""

    async with open_in(tmp_path, [], tools=[look, hang]) as runtime:
        session = await runtime.create_session()
        await runtime.call_tool("look", session=session)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: runtime.call_tool("hang", session=session))
            await begun.wait()
            nursery.cancel_scope.cancel()
        events = [each.event for each in await runtime.store.events(session.session_id)]
    assert any(isinstance(event, SessionTainted) for event in events)
    [last] = [event for event in events if isinstance(event, CallFinished) and event.name == "hang"]
    assert last.status == "cancelled"


async def test_a_deferred_call_runs_once_when_it_is_allowed_later(tmp_path: Path) -> None:
    runs: list[str] = []

    @callboard.tool(approval="always")
    async def launch(name: str) -> str:
        """Launches."""
        runs.append(name)
        return name

    later = callboard.Agent(name="general", defer=True)
    async with open_in(
        tmp_path, [reply("Noted.")], tools=[launch], agents=[later], on_approval="wait"
    ) as runtime:
        session = await runtime.create_session()
        called = await runtime.call_tool("launch", {"name": "a"}, session=session)
        assert (called.status, runs) == ("deferred", [])
        async with session.follow() as events:
            await runtime.answer(called.error["approval_id"], "allow")
            async for event in events:
                if isinstance(event, TurnEnded):
                    break
        assert runs == ["a"]


@pytest.mark.parametrize("decision", ["allow", "deny"])
async def test_one_that_waits_for_a_person_outlives_the_process(
    tmp_path: Path, decision: Any
) -> None:
    runs: list[str] = []

    @callboard.tool(approval="always")
    async def launch(name: str) -> str:
        """Launches."""
        runs.append(name)
        return name

    calls = TurnOptions(calls=(GivenCall("launch", '{"name": "a"}'),))
    options: dict[str, Any] = {"store": "disk", "tools": [launch], "on_approval": "wait"}
    async with open_in(tmp_path, [], **options) as runtime:
        session = await runtime.create_session()
        session_id = session.session_id
        async with session.follow() as heard:
            given = SubmitInput(session_id=session_id, text="Go.", options=calls)
            await host_of(runtime).directory.ask(given)
            async for event in heard:
                if isinstance(event, ApprovalAsked):
                    break
    async with open_in(tmp_path, [], **options) as runtime:
        [question] = await runtime.approvals()
        turn = await (await runtime.get_session(session_id)).resume()
        assert turn is not None
        async with turn:
            await runtime.answer(question.approval_id, decision)
            events = [event async for event in turn]
    [finished] = [event for event in events if isinstance(event, CallFinished)]
    assert finished.status == ("success" if decision == "allow" else "denied")
    assert turn.ended is not None
    assert turn.ended.outcome == "answered"
    assert runs == (["a"] if decision == "allow" else [])


async def test_what_a_person_allowed_has_its_note_too(tmp_path: Path) -> None:
    person = Person()
    (make_workspace(tmp_path) / "a.txt").write_text("a")
    async with open_in(tmp_path, [], on_approval=person) as runtime:
        called = await runtime.call_tool(
            "write_file", {"path": "a.txt", "content": "b", "createDirs": False}
        )
    assert person.asked[0].arguments == '{"content":"b","create_dirs":false,"path":"a.txt"}'
    assert called.status == "success"
    assert "createDirs was taken as create_dirs" in called.note


@pytest.mark.parametrize(
    ("calls", "why"),
    [
        ([], "0 calls"),
        ([("read_file", {})] * 257, "257 calls"),
        ([("", {})], "is not the name of a tool"),
        ([("read_file", {"path": float("nan")})], None),
        ([("read_file", {"path": object()})], r"calls\[1\]"),
        ([("read_file",)], r"calls\[1\]"),
        ([("read_file", "path")], r"calls\[1\]"),
    ],
)
async def test_what_can_be_no_call_is_refused_before_anything_is_stored(
    tmp_path: Path, calls: Any, why: str | None
) -> None:
    async with open_in(tmp_path, []) as runtime:
        if why is None:
            [called] = await runtime.call_tools(calls)
            assert called.error["error_type"] == "validation_error"
            return
        with pytest.raises(ValidationError, match=why):
            await runtime.call_tools(calls)
        assert await runtime.sessions() == []
        with pytest.raises(NotFoundError):
            await runtime.call_tool("read_file", {"path": "a"}, session="session_of_nobody")


async def test_over_the_websocket_it_takes_the_role_of_a_prompt(tmp_path: Path) -> None:
    async with open_daemon(on_approval="deny", workspace=make_workspace(tmp_path)) as daemon:
        session = await daemon.runtime.create_session()
        token = daemon.new_token("looker", Role.OBSERVER)
        async with open_client(daemon, token) as client:
            with pytest.raises(AuthError, match="takes the role operator"):
                await client.call_tool(
                    "list_directory", {"path": "."}, session_id=session.session_id
                )
        token = daemon.new_token("operator", Role.OPERATOR)
        async with open_client(daemon, token) as client:
            called = await client.call_tool(
                "list_directory", {"path": "."}, session_id=session.session_id
            )
            assert called.status == "success"
            steer = TurnOptions(calls=(GivenCall("list_directory", '{"path": "."}'),))
            with pytest.raises(ValidationError, match="steers"):
                await client.prompt(session.session_id, "Go.", mode="steer", options=steer)
        record = await daemon.runtime.store.events(session.session_id)
    inputs = [each.event for each in record if isinstance(each.event, InputAccepted)]
    assert [each.text for each in inputs] == [
        "(The program makes these calls itself: list_directory.)"
    ]
