"""One client hears a thousand sessions; what it can't take at once it is brought later."""

from __future__ import annotations

import pytest
import trio
from daemon_scene import open_client, open_daemon

from callboard.config.server_settings import ServerSettings
from callboard.gateway import hearing
from callboard.runtime.errors import OverloadedError
from callboard.runtime.events import Stored

SESSIONS = 1000


async def test_a_client_hears_a_thousand_sessions_through_a_small_outbox() -> None:
    settings = ServerSettings(port=0, max_outbox_bytes=64 * 1024)
    heard: dict[str, list[Stored]] = {}
    async with open_daemon(settings=settings) as daemon, open_client(daemon) as client:
        made = [await daemon.runtime.create_session() for _ in range(SESSIONS)]

        async def hear(session_id: str) -> None:
            async with client.events(session_id, after_seq=0) as events:
                async for event in events:
                    if isinstance(event, Stored):
                        heard.setdefault(session_id, []).append(event)
                        if event.seq == 2:
                            return

        async with trio.open_nursery() as nursery:
            for session in made:
                nursery.start_soon(hear, session.session_id)
            for session in made:
                await session.set_budget(None)
        for session in made:
            record = await daemon.runtime.store.events(session.session_id)
            assert heard[session.session_id] == record


async def test_a_connection_hears_so_many_sessions_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hearing, "MAX_SUBSCRIPTIONS", 2)
    async with open_daemon() as daemon, open_client(daemon) as client:
        made = [await client.create_session() for _ in range(3)]
        async with (
            client.events(made[0].session_id),
            client.events(made[1].session_id),
        ):
            with pytest.raises(OverloadedError, match="2 sessions at most"):
                async with client.events(made[2].session_id):
                    pass
        async with client.events(made[2].session_id):
            pass
