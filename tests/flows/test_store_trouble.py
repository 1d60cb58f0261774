"""A store that can't be used, seen from outside: by supervisors, by monitors, and by whoever prompts."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
import trio

import callboard
from callboard.embedding.runtime import host_of
from callboard.gateway.shared.heartbeat import Heartbeat
from callboard.gateway.shared.sd_notify import SystemdNotifier
from callboard.runtime.errors import StorageError, StorageFailed
from callboard.runtime.store.health import store_health
from callboard.runtime.store.rows import CommitResult
from support.gateway.daemon_scene import Daemon, open_client, open_daemon
from support.stage import open_in
from support.waits import until


async def ask(daemon: Daemon, path: str) -> str:
    """The first line of the answer to a plain request, and its body."""
    async with await trio.open_tcp_stream("127.0.0.1", daemon.gateway.port) as stream:
        host, bearer = f"127.0.0.1:{daemon.gateway.port}", f"Authorization: Bearer {daemon.token}"
        bearer += "\r\nConnection: close"
        await stream.send_all(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{bearer}\r\n\r\n".encode())
        answer = b"".join([data async for data in stream]).decode()
    return answer.splitlines()[0] + " " + answer.partition("\r\n\r\n")[2]


async def test_a_disk_that_does_not_answer_is_seen_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    model = callboard.ScriptedModel([callboard.reply("Hi.")])
    async with open_daemon(model, data=data) as daemon, open_client(daemon) as client:
        session = (await client.create_session()).session_id
        health = host_of(daemon.runtime).plan.store.health
        assert "200" in await ask(daemon, "/readyz")
        commit, is_stuck, answers = health.room.commit, threading.Event(), threading.Event()

        def stuck(*args: Any) -> list[CommitResult]:
            is_stuck.set()
            answers.wait()
            return commit(*args)

        monkeypatch.setattr(health.room, "commit", stuck)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.prompt, session, "Hello.")
            try:
                await until(is_stuck.is_set)
                monkeypatch.setattr(store_health, "STUCK_SECONDS", 1e-6)
                assert "503 " in await ask(daemon, "/readyz")
                figures = await ask(daemon, "/metrics")
                assert "callboard_storage_failed 1" in figures
                assert "callboard_storage_waiting_seconds 0\n" not in figures
                async with open_client(daemon) as other:  # requests of one have an order
                    work = (await other.status()).work
                assert work is not None
                assert "has not answered for" in work.storage_failed
            finally:
                monkeypatch.undo()
                answers.set()
        assert "200" in await ask(daemon, "/readyz")


async def test_nothing_is_acknowledged_after_the_data_folder_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_health, "LOOK_SECONDS", 0.0)
    replies = [callboard.reply("Hi.")] * 2

    async def live() -> None:
        async with open_in(tmp_path, replies, data=tmp_path / "data", strict=False) as runtime:
            session = await runtime.create_session()
            assert await session.run("Hello.") == "Hi."
            shutil.rmtree(tmp_path / "data")
            with pytest.raises(StorageFailed, match="removed while it was in use"):
                await session.run("Still there?")
            await Heartbeat(runtime, SystemdNotifier()).beat()  # a daemon ends with the next one
            await trio.sleep_forever()

    with trio.fail_after(30), pytest.raises(StorageError, match="removed while it was in use"):
        await live()
    assert not (tmp_path / "data").exists()
