"""Connections break and the daemon is killed, again and again: every view is the journal in the end."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from callboard.client.client import connect
from callboard.config.keys.tokens import Credentials, Role
from callboard.config.sections import ServerSettings
from callboard.runtime.definitions import InputMode
from callboard.runtime.store.sqlite_store import open_reader
from support.environment import SUPPORT, finds_support
from support.gateway.chaos_proxy import ChaosProxy, open_chaos
from support.gateway.chatty_model import ChattyModel
from support.gateway.crowd import IN_ORDER, Crowd, Manner
from support.gateway.daemon_scene import open_daemon
from support.waits import until

SOAK = bool(os.environ.get("CALLBOARD_SOAK"))
CUTS = 2000 if SOAK else 100
KILLS = 60 if SOAK else 2
WATCHERS = 3
SESSIONS = 2

ANY = tuple(InputMode)
MANNERS = (IN_ORDER, Manner(*ANY, seed=1), Manner(*ANY, has_key=False, seed=2))
"""Of the clients of a daemon that is killed."""


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callboard.client.link.FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr("callboard.client.link.LAST_PAUSE_SECONDS", 0.02)


def behind(proxy: ChaosProxy) -> ServerSettings:
    """The settings of a daemon that clients call by the proxy's name."""
    return ServerSettings(port=0, allowed_hosts=(f"127.0.0.1:{proxy.port}",))


async def test_views_equal_the_journal_over_hundreds_of_broken_connections() -> None:
    async with (
        open_chaos(seed=7) as proxy,
        open_daemon(ChattyModel(), settings=behind(proxy)) as daemon,
        trio.open_nursery() as nursery,
        trio.open_nursery() as prompting,
    ):
        proxy.target = daemon.gateway.port
        url = f"ws://127.0.0.1:{proxy.port}/ws"
        made = [await daemon.runtime.create_session() for _ in range(SESSIONS)]
        crowd = Crowd([each.session_id for each in made])
        clients = [await nursery.start(_keep, url, daemon.token) for _ in range(WATCHERS)]
        nursery.start_soon(crowd.hear, clients[0])
        for session_id in crowd.session_ids:
            for number, client in enumerate(clients):
                nursery.start_soon(crowd.watch, client, session_id)
                prompting.start_soon(crowd.prompt, client, session_id, f"client{number}")
        await until(lambda: proxy.cuts >= CUTS)
        crowd.goes_on = False
        proxy.is_calm = True
        await until(lambda: not prompting.child_tasks)
        await crowd.settle(daemon.runtime.store)
        await crowd.check(daemon.runtime.store)
        assert any(each.whole for every in crowd.witnesses.values() for each in every)
        nursery.cancel_scope.cancel()


def _has_said(crowd: Crowd, count: int) -> bool:
    return crowd.count() >= count


async def _keep(url: str, token: str, *, task_status: trio.TaskStatus[Any]) -> None:
    while True:  # the very first connection may be cut like any other  # noqa: ASYNC913
        try:
            async with connect(url, token) as client:
                task_status.started(client)
                await trio.sleep_forever()
        except Exception as error:
            if type(error).__name__ != "NetworkError":
                raise


def _started(program: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(program, stdout=subprocess.PIPE, text=True, env=finds_support())


@asynccontextmanager
async def killed(folder: Path, port: int) -> AsyncGenerator[int]:
    """A daemon of its own around the block, which is killed in the end; gives its port."""
    program = [sys.executable, str(SUPPORT / "gateway" / "killed_daemon.py")]
    process = _started([*program, str(folder), str(port)])
    try:
        assert process.stdout is not None
        yield int(await trio.to_thread.run_sync(process.stdout.readline))
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


async def test_case_57_nothing_acknowledged_is_lost_when_the_daemon_is_killed_under_load(
    tmp_path: Path,
) -> None:
    token = Credentials(tmp_path / "data").create("test", Role.ADMIN).reveal()
    dice = random.Random(57)
    port = 0
    crowd: Crowd | None = None
    async with trio.open_nursery() as nursery, trio.open_nursery() as prompting:
        for kill in range(KILLS + 1):
            async with killed(tmp_path, port) as port:
                if crowd is None:
                    url = f"ws://127.0.0.1:{port}/ws"
                    clients = [await nursery.start(_keep, url, token) for _ in range(WATCHERS)]
                    rows = [await clients[0].create_session() for _ in range(SESSIONS)]
                    crowd = Crowd([row.session_id for row in rows])
                    nursery.start_soon(crowd.hear, clients[0])
                    for session_id in crowd.session_ids:
                        for number, client in enumerate(clients):
                            nursery.start_soon(crowd.watch, client, session_id)
                            name, manner = f"client{number}", MANNERS[number]
                            prompting.start_soon(crowd.prompt, client, session_id, name, manner)
                if kill < KILLS:
                    await until(partial(_has_said, crowd, crowd.count() + dice.randrange(5, 40)))
                    await trio.sleep(0.02 * dice.random())
                else:
                    await until(crowd.has_met_each_mode)
                    crowd.goes_on = False
                    await until(lambda: not prompting.child_tasks)
                    store = await open_reader(tmp_path / "data")
                    await crowd.settle(store)
                    await crowd.check(store)
                    await store.aclose()
        nursery.cancel_scope.cancel()
