"""What the store in PostgreSQL costs: appends and a tool loop, against SQLite and a bare loop of psycopg.

    python benchmarks/store/postgres.py --store postgresql://HOST/DATABASE [--rounds 7] [--folder FOLDER]

The database must be empty, or be that of an earlier run. A row of `appends` is 64 sessions whose appends are
committed together; one of `toolloop` the two commits of an answer with a call and its result (see commits.py). The
bare loop sends, through psycopg's pipeline and in the same number of transactions, the statements that the store
has sent for the same appends, with the same values: what is left is what callboard does itself. All three run in
turn in each round; medians, wall clock. FOLDER should lie on the disk of the database.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import psycopg
import trio
from commits import LOOPS, SESSION, asked, loop, opening, result

from callboard.runtime.store.interface import Store
from callboard.runtime.store.postgres import connection as adapter
from callboard.runtime.store.postgres.address import address_of
from callboard.runtime.store.postgres.store import open_postgres_store
from callboard.runtime.store.rows import Append
from callboard.runtime.store.sqlite_store import open_disk_store

SESSIONS = 64
GROUPS = 20

Commits = list[list[Append]]
Sent = list[list[tuple[str, Any]]]
"""Statements by transaction."""

_numbers = itertools.count(time.time_ns())


def named(commits: Commits, name: str) -> Commits:
    """The same appends of another session."""
    return [
        [Append(each.session_id.replace(SESSION, name), each.events) for each in commit]
        for commit in commits
    ]


def groups() -> tuple[Commits, Commits]:
    """What begins the sessions, and the commits that are measured."""
    names = [f"{SESSION}{number:02}" for number in range(SESSIONS)]
    begun = [
        [Append(name, append.events) for name in names for append in commit] for commit in opening()
    ]
    measured: Commits = []
    for number in range(GROUPS):
        events = asked(number, 1)
        measured.append([Append(name, events) for name in names])
        measured.append([Append(name, result(events[1]).events) for name in names])
    return begun, measured


@contextmanager
def recorded() -> Generator[Sent]:
    """Note what is sent to the database in the block, by transaction."""
    sent: Sent = []
    send = adapter.PostgresConnection._send

    def noted(self: Any, text: str, values: Any) -> Any:
        if text == "begin":
            sent.append([])
        elif sent:
            sent[-1].append((text, values))
        return send(self, text, values)

    adapter.PostgresConnection._send = noted  # type: ignore[method-assign]
    try:
        yield sent
    finally:
        adapter.PostgresConnection._send = send  # type: ignore[method-assign]


async def seconds(store: Store, begun: Commits, measured: Commits) -> float:
    """The time of these commits."""
    for commit in begun:
        await store.commit(commit)
    began = time.perf_counter()
    for commit in measured:
        for each in await store.commit(commit):
            assert isinstance(each, tuple), each
    return time.perf_counter() - began


def bare_seconds(url: str, sent: Sent) -> float:
    """The time of the same statements on a bare connection, whose events are removed first."""
    with adapter.connect(address_of(url), writes=True) as connection:
        rows = (values for each in sent for text, values in each if "into events" in text)
        keys = {key for values in rows for key in values[::5]}  # five columns a row
        for key in keys:
            _rewind(connection, key)
        began = time.perf_counter()
        for statements in sent:
            with connection.pipeline():
                connection.execute(b"begin")
                for text, values in statements:
                    connection.cursor(binary=True).execute(text.encode(), values)
                connection.execute(b"commit")
        return time.perf_counter() - began


def _rewind(connection: psycopg.Connection[Any], key: int) -> None:
    """Take a session back to where the measured commits begin."""
    for table, head in (
        ("events", "seq > 3"),
        ("messages", "position > 1"),
        ("tool_calls", "true"),
        ("usage", "true"),
    ):
        connection.execute(f"delete from {table} where session = $1 and {head}".encode(), (key,))
    connection.execute(b"update sessions set head_seq = 3 where id = $1", (key,))


async def main(url: str, rounds: int, folder: str | None) -> None:
    """Print a row for each workload."""
    begun, measured = groups()
    workloads = {
        "appends": (begun, measured, SESSIONS * len(measured)),
        "toolloop": (opening(), list(loop()), LOOPS),
    }
    print("| row | unit | SQLite | bare psycopg | PostgreSQL | of bare | of SQLite |")
    print("|---|---|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory(dir=folder) as parent:
        for name, (before, commits, count) in workloads.items():
            took: dict[str, list[float]] = {"sqlite": [], "bare": [], "postgres": []}
            for number in range(rounds + 1):
                session = f"session_{next(_numbers)}"
                mine = named(before, session), named(commits, session)
                disk = await open_disk_store(Path(parent) / f"{name}-{number}")
                took["sqlite"].append(await seconds(disk, *mine))
                await disk.aclose()
                store = await open_postgres_store(url)
                took["postgres"].append(await seconds(store, *mine))
                await store.aclose()
                # Once more, for what it sends; the time of the recording counts for nobody.
                session = f"session_{next(_numbers)}"
                store = await open_postgres_store(url)
                mine = named(before, session), named(commits, session)
                for commit in mine[0]:
                    await store.commit(commit)
                with recorded() as sent:
                    await seconds(store, [], mine[1])
                await store.aclose()
                took["bare"].append(await trio.to_thread.run_sync(bare_seconds, url, sent))
            sqlite, bare, postgres = (median(times[1:]) / count * 1e6 for times in took.values())
            print(
                f"| {name} | µs {'an append' if name == 'appends' else 'a round'} | {sqlite:,.0f} | {bare:,.0f} |"
                f" {postgres:,.0f} | {postgres / bare:.2f}× | {postgres / sqlite:.2f}× |"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measures the store in PostgreSQL.")
    parser.add_argument("--store", required=True)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--folder", help="on the disk of the database")
    chosen = parser.parse_args()
    trio.run(main, chosen.store, chosen.rounds, chosen.folder)
