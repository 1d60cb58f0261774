"""`callboard cluster ray`: has a running Ray cluster keep the nodes, one a machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from ..exit_codes import ANSWERED, FAILED
from ..parameters import Json
from ..terminal.escaping import safe_line
from ..terminal.json_lines import json_line
from .file import load_cluster_file
from .ray_nodes import begin_nodes, connected, end_nodes, node_states, wait_serving

ray = App(
    name="ray",
    help="Have a running Ray cluster keep the nodes, one a machine; it needs pip install 'callboard[ray]'.",
)

ClusterToml = Annotated[
    Path, Parameter(help="What the nodes are, and where they run: cluster.toml.")
]


@ray.command
def up(file: ClusterToml, /) -> int:
    """Place the nodes of a file, and wait until they serve.

    Those that were drained begin again. Exits with 1 when not all serve in time; Ray goes on
    trying.
    """
    found = load_cluster_file(file)
    with connected(found) as cluster:
        names = begin_nodes(cluster, found)
        _say(f"Ray keeps {', '.join(names)}.")
        are_up = wait_serving(cluster, found, names, _say)
        for row in node_states(cluster, found):
            sys.stdout.write(f"{_line(row)}\n")
    if not are_up:
        _say("Not all nodes serve yet. They are started again and again: `callboard cluster ray status` shows them.")  # fmt: skip
    return ANSWERED if are_up else FAILED


@ray.command
def status(file: ClusterToml, /, *, json: Json = False) -> int:
    """Show what Ray keeps: each node's process, and why it ended last.

    Exits with 1 when no node serves.
    """
    found = load_cluster_file(file)
    with connected(found) as cluster:
        rows = node_states(cluster, found)
    for row in rows:
        sys.stdout.write(json_line(row) if json else f"{_line(row)}\n")
    if not rows and not json:
        _say(f"Ray keeps no node of {found.name}.")
    return ANSWERED if any(row["state"] == "serving" for row in rows) else FAILED


@ray.command
def down(file: ClusterToml, /) -> int:
    """Drain all nodes that Ray keeps, and end them.

    The turns that run have the file's drain_seconds to end.
    """
    found = load_cluster_file(file)
    with connected(found) as cluster:
        for name, how in end_nodes(cluster, found).items():
            _say(f"{name} {how}")
    return ANSWERED


def _line(row: dict[str, Any]) -> str:
    words = [f"{row['node']:20}", f"{row['state']:11}"]
    if row["url"]:
        words.append(f"{safe_line(row['url'])}, process {row['pid']}")
    if row["machine"]:
        words.append(f"on {row['machine']}")
    if row["starts"] > 1:
        words.append(f"started {row['starts']} times")
    if row["last_end"]:
        last_end = safe_line(row["last_end"])
        words.append(f"last it {last_end}" if row["machine"] else last_end)
    return "  ".join(words)


def _say(text: str) -> None:
    sys.stdout.write(f"{safe_line(text)}\n")
    sys.stdout.flush()
