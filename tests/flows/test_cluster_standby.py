"""A standby takes over the database of a cluster, with all that was acknowledged, or without the last of it."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
import trio

pytest.importorskip("psycopg", reason="the extra postgres is not installed")
import psycopg

import callboard
from callboard.client.client import Client, connect
from callboard.config.sections import ClusterSettings
from callboard.config.settings import StoreSettings
from callboard.embedding.runtime import host_of
from callboard.providers.testing.script import reply
from callboard.runtime.errors import ConflictError, RecordLost, StorageError
from callboard.runtime.events import Stored
from support.gateway.daemon_scene import Daemon
from support.gateway.kept_daemon import open_kept
from support.postgres.server import Cluster, Standby, needs_postgres, own_pair
from support.waits import until

WAIT_SECONDS = 90.0


@pytest.fixture(autouse=True)
def _needs_postgres() -> None:
    needs_postgres()


def opened(
    url: str, node: str, folder: Path, port: int = 0, token: str = ""
) -> AbstractAsyncContextManager[Daemon]:
    cluster = ClusterSettings(node=node, url=f"http://{node}")
    return open_kept(
        folder,
        callboard.ScriptedModel([reply(f"By {node}.")] * 5),
        port=port,
        token=token,
        data=node,
        settings=callboard.Settings(store=StoreSettings(url=url), cluster=cluster),
        policy="auto",
    )


def fail_over(primary: Cluster, standby: Standby) -> None:
    primary.stop()
    standby.promote()


async def test_a_standby_with_all_that_was_acknowledged_takes_over_and_nobody_begins_anew(
    tmp_path: Path,
) -> None:
    with own_pair() as (primary, standby, url):
        async with opened(url, "a", tmp_path) as a:
            epoch = await a.runtime.store.epoch()
            session = await a.runtime.create_session()
            assert await session.run("One?") == "By a."
            await trio.to_thread.run_sync(standby.wait_caught_up)
            await trio.to_thread.run_sync(fail_over, primary, standby)
            with trio.fail_after(WAIT_SECONDS):
                while True:
                    try:
                        assert await session.run("Two?") == "By a."
                        break
                    except StorageError:  # it was said while the database was away
                        await trio.sleep(0.2)
            node = host_of(a.runtime).plan.node
            assert node is not None
            assert node.life is not None
            assert node.life.term == 1
            assert await a.runtime.store.epoch() == epoch


async def serve(
    opening: AbstractAsyncContextManager[Daemon],
    ended: list[BaseException],
    *,
    task_status: trio.TaskStatus[Daemon],
) -> None:
    try:
        async with opening as daemon:
            task_status.started(daemon)
            await trio.sleep_forever()
    except RecordLost as error:
        ended.append(error)


def note(event: object, seqs: list[int]) -> None:
    if isinstance(event, Stored):
        seqs.append(event.seq)


async def hear(client: Client, session_id: str, seqs: list[int], told: list[str]) -> None:
    try:
        async with client.events(session_id, after_seq=0) as events:
            async for event in events:
                note(event, seqs)
    except ConflictError as error:
        told.append(str(error))


async def test_what_clients_hold_beyond_the_record_of_a_standby_is_said(tmp_path: Path) -> None:
    seqs, told = list[int](), list[str]()
    ended_a, ended_b = list[BaseException](), list[BaseException]()
    with own_pair() as (primary, standby, url):
        async with trio.open_nursery() as nursery:
            a: Daemon = await nursery.start(serve, opened(url, "a", tmp_path), ended_a)
            await nursery.start(serve, opened(url, "b", tmp_path), ended_b)
            session_id = (await a.runtime.create_session()).session_id
            async with connect(a.url, a.token) as client, connect(a.url, a.token) as other:
                with trio.fail_after(WAIT_SECONDS):
                    nursery.start_soon(hear, client, session_id, seqs, told)  # noqa: ASYNC111  it is ended first
                    assert await other.ask(session_id, "One?") == "By a."
                    await trio.to_thread.run_sync(standby.wait_caught_up)
                    await trio.to_thread.run_sync(standby.fall_behind)
                    assert await other.ask(session_id, "Two?") == "By a."
                    await until(lambda: seqs)
                    last = seqs[-1]
                    await trio.to_thread.run_sync(fail_over, primary, standby)
                    await until(lambda: ended_a and ended_b)
                    assert f"{session_id} had {last}, has " in str(ended_a[0])
                    assert "another node had put on record" in str(ended_b[0])
                    async with opened(url, "a", tmp_path, a.gateway.port, a.token) as again:
                        await until(lambda: told)
                        assert "another store now" in told[0]
                        messages = await again.runtime.store.messages(session_id)
                        assert [row.content for row in messages] == ["One?", "By a."]
                        session = await again.runtime.get_session(session_id)
                        assert await session.run("Two again?") == "By a."
                        with psycopg.connect(standby.url) as connection:
                            rows = connection.execute(
                                "select count(*), max(seq) from events group by session"
                            ).fetchall()
                        assert all(count == newest for count, newest in rows)
            nursery.cancel_scope.cancel()
