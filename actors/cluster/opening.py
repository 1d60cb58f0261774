"""Makes this process's node of the settings; it joins when the runtime starts."""

from __future__ import annotations

import os
import socket
from itertools import starmap
from pathlib import Path

import trio

from ...config.sections import RootSettings
from ...config.settings import Settings
from ...runtime.cluster.fence import NodeFence
from ...runtime.cluster.nodes import Joining
from ...runtime.cluster.roots import NamedRoot, NamedRoots, keep_roots
from ...runtime.errors import ValidationError
from ...runtime.identity import VERSION
from ...runtime.kernel.lease_gate import LeaseGate
from ...runtime.store.interface import Store
from ...runtime.store.postgres.address import address_of, check_driver
from ...tools.processes.watchdog import Watchdog
from ...tools.sandbox.sandbox import Sandbox
from ...tools.workspace.roots import check_root
from .node import ClusterNode


def default_url(host: str, port: int) -> str:
    """Return where others reach a server that listens there; one that listens everywhere, by its machine's name."""
    if host in {"0.0.0.0", "::"}:
        host = socket.gethostname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def open_node(settings: Settings) -> ClusterNode:
    """Return the node that `[cluster]` names; raise `ValidationError` without a store that nodes can share."""
    cluster, server = settings.cluster, settings.server
    if settings.store.url is None:
        raise ValidationError(
            f"[cluster] node = {cluster.node!r} needs a store that several nodes share: say where it is with "
            "--store postgresql://USER@HOST/DATABASE, or [store] url.",
            field="cluster.node",
        )
    roots = NamedRoots(cluster.node, list(starmap(_opened, settings.named_roots.items())))
    joining = Joining(
        node_id=cluster.node,
        url=cluster.url or default_url(server.host, server.port),
        version=VERSION,
        capacity=cluster.capacity,
        roots=roots.names,
    )
    check_driver()
    from ...runtime.cluster.postgres import PostgresDatabase  # what needs the driver
    from ...runtime.cluster.rooted_queries import reads_of
    from ...runtime.store.postgres.store import open_postgres_store

    url = settings.store.url
    address = address_of(url)
    beats, claims, paths = (PostgresDatabase(address) for _ in range(3))

    async def open_store(fence: NodeFence, folder: Path | None) -> Store:
        store = await open_postgres_store(
            url, folder=folder, fence=fence, make_queries=reads_of(roots)
        )
        if folder is not None:
            await trio.to_thread.run_sync(keep_roots, folder, roots)
        return store

    return ClusterNode(beats, claims, paths, joining, open_store, roots=roots)


def _opened(name: str, root: RootSettings) -> NamedRoot:
    """Return a root as its folder really is; raise `ValidationError` for one that can't be a root. Blocks on the disk."""
    return NamedRoot(name, os.path.realpath(check_root(root.path)), root.shared)


def open_gate(node: ClusterNode, sandbox: Sandbox | None) -> tuple[LeaseGate, Watchdog]:
    """Return what keeps a node from acting for longer than its lease, and what ends its programs then."""
    gate, watchdog = LeaseGate(node.may_begin), Watchdog(node.acts_until)
    gate.hold = watchdog.hold
    if sandbox is not None:
        sandbox.watchdog = watchdog
    node.renewed, node.lost = watchdog.renewed, gate.cut_off
    if node.own_folders:
        gate.holding = node.locks.holding
    return gate, watchdog
