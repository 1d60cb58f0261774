"""What a node is started with, wherever it runs: its callboard.toml, its command line, and the time that its end takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import tomli_w

from ...config.sections import RootSettings
from ...gateway.lifecycle import END_SECONDS
from ..daemon.serve import LOOPBACK
from .file import ClusterFile

MARGIN_SECONDS = 10.0
"""What the end of a node may take beyond its own bounds, on a busy machine, before it is killed."""


class NodePlan(msgspec.Struct, frozen=True, kw_only=True):
    """A node, or all nodes that are alike.

    Attributes:
        configuration: The text of its callboard.toml.
        arguments: Of the Python that runs it.
    """

    configuration: str
    arguments: tuple[str, ...]


def plan_node(
    file: ClusterFile,
    *,
    configuration: str,
    data: str,
    node: str = "",
    url: str = "",
    capacity: int = 1,
    hosts: tuple[str, ...] = (),
    roots: tuple[str, ...] | None = None,
) -> NodePlan:
    """Return the plan of a node.

    Args:
        file: The cluster.
        configuration: Where its callboard.toml will lie.
        data: Its data folder.
        node: Its name, when its callboard.toml is for it alone.
        url: Its address, likewise.
        capacity: Its share.
        hosts: Names by which it is called, besides those of the file.
        roots: The names of the roots that it has; by default all.
    """
    arguments = ["-m", "callboard", "serve", "--config", configuration, "--data", data]
    if file.host not in LOOPBACK:
        arguments.append("--expose")
    has = {name: root for name, root in file.named_roots.items() if roots is None or name in roots}
    cluster: dict[str, Any] = {"node": node, "url": url} if node else {}
    if node and capacity != 1:
        cluster["capacity"] = capacity
    text = _configuration(file, cluster, hosts, has)
    return NodePlan(configuration=text, arguments=tuple(arguments))


def stop_seconds(file: ClusterFile) -> int:
    """Return how long the end of a node may take: its turns, then their programs, then the rest."""
    return round(file.drain_seconds + END_SECONDS + MARGIN_SECONDS)


def _configuration(
    file: ClusterFile,
    cluster: Mapping[str, Any],
    hosts: tuple[str, ...],
    roots: Mapping[str, RootSettings],
) -> str:
    server: dict[str, Any] = {"host": file.host, "port": file.port}
    server["drain_seconds"] = file.drain_seconds
    if names := (*hosts, *file.allowed_hosts):
        server["allowed_hosts"] = list(dict.fromkeys(names))
    said = {name: value for name, value in file.settings.items() if name != "server"}
    server |= file.settings.get("server", {})
    made: dict[str, Any] = {"store": {"url": file.store.url}, "server": server}
    if roots:
        made["roots"] = {
            name: {"path": root.path, "shared": True} if root.shared else root.path
            for name, root in roots.items()
        }
    whole = {**said, **made, **({"cluster": cluster} if cluster else {})}
    return _HEAD + tomli_w.dumps(whole)


_HEAD = "# Made by `callboard cluster` from cluster.toml: change it there.\n"
