"""What is wrong with a cluster, as far as its rows say: for `callboard status`, `cluster status` and doctor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..wire.daemon import ClusterNodeRow
from .lease import LEASE_SECONDS
from .nodes import Node
from .registry import Registry
from .roots import node_of_root

LEASE_MS = int(LEASE_SECONDS * 1000)
_UP = ("live", "draining")


def node_rows(
    seen: Sequence[tuple[Node, int | None]], counts: Mapping[str, int]
) -> tuple[ClusterNodeRow, ...]:
    """Return nodes as people see them.

    Args:
        seen: The nodes, each with the milliseconds that are left of its lease; `None` where nobody knows.
        counts: How many sessions each owns.
    """
    return tuple(
        ClusterNodeRow(
            name=node.node_id,
            term=node.term,
            state=node.state,
            url=node.url,
            version=node.version,
            sessions=counts.get(node.node_id),
            lease_ms=left_ms,
            roots=node.roots,
            lag_ms=None if left_ms is None or node.state not in _UP else max(LEASE_MS - left_ms, 0),
        )
        for node, left_ms in seen
    )


def cluster_rows(registry: Registry) -> tuple[tuple[ClusterNodeRow, ...], dict[str, int]]:
    """Return the nodes as people see them, and how many sessions wait for each root that no node has. Blocks."""
    seen = registry.seen()
    return node_rows(seen, registry.counts()), waiting_of(seen, registry.waiting_counts())


def waiting_of(
    seen: Sequence[tuple[Node, int | None]], counts: Mapping[str, int]
) -> dict[str, int]:
    """Return how many sessions wait for each root that no node has, given how many of each root have no owner."""
    live = [node for node, _ in seen if node.state == "live"]
    return {
        root: count
        for root, count in sorted(counts.items())
        if not any(node.has(root) for node in live)
    }


def problems_of(
    rows: Sequence[ClusterNodeRow], waiting: Mapping[str, int] | None = None
) -> tuple[str, ...]:
    """Return what is wrong, one sentence for each, with what to do.

    Args:
        rows: The nodes.
        waiting: See `waiting_of`.
    """
    up = [row for row in rows if row.state in _UP]
    return (*_lapsed(rows), *_at_one_address(up), *_versions(up), *_waiting(waiting or {}))


def _lapsed(rows: Sequence[ClusterNodeRow]) -> list[str]:
    said: list[str] = []
    for row in rows:
        if row.state in _UP and row.lease_ms is not None and row.lease_ms <= 0:
            said.append(
                f"node {row.name} has not renewed its lease for {(row.lag_ms or 0) / 1000:.1f} s, and no other "
                "node has ended its term: see whether it runs, and whether it reaches the database"
            )
        elif row.state == "fenced":
            said.append(
                f"node {row.name} was fenced and has not come back: its process was killed, slept or was cut off, "
                f"and others have its sessions. Start it again at {row.url}, or leave it: it is forgotten after a week"
            )
    return said


def _at_one_address(up: Sequence[ClusterNodeRow]) -> list[str]:
    by_url: dict[str, list[str]] = {}
    for row in up:
        by_url.setdefault(row.url, []).append(row.name)
    return [
        f"nodes {' and '.join(names)} say that they are reached at one address, {url}: give each its own, [cluster] url"
        for url, names in by_url.items()
        if len(names) > 1
    ]


def _waiting(waiting: Mapping[str, int]) -> list[str]:
    said: list[str] = []
    for root, count in waiting.items():
        sessions = "1 session waits" if count == 1 else f"{count} sessions wait"
        if node := node_of_root(root):
            said.append(
                f"{sessions} for node {node} (waiting_for_node), whose own folders they work in: start it again"
            )
        else:
            said.append(
                f"{sessions} for a node with the root {root} (waiting_for_node), and none that is up has it: start one "
                f"with `callboard serve --root {root}=FOLDER`"
            )
    return said


def _versions(up: Sequence[ClusterNodeRow]) -> list[str]:
    by_version: dict[str, list[str]] = {}
    for row in up:
        by_version.setdefault(row.version, []).append(row.name)
    if len(by_version) < 2:
        return []
    which = "; ".join(
        f"{', '.join(names)}: {version}" for version, names in sorted(by_version.items())
    )
    return [f"nodes run different versions of callboard ({which}): finish the upgrade"]
