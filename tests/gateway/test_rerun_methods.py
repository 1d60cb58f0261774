"""The last turn once more, over the websocket."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trio

import callboard
from callboard.client.client import Client
from callboard.providers.testing.script import fail, reply, stall
from callboard.runtime.errors import ConflictError
from callboard.runtime.events import TurnSetAside, TurnStarted
from callboard.runtime.wire.fields import Role
from callboard.runtime.wire.rpc import CONFLICT, INVALID_STATE, NOT_AUTHORIZED, NOT_FOUND
from support.gateway.daemon_scene import (
    Daemon,
    RawClient,
    View,
    open_client,
    open_daemon,
    open_greeted,
)
from support.gateway.kept_daemon import open_kept


async def error_of(raw: RawClient, method: str, **params: Any) -> int:
    answer = await raw.call(method, **params)
    code: int = answer["error"]["code"]
    return code


async def to_the_end(client: Client, session_id: str, after_seq: int) -> list[str]:
    """The kinds of events on record behind this one, to the end of a turn."""
    view, epoch = View(), client.welcome.epoch
    async with client.events(session_id, after_seq=after_seq, epoch=epoch) as events:
        await view.read(events)
    return [type(each.event).__name__ for each in view.stored]


async def set_aside(daemon: Daemon, session_id: str) -> list[TurnSetAside]:
    record = await daemon.runtime.store.events(session_id)
    return [each.event for each in record if isinstance(each.event, TurnSetAside)]


async def test_a_client_has_the_last_turn_answered_anew() -> None:
    model = callboard.ScriptedModel([reply("Old."), reply("New.")])
    async with open_daemon(model) as daemon, open_client(daemon) as client:
        session_id = (await client.create_session()).session_id
        assert await client.ask(session_id, "Go.") == "Old."
        ticket = await client.regenerate(session_id)
        kinds = await to_the_end(client, session_id, ticket.seq - 1)
        assert kinds == ["TurnSetAside", "TurnStarted", "MessageCompleted", "TurnEnded"]
        rows = await client.messages(session_id)
        assert [(row.content, row.is_set_aside) for row in rows] == [
            ("Go.", False),
            ("Old.", True),
            ("New.", False),
        ]
        [aside] = await set_aside(daemon, session_id)
        assert aside.input_ids == (ticket.input_id,)


async def test_a_client_has_the_last_turn_tried_again() -> None:
    model = callboard.ScriptedModel([fail("It broke."), reply("Fine.")])
    async with open_daemon(model) as daemon, open_client(daemon) as client:
        session_id = (await client.create_session()).session_id
        ticket = await client.prompt(session_id, "Go.")
        await to_the_end(client, session_id, ticket.seq)
        error = (await client.messages(session_id))[-1]
        assert error.type == "error"
        again = await client.retry(session_id, message_id=error.message_id)
        assert again.turn_id not in {None, ticket.turn_id}
        await to_the_end(client, session_id, again.seq)
        assert (await client.messages(session_id))[-1].content == "Fine."


async def test_what_can_not_be_run_again_is_refused_with_its_code() -> None:
    model = callboard.ScriptedModel([reply("One."), stall(), reply("Fine.")])
    async with open_daemon(model) as daemon, open_greeted(daemon) as raw:
        async with open_client(daemon) as client:
            session_id = (await client.create_session()).session_id
            for method in ("session/retry", "session/regenerate"):
                assert await error_of(raw, method, session_id=session_id) == INVALID_STATE
                assert await error_of(raw, method, session_id="session_x") == NOT_FOUND
            await client.ask(session_id, "Go.")
            assert await error_of(raw, "session/retry", session_id=session_id) == INVALID_STATE
            wrong = {"session_id": session_id, "message_id": "message_x"}
            assert await error_of(raw, "session/regenerate", **wrong) == NOT_FOUND
            ticket = await client.prompt(session_id, "And?")
            busy = {"session_id": session_id}
            assert await error_of(raw, "session/regenerate", **busy) == CONFLICT
            await client.cancel(session_id)
            watcher = daemon.new_token("watcher", Role.OBSERVER)
            async with open_greeted(daemon, watcher) as other:
                assert await error_of(other, "session/retry", **busy) == NOT_AUTHORIZED
            assert await set_aside(daemon, session_id) == []
            again = await client.retry(session_id, message_id=ticket.input_id)  # the control
            await to_the_end(client, session_id, again.seq)
            assert (await client.messages(session_id))[-1].content == "Fine."


async def test_a_turn_is_set_aside_once_however_often_that_is_asked(tmp_path: Path) -> None:
    """The key is stored with the event: it holds after a restart, when the turn has another answer."""
    token, session_id, port = "", "", 0
    answers: list[Any] = []
    steps = [reply("Old."), reply("New.")]
    for times in (2, 1):
        model = callboard.ScriptedModel(steps if times == 2 else [])
        async with open_kept(tmp_path, model, token=token, port=port) as daemon:
            token, port = daemon.token, daemon.gateway.port
            if not session_id:
                session = await daemon.runtime.create_session()
                session_id = session.session_id
                await session.run("Go.")
            async with open_greeted(daemon) as raw:
                asked = {"session_id": session_id, "idempotency_key": "a"}
                asking = [raw.call] * times
                answers += [
                    (await call("session/regenerate", **asked))["result"] for call in asking
                ]
            session = await daemon.runtime.get_session(session_id)
            if times == 2:
                await wait_answer(daemon, session_id, "New.")
            assert len(await set_aside(daemon, session_id)) == 1
    assert answers[0] == answers[1] == answers[2]
    assert answers[0]["turn_id"]


async def wait_answer(daemon: Daemon, session_id: str, text: str) -> None:
    # ruff: ignore[async-busy-wait] the turn is nobody's here
    while (await daemon.runtime.store.messages(session_id))[-1].content != text:  # noqa: ASYNC110
        await trio.sleep(0.001)


async def test_who_asks_at_the_same_time_sets_it_aside_once() -> None:
    model = callboard.ScriptedModel([reply("Old."), stall()])
    refused: list[str] = []
    async with open_daemon(model) as daemon, open_client(daemon) as client:
        session_id = (await client.create_session()).session_id
        await client.ask(session_id, "Go.")

        async def again() -> None:
            try:
                await client.regenerate(session_id)
            except ConflictError as error:
                refused.append(str(error))

        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(again)
        assert len(refused) == 3
        assert len(await set_aside(daemon, session_id)) == 1
        record = [each.event for each in await daemon.runtime.store.events(session_id)]
        assert sum(isinstance(event, TurnStarted) for event in record) == 2
        await client.cancel(session_id)
