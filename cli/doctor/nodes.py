"""The checks of `callboard doctor` about a cluster: its nodes, and whether each can be reached from here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import trio

from ...config.daemon_file import find_daemon
from ...config.settings import Settings
from ...runtime.cluster.diagnosis import cluster_rows, problems_of
from ...runtime.cluster.registry import Registry
from ...runtime.errors import CallboardError
from ...runtime.store.file import address_in
from ...runtime.store.postgres.address import DatabaseAddress, address_of, check_driver
from ...runtime.store.postgres.schema import NODES_FORMAT
from ...runtime.wire.daemon import ClusterNodeRow
from ..terminal.style import counted
from .finding import Finding, good, problem, warning

CHECK = "cluster"
CONNECT_SECONDS = 3.0
"""Time to connect to a node: all are tried at once."""
MAX_AT_ONCE = 50
"""Connections that are tried at once, of a thousand nodes."""


async def node_findings(settings: Settings, data: Path) -> list[Finding]:
    """Look at the nodes of the cluster that the settings name."""
    node = settings.cluster.node
    url = settings.store.url or address_in(data)
    if url is None:
        words = f"[cluster] node is {node}, and no store that several nodes share is named"
        return [problem(CHECK, words, '[store] url = "postgresql://USER@HOST/DATABASE"')]
    try:
        rows, waiting = await trio.to_thread.run_sync(_read, address_of(url))
    except CallboardError as error:
        return [problem(CHECK, str(error), "docs/postgresql.md says what each message means")]
    up = [row for row in rows if row.state in {"live", "draining"}]
    words = f"{counted(len(up), 'node')} of {len(rows)} are up; this one is {node}"
    found = [good(CHECK, words)]
    found += [
        warning(CHECK, each, "`callboard cluster status` lists them")
        for each in problems_of(rows, waiting)
    ]
    found += _name(rows, node, settings.cluster.url, is_running=_runs(data))
    return found + await _reached(up)


def _read(address: DatabaseAddress) -> tuple[tuple[ClusterNodeRow, ...], dict[str, int]]:
    check_driver()
    from ...runtime.cluster.postgres import PostgresDatabase  # behind the check for its driver

    database = PostgresDatabase(address)
    try:
        database.check_format(least=NODES_FORMAT)
        return cluster_rows(Registry(database))
    finally:
        database.close()


def _runs(data: Path) -> bool:
    try:
        return find_daemon(data) is not None
    except CallboardError:
        return False  # the check of the locks says so


def _name(
    rows: Sequence[ClusterNodeRow], node: str, url: str, *, is_running: bool
) -> list[Finding]:
    """Check whether another machine has this node's name."""
    own = next(
        (row for row in rows if row.name == node and row.state in {"live", "draining"}), None
    )
    if own is None:
        if is_running:
            words = f"a daemon runs here, and node {node} is not up in the cluster"
            return [warning(CHECK, words, "`callboard logs` says why")]
        return []
    if not is_running or (url and own.url != url):
        words = f"another machine is node {node} already, at {own.url}: a second one of that name does not start"
        return [problem(CHECK, words, "a name of its own: [cluster] node in callboard.toml")]
    return []


async def _reached(up: Sequence[ClusterNodeRow]) -> list[Finding]:
    """Check whether the address of each node takes connections."""
    found: dict[str, Finding] = {}
    limit = trio.CapacityLimiter(MAX_AT_ONCE)

    async def look(row: ClusterNodeRow) -> None:
        async with limit:
            why = await _unreached(row.url)
        if why:
            words = f"node {row.name} can't be reached from here, at {row.url}: {why}"
            fix = f"[cluster] url of {row.name}, where others reach it; look at firewalls"
            found[row.name] = problem(CHECK, words, fix)

    async with trio.open_nursery() as nursery:
        for row in up:
            nursery.start_soon(look, row, name=f"look at node {row.name}")
    return [found[name] for name in sorted(found)]


async def _unreached(url: str) -> str:
    where = urlsplit(url)
    try:
        port = where.port or (443 if where.scheme in {"https", "wss"} else 80)
        if not where.hostname:
            return "this is no address"
        with trio.fail_after(CONNECT_SECONDS):
            stream = await trio.open_tcp_stream(where.hostname, port)
    except ValueError:
        return "this is no address"
    except trio.TooSlowError:
        return f"no answer within {CONNECT_SECONDS:g} s"
    except OSError:
        return "it takes no connection"
    await trio.aclose_forcefully(stream)
    return ""
