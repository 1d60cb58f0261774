"""`callboard serve --node NAME`: a node of a cluster by its command line alone, as Kubernetes and Ray start one."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="the extra postgres is not installed")
import psycopg

from callboard.actors.cluster.opening import default_url
from callboard.cli.cluster import commands as cluster_commands
from callboard.cli.daemon.serve import fenced_in
from callboard.cli.doctor.doctor import store_finding
from callboard.cli.doctor.nodes import node_findings
from callboard.client.client import connect
from callboard.config.sections import ClusterSettings
from callboard.config.settings import Settings, StoreSettings
from callboard.providers.testing.script import stall
from callboard.providers.testing.scripted_server import open_scripted_server
from callboard.runtime.cluster.postgres import PostgresDatabase
from callboard.runtime.errors import NodeFenced, StorageError
from callboard.runtime.store.file import keep_address
from callboard.runtime.store.postgres.address import address_of
from callboard.runtime.store.postgres.schema import MIGRATIONS, migrate
from support.cli.command import Command
from support.cli.command import command as command
from support.cli.daemon_process import serving
from support.postgres.databases import empty_database, new_database
from support.postgres.server import needs_postgres
from support.waits import until


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


async def test_the_cluster_is_found_by_the_data_folder_of_a_node(
    command: Command, url: str, tmp_path: Path
) -> None:
    missing = await command("cluster", "status")
    assert (missing.code, "--store" in missing.err) == (1, True)
    async with serving(command, "--store", url, "--node", "a"):
        data = str(command.home / "data")
        for words in ((), ("--data", data)):
            listed = await command("cluster", "status", "--json", *words)
            assert [json.loads(line)["node"] for line in listed.out.splitlines()] == ["a"]
        elsewhere = await command("cluster", "status", "--data", str(tmp_path / "other"))
        assert (elsewhere.code, "--store" in elsewhere.err) == (1, True)
        drained = await command("cluster", "drain", "a", "--data", data)
        assert (drained.code, drained.out.startswith("Node a ends")) == (0, True)


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (0, "has no store of callboard yet"),
        (1, "has format 1, written by callboard .*; this needs format [28]. Start a node"),
        (len(MIGRATIONS) + 1, "written by callboard .*Install callboard .* or later here"),
    ],
)
async def test_a_database_of_another_format_is_no_unknown_table(
    url: str, tmp_path: Path, steps: int, words: str
) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    with empty_database() as other:
        with psycopg.connect(
            other, autocommit=True, cursor_factory=psycopg.RawCursor
        ) as connection:
            if steps:
                more = (*MIGRATIONS, "alter table nodes rename column url to address")
                migrate(connection, "it", steps=more[:steps])
        for ask in (
            partial(cluster_commands.status, store=other),
            partial(cluster_commands.drain, "a", store=other),
        ):
            with pytest.raises(StorageError, match=words):
                ask(data=data)
        settings = Settings(store=StoreSettings(url=other), cluster=ClusterSettings(node="a"))
        [found] = await node_findings(settings, data)
        assert (found.state, bool(re.search(words, found.words))) == ("problem", True)
        if steps > len(MIGRATIONS):
            keep_address(data, other)
            store = store_finding(data, settings.sessions)
            assert (store.state, bool(re.search(words, store.words))) == ("problem", True)
            assert "rescue" not in store.fix
            assert "docs/postgresql.md" in store.fix
    assert cluster_commands.status(store=url, data=data) == 1  # the control: no node has joined


async def test_a_name_that_can_not_be_one_is_refused(command: Command) -> None:
    ran = await command("serve", "--node", "no spaces")
    assert (ran.code, "--node" in ran.err) == (1, True)
    ran = await command("serve", "--node", "a")
    assert (ran.code, "needs a store that several nodes share" in ran.err) == (1, True)


def test_a_node_that_listens_everywhere_is_reached_by_its_machines_name() -> None:
    assert default_url("127.0.0.1", 1) == "http://127.0.0.1:1"
    assert default_url("::1", 1) == "http://[::1]:1"
    assert default_url("0.0.0.0", 1) == f"http://{socket.gethostname()}:1"


@pytest.mark.parametrize("is_asked", [False, True])
def test_a_node_that_was_fenced_says_so_before_it_begins_anew(
    tmp_path: Path, is_asked: bool
) -> None:
    """In a process of its own, since a daemon forbids its process core dumps, and here it becomes another program."""
    ran = subprocess.run(
        [sys.executable, "-c", FENCED, str(tmp_path), str(int(is_asked)), "anew"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert ("it has begun anew" in ran.stdout) is not is_asked
    for said in (ran.stderr, (tmp_path / "callboard.log").read_text()):
        assert said.count("away for longer than its lease") == 1


FENCED = """
import sys
from pathlib import Path

from callboard.cli.daemon import serve
from callboard.runtime.errors import NodeFenced

data, is_asked = Path(sys.argv[1]), sys.argv[2] == "1"
(data / "callboard.toml").touch()


def fenced(plan):
    if is_asked:
        plan.tell_stopping()
    raise NodeFenced("node a was away for longer than its lease")


serve._run = fenced
sys.orig_argv[1:] = ["-c", "print('it has begun anew')"]
serve.serve(serve.ServeOptions(port=0), data / "callboard.toml", data, lambda: False)
"""
"""A daemon whose node is fenced as soon as it runs, and what its command does then."""


def test_a_node_that_was_fenced_is_told_from_one_that_failed() -> None:
    fenced, lost = NodeFenced("others have taken its sessions"), StorageError("not stored")
    assert fenced_in(fenced) is fenced
    assert fenced_in(lost) is None
    inner = ExceptionGroup("", [fenced, lost])
    assert fenced_in(ExceptionGroup("", [lost, inner])) is fenced
    assert fenced_in(ExceptionGroup("", [lost, lost])) is None
    assert fenced_in(ExceptionGroup("", [inner, ValueError("a bug")])) is None


async def test_a_node_that_is_fenced_while_it_stops_ends_and_does_not_begin_anew(
    command: Command, url: str
) -> None:
    data, database = command.home / "data", PostgresDatabase(address_of(url))

    def state() -> str:
        return str(database.rows("select state from nodes", ())[0][0])

    def log() -> str:
        return (data / "callboard.log").read_text()

    async with open_scripted_server([stall("Begun.")]) as model:
        command.configure(f'[providers.slow]\nbase_url = "{model.base_url}"\n')
        given = ("--node", "a", "--model", "slow/text-5", "--root", str(command.workspace))
        async with serving(command, "--store", url, *given) as daemon:
            async with connect(daemon.url, daemon.token.reveal()) as client:
                row = await client.create_session(workspace=str(command.workspace))
                await client.prompt(row.session_id, "Go.")
                await until(lambda: len(model.requests) == 1)
            os.kill(daemon.pid, signal.SIGTERM)
            await until(lambda: state() == "draining")
            database.rows("update nodes set state = 'fenced'", ())
            await until(lambda: "others have taken its sessions" in log())
            await until(lambda: has_ended(daemon.pid))
    assert (state(), log().count("joined, term")) == ("fenced", 1)
    database.close()


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or waits for its parent alone; one that begins anew goes on under its number."""
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:
        return True
