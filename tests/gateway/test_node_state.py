"""What people and clients see of a cluster at one of its nodes, while its database answers and while it does not."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

pytest.importorskip("psycopg", reason="the extra postgres is not installed")

import callboard
from callboard.cli.daemon.status import _cluster
from callboard.cli.doctor.nodes import node_findings
from callboard.config.sections import ClusterSettings
from callboard.config.settings import StoreSettings
from callboard.embedding.runtime import host_of
from callboard.runtime.wire.fields import Role
from support.gateway.daemon_scene import Daemon, open_client, open_daemon
from support.postgres.databases import new_database
from support.postgres.server import needs_postgres, own_cluster
from support.waits import until

WAIT_SECONDS = 60.0


@pytest.fixture
def url() -> Iterator[str]:
    needs_postgres()
    with new_database() as made:
        yield made


def settings_of(url: str, node: str, address: str) -> callboard.Settings:
    cluster = ClusterSettings(node=node, url=address)
    return callboard.Settings(store=StoreSettings(url=url), cluster=cluster)


async def test_status_lists_the_nodes_and_says_what_is_wrong(url: str) -> None:
    one_address = "http://127.0.0.1:9"
    async with (
        open_daemon(configured=settings_of(url, "a", one_address)) as a,
        open_daemon(configured=settings_of(url, "b", one_address)) as b,
        open_client(a) as client,
        open_client(b, b.new_token("guest", Role.OBSERVER, sessions=("session_1",))) as limited,
    ):
        await client.create_session()
        status = await client.status()
        assert status.cluster is not None
        assert status.cluster.node == "a"
        assert status.cluster.is_held
        assert [(row.name, row.state, row.sessions) for row in status.cluster.nodes] == [
            ("a", "live", 1),
            ("b", "live", None),
        ]
        lines = _cluster(status)
        assert lines[0] == "  cluster:       this is node a"
        assert "live, renewed " in lines[1]
        assert f"nodes a and b say that they are reached at one address, {one_address}" in lines[3]
        assert (await limited.status()).cluster is None  # it may know of two sessions alone


async def test_a_daemon_alone_has_no_cluster() -> None:
    async with open_daemon() as daemon, open_client(daemon) as client:
        status = await client.status()
        assert status.cluster is None
        assert _cluster(status) == []


async def test_doctor_names_nodes_that_cannot_be_reached_and_a_name_that_is_taken(
    url: str, tmp_path: Path
) -> None:
    async with open_daemon(configured=settings_of(url, "a", "")) as a:
        reached = f"http://127.0.0.1:{a.gateway.port}"
        async with open_daemon(configured=settings_of(url, "b", reached)):
            with socket.socket() as nobody:  # bound, and listening to nobody
                nobody.bind(("127.0.0.1", 0))
                away = f"http://127.0.0.1:{nobody.getsockname()[1]}"
                async with open_daemon(configured=settings_of(url, "c", away)):
                    other = settings_of(url, "b", "http://other")
                    found = await node_findings(other, tmp_path)
    words = [each.words for each in found if each.state != "good"]
    assert found[0].words == "3 nodes of 3 are up; this one is b"
    assert sum("can't be reached" in each for each in words) == 2  # a says its default port
    assert f"node c can't be reached from here, at {away}: it takes no connection" in str(words)
    assert "another machine is node b already, at " + reached in str(words)


async def test_doctor_says_that_a_database_is_away(tmp_path: Path) -> None:
    away = settings_of("postgresql:///nothing?host=/nowhere", "a", "")
    (found,) = await node_findings(away, tmp_path)
    assert found.state == "problem"
    assert "does not answer" in found.words
    (found,) = await node_findings(callboard.Settings(cluster=ClusterSettings(node="a")), tmp_path)
    assert "no store that several nodes share" in found.words


async def status_of(daemon: Daemon) -> str:
    """What an operator sees at a client that comes just now."""
    async with open_client(daemon) as client:
        return "\n".join(_cluster(await client.status()))


async def test_clients_are_told_that_the_database_is_away_and_that_it_is_back() -> None:
    needs_postgres()
    with own_cluster() as cluster:
        async with open_daemon(configured=settings_of(cluster.url, "a", "")) as a:
            node = host_of(a.runtime).plan.node
            assert node is not None
            with trio.fail_after(WAIT_SECONDS):
                async with open_client(a) as client:
                    session = await client.create_session()
                    assert client.store_unavailable is None
                    await trio.to_thread.run_sync(cluster.stop)
                    await until(lambda: client.store_unavailable is not None)
                    assert client.store_unavailable is not None
                    assert "has not answered node a" in client.store_unavailable.reason
                    status = await client.status()
                    assert status.cluster is not None
                    assert status.cluster.away_since_ms == client.store_unavailable.since_ms
                    assert [row.lease_ms for row in status.cluster.nodes] == [None]
                    await until(lambda: not node.may_begin())
                    assert "lease is not held" in await status_of(a)
                    async with open_client(a) as late:
                        await until(lambda: late.store_unavailable is not None)
                    await trio.to_thread.run_sync(cluster.start)
                    await until(lambda: client.store_unavailable is None)
                    await until(node.may_begin)
                    await client.ask(session.session_id, "What time is it in Tokyo?")
