"""A client hears a thousand sessions, and finds its way among ten thousand.

It hears so many with `CALLBOARD_SOAK=1`, else half of them: several times what its outbox holds.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trio

from callboard.config.sections import ServerSettings
from callboard.gateway.connection import subscriptions
from callboard.runtime.errors import OverloadedError
from callboard.runtime.events import SessionCreated, Stored
from callboard.runtime.store.lists import SessionPage
from callboard.runtime.store.rows import Append
from callboard.runtime.store.sqlite_store import open_disk_store
from callboard.runtime.wire.sessions import ListSessions
from support.gateway.daemon_scene import open_client, open_daemon

SESSIONS = 1000 if os.environ.get("CALLBOARD_SOAK") else 500
KEPT = 10_000


async def test_a_client_hears_hundreds_of_sessions_through_a_small_outbox() -> None:
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
    monkeypatch.setattr(subscriptions, "MAX_SUBSCRIPTIONS", 2)
    async with open_daemon() as daemon, open_client(daemon) as client:
        made = [await client.create_session() for _ in range(3)]
        async with client.events(made[0].session_id), client.events(made[1].session_id):
            with pytest.raises(OverloadedError, match="2 sessions at most"):
                async with client.events(made[2].session_id):
                    pass
        async with client.events(made[2].session_id):
            pass


async def test_ten_thousand_sessions_on_record_are_listed_and_opened(tmp_path: Path) -> None:
    names = [f"ses_{n:05}" for n in range(KEPT)]
    store = await open_disk_store(tmp_path / "data")
    for n in range(0, KEPT, 1000):
        await store.commit(
            [
                Append(
                    name,
                    (
                        SessionCreated(
                            agent="general", workspace=str(tmp_path), title=f"no. {name}"
                        ),
                    ),
                )
                for name in names[n : n + 1000]
            ]
        )
    await store.aclose()
    async with (
        open_daemon(data=tmp_path / "data", workspace=tmp_path) as daemon,
        open_client(daemon) as client,
    ):
        status = await client.status()
        assert status.work is not None
        assert status.work.sessions == ()  # none is loaded for being there
        listed: list[str] = []
        before = None
        while len(listed) < KEPT:
            params = ListSessions(limit=1000, before=before)
            page = await client.request("session/list", params, SessionPage)
            listed += [row.session_id for row in page.sessions]
            before = page.next_before
        assert listed == names[::-1]
        middle = names[KEPT // 2]
        params = ListSessions(query=middle)
        (found,) = (await client.request("session/list", params, SessionPage)).sessions
        assert await client.ask(found.session_id, "Hello.")
        status = await client.status()
        assert status.work is not None
        assert status.work.sessions == (middle,)
        assert [row.session_id for row in (await client.sessions())[:2]] == [middle, names[-1]]
