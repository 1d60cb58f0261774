"""Nodes of a cluster with their doors, in this process, and tokens that all of them know."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import callboard
from callboard.actors.cluster.node import ClusterNode
from callboard.config.keys.tokens import Credentials, Role
from callboard.config.sections import ClusterSettings, RootSettings, SandboxSettings, ServerSettings
from callboard.config.settings import StoreSettings
from callboard.embedding.runtime import host_of
from callboard.gateway.gateway import listen, open_gateway
from callboard.gateway.relays.relays import Relays
from callboard.providers.testing.script import reply
from support.gateway.daemon_scene import Daemon


def write_settings(config: Path, url: str, node: str, address: str) -> None:
    """Write a configuration file for a node, which has nothing but that."""
    config.parent.mkdir(mode=0o700, exist_ok=True)
    config.write_text(f'[store]\nurl = "{url}"\n[cluster]\nnode = "{node}"\nurl = "{address}"\n')


@asynccontextmanager
async def open_served(
    url: str,
    node: str,
    folder: Path,
    *,
    steps: Sequence[Any] = (),
    model: Any = None,
    reached_at: str = "",
    server: ServerSettings | None = None,
    token: str = "",
    roots: Mapping[str, str | RootSettings] | None = None,
    sandbox: SandboxSettings | None = None,
    capacity: int = 1,
    config: Path | None = None,
    **options: Any,
) -> AsyncGenerator[Daemon]:
    """A node of the cluster at a database, whose model says its name unless there are `steps`.

    Args:
        url: The database.
        node: The name of the node.
        folder: Each node has its own folder below it, and all share the workspace.
        steps: What its model answers.
        model: Another model.
        reached_at: Where the others are told to find it; by default where it is.
        server: Of its door.
        token: One that was made before.
        roots: Its named roots.
        sandbox: Of its programs.
        capacity: How large its share is.
        config: A file for its settings, which then has only the database and the node's name.
        options: Of `open_runtime`.
    """
    store, work = folder / node, folder / "work"
    work.mkdir(exist_ok=True)
    credentials = Credentials(store)
    token = token or credentials.create(f"test-{node}", Role.ADMIN).reveal()
    server = server or ServerSettings(port=0)
    listeners = await listen(server)
    port = listeners[0].socket.getsockname()[1]
    settings = callboard.Settings(
        store=StoreSettings(url=url),
        cluster=ClusterSettings(
            node=node, url=reached_at or f"http://127.0.0.1:{port}", capacity=capacity
        ),
        roots=dict(roots or {}),
        sandbox=sandbox or SandboxSettings(),
    )
    given: dict[str, Any] = {"settings": settings}
    if config is not None:
        given = {"config": config}
        write_settings(config, url, node, settings.cluster.url or "")
    async with (
        callboard.open_runtime(
            model=model or callboard.ScriptedModel(steps or [reply(f"By {node}.")] * 20),
            data=store,
            workspace=work,
            environ={},
            **given,
            **{"policy": "auto", "on_approval": "wait", **options},
        ) as runtime,
        open_gateway(runtime, server, store, listeners=listeners) as gateway,
    ):
        yield Daemon(gateway, runtime, credentials, token)


def node_of(daemon: Daemon) -> ClusterNode:
    node = host_of(daemon.runtime).plan.node
    assert node is not None
    return node


def relays_of(daemon: Daemon) -> Relays:
    relays = daemon.gateway.daemon.relays
    assert isinstance(relays, Relays)
    return relays
