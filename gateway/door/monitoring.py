"""Plain HTTP for supervisors and monitors: `/healthz`, `/readyz`, and `/metrics` for Prometheus."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import trio

from ...embedding.runtime import host_of
from ...embedding.status import shared_actors
from ...runtime.errors import StorageError
from ...runtime.store.rows import ApprovalRow
from ...runtime.wire.fields import Role
from ..shared.state import DaemonState
from .exchange import Exchange, Route
from .http import HttpAnswer

if TYPE_CHECKING:
    from ...actors.cluster.node import ClusterNode

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

MAX_COUNTED = 1000
"""Waiting questions that are counted at most."""

MAX_WAIT_SECONDS = 1.0
"""A store that has not answered for so long is not asked for figures."""

MAX_NAMED = 3
"""Sessions and calls that are named in what an end waits for."""

Sample = tuple[Mapping[str, str], float]


class Page:
    """A page in Prometheus' text format, built one metric at a time."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def add(self, name: str, kind: str, meaning: str, samples: Iterable[Sample]) -> None:
        """Add a metric with its samples."""
        full = f"callboard_{name}"
        self._lines += [f"# HELP {full} {meaning}", f"# TYPE {full} {kind}"]
        for labels, value in samples:
            pairs = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
            shown = f"{value:.6f}".rstrip("0").rstrip(".")
            self._lines.append(f"{full}{{{pairs}}} {shown}" if pairs else f"{full} {shown}")

    def one(self, name: str, kind: str, meaning: str, value: float) -> None:
        """Add a metric without labels."""
        self.add(name, kind, meaning, [({}, value)])

    @property
    def text(self) -> str:
        """The whole page."""
        return "\n".join(self._lines)


async def metrics_text(daemon: DaemonState) -> str:
    """Return the present metrics."""
    page = Page()
    health = host_of(daemon.runtime).plan.store.health
    waiting: Sequence[ApprovalRow] | None = None
    # A read would wait behind those of a stuck disk, and an error would take all figures with it.
    if health.waiting_seconds < MAX_WAIT_SECONDS:
        with suppress(StorageError):
            waiting = await daemon.runtime.store.approvals(state="waiting", limit=MAX_COUNTED)
    status = await daemon.runtime.status()
    uptime = time.monotonic() - daemon.started_at
    page.one("up", "gauge", "1 while it takes clients", float(not daemon.is_stopping))
    page.one("uptime_seconds", "gauge", "since the start", uptime)
    page.one("connections", "gauge", "open websockets", len(daemon.connections))
    outboxes = sum(each.waiting_size for each in daemon.connections)
    page.one("outbox_bytes", "gauge", "that wait for clients", outboxes)
    if waiting is not None:
        page.one("approvals_waiting", "gauge", f"at most {MAX_COUNTED} are counted", len(waiting))
    page.one("sessions_loaded", "gauge", "in memory", len(status.sessions))
    page.one("turns_running", "gauge", "at present", len(status.turns))
    page.one("calls_running", "gauge", "whose tools run", len(status.calls))
    page.one("programs_running", "gauge", "in the background", len(status.background))
    has_failed = float(bool(status.storage_failed))
    page.one("storage_failed", "gauge", "1 while the store can't be used", has_failed)
    meaning = "for which the oldest read or write has been under way"
    page.one("storage_waiting_seconds", "gauge", meaning, health.waiting_seconds)
    counts = daemon.counts
    page.one("events_total", "counter", "events on record since the start", counts.events)
    for name, label, found in (
        ("turns_total", "outcome", counts.turns),
        ("calls_total", "state", counts.calls),
        ("tokens_total", "kind", counts.tokens),
    ):
        samples = [({label: each}, float(count)) for each, count in sorted(found.items())]
        page.add(name, "counter", f"since the start, by {label}", samples)
    host = host_of(daemon.runtime)
    depths = [({"actor": each.name}, float(each.waiting)) for each in shared_actors(host)]
    page.add("mailbox_messages", "gauge", "that wait for an actor", depths)
    restarts = float(sum(host.restarts.values()))
    page.one("actor_restarts_total", "counter", "of actors that crashed", restarts)
    if host.plan.node is not None:
        _add_cluster(page, host.plan.node)
    _add_vitals(page, daemon)
    telemetry = host.plan.telemetry
    return page.text if telemetry is None else page.text + "\n" + await telemetry.metrics_text()


def _add_cluster(page: Page, node: ClusterNode) -> None:
    states = Counter(each.state for each in node.members.nodes.values())
    samples = [({"state": state}, float(count)) for state, count in sorted(states.items())]
    page.add("cluster_nodes", "gauge", "as this node sees them, by state", samples)
    page.one("cluster_lease_held", "gauge", "1 while this node may act", float(node.may_begin()))


def _add_vitals(page: Page, daemon: DaemonState) -> None:
    heart, loop = daemon.heartbeat, daemon.stall_watch
    tasks = trio.lowlevel.current_statistics().tasks_living
    page.one("tasks", "gauge", "that live: some for each connection, session and turn", tasks)
    if heart is not None and heart.journal_seconds is not None:
        page.one(
            "journal_seconds",
            "gauge",
            "the latest round trip, or the present one",
            heart.journal_seconds,
        )
    if loop is not None:
        page.one("loop_lag_seconds", "gauge", "by how much timers come late", loop.lag_seconds)
        page.one("loop_blocked_total", "counter", "steps that held up all tasks", loop.blocked)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def waits_for(daemon: DaemonState) -> str:
    """Return what the end of a daemon waits for: a store that can't be used, turns, calls."""
    host = host_of(daemon.runtime)
    if problem := host.storage_problem():
        return problem
    turns = [turn.session_id for turn in host.activity.turns()]
    if not turns:
        return "its sessions end."
    calls = [f"{each.tool} for {each.seconds:.0f} s" for each in host.activity.calls()]
    run = "1 turn runs; it has" if len(turns) == 1 else f"{len(turns)} turns run; they have"
    more = ", …" if len(turns) > MAX_NAMED else ""
    what = f"; running: {', '.join(calls[:MAX_NAMED])}" if calls else ""
    seconds = daemon.settings.drain_seconds
    return f"{run} {seconds:g} s to end ({', '.join(turns[:MAX_NAMED])}{more}){what}."


def plain_routes(daemon: DaemonState) -> dict[str, Route]:
    """Return the routes by path."""

    def alive(_: Exchange) -> HttpAnswer:
        return HttpAnswer(200, "ok")

    def ready(exchange: Exchange) -> HttpAnswer:
        if daemon.is_stopping:
            credential = exchange.credential
            is_admin = credential is not None and credential.role.includes(Role.ADMIN)
            return HttpAnswer(503, f"stopping: {waits_for(daemon)}" if is_admin else "stopping")
        if host_of(daemon.runtime).storage_problem():
            # Without the folder's name: this is answered to anybody.
            return HttpAnswer(503, "storage_failed: the store can't be used; see the status")
        return HttpAnswer(200, "ready")

    async def metrics(exchange: Exchange) -> HttpAnswer:
        credential = exchange.credential
        if credential is None or not credential.role.includes(Role.OBSERVER):
            return HttpAnswer(401, "the figures are for whoever has a token")
        return HttpAnswer(200, await metrics_text(daemon), CONTENT_TYPE)

    return {
        path: Route(answer=answer, token="optional")
        for path, answer in (("/healthz", alive), ("/readyz", ready), ("/metrics", metrics))
    }
