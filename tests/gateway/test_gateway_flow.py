"""A client far away sees what a program that embeds the runtime sees."""

from __future__ import annotations

import pytest

import callboard
from callboard.client.client import connect
from callboard.embedding.runtime import host_of
from callboard.runtime.errors import AuthError, ConflictError, NetworkError, NotFoundError
from callboard.runtime.events import ApprovalAsked
from callboard.runtime.wire.fields import Role
from support.gateway.daemon_scene import View, open_client, open_daemon
from support.waits import until


async def test_a_prompt_over_the_wire_tells_all_that_the_record_has() -> None:
    script = [
        callboard.reply("One moment.", calls=[("get_current_time", {})]),
        callboard.reply("It is late."),
    ]
    async with (
        open_daemon(callboard.ScriptedModel(script)) as daemon,
        open_client(daemon) as client,
    ):
        session = await client.create_session(title="the clock")
        view = View()
        async with client.events(session.session_id, after_seq=0) as events:
            ticket = await client.prompt(session.session_id, "What time is it?")
            await view.read(events)
        record = await daemon.runtime.store.events(session.session_id)
        assert view.stored == record
        assert ticket.seq == 2
        assert (await client.session(session.session_id)).title == "the clock"
        assert [row.content for row in await client.messages(session.session_id)][
            -1
        ] == "It is late."
        assert [call.name for call in await client.calls()] == ["get_current_time"]


async def test_a_client_hears_all_of_a_session_that_is_unloaded_between_its_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("callboard.actors.directory.IDLE_SECONDS", 0.02)
    model = callboard.ScriptedModel([callboard.reply(f"Answer {n}.") for n in range(3)])
    async with open_daemon(model) as daemon, open_client(daemon) as client:
        host = host_of(daemon.runtime)
        session = await client.create_session()
        view = View()
        async with client.events(session.session_id, after_seq=0) as events:
            for number in range(3):
                await client.prompt(session.session_id, "Hello.")
                await view.read(events)
                await until(lambda: not host.live and host.inboxes.resting)
                await client.rename(session.session_id, f"title {number}")
                view.take(await anext(events))
        assert view.stored == await daemon.runtime.store.events(session.session_id)
        await until(lambda: not host.inboxes.resting)


async def test_a_person_far_away_answers_for_a_call() -> None:
    script = [
        callboard.reply(calls=[("delete_file", {"path": "old.txt"})]),
        callboard.reply("It stays."),
    ]
    async with (
        open_daemon(callboard.ScriptedModel(script)) as daemon,
        open_client(daemon) as client,
    ):
        session = await client.create_session()
        view = View()
        async with client.events(session.session_id) as events:
            await client.prompt(session.session_id, "Delete old.txt.")
            async for event in events:
                view.take(event)
                asked = getattr(event, "event", None)
                if isinstance(asked, ApprovalAsked):
                    request = await client.approval(asked.approval_id)
                    assert request.tool == "delete_file"
                    await client.answer(asked.approval_id, "deny")
                    with pytest.raises(ConflictError):
                        await client.answer(asked.approval_id, "allow")
                if view.has_ended:
                    break
        (row,) = await client.approvals(state=None)
        assert (row.state, row.answered_by) == ("denied", "token:test")


async def test_who_joins_in_the_middle_of_a_sentence_misses_nothing() -> None:
    script = [callboard.reply("The first half. And the second half.")]
    async with open_daemon(callboard.ScriptedModel(script)) as daemon:
        async with open_client(daemon) as first, open_client(daemon) as second:
            session = await first.create_session()
            await first.prompt(session.session_id, "Say it.")
            for client in (first, second):
                view = View()
                async with client.events(session.session_id, after_seq=0) as events:
                    await view.read(events)
                assert view.stored == await daemon.runtime.store.events(session.session_id)


async def test_a_client_without_a_daemon_or_a_token_is_told_so() -> None:
    async with open_daemon() as daemon:
        with pytest.raises(AuthError, match="token create"):
            async with connect(daemon.url, "cb_wrong"):
                pass
        async with open_client(daemon) as client:
            with pytest.raises(NotFoundError):
                await client.session("session_none")
        url = daemon.url
    with pytest.raises(NetworkError, match="no daemon"):
        async with connect(url, daemon.token):
            pass


async def test_a_role_may_do_its_own_and_what_is_below_it() -> None:
    async with open_daemon() as daemon:
        watcher = daemon.new_token("watcher", Role.OBSERVER)
        async with open_client(daemon, watcher) as client:
            assert await client.sessions() == []
            assert "session/new" not in client.welcome.methods
            assert {"turn_ended", "session_purged", "stream_batch"} < set(client.welcome.events)
            with pytest.raises(AuthError, match="operator"):
                await client.create_session()
        async with open_client(daemon) as client:
            await client.create_session()
