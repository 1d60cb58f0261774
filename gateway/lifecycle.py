"""A daemon from start to end: nested blocks, each of which needs those around it.

port, "not ready"       taken first: a second daemon fails at once
  runtime               recovers what a crash left open
    gateway             accepts clients
      discovery file    tells this user's commands where the daemon is
        signals         ask for the end: turns are drained, then the blocks are left, innermost first
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, suppress
from functools import partial
from pathlib import Path

import msgspec
import trio

from ..config.daemon_file import DaemonFile, RunningDaemon, find_daemon
from ..config.keys.tokens import local_credential
from ..config.sections import ServerSettings
from ..embedding.configuration import Configuration
from ..embedding.runtime import Runtime, host_of
from ..embedding.unattended.scheduler import firing
from ..runtime.errors import CallboardError, ConflictError
from ..runtime.messages import SERVER_STOPPED, StopSessions
from ..runtime.redaction import redacting_logger, redactor
from .door.descriptors import raise_limit
from .door.not_ready import answer_not_ready
from .gateway import FAREWELL_SECONDS, Gateway, listen, open_gateway, set_log_level
from .restart import restart_on_crash
from .shared.heartbeat import Heartbeat
from .shared.sd_notify import SystemdNotifier
from .shared.stall_watch import StallWatch

logger = redacting_logger(__name__)

LOOK_SECONDS = 0.1
"""Between two looks at the turns that still run."""
MAX_QUESTIONS = 10_000
"""Waiting questions that are looked at; turns with later ones count as working until the time is up."""
STOP_SECONDS = 15.0
"""The time for cancelled turns to end: their programs are killed and reaped, and that is recorded."""


async def drain(runtime: Runtime, seconds: float, hurry: trio.Event) -> None:
    """Wait for turns to end, then stop the rest. Turns that wait for a person are suspended.

    Args:
        runtime: The runtime whose turns are drained.
        seconds: How long turns may take to end by themselves.
        hurry: Set it to end the wait at once.
    """
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_cancel_on, hurry, nursery.cancel_scope)
        with trio.move_on_after(seconds) as patience:
            while True:
                if not await working(runtime):
                    break
                await trio.sleep(LOOK_SECONDS)
        if patience.cancelled_caught:
            logger.warning("turns still run after %g s and are cancelled", seconds)
        nursery.cancel_scope.cancel(reason="the drain is over")
    try:
        with trio.fail_after(STOP_SECONDS):
            await host_of(runtime).directory.ask(StopSessions(reason=SERVER_STOPPED))
    except trio.TooSlowError:
        logger.error("sessions did not end within %g s and are abandoned", STOP_SECONDS)
    except CallboardError as error:
        logger.error("sessions did not end in order: %s", error)


async def _cancel_on(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel(reason="asked to hurry")


async def working(runtime: Runtime, also: Iterable[str] = ()) -> set[str]:
    """Return the sessions, among those with a turn and some `also`, that do more than wait for a person."""
    status = await runtime.status()
    busy = {*also, *(turn.session_id for turn in status.turns)}
    if not busy:
        return busy
    questions = host_of(runtime).questions.waiting()
    asking = {question.call_id for question in questions}  # its tool runs for as long as it waits
    waiting = {question.session_id for question in questions} | {
        row.session_id
        for row in await runtime.store.approvals(state="waiting", limit=MAX_QUESTIONS)
        if not row.is_deferred  # its turn went on without the answer
    }
    calling: dict[str, set[str]] = {}
    for call in status.calls:
        if call.call_id not in asking:
            calling.setdefault(call.session_id, set()).add(call.call_id)
    at_rest = waiting - calling.keys()
    while above := await _only_delegating(runtime, calling, at_rest):
        at_rest |= above
    return busy - at_rest


async def _only_delegating(
    runtime: Runtime, calling: Mapping[str, set[str]], at_rest: set[str]
) -> set[str]:
    """Return the other sessions whose running calls all wait for sessions that wait for a person."""
    found: set[str] = set()
    for session_id in calling.keys() - at_rest:
        children = await runtime.store.children(session_id)
        resting = {each.parent_call_id for each in children if each.session_id in at_rest}
        if calling[session_id] <= resting:
            found.add(session_id)
    return found


HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""SIGTERM and SIGINT stop the daemon: in order at first, at once the second time. SIGHUP reloads."""

END_SECONDS = 2 * STOP_SECONDS + FAREWELL_SECONDS
"""After the drain, at most: sessions are stopped, connections closed, and the runtime."""


class DaemonPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The parts that a daemon is made of.

    Attributes:
        settings: Address, limits and timeouts.
        data: The data folder.
        open_runtime: Opens the runtime to serve, given the port that is taken.
        configuration: Read again on SIGHUP and when its files change.
        tell_ready: Called when clients are accepted, with the websocket's URL and what returns a link to the console,
            at which a browser logs in once (empty without a console).
        had_hangup: Returns whether SIGHUP came before the daemon handled it.
        tell_stopping: Called when somebody has asked for the end.
    """

    settings: ServerSettings
    data: Path
    open_runtime: Callable[[int], AbstractAsyncContextManager[Runtime]]
    configuration: Configuration
    tell_ready: Callable[[str, Callable[[], str]], None]
    had_hangup: Callable[[], bool] = lambda: False
    tell_stopping: Callable[[], None] = lambda: None


async def run_daemon(plan: DaemonPlan) -> None:
    """Run a daemon until a signal or a client stops it.

    Raises:
        ConflictError: The port is taken, or another daemon runs on the data folder.
        CallboardError: The runtime cannot be opened.
    """
    check_alone(plan.data)
    raise_limit(plan.settings.max_connections)
    listeners = await listen(plan.settings)
    port = listeners[0].socket.getsockname()[1]
    local, token = local_credential()
    redactor.add(token)
    running = RunningDaemon(
        url=websocket_url(plan.settings.host, port),
        pid=os.getpid(),
        token=token,
        started_at_ms=time.time_ns() // 1_000_000,
        drain_seconds=plan.settings.drain_seconds,
        configuration=str(plan.configuration.file.resolve()),
    )
    set_log_level(plan.settings)
    # The discovery file is removed last: whoever waits for that knows that everything is closed.
    with trio.open_signal_receiver(*HANDLED) as signals, ExitStack() as files:
        async with (
            answer_not_ready(listeners, plan.settings) as let_in,
            plan.open_runtime(port) as runtime,
        ):
            await let_in()
            async with open_gateway(
                runtime, plan.settings, plan.data, local=local, listeners=listeners
            ) as gateway:
                files.enter_context(DaemonFile(plan.data, running))
                await _DaemonRun(plan, gateway, runtime, running.url).serve(signals)
    logger.info("ended in order")


def check_alone(data: Path) -> None:
    """Raise `ConflictError` if a daemon runs on the data folder already."""
    if (other := find_daemon(data)) is not None:
        elsewhere = "choose another folder with --data and another port with --port"
        where = f"process {other.pid}, at {other.url}"
        if other.command == "serve":
            raise ConflictError(
                f"a daemon runs on {data} already: {where}. Use that one, stop it with `callboard stop`, or {elsewhere}."
            )
        raise ConflictError(
            f"a {other.command} is the daemon of {data}: {where}. It ends with the last command that works there, which "
            f"`callboard status` shows: try again then, or {elsewhere}."
        )


def websocket_url(host: str, port: int) -> str:
    """Return the URL by which clients on this machine reach a server that listens there."""
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)
    name = f"[{name}]" if ":" in name and not name.startswith("[") else name
    return f"ws://{name}:{port}/ws"


class _DaemonRun:
    """A daemon from its first client to the end of its last turn."""

    def __init__(self, plan: DaemonPlan, gateway: Gateway, runtime: Runtime, url: str) -> None:
        self._plan = plan
        self._gateway = gateway
        self._runtime = runtime
        self._url = url
        self._hurry = trio.Event()
        self._supervisor = SystemdNotifier()
        self._reload_wanted = trio.Event()
        if plan.had_hangup():
            self._reload_wanted.set()
        daemon = self._daemon = gateway.daemon
        daemon.configuration = plan.configuration
        daemon.heartbeat = self._heartbeat = Heartbeat(runtime, self._supervisor)
        daemon.stall_watch = self._stall_watch = StallWatch()

    async def serve(self, signals: AsyncIterator[int]) -> None:
        """Serve until a signal or a client asks for the end, then drain."""
        with self._stall_watch.watching():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch_signals, signals, name="signals")
                watch = partial(self._plan.configuration.watch, host_of(self._runtime))
                for name, run in (
                    ("reload on SIGHUP", self._reload_on_signal),
                    ("configuration files", watch),
                ):
                    nursery.start_soon(restart_on_crash, name, run, name=name)
                nursery.start_soon(self._finish_deletions, name="deletions of agents")
                nursery.start_soon(self._fire_schedules, name="schedules")
                if (node := host_of(self._runtime).plan.node) is not None:
                    nursery.start_soon(self._stop_on, node.is_draining, name="drain of the node")
                nursery.start_soon(self._heartbeat.run, name="heartbeat")
                nursery.start_soon(self._stall_watch.measure_lag, name="loop lag")
                logger.info("ready at %s", self._url)
                self._plan.tell_ready(self._url, partial(self._daemon.console.link, self._url))
                self._supervisor.ready(f"serves at {self._url}")
                await self._gateway.stopped.wait()
                self._plan.tell_stopping()
                if node is not None:
                    await node.begin_leaving()
                seconds = self._daemon.settings.drain_seconds
                logger.info("stopping; turns have %g s to end", seconds)
                self._supervisor.stopping(seconds + END_SECONDS)
                self._gateway.announce_end()
                await drain(self._runtime, seconds, self._hurry)
                nursery.cancel_scope.cancel(reason="the daemon ends")

    async def _stop_on(self, asked: trio.Event) -> None:
        await asked.wait()
        logger.info("this node gives its sessions away")
        self._daemon.stop()

    async def _fire_schedules(self) -> None:
        async with firing(self._runtime.schedules):
            await self._gateway.stopped.wait()

    async def _finish_deletions(self) -> None:
        try:
            await self._runtime.agents.finish_deletions()
        except CallboardError as error:
            logger.error("sessions of deleted agents wait for the next start: %s", error)

    async def _watch_signals(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            name = signal.Signals(number).name
            if number == signal.SIGHUP:
                self._reload_wanted.set()
            elif not self._gateway.stopped.is_set():
                logger.info("%s: stopping", name)
                self._daemon.stop()
            elif not self._hurry.is_set():
                logger.warning("%s again: turns are cancelled now", name)
                self._hurry.set()
            else:
                logger.error("%s a third time: the process ends here", name)
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)

    async def _reload_on_signal(self) -> None:
        while True:
            await self._reload_wanted.wait()
            self._reload_wanted = trio.Event()
            self._supervisor.reloading()
            with suppress(CallboardError):  # logged already, and shown by `status`
                await self._plan.configuration.reload(host_of(self._runtime))
            self._supervisor.ready(f"serves at {self._url}")
