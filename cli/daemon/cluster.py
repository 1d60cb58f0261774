"""`callboard cluster`: the nodes that share a store in PostgreSQL; the same whichever machine asks."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated

from cyclopts import App, Parameter

from ...config.files import load_settings
from ...runtime.cluster.nodes import Node
from ...runtime.cluster.registry import Registry
from ...runtime.errors import ConflictError, NotFoundError, ValidationError
from ...runtime.store.postgres.address import address_of, check_driver
from ..exit_codes import ANSWERED, FAILED
from ..parameters import Config, Json
from ..terminal.escaping import safe_line
from ..terminal.json_lines import json_line
from ..terminal.style import counted
from .commands import StoreUrl

cluster = App(
    name="cluster",
    help="Show the nodes that share a store in PostgreSQL, and have one give its sessions away.",
)

NodeName = Annotated[
    str, Parameter(help="The name of a node, as `callboard cluster status` lists it.")
]


@cluster.command
def status(*, store: StoreUrl = None, json: Json = False, config: Config = None) -> int:
    """List the nodes of the cluster, with their sessions and leases.

    Exits with 1 when none is live.
    """
    with _registry(store, config) as registry:
        seen = registry.seen()
        counts = registry.counts()
    if json:
        for node, left_ms in seen:
            found = {"node": node.node_id, "term": node.term, "state": node.state, "url": node.url}
            more = {
                "version": node.version,
                "sessions": counts.get(node.node_id, 0),
                "lease_ms": left_ms,
            }
            sys.stdout.write(json_line({**found, **more}))
    else:
        lines = [_line(node, left_ms, counts.get(node.node_id, 0)) for node, left_ms in seen]
        sys.stdout.write("\n".join(lines or ["No node has joined this cluster yet."]) + "\n")
    return ANSWERED if any(node.state == "live" and left > 0 for node, left in seen) else FAILED


@cluster.command
def drain(node: NodeName, /, *, store: StoreUrl = None, config: Config = None) -> int:
    """Have a node end its turns in order and stop; the others go on with its sessions."""
    with _registry(store, config) as registry:
        is_asked = registry.drain(node)
        found = next((each for each in registry.nodes() if each.node_id == node), None)
    if not is_asked:
        if found is None:
            raise NotFoundError(
                f"There is no node {node} in this cluster: `callboard cluster status` lists them."
            )
        raise ConflictError(f"Node {node} is {found.state} already.")
    sys.stdout.write(
        f"Node {node} ends its turns, and then stops; the others go on with its sessions.\n"
    )
    return ANSWERED


@contextmanager
def _registry(store: str | None, config: Config) -> Generator[Registry]:
    url = store or load_settings(config).store.url
    if url is None:
        raise ValidationError(
            "The nodes of a cluster share a store in PostgreSQL: say which with --store "
            "postgresql://USER@HOST/DATABASE, or [store] url in callboard.toml.",
            field="store",
        )
    check_driver()
    from ...runtime.cluster.postgres import PostgresDatabase  # behind the check for its driver

    database = PostgresDatabase(address_of(url, may_hold_password=False))
    try:
        yield Registry(database)
    finally:
        database.close()


def _line(node: Node, left_ms: int, sessions: int) -> str:
    state: str = node.state
    if node.state in {"live", "draining"}:
        late = "" if left_ms > 0 else ", its lease has run out"
        state = f"{state}{late}"
    return (
        f"{safe_line(node.node_id):16}  {state}, term {node.term}, {counted(sessions, 'session')}, "
        f"{safe_line(node.url)}, callboard {safe_line(node.version)}"
    )
