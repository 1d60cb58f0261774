"""One running call is cancelled by a client, and its turn goes on."""

from __future__ import annotations

import pytest
import trio

import callboard
from callboard.runtime.errors import NotFoundError
from callboard.runtime.wire.fields import Role
from callboard.runtime.wire.sessions import CancelCall, Cancelled
from support.gateway.daemon_scene import open_client, open_daemon


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
    async with (
        open_daemon(
            callboard.ScriptedModel(steps), tools=[sleep_on], on_approval="allow"
        ) as daemon,
        open_client(daemon) as client,
        trio.open_nursery() as nursery,
    ):
        session = await daemon.runtime.create_session()
        answers: list[str] = []

        async def run() -> None:
            answers.append(await session.run("Go."))

        nursery.start_soon(run)
        await started.wait()
        (running,) = [
            call for call in await daemon.runtime.store.calls() if call.name == "sleep_on"
        ]
        wanted = CancelCall(session_id=session.session_id, call_id=running.call_id)
        limited = daemon.new_token("limited", Role.OPERATOR, sessions=("session_other",))
        async with open_client(daemon, limited) as other:
            with pytest.raises(NotFoundError):
                await other.request("call/cancel", wanted, Cancelled)
        assert not ended.is_set()
        assert (await client.request("call/cancel", wanted, Cancelled)).was_running
        assert ended.is_set()
        while not answers:  # noqa: ASYNC110  a run tells nobody
            await trio.sleep(0.01)
        assert answers == ["All the same."]
        calls = {call.name: call for call in await daemon.runtime.store.calls()}
        assert calls["sleep_on"].status == "cancelled"
        assert "A person cancelled this call" in (calls["sleep_on"].result or "")
        assert calls["get_current_time"].status == "success"
        assert not (await client.request("call/cancel", wanted, Cancelled)).was_running
