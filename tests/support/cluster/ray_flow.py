"""A Ray cluster of one machine that keeps a node, as `callboard cluster ray` has it: what a test runs, in a network of its own.

    ray_flow.py URL FOLDER PYTHON

It is run by the Python that has Ray, and the node by PYTHON. The address of Ray is loopback, since there is nothing else. What fails is said with the
log of the keeper; with the process all that it started ends.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from callboard.cli.cluster.file import ClusterFile, load_cluster_file
from callboard.cli.cluster.ray_nodes import (
    begin_nodes,
    connected,
    end_nodes,
    node_states,
    wait_serving,
)
from callboard.runtime.errors import CallboardError

PATIENCE_SECONDS = 90.0
"""For each step; an idle machine takes some seconds."""
PORT = 6399

FILE = """
name = "board"
host = "127.0.0.1"
port = 0
drain_seconds = 5
[store]
url = "{url}"
[roots]
{root} = "{folder}/projects"
[limits]
cpus = 1
[settings]
model = "rehearsal"
[ray]
address = "127.0.0.1:{port}"
replicas = {replicas}
python = "{python}"
data = "{folder}/nodes"
"""


class Flow:
    """The files and commands of the flow."""

    def __init__(self, url: str, folder: Path, python: str) -> None:
        self.folder = folder
        self._known = {"url": url, "folder": folder, "python": python, "port": PORT}
        (folder / "projects").mkdir()
        self.file = self.written("cluster.toml")

    def written(self, name: str, root: str = "projects", replicas: int = 1) -> Path:
        path = self.folder / name
        path.write_text(FILE.format(root=root, replicas=replicas, **self._known))
        return path

    def run(self, *words: str, code: int = 0, home: Path | None = None) -> str:
        """Run a command of callboard; return what it says."""
        environ = {**os.environ, "CALLBOARD_HOME": str(home or self.folder / "own")}
        ran = subprocess.run(
            [sys.executable, "-m", "callboard", *words],
            capture_output=True,
            text=True,
            check=False,
            env=environ,
            cwd=self.folder / "projects",
            timeout=PATIENCE_SECONDS,
        )
        print(f"$ callboard {' '.join(words)}\n{ran.stdout}{ran.stderr}", flush=True)  # ruff: ignore[print]
        assert ran.returncode == code, ran.returncode
        return ran.stdout + ran.stderr

    def start_ray(self) -> None:
        words = ["start", "--head", "--node-ip-address=127.0.0.1", f"--port={PORT}", "--num-cpus=2"]
        words += ["--min-worker-port=0", "--max-worker-port=0", "--object-store-memory=80000000"]
        words += ["--include-dashboard=false", "--disable-usage-stats"]
        words += [f"--temp-dir={self.folder}/r", "--resources", json.dumps({"root:projects": 1})]
        subprocess.run(
            [sys.executable, "-m", "ray.scripts.scripts", *words],
            check=True,
            capture_output=True,
            timeout=PATIENCE_SECONDS,
        )

    def logs(self) -> str:
        found = sorted((self.folder / "r" / "session_latest" / "logs").glob("worker-*.err"))
        return "\n".join(each.read_text(errors="replace")[-3000:] for each in found)


def wait_until(what: Callable[[], bool], name: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not what():
        assert time.monotonic() < deadline, f"{name} did not come"
        time.sleep(0.1)


def daemons() -> list[int]:
    """Return the processes of daemons; in this namespace there are no others."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            words = (each / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"serve" in words and b"--node" in words and b"-c" not in words:
            found.append(int(each.name))
    return found


def refused(work: Callable[[], object]) -> str:
    """Return why something is refused."""
    try:
        work()
    except CallboardError as error:
        return str(error)
    raise AssertionError("it was not refused")


def main(flow: Flow, url: str) -> None:
    flow.start_ray()
    file, kept = str(flow.file), load_cluster_file(flow.file)
    with connected(kept) as ray:
        assert "there is nothing to end" in refused(lambda: end_nodes(ray, kept))
        more = load_cluster_file(flow.written("more.toml", root="others", replicas=2))
        too_few = refused(lambda: begin_nodes(ray, more))
        assert "2 nodes need a machine each with 1 CPU, the resource root:others" in too_few
        assert "127.0.0.1 lacks the resource root:others. 1 machine more must join" in too_few
        assert "board-0               serving" in flow.run("cluster", "ray", "up", file)
        home = flow.folder / "nodes" / "board-0"
        assert "Tokyo" in flow.run("run", "What time is it in Tokyo?", home=home)
        keep(flow, ray, kept, url)
        assert "board-0 ended in order" in flow.run("cluster", "ray", "down", file)
        assert daemons() == []
        assert node_states(ray, kept) == []
        assert ray.util.placement_group_table() == {} or all(
            each["state"] == "REMOVED" for each in ray.util.placement_group_table().values()
        )


def keep(flow: Flow, ray: Any, kept: ClusterFile, url: str) -> None:
    """Kill and drain what Ray keeps."""

    def state() -> dict[str, Any]:
        return node_states(ray, kept)[0]

    def serves_again(before: dict[str, Any], changed: str) -> bool:
        now = state()
        return now["state"] == "serving" and now[changed] not in {None, before[changed]}

    assert "Ray keeps nodes of board already: board-0" in refused(lambda: begin_nodes(ray, kept))
    first = state()
    os.kill(first["pid"], signal.SIGKILL)
    wait_until(lambda: serves_again(first, "pid"), "the daemon that was killed")
    second = state()
    assert second["last_end"] == "was ended by SIGKILL"
    assert (second["starts"], second["keeper"]) == (2, first["keeper"])

    os.kill(second["keeper"], signal.SIGKILL)
    wait_until(lambda: serves_again(second, "keeper"), "the actor that was killed")
    third = state()
    assert third["pid"] != second["pid"]
    assert daemons() == [third["pid"]]

    assert "ends its turns" in flow.run("cluster", "drain", "board-0", "--store", url)
    wait_until(lambda: state()["state"] == "ended", "the end of the drained node")
    assert flow.run("cluster", "ray", "status", str(flow.file), code=1).startswith("board-0               ended")  # fmt: skip
    assert begin_nodes(ray, kept) == ["board-0"]
    assert wait_serving(ray, kept, ["board-0"], print)


if __name__ == "__main__":
    given_url, place, node_python = sys.argv[1:]
    this = Flow(given_url, Path(place), node_python)
    try:
        main(this, given_url)
    except BaseException:
        print(this.logs(), flush=True)  # ruff: ignore[print]
        raise
