"""A database of the first release that had nodes, as `pg_dump` wrote it: a node of today goes up with it beside an older one."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

pytest.importorskip("psycopg", reason="the extra postgres is not installed")
import psycopg

import callboard
from callboard.config.sections import ClusterSettings
from callboard.config.settings import StoreSettings
from callboard.providers.testing.script import reply
from callboard.runtime.errors import CallboardError
from callboard.runtime.store.postgres import schema
from support.postgres.databases import empty_database
from support.postgres.server import needs_postgres
from support.waits import until

RECORDED = Path(__file__).parents[1] / "support" / "postgres" / "recorded" / "first_nodes.sql"
"""Two sessions of a node named `old`, the first with two turns and the other with one; format 2."""
AN_HOUR_MS = 3_600_000
LEASE = (
    "update nodes set lease_until_ms ="
    " (extract(epoch from clock_timestamp()) * 1000)::bigint + %s where node_id = 'old'"
)
PATIENCE_SECONDS = 30.0


async def test_a_database_of_the_first_nodes_goes_up_beside_one_of_them(tmp_path: Path) -> None:
    needs_postgres()
    work = tmp_path / "work"
    work.mkdir()
    with empty_database() as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute(RECORDED.read_bytes())
        connection.execute("set search_path to public")
        first, other = connection.execute("select session_id from sessions order by id").fetchall()
        connection.execute(LEASE, (AN_HOUR_MS,))
        async with callboard.open_runtime(
            model=callboard.ScriptedModel([reply(f"By new {n}.") for n in range(3)]),
            settings=callboard.Settings(
                store=StoreSettings(url=url), cluster=ClusterSettings(node="new", url="http://new")
            ),
            workspace=work,
            data=tmp_path / "new",
            environ={},
            policy="auto",
        ) as runtime:
            found = schema.version_of(connection)
            assert found is not None
            assert found.steps == len(schema.MIGRATIONS)
            # What the older release has on record is where today's queries look for it.
            sql = "select count(*) from turns where started_seq is not null"
            assert connection.execute(sql).fetchone() == (3,)
            # The older one holds its lease: its sessions are its own. New ones are the new node's.
            with pytest.raises(
                CallboardError, match="runs on node old, at http://old: ask it there"
            ):
                await (await runtime.get_session(first[0])).run("Whose?")
            made = await runtime.create_session()
            assert await made.run("Mine?") == "By new 0."
            # When its lease is over, the new one goes on with them.
            connection.execute(LEASE, (0,))
            lives = "select 1 from nodes where node_id = 'old' and state = 'live'"
            with trio.fail_after(PATIENCE_SECONDS):
                await until(lambda: not connection.execute(lives).fetchall())
            for (session_id,) in (first, other):
                session = await runtime.get_session(session_id)
                assert (await session.run("Still?")).startswith("By new")
        sql = "select 1 from events group by session having count(*) <> max(seq) or min(seq) <> 1"
        assert connection.execute(sql).fetchall() == []
