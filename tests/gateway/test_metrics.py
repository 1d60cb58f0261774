"""The figures are Prometheus text, for whoever has a token, and count what happens."""

from __future__ import annotations

import re

import trio

import callboard
from callboard.runtime.wire.fields import Role
from support.gateway.daemon_scene import Daemon, open_client, open_daemon

LINE = re.compile(r'callboard_[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? -?[0-9.]+')


async def figures(daemon: Daemon, token: str) -> tuple[int, dict[str, float]]:
    stream = await trio.open_tcp_stream("127.0.0.1", daemon.gateway.port)
    async with stream:
        bearer = f"Authorization: Bearer {token}\r\n" if token else ""
        head = f"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:{daemon.gateway.port}\r\n{bearer}"
        head += "Connection: close\r\n\r\n"
        await stream.send_all(head.encode())
        answer = b""
        async for data in stream:
            answer += data
    start, _, body = answer.decode().partition("\r\n\r\n")
    status = int(start.split(" ")[1])
    if status != 200:
        return status, {}
    samples = [line for line in body.splitlines() if line and not line.startswith("#")]
    assert all(LINE.fullmatch(line) for line in samples)
    return status, {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in samples}


async def test_they_count_turns_calls_and_tokens() -> None:
    script = [
        callboard.reply("One moment.", calls=[("get_current_time", {})]),
        callboard.reply("It is late."),
    ]
    async with (
        open_daemon(callboard.ScriptedModel(script)) as daemon,
        open_client(daemon) as client,
    ):
        _, before = await figures(daemon, daemon.token)
        assert (before["callboard_connections"], before["callboard_events_total"]) == (1, 0)
        session = await client.create_session()
        await client.ask(session.session_id, "What time is it?")
        _, after = await figures(daemon, daemon.token)
        assert after['callboard_turns_total{outcome="answered"}'] == 1
        assert after['callboard_calls_total{state="success"}'] == 1
        assert after["callboard_sessions_loaded"] == 1
        assert after["callboard_tasks"] > before["callboard_tasks"] > 0
        assert after['callboard_mailbox_messages{actor="journal"}'] == 0
        record = await daemon.runtime.store.events(session.session_id)
        assert after["callboard_events_total"] == len(record)


async def test_they_are_for_whoever_has_a_token() -> None:
    async with open_daemon() as daemon:
        assert (await figures(daemon, ""))[0] == 401
        assert (await figures(daemon, "cb_wrong"))[0] == 401
        assert (await figures(daemon, daemon.new_token("monitor", Role.OBSERVER)))[0] == 200


async def test_status_names_the_actors_and_hides_what_a_token_may_not_see() -> None:
    async with open_daemon() as daemon, open_client(daemon) as admin:
        seen, hidden = [await admin.create_session(), await admin.create_session()]
        for session in (seen, hidden):
            await (await daemon.runtime.get_session(session.session_id)).run("Hello.")
        status = await admin.status()
        assert [actor.name for actor in status.actors][:2] == ["journal", "permission broker"]
        assert {actor.name for actor in status.actors[4:]} == {
            f"session {each.session_id}" for each in (seen, hidden)
        }
        assert all(actor.is_running and actor.restarts == 0 for actor in status.actors)
        assert all(0 <= actor.waiting < actor.capacity for actor in status.actors)
        assert status.work is not None
        assert status.work.actors == ()
        assert set(status.work.sessions) == {seen.session_id, hidden.session_id}
        token = daemon.new_token("guest", Role.OBSERVER, sessions=(seen.session_id,))
        async with open_client(daemon, token) as guest:
            limited = await guest.status()
        assert limited.work is not None
        assert (limited.work.sessions, limited.actors) == ((seen.session_id,), ())
        assert limited.work.actors == ()
