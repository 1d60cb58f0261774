"""A database for each test, from the server of the run."""

from __future__ import annotations

import itertools
import os
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from urllib.parse import urlsplit, urlunsplit

import psycopg

from callboard.runtime.store.postgres.schema import migrate
from support.postgres.server import server_url

_numbers = itertools.count(1)
LONGEST_STATEMENT = "30s"
"""Of what makes, empties and removes databases: what waits for longer waits for a lock that nobody gives back."""
_BOUNDED = f"-c statement_timeout={LONGEST_STATEMENT} -c lock_timeout=5s"
MOST_TRIES = 3
"""To empty a database: who was just connecting when its users were ended may hold a lock."""


@cache
def administrator() -> psycopg.Connection[tuple[object, ...]]:
    """The connection that makes and removes databases; one for each process."""
    return psycopg.connect(server_url(), autocommit=True, options=_BOUNDED)


def address(name: str) -> str:
    """Return the address of a database of the server."""
    return urlunsplit(urlsplit(server_url())._replace(path=f"/{name}"))


_idle: list[str] = []
"""Databases with the tables of a store, and without a row: making one takes half a second."""

_EMPTIED = (
    "select string_agg(format('delete from %I', c.relname), ';') from pg_class c"
    " where c.relkind in ('r', 'p') and not c.relispartition"
    " and c.relnamespace = 'public'::regnamespace and c.relname not in ('meta', 'callboard')"
)
_RESTARTED = (
    "select string_agg(format('alter sequence %I restart', c.relname), ';') from pg_class c"
    " where c.relkind = 'S' and c.relnamespace = 'public'::regnamespace"
)
_FRESH = (
    "delete from meta where key <> 'epoch';"
    " update meta set value = replace(gen_random_uuid()::text, '-', '')"
)


@contextmanager
def new_database() -> Generator[str]:
    """Give a database with the tables of a store, and no row; its address."""
    name = _idle.pop() if _idle else _made()
    try:
        yield address(name)
    finally:
        _empty(name)
        _idle.append(name)


@contextmanager
def empty_database() -> Generator[str]:
    """Give a database without tables; its address. In the end it is removed, whoever uses it."""
    name = f"empty_{os.getpid()}_{next(_numbers)}"
    administrator().execute(f'create database "{name}"'.encode())
    try:
        yield address(name)
    finally:
        administrator().execute(f'drop database "{name}" with (force)'.encode())


def _made() -> str:
    name = f"test_{os.getpid()}_{next(_numbers)}"
    administrator().execute(f'create database "{name}"'.encode())
    with psycopg.connect(
        address(name), autocommit=True, cursor_factory=psycopg.RawCursor
    ) as connection:
        migrate(connection, name)
    return name


def _empty(name: str) -> None:
    for tries in range(1, MOST_TRIES + 1):
        _end_users(name)
        with psycopg.connect(address(name), autocommit=True, options=_BOUNDED) as connection:
            try:
                for statements in (_EMPTIED, _RESTARTED):
                    found = connection.execute(statements).fetchone()
                    assert found is not None
                    connection.execute(found[0])
                connection.execute(_FRESH)
            except (psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled) as error:
                if tries == MOST_TRIES:
                    raise AssertionError(f"{name} can't be emptied: {_users(name)}") from error
            else:
                return


def _users(name: str) -> object:
    """Return who uses a database, and for what."""
    asked = "select pid, state, wait_event, query from pg_stat_activity where datname = %s"
    return administrator().execute(asked, (name,)).fetchall()


def _end_users(name: str) -> None:
    """End what still uses a database: a test may have lost a store on purpose."""
    administrator().execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name,)
    )


def remove_databases() -> None:
    """Remove all of this process, from a server that goes on."""
    while _idle:
        administrator().execute(f'drop database "{_idle.pop()}" with (force)'.encode())
    administrator().close()
    administrator.cache_clear()
