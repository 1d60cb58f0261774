"""A program that runs for a client that vanishes."""

from __future__ import annotations

from pathlib import Path

import callboard
from support.flows.program_calls import count, new_tag, tagged
from support.gateway.daemon_scene import open_client, open_daemon, open_greeted
from support.gateway.raw_door import are_left
from support.sandbox.sandbox_users import needs_sandbox
from support.tools.workbench import wait_until


async def test_case_46_it_goes_on_and_a_cancel_by_another_leaves_nothing(tmp_path: Path) -> None:
    needs_sandbox()
    tag = new_tag()
    command = f"(setsid sh -c 'trap \"\" TERM; sleep {tag}' &); sleep {tag}"
    script = callboard.ScriptedModel([callboard.reply(calls=[("shell", {"command": command})])])
    async with (
        open_daemon(script, policy="auto", workspace=tmp_path) as daemon,
        open_client(daemon) as other,
    ):
        session_id = (await other.create_session()).session_id
        async with open_greeted(daemon) as raw:
            await raw.call("session/prompt", session_id=session_id, content="Go.")
            await wait_until(lambda: count(tag) >= 2)
            await are_left(other, 2)
        await are_left(other, 1)  # it was cut off, and the daemon has seen that
        assert count(tag) >= 2
        [running] = await other.calls()
        assert (running.name, running.status) == ("shell", "running")
        assert await other.cancel(session_id)
        assert not tagged(tag)
        [ended] = await other.calls()
        assert ended.status == "cancelled"
