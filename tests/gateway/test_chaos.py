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
from chaos_proxy import ChaosProxy, open_chaos
from chatty_model import ChattyModel
from daemon_scene import open_daemon
from waits import until
from witness import Witness

from callboard.client import Client, connect
from callboard.config.credentials import Credentials, Role
from callboard.config.server_settings import ServerSettings
from callboard.runtime.errors import OverloadedError
from callboard.runtime.events import InputAccepted, TurnEnded
from callboard.runtime.sqlite_store import open_reader
from callboard.runtime.store import StoreReader
from callboard.runtime.topics import Topic
from callboard.runtime.wire.topics import TopicUpdate

SOAK = bool(os.environ.get("CALLBOARD_SOAK"))
CUTS = 2000 if SOAK else 150
KILLS = 60 if SOAK else 3
WATCHERS = 3
SESSIONS = 2


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callboard.client_link.FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr("callboard.client_link.LAST_PAUSE_SECONDS", 0.02)


def behind(proxy: ChaosProxy) -> ServerSettings:
    """The settings of a daemon that clients call by the proxy's name."""
    return ServerSettings(port=0, allowed_hosts=(f"127.0.0.1:{proxy.port}",))


class Crowd:
    """Clients that prompt and watch, and what they have seen."""

    def __init__(self, session_ids: list[str]) -> None:
        self.session_ids = session_ids
        self.said: dict[str, list[str]] = {each: [] for each in session_ids}
        self.witnesses: dict[str, list[Witness]] = {each: [] for each in session_ids}
        self.updates: list[TopicUpdate] = []
        self.goes_on = True

    async def prompt(self, client: Client, session_id: str, name: str) -> None:
        """Prompts one after the other; a prompt counts when it was acknowledged."""
        number = 0
        while self.goes_on:
            text = f"{name} {number}"
            try:
                await client.prompt(session_id, text)
            except OverloadedError:  # turns are slower than these prompts
                await trio.sleep(0.05)
                continue
            self.said[session_id].append(text)
            number += 1
            await trio.sleep(0.005)

    async def watch(self, client: Client, session_id: str) -> None:
        witness = Witness()
        self.witnesses[session_id].append(witness)
        async with client.events(session_id, after_seq=0) as events:
            async for event in events:
                witness.take(event)

    async def hear(self, client: Client) -> None:
        async with client.topic("sessions", after_seq=0) as topic:
            async for event in topic:
                if isinstance(event, TopicUpdate):
                    self.updates.append(event)

    async def settle(self, store: StoreReader) -> None:
        """Waits until all turns have ended, and everybody has seen that."""
        for session_id in self.session_ids:
            while True:
                record = await store.events(session_id)
                ended = sum(isinstance(each.event, TurnEnded) for each in record)
                if ended == len(self.said[session_id]):
                    break
                await trio.sleep(0.02)
            head = record[-1].seq
            await until(partial(self._have_seen, session_id, head))
        head = (await store.log(topic=Topic.SESSIONS))[-1].seq
        await until(partial(self._have_heard, head))

    def _have_seen(self, session_id: str, seq: int) -> bool:
        watching = self.witnesses[session_id]
        return all(each.stored and each.stored[-1].seq == seq for each in watching)

    def _have_heard(self, seq: int) -> bool:
        return bool(self.updates) and self.updates[-1].seq == seq

    def count(self) -> int:
        """Prompts that were acknowledged."""
        return sum(map(len, self.said.values()))

    async def check(self, store: StoreReader) -> None:
        """Every view is the journal, and every prompt is there once."""
        for session_id in self.session_ids:
            record = await store.events(session_id)
            for witness in self.witnesses[session_id]:
                assert witness.stored == record
                for live, said in witness.whole:
                    assert all(
                        whole.startswith(part) for part, whole in zip(live, said, strict=True)
                    )
            inputs = [each.event.text for each in record if isinstance(each.event, InputAccepted)]
            assert sorted(inputs) == sorted(self.said[session_id])
            for name in {text.split()[0] for text in inputs}:
                own = [text for text in inputs if text.split()[0] == name]
                assert own == [f"{name} {number}" for number in range(len(own))]
        log = await store.log(topic=Topic.SESSIONS)
        assert [each.seq for each in self.updates] == [each.seq for each in log]


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
    return subprocess.Popen(program, stdout=subprocess.PIPE, text=True)


@asynccontextmanager
async def killed(folder: Path, port: int) -> AsyncGenerator[int]:
    """A daemon of its own around the block, which is killed in the end; gives its port."""
    program = [sys.executable, str(Path(__file__).parent / "killed_daemon.py")]
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
                            name = f"client{number}"
                            prompting.start_soon(crowd.prompt, client, session_id, name)
                if kill < KILLS:
                    await until(partial(_has_said, crowd, crowd.count() + dice.randrange(5, 40)))
                    await trio.sleep(0.02 * dice.random())
                else:
                    crowd.goes_on = False
                    await until(lambda: not prompting.child_tasks)
                    store = await open_reader(tmp_path / "data")
                    await crowd.settle(store)
                    await crowd.check(store)
                    await store.aclose()
        nursery.cancel_scope.cancel()
