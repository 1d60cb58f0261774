"""`callboard status`: whether a daemon runs, where, and what it does."""

from __future__ import annotations

import sys

import trio

from ...client.client import connect
from ...config.daemon_file import RunningDaemon, check_runs, find_daemon
from ...runtime.wire.daemon import ClusterNodeRow, Status
from ..exit_codes import ANSWERED, FAILED
from ..hints import runnable
from ..parameters import Data, Json, data_path
from ..terminal.escaping import safe_line
from ..terminal.json_lines import json_line
from ..terminal.style import counted, seconds

ASK_SECONDS = 10.0
"""Time for an answer: a daemon that takes longer is reported as stuck."""


def status(*, json: Json = False, data: Data = None) -> int:
    """Say whether a daemon runs, where, and what it does.

    Exits with 1 when none runs.
    """
    folder = data_path(data)
    daemon = find_daemon(folder)
    if daemon is None:
        line = f"No daemon runs on {folder}. `callboard serve` starts one.\n"
        sys.stdout.write(json_line({"is_running": False}) if json else runnable(line))
        return FAILED
    check_runs(daemon)
    said = trio.run(_ask, daemon)
    if json:
        found = {"is_running": True, "url": daemon.url, "pid": daemon.pid}
        sys.stdout.write(json_line(found if said is None else {**found, "status": said}))
    else:
        sys.stdout.write("\n".join(map(runnable, _lines(daemon, said))) + "\n")
    return FAILED if said is None else ANSWERED


async def _ask(daemon: RunningDaemon) -> Status | None:
    with trio.move_on_after(ASK_SECONDS):
        async with connect(daemon.url, daemon.token.reveal()) as client:
            return await client.status()
    return None


def _lines(daemon: RunningDaemon, status: Status | None) -> list[str]:
    is_other = daemon.command != "serve"
    what = f"a {daemon.command} is the daemon, and serves" if is_other else "callboard serves"
    where = f"{what} at {daemon.url} (process {daemon.pid})"
    if status is None:
        return [
            where,
            f"  it has not answered within {ASK_SECONDS:g} s; `callboard logs` may say why",
        ]
    state = "stopping" if status.is_stopping else f"up for {_ago(status.uptime_seconds)}"
    return [
        f"{where}, {state}",
        f"  model:         {status.model} {status.model_reason}".rstrip(),
        f"  connections:   {status.connections}",
        *_work(status),
        *_health(status),
        *_cluster(status),
        *_configuration(status),
    ]


def _work(status: Status) -> list[str]:
    work = status.work
    if work is None:
        return []
    calls = [f"{each.tool} in {each.session_id}, for {_ago(each.seconds)}" for each in work.calls]
    programs = [
        f"{safe_line(each.command)} ({each.process_id} of {each.session_id}), "
        f"for {_ago(each.seconds)}"
        for each in work.background
    ]
    turns = [f"turn of {each.session_id}, for {_ago(each.seconds)}" for each in work.turns]
    lines = [f"    {line}" for line in (*turns, *calls, *programs)]
    return [f"  sessions:      {len(work.sessions)} loaded", *lines]


def _health(status: Status) -> list[str]:
    lines = []
    for actor in status.actors:
        if actor.restarts or not actor.is_running or actor.waiting > actor.capacity // 2:
            state = "" if actor.is_running else ", given up"
            lines.append(
                f"    {actor.name}: {counted(actor.restarts, 'restart')}, {actor.waiting} of "
                f"{actor.capacity} messages wait{state}"
            )
    if status.actors:
        lines.insert(0, "  actors:        " + ("see below" if lines else "all run"))
    if status.work is not None and status.work.storage_failed:
        lines.append(f"  storage:       failed. {safe_line(status.work.storage_failed)}")
    elif status.journal_seconds is not None:
        lines.append(f"  journal:       answers in {_ago(status.journal_seconds)}")
    if status.work is not None and status.work.storage_warning:
        lines.append(f"  store size:    {safe_line(status.work.storage_warning)}")
    if status.loop is not None and status.loop.blocked:
        times = counted(status.loop.blocked, "time")
        longest = _ago(status.loop.longest_seconds)
        lines.append(f"  event loop:    held up {times}, for {longest} at most")
    return lines


def _cluster(status: Status) -> list[str]:
    cluster = status.cluster
    if cluster is None:
        return []
    held = "" if cluster.is_held else ", whose lease is not held: nothing that acts begins"
    return [
        f"  cluster:       this is node {safe_line(cluster.node)}{held}",
        *(f"    {node_line(row)}" for row in cluster.nodes),
        *(f"    problem: {safe_line(each)}" for each in cluster.problems),
    ]


def node_line(row: ClusterNodeRow) -> str:
    """Return a node of a cluster as one line."""
    stand: str = row.state
    if row.lag_ms is not None and row.lease_ms is not None:
        ago = f"renewed {row.lag_ms / 1000:.1f} s ago"
        stand += f", {ago}" if row.lease_ms > 0 else f", its lease has run out ({ago})"
    owned = "" if row.sessions is None else f"{counted(row.sessions, 'session')}, "
    roots = f"roots {safe_line(', '.join(row.roots))}, " if row.roots else ""
    return (
        f"{safe_line(row.name):16}  {stand}, term {row.term}, {owned}{roots}"
        f"{safe_line(row.url)}, callboard {safe_line(row.version)}"
    )


def _configuration(status: Status) -> list[str]:
    config = status.config
    if config is None:
        return []
    return [
        f"  configuration: revision {config.revision}",
        *([f"    not used: {safe_line(config.problem)}"] if config.problem else []),
        *([f"    need a restart: {', '.join(config.waiting)}"] if config.waiting else []),
    ]


def _ago(time: float) -> str:
    return seconds(round(time * 1000))
