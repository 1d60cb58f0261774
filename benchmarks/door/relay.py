"""What a delta costs that comes through another node, against one that comes from the node that owns the session.

    python benchmarks/door/relay.py URL [--rounds 5] [--deltas 500]

URL names an empty database. Two nodes are processes; the session is node b's, whose model says the time in each delta. A
client of b and one of node a hear it in turns, and its age on arrival is printed for both, with the CPU time that each node
used for a delta. A prompt is measured the same way, from the request to its ticket.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import trio
from gateway import PAUSE_SECONDS, Speaker

import callboard
from callboard.client.client import connect
from callboard.config.keys.tokens import Credentials, Role
from callboard.config.sections import ClusterSettings, ServerSettings
from callboard.config.settings import StoreSettings
from callboard.gateway.gateway import listen, open_gateway
from callboard.runtime.events import Stored, StreamBatch, TurnEnded

STAMP = re.compile(r"@(\d+)@")
TICKS = os.sysconf("SC_CLK_TCK")


async def serve(url: str, node: str, folder: str, deltas: int) -> None:
    data = Path(folder) / node
    token = Credentials(data).create(f"bench-{node}", Role.ADMIN).reveal()
    listeners = await listen(ServerSettings(port=0))
    port = listeners[0].socket.getsockname()[1]
    cluster = ClusterSettings(node=node, url=f"http://127.0.0.1:{port}")
    async with (
        callboard.open_runtime(
            model=Speaker(deltas, PAUSE_SECONDS),
            data=data,
            workspace=Path(folder) / "work",
            environ={},
            settings=callboard.Settings(store=StoreSettings(url=url), cluster=cluster),
        ) as runtime,
        open_gateway(runtime, ServerSettings(port=0), data, listeners=listeners),
    ):
        sys.stdout.write(f"{port} {token}\n")
        sys.stdout.flush()
        await trio.sleep_forever()


def start(url: str, node: str, folder: str, deltas: int) -> tuple[subprocess.Popen[str], str, str]:
    words = [sys.executable, __file__, url, "--node", node, folder, "--deltas", str(deltas)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    port, token = process.stdout.readline().split()
    return process, f"ws://127.0.0.1:{port}/ws", token


def cpu_of(process: subprocess.Popen[str]) -> float:
    """Seconds of CPU time of a process so far."""
    fields = (
        Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    )
    return (int(fields[11]) + int(fields[12])) / TICKS


async def hear(at: str, token: str, session: str, ages: list[float], prompts: list[float]) -> None:
    """One turn, as a client of a node hears it."""
    async with connect(at, token) as client, client.events(session) as events:
        await client.session(session)
        began = time.monotonic_ns()
        await client.prompt(session, "Speak.")
        prompts.append((time.monotonic_ns() - began) / 1e6)
        async for event in events:
            if isinstance(event, StreamBatch):
                now = time.monotonic_ns()
                for piece in event.events:
                    ages += [
                        (now - int(at)) / 1e6 for at in STAMP.findall(getattr(piece, "text", ""))
                    ]
            elif isinstance(event, Stored) and isinstance(event.event, TurnEnded):
                return


def row(name: str, ages: Sequence[float], prompts: Sequence[float], cpu: Sequence[float]) -> str:
    spread = statistics.quantiles(ages, n=100)
    a, b = cpu
    return (
        f"| {name} | {len(ages)} | {spread[49]:.2f} | {spread[98]:.2f} | {statistics.median(prompts):.1f}"
        f" | {a:.0f} | {b:.0f} |\n"
    )


async def measure(given: argparse.Namespace, nodes: dict[str, Any], folder: str) -> None:
    a, b = nodes["a"], nodes["b"]
    known = Credentials(Path(folder) / "a")
    while known.find(b[2]) is None:  # noqa: ASYNC110  # ruff: ignore[async-busy-wait]
        await trio.sleep(0.1)
    async with connect(b[1], b[2]) as client:
        session = (await client.create_session()).session_id
    ways = {"direct": b, "relayed": a}
    ages: dict[str, list[float]] = {way: [] for way in ways}
    prompts: dict[str, list[float]] = {way: [] for way in ways}
    cpu = {way: [0.0, 0.0] for way in ways}
    for number in range(given.rounds + 1):
        for way, node in ways.items():
            into: list[float] = []
            asked: list[float] = []
            before = cpu_of(a[0]), cpu_of(b[0])
            await hear(node[1], b[2], session, into, asked)
            if number:  # the first warms up
                ages[way] += into
                prompts[way] += asked
                for place, seconds in enumerate((cpu_of(a[0]), cpu_of(b[0]))):
                    cpu[way][place] += seconds - before[place]
    out = sys.stdout.write
    out(
        "| way | deltas | p50 ms | p99 ms | prompt ms | CPU of a, µs a delta | of b |\n|---|---|---|---|---|---|---|\n"
    )
    for way in ways:
        used = [1e6 * each / len(ages[way]) for each in cpu[way]]
        out(row(way, ages[way], prompts[way], used))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--deltas", type=int, default=500)
    parser.add_argument("--node", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.node:
        trio.run(serve, given.url, *given.node, given.deltas)
        return
    with tempfile.TemporaryDirectory(prefix="relay") as folder:
        (Path(folder) / "work").mkdir()
        nodes = {node: start(given.url, node, folder, given.deltas) for node in "ab"}
        try:
            trio.run(measure, given, nodes, folder)
        finally:
            for process, *_ in nodes.values():
                process.kill()
                process.wait()


if __name__ == "__main__":
    main()
