"""A Ray cluster that keeps nodes on one machine and then on two, as `callboard cluster ray` has it: what a test runs, in a network of its own.

    ray_flow.py URL FOLDER PYTHON

It is run by the Python that has Ray, and the node by PYTHON. The addresses of Ray are of loopback, since there is nothing else. What fails is said with the
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
from contextlib import suppress
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
HEAD, SECOND = "127.0.0.1", "127.0.0.2"
"""The addresses of the machines."""

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
        self._ray("--head", f"--node-ip-address={HEAD}", f"--port={PORT}", "--num-cpus=2",
                  "--include-dashboard=false", f"--temp-dir={self.folder}/r")  # fmt: skip

    def join(self) -> None:
        """Have a second machine join."""
        self._ray(f"--address={HEAD}:{PORT}", f"--node-ip-address={SECOND}", "--num-cpus=1")

    def _ray(self, *options: str) -> None:
        words = ["start", *options, "--min-worker-port=0", "--max-worker-port=0"]
        words += ["--object-store-memory=80000000", "--disable-usage-stats"]
        words += ["--resources", json.dumps({"root:projects": 1})]
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


def processes() -> dict[int, list[bytes]]:
    """Return the command lines of all processes; in this namespace there are no others."""
    found = {}
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            found[int(each.name)] = (each / "cmdline").read_bytes().split(b"\0")
    return found


def daemons() -> list[int]:
    """Return the processes of daemons."""
    return sorted(
        pid
        for pid, words in processes().items()
        if b"serve" in words and b"--node" in words and b"-c" not in words
    )


def kill_ray(program: bytes, word: bytes = b"") -> None:
    """Kill a program of Ray, or the one of them that has this in its command line."""
    for pid, words in processes().items():
        if words[0].endswith(program) and word in b" ".join(words):
            os.kill(pid, signal.SIGKILL)
            return
    raise AssertionError(f"{program!r} does not run")


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


def on_two_machines(flow: Flow) -> None:
    """One node a machine; a machine that is gone and comes again; a head that is away."""
    flow.join()
    kept = load_cluster_file(flow.written("two.toml", replicas=2))
    names = ["board-0", "board-1"]
    with connected(kept) as ray:

        def by_machine() -> dict[str, str]:
            return {row["machine"]: row["node"] for row in node_states(ray, kept) if row["state"] == "serving"}  # fmt: skip

        assert begin_nodes(ray, kept) == names
        assert wait_serving(ray, kept, names, print)
        placed = by_machine()
        assert placed.keys() == {HEAD, SECOND}
        kill_ray(b"/raylet", SECOND.encode())
        wait_until(lambda: len(daemons()) == 1, "the end of the node of the machine that is gone")
        assert by_machine() == {HEAD: placed[HEAD]}  # nowhere else is room: one node a machine
        flow.join()
        wait_until(lambda: by_machine() == placed, "the node whose machine is there again")
    there = daemons()
    kill_ray(b"/gcs_server")
    file, home = str(flow.folder / "two.toml"), flow.folder / "nodes" / placed[HEAD]
    assert "No Ray cluster answers" in flow.run("cluster", "ray", "status", file, code=1)
    assert "Tokyo" in flow.run("run", "What time is it in Tokyo?", home=home)
    assert daemons() == there


if __name__ == "__main__":
    given_url, place, node_python = sys.argv[1:]
    this = Flow(given_url, Path(place), node_python)
    try:
        main(this, given_url)
        on_two_machines(this)
    except BaseException:
        print(this.logs(), flush=True)  # ruff: ignore[print]
        raise
