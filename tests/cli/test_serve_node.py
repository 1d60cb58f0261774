"""`callboard serve --node NAME`: a node of a cluster by its command line alone, as Kubernetes and Ray start one."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

pytest.importorskip("psycopg", reason="the extra postgres is not installed")

from callboard.actors.cluster.opening import default_url
from support.cli.command import Command
from support.cli.command import command as command
from support.cli.daemon_process import serving
from support.postgres.databases import new_database
from support.postgres.server import needs_postgres


@pytest.fixture
def url() -> Iterator[str]:
    needs_postgres()
    with new_database() as made:
        yield made


async def test_a_node_is_named_by_the_command_line_and_says_the_port_that_it_took(
    command: Command, url: str
) -> None:
    async with serving(command, "--store", url, "--node", "a") as daemon:
        listed = await command("cluster", "status", "--store", url, "--json")
        (row,) = map(json.loads, listed.out.splitlines())
    assert (row["node"], row["state"]) == ("a", "live")
    assert row["url"] == daemon.url.replace("ws://", "http://").removesuffix("/ws")
    assert not row["url"].endswith(":0")
    given = ("--node", "b", "--node-url", "http://b.example:8790")
    async with serving(command, "--store", url, *given):
        listed = await command("cluster", "status", "--store", url, "--json")
    rows = {row["node"]: row for row in map(json.loads, listed.out.splitlines())}
    assert rows["b"]["url"] == "http://b.example:8790"


async def test_a_name_that_can_not_be_one_is_refused(command: Command) -> None:
    ran = await command("serve", "--node", "no spaces")
    assert (ran.code, "--node" in ran.err) == (1, True)
    ran = await command("serve", "--node", "a")
    assert (ran.code, "needs a store that several nodes share" in ran.err) == (1, True)


def test_a_node_that_listens_everywhere_is_reached_by_its_machines_name() -> None:
    assert default_url("127.0.0.1", 1) == "http://127.0.0.1:1"
    assert default_url("::1", 1) == "http://[::1]:1"
    assert default_url("0.0.0.0", 1) == f"http://{socket.gethostname()}:1"
