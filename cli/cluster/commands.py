"""`callboard cluster`: the nodes that share a store in PostgreSQL; the same whichever machine asks."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from ...config.files import load_settings
from ...runtime.cluster.diagnosis import cluster_rows, problems_of
from ...runtime.cluster.registry import Registry
from ...runtime.errors import ConflictError, NotFoundError, StorageError, ValidationError
from ...runtime.store.file import address_in
from ...runtime.store.postgres.address import address_of, check_driver
from ...runtime.store.postgres.schema import DRAIN_FORMAT, NODES_FORMAT
from ..daemon.commands import StoreUrl
from ..daemon.status import node_line
from ..exit_codes import ANSWERED, FAILED
from ..parameters import Config, Data, Json, data_path
from ..terminal.escaping import safe_line
from ..terminal.json_lines import json_line

cluster = App(
    name="cluster",
    help="Show and drain the nodes that share a store, and have systemd, Kubernetes or Ray run them.",
)
cluster.command(
    f"{__package__}.ray_commands:ray",
    name="ray",
    help="Have a running Ray cluster keep the nodes, one a machine.",
)

NodeName = Annotated[
    str, Parameter(help="The name of a node, as `callboard cluster status` lists it.")
]
ClusterToml = Annotated[
    Path, Parameter(help="What the nodes are, and where they run: cluster.toml.")
]
For = Annotated[
    Literal["systemd", "kubernetes"], Parameter(name="--for", help="What is to run the nodes.")
]
Out = Annotated[
    Path | None,
    Parameter(help="The folder to write the files to; without it they are printed."),
]


@cluster.command
def manifest(file: ClusterToml, /, *, kind: For, out: Out = None) -> int:
    """Write units of systemd, or the manifest for Kubernetes, for the nodes of a file."""
    from .file import load_cluster_file
    from .kubernetes import kubernetes_files
    from .systemd import systemd_files

    found = load_cluster_file(file)
    files = systemd_files(found) if kind == "systemd" else kubernetes_files(found)
    if out is None:
        is_one = len(files) == 1
        for name, text in files.items():
            sys.stdout.write(text if is_one else f"# ── {name} ──\n{text}\n")
        return ANSWERED
    for name, text in files.items():
        _write(out / name, text)
    sys.stdout.write("".join(f"Written: {safe_line(str(out / name))}\n" for name in files))
    return ANSWERED


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"{path} can't be written: {error.strerror or error}.") from error


@cluster.command
def status(
    *, store: StoreUrl = None, json: Json = False, config: Config = None, data: Data = None
) -> int:
    """List the nodes of the cluster, with their sessions and leases.

    Exits with 1 when none is live.
    """
    with _registry(store, config, data) as registry:
        rows, waiting = cluster_rows(registry)
    if json:
        for row in rows:
            found = {"node": row.name, "term": row.term, "state": row.state, "url": row.url}
            more = {"version": row.version, "sessions": row.sessions or 0, "lease_ms": row.lease_ms}
            sys.stdout.write(json_line({**found, **more, "roots": row.roots}))
        for root, count in waiting.items():
            sys.stdout.write(json_line({"waiting_for": root, "sessions": count}))
    else:
        lines = [
            *map(node_line, rows),
            *(f"problem: {safe_line(each)}" for each in problems_of(rows, waiting)),
        ]
        sys.stdout.write("\n".join(lines or ["No node has joined this cluster yet."]) + "\n")
    return (
        ANSWERED if any(row.state == "live" and (row.lease_ms or 0) > 0 for row in rows) else FAILED
    )


@cluster.command
def drain(
    node: NodeName, /, *, store: StoreUrl = None, config: Config = None, data: Data = None
) -> int:
    """Have a node end its turns in order and stop; the others go on with its sessions."""
    with _registry(store, config, data, least=DRAIN_FORMAT) as registry:
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
def _registry(
    store: str | None, config: Config, data: Data, *, least: int = NODES_FORMAT
) -> Generator[Registry]:
    url = store or load_settings(config).store.url or address_in(data_path(data))
    if url is None:
        raise ValidationError(
            "The nodes of a cluster share a store in PostgreSQL: say which with --store "
            "postgresql://USER@HOST/DATABASE, [store] url in callboard.toml, or --data and the data folder of a node.",
            field="store",
        )
    check_driver()
    from ...runtime.cluster.postgres import PostgresDatabase  # behind the check for its driver

    database = PostgresDatabase(address_of(url, may_hold_password=False))
    try:
        database.check_format(least=least)
        yield Registry(database)
    finally:
        database.close()
