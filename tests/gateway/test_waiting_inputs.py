"""Who comes to a session is told which inputs wait for a turn: no page of messages says it."""

from __future__ import annotations

import trio
import trio.testing

import callboard
from callboard.providers.testing.script import reply, stall
from callboard.runtime.wire.sessions import Subscribe, Subscribed
from support.gateway.daemon_scene import open_client, open_daemon


async def test_a_subscription_from_now_on_says_which_inputs_wait() -> None:
    model = callboard.ScriptedModel([stall("I begin."), reply("And on."), reply("Done.")])
    async with open_daemon(model) as daemon, open_client(daemon) as client:
        session_id = (await client.create_session()).session_id

        async def waiting(after_seq: int | None = None) -> tuple[str, ...]:
            wanted = Subscribe(session_id=session_id, after_seq=after_seq)
            return (await client.request("session/subscribe", wanted, Subscribed)).waiting

        assert await waiting() == ()
        first = await client.prompt(session_id, "Go.")
        assert first.turn_id is not None
        assert await waiting() == ()
        second = await client.prompt(session_id, "And then?")
        third = await client.prompt(session_id, "And last?")
        assert await waiting() == (second.input_id, third.input_id)
        assert await waiting(0) == ()  # then its events say it
        await client.cancel(session_id, input_id=second.input_id)
        assert await waiting() == (third.input_id,)
        await client.cancel(session_id)
        with trio.fail_after(30):
            while (await client.session(session_id)).is_active:
                await trio.testing.wait_all_tasks_blocked(0.01)
        assert await waiting() == ()
