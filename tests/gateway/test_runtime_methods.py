"""Agents, calls, questions, the policy, usage, budgets and backups, asked for by clients.

For each: what it does, and that a token with limits knows of its own alone.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

import callboard
from callboard.runtime.backup.backup import restore_backup
from callboard.runtime.errors import (
    AuthError,
    CallboardError,
    ConflictError,
    NotFoundError,
    ValidationError,
)
from callboard.runtime.events import QuestionAsked, SessionBudgetSet, Stored
from callboard.runtime.store.sqlite_store import open_reader
from callboard.runtime.wire.agents import agent_of_row
from callboard.runtime.wire.fields import Role
from support.gateway.daemon_scene import Daemon, View, open_client, open_daemon

READER = callboard.Agent(name="reader", prompt="You read.", tools=("read_file",))
ASK = ("ask_user", {"question": "Which door?", "options": ["left", "right"]})


def limited(daemon: Daemon) -> str:
    """A token for a session that there is not."""
    return daemon.new_token("limited", Role.OPERATOR, sessions=("session_other",))


async def test_agents_are_listed_for_who_may_know_of_them() -> None:
    async with open_daemon(agents=[READER]) as daemon:
        async with open_client(daemon) as client:
            assert [agent.name for agent in await client.agents.list()] == ["general", "reader"]
            assert agent_of_row(await client.agents.get("reader")) == READER
            with pytest.raises(NotFoundError):
                await client.agents.get("nobody")
        token = daemon.new_token("reader", Role.OBSERVER, agents=("reader",))
        async with open_client(daemon, token) as client:
            assert [agent.name for agent in await client.agents.list()] == ["reader"]
            with pytest.raises(NotFoundError):
                await client.agents.get("general")


async def test_one_call_is_cancelled_and_its_turn_goes_on() -> None:
    started, ended = trio.Event(), trio.Event()

    @callboard.tool
    async def sleep_on() -> str:
        """Sleeps until it is cancelled."""
        started.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    steps = [
        callboard.reply(calls=[("sleep_on", {}), ("get_current_time", {})]),
        callboard.reply("All the same."),
    ]
    model = callboard.ScriptedModel(steps)
    async with (
        open_daemon(model, tools=[sleep_on], on_approval="allow") as daemon,
        open_client(daemon) as client,
    ):
        session = await daemon.runtime.create_session()
        async with session.prompt("Go.") as turn:
            await started.wait()
            (running,) = [call for call in await client.calls() if call.name == "sleep_on"]
            wanted = session.session_id, running.call_id
            async with open_client(daemon, limited(daemon)) as other:
                with pytest.raises(NotFoundError):
                    await other.cancel_call(*wanted)
            assert not ended.is_set()
            assert await client.cancel_call(*wanted)
            assert ended.is_set()
            assert await turn.answer() == "All the same."
        calls = {call.name: call for call in await client.calls()}
        assert calls["sleep_on"].status == "cancelled"
        assert "A person cancelled this call" in (calls["sleep_on"].result or "")
        assert calls["get_current_time"].status == "success"
        assert not await client.cancel_call(*wanted)


async def test_a_question_is_listed_until_it_is_answered() -> None:
    model = callboard.ScriptedModel([callboard.reply(calls=[ASK]), callboard.reply("In.")])
    async with open_daemon(model) as daemon, open_client(daemon) as client:
        session = await client.create_session()
        view = View()
        async with client.events(session.session_id) as events:
            await client.prompt(session.session_id, "Go in.")
            async for event in events:
                view.take(event)
                asked = event.event if isinstance(event, Stored) else None
                if isinstance(asked, QuestionAsked):
                    (question,) = await client.questions()
                    assert question.question == "Which door?"
                    assert question.options == ("left", "right")
                    assert await client.questions(session_id="session_other") == []
                    async with open_client(daemon, limited(daemon)) as other:
                        assert await other.questions() == []
                        with pytest.raises(NotFoundError):
                            await other.answer_question(asked.question_id, "left")
                    await client.answer_question(asked.question_id, option=1)
                    with pytest.raises(ConflictError):
                        await client.answer_question(asked.question_id, "left")
                if view.has_ended:
                    break
        assert await client.questions() == []
        (call,) = await client.calls()
        assert '"right"' in (call.result or "")


async def test_a_client_asks_what_would_become_of_a_call_and_nothing_runs(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    async with open_daemon(workspace=tmp_path) as daemon, open_client(daemon) as client:
        session_id = (await daemon.runtime.create_session()).session_id
        for tool, verdict in (("read_file", "allow"), ("delete_file", "ask")):
            answer = await client.check_policy(session_id, tool, '{"path": "a.txt"}')
            assert (answer.tool, answer.verdict) == (tool, verdict)
        assert (tmp_path / "a.txt").exists()
        with pytest.raises(ValidationError):
            await client.check_policy(session_id, "read_file", "{}")
        async with open_client(daemon, limited(daemon)) as other:
            with pytest.raises(NotFoundError):
                await other.check_policy(session_id, "x", "{}")


async def test_usage_over_the_wire_is_that_of_the_runtime() -> None:
    async with open_daemon() as daemon:
        own, other = [await daemon.runtime.create_session() for _ in range(2)]
        await own.run("What time is it in Tokyo?")
        async with open_client(daemon) as client:
            report = await client.usage()
            assert report == await daemon.runtime.usage()
            assert report.total.calls == 2
            assert await client.usage(by="turn", session_id=own.session_id) == await own.usage()
        token = daemon.new_token("own", Role.OBSERVER, sessions=(own.session_id,))
        async with open_client(daemon, token) as client:
            assert (await client.usage(session_id=own.session_id)).total.calls == 2
            with pytest.raises(NotFoundError):
                await client.usage(session_id=other.session_id)
            with pytest.raises(CallboardError, match="name one of its own"):
                await client.usage()


async def test_a_session_gets_another_budget() -> None:
    budgets = [callboard.Budget(tokens=1000), None]
    async with open_daemon() as daemon, open_client(daemon) as client:
        session_id = (await client.create_session()).session_id
        for budget in budgets:
            await client.set_budget(session_id, budget)
        events = [stored.event for stored in await daemon.runtime.store.events(session_id)]
    assert [event.budget for event in events if isinstance(event, SessionBudgetSet)] == budgets


async def test_a_backup_lies_in_the_data_folder_and_can_be_restored(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with open_daemon(data=data) as daemon, open_client(daemon) as client:
        session = await client.create_session(title="kept")
        made = await client.upkeep.backup()
        assert Path(made.path).parent == data / "backups"
        assert (await trio.Path(made.path).stat()).st_size == made.size_bytes
        async with open_client(daemon, daemon.new_token("other", Role.OPERATOR)) as operator:
            with pytest.raises(AuthError):
                await operator.upkeep.backup()
    await trio.to_thread.run_sync(restore_backup, tmp_path / "new", Path(made.path))
    reader = await open_reader(tmp_path / "new")
    assert [row.session_id for row in await reader.sessions()] == [session.session_id]
    await reader.aclose()
    async with open_daemon() as daemon, open_client(daemon) as client:
        with pytest.raises(ConflictError, match="in memory"):
            await client.upkeep.backup()
