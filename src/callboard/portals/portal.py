"""A thread in which Trio runs a runtime, and the way into it for programs that don't know Trio.

    a caller's thread                  the portal's thread: trio.run
    ─────────────────                  ─────────────────────────────
    Crossing ── run_sync_soon ───────► a task with a cancel scope of its own
       ▲                                     │
       └──── future: result, exception ──────┘

Nothing is pushed: a crossing carries what its caller asked for, so that a consumer who reads no
further holds his own turn up, as in a Trio program. `plain` and `aio` are two ways to wait.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError, wait
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypedDict, TypeVar

import trio

from ..config.settings import Settings
from ..embedding import runtime as embedded
from ..embedding.turn import LEAVE_SECONDS, Turn, TurnEvent
from ..providers.provider import LocalModel
from ..runtime.channel import Channel
from ..runtime.definitions import Agent, Preset, ToolDefinition
from ..runtime.errors import ActorStopped, ConflictError, DeadlineError, StorageError
from ..runtime.events import TurnEnded
from ..tools.plugins import Plugin
from ..tools.tool import Tool

GONE_SECONDS = LEAVE_SECONDS + 5.0
"""How long a caller who was interrupted waits for his call to be gone: longer than leaving a turn
may take there."""
CLOSE_SECONDS = 30.0
"""How long closing waits for the thread: the runtime's own bounds come to half of it."""
EXIT_SECONDS = 5.0
"""How long the interpreter's exit waits for portals that nobody closed. What is on record is safe
without it."""

Answer = TypeVar("Answer")


class RuntimeOptions(TypedDict, total=False):
    """The arguments of `open_runtime`, which says what they mean, without `on_approval`."""

    model: str | LocalModel | None
    base_url: str | None
    dialect: str | None
    workspace: str | Path | None
    data: str | Path | None
    tools: Sequence[Tool]
    agents: Sequence[Agent]
    policy: Preset | str | None
    channel: Channel | None
    settings: Settings | None
    environ: Mapping[str, str] | None
    record: str | Path | None
    strict: bool
    wake: bool


class Crossing(Generic[Answer]):
    """One call into the portal's thread.

    Attributes:
        future: Becomes done when nothing of the call runs any more. Only the portal's `cancel`
            cancels the call; the future's own does nothing.
    """

    def __init__(self, function: Callable[[], Awaitable[Answer]]) -> None:
        self.future: Future[Answer] = _promise()
        self._function = function
        self._find_crash: Callable[[], ActorStopped | None] = lambda: None
        self._scope = trio.CancelScope()
        self._has_begun = False

    def begin(self, find_crash: Callable[[], ActorStopped | None]) -> None:
        """Starts it as a system task; in the portal's thread, as all that follows.

        `find_crash` tells what became of the runtime, for who hears that a part of it has ended.
        """
        self._find_crash = find_crash
        # Not a task of a nursery inside the runtime: while that closes, who waits for a turn still
        # hears how it ends. Who waits longer is cancelled with the system's tasks.
        trio.lowlevel.spawn_system_task(self._run, name="call through the portal")
        self._has_begun = True

    def cancel(self) -> None:
        """Cancels it; what has not begun by now never will."""
        self._scope.cancel("the caller was interrupted")
        if not self._has_begun:
            _fail(self.future, ActorStopped("the call was cancelled"))

    async def _run(self) -> None:
        try:
            with self._scope:
                self.future.set_result(await self._function())
            _fail(self.future, ActorStopped("the call was cancelled"))
        except (ActorStopped, StorageError) as stopped:  # the store closes with its runtime
            _fail(self.future, self._find_crash() or stopped)
        except Exception as error:  # whatever it is, it is the caller's
            _fail(self.future, error)
        finally:  # what ends the thread, the portal tells, when it knows why
            del self  # the exception holds its frames, and this one would hold the exception


class Portal:
    """A thread with a runtime in it. Its methods may be called from any thread.

    It must be stopped; the interpreter's exit does that too, but waits only `EXIT_SECONDS`.

    Attributes:
        started: The runtime, once it is open, or why it could not be opened.
        ended: Done when the runtime is closed and the thread is about to end.
        turns: Those that were entered and not left. When the runtime closes they get the rest of
            their events, which nobody could fetch afterwards.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.started: Future[embedded.Runtime] = _promise()
        self.ended: Future[None] = _promise()
        self.turns: set[Turn] = set()
        self._options = options
        self._scope = trio.CancelScope()
        self._token: trio.lowlevel.TrioToken | None = None
        self._takes_calls = True
        self._is_stopping = False
        self._crash: BaseException | None = None
        self._unfinished: set[Future[Any]] = set()
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._run, name="callboard", daemon=True)
        _open_portals.add(self)
        self._thread.start()

    # ── callers ──────────────────────────────────────────────────────────────────────────────────

    def submit(self, crossing: Crossing[Any]) -> None:
        """Starts a call; its future tells what comes of it, also when the thread ends first.

        Raises:
            ActorStopped: The runtime is closed, or belongs to the process that forked this one.
        """
        self._check_process()
        self._unfinished.add(crossing.future)
        crossing.future.add_done_callback(self._unfinished.discard)
        if not self._soon(partial(self._begin, crossing)) or self.ended.done():
            _fail(crossing.future, self._closed())

    def cancel(self, crossing: Crossing[Any]) -> None:
        """Cancels a call, which ends soon, or has ended already."""
        self._soon(crossing.cancel)

    def call(self, function: Callable[[], Awaitable[Answer]]) -> Answer:
        """Runs a call and blocks until it has ended; gives its result or raises its exception.

        What interrupts the wait, such as `KeyboardInterrupt`, cancels the call, and is raised when
        that is gone.

        Raises:
            ActorStopped: As `submit`.
            ConflictError: This is the portal's own thread, which can't wait for itself.
        """
        if threading.get_ident() == self._thread.ident:
            raise ConflictError(
                "callboard's own thread can't wait for itself: call this from a plain `def`, "
                "which runs in a thread of its own"
            )
        crossing = Crossing(function)
        try:
            self.submit(crossing)
            return crossing.future.result()
        except BaseException:
            if crossing.future in self._unfinished:
                self.cancel(crossing)
                wait([crossing.future], GONE_SECONDS)
            raise
        finally:
            del crossing  # as in the crossing itself

    # ── the end ──────────────────────────────────────────────────────────────────────────────────

    def stop(self) -> None:
        """Tells the runtime to close, in order; returns at once. Idempotent."""
        self._is_stopping = True
        self._soon(partial(self._scope.cancel, "the program closed it"))

    def join(self, seconds: float = CLOSE_SECONDS) -> None:
        """Blocks until the thread has ended, so long at most."""
        if self._process == os.getpid():
            self._thread.join(seconds)

    def check_end(self) -> None:
        """Raises what the runtime ended with, if that is an error.

        Raises:
            DeadlineError: It has not ended in time.
        """
        if self._crash is not None:
            raise self._crash
        if self._process == os.getpid() and not self.ended.done():
            raise DeadlineError(
                f"the runtime did not close within {CLOSE_SECONDS:g} s; something blocks its "
                "thread, which is left behind"
            )

    # ── the thread ───────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        try:
            trio.run(self._serve)
        except BaseException as error:  # noqa: ASYNC103  raised by whoever waits, or closes
            if not _fail(self.started, error):
                self._crash = error
        self.ended.set_result(None)
        # Whoever submits after this sees that it has ended.
        for future in (self.started, *self._unfinished.copy()):
            _fail(future, self._closed())
        _open_portals.discard(self)

    async def _serve(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        if self._is_stopping:  # since before there was a token to say it with
            return
        try:
            with self._scope:
                async with embedded.open_runtime(**self._options) as runtime:
                    self.started.set_result(runtime)
                    await trio.sleep_forever()
            for turn in self.turns.copy():
                await _fetch_rest(turn)
        finally:
            self._takes_calls = False

    def _begin(self, crossing: Crossing[Any]) -> None:
        if self._takes_calls:
            crossing.begin(self._find_crash)
        else:
            _fail(crossing.future, self._closed())

    def _soon(self, function: Callable[[], object]) -> bool:
        """Has it called in the thread; says whether that will happen."""
        if self._token is None or self._process != os.getpid():
            return False
        try:
            self._token.run_sync_soon(function)
        except trio.RunFinishedError:
            return False
        return True

    def _check_process(self) -> None:
        # Its thread stayed behind, and its wake-up socket is shared with the parent's.
        if self._process != os.getpid():
            raise ActorStopped(
                f"this runtime runs in process {self._process}, from which this one was forked; "
                "open one here"
            )

    def _closed(self) -> ActorStopped:
        return self._find_crash() or ActorStopped("this runtime is closed; open a new one")

    def _find_crash(self) -> ActorStopped | None:
        crash = self._crash
        if crash is None and self.started.done() and self.started.exception() is None:
            crash = self.started.result()._host.failure
        if crash is None:
            return None
        stopped = ActorStopped(f"this runtime has ended with {type(crash).__name__}: {crash}")
        stopped.__cause__ = crash
        return stopped


async def _fetch_rest(turn: Turn) -> None:
    """Fetches the events of a turn that is over; its queue is bounded, and closed."""
    with suppress(ActorStopped):
        while await turn.fetch_events():
            pass


class RuntimeHandle:
    """What a runtime tells without waiting."""

    def __init__(self, portal: Portal, runtime: embedded.Runtime) -> None:
        self._portal = portal
        self._runtime = runtime

    @property
    def model(self) -> str:
        """The default `PROVIDER/MODEL`."""
        return self._runtime.model

    @property
    def model_reason(self) -> str:
        """Why it is that one, for a person: "because OPENAI_API_KEY is set"."""
        return self._runtime.model_reason

    def tools(self) -> tuple[ToolDefinition, ...]:
        """All tools, in the order in which models see them."""
        return self._runtime.tools()

    def plugins(self) -> tuple[Plugin, ...]:
        """What became of the plugins that the configuration enables."""
        return self._runtime.plugins()


class TurnHandle:
    """What a turn tells without waiting, as far as it was read.

    The portal's thread only adds to its buffer, the reader only takes from it, each by operations
    that are atomic.
    """

    def __init__(self, portal: Portal, turn: Turn) -> None:
        self._portal = portal
        self._turn = turn

    @property
    def input_id(self) -> str:
        """The input's id, once entered."""
        return self._turn.input_id

    @property
    def seq(self) -> int:
        """The `seq` of the last event on record that was seen."""
        return self._turn.seq

    @property
    def at_ms(self) -> int:
        """When that one was stored, in Unix milliseconds."""
        return self._turn.at_ms

    @property
    def ended(self) -> TurnEnded | None:
        """How it ended, once it has."""
        return self._turn.ended

    def _fetched(self) -> list[TurnEvent]:
        """What is in the buffer."""
        return list(iter(self._turn.next_event_nowait, None))


_open_portals: set[Portal] = set()


def _promise() -> Future[Any]:
    """A future that its holders can't cancel."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future


def _fail(future: Future[Any], error: BaseException) -> bool:
    """Ends a future with this error, unless it is done."""
    try:
        future.set_exception(error)
    except InvalidStateError:
        return False
    return True


@atexit.register
def _stop_open_portals() -> None:
    """Ends what was left open: all at once, and the interpreter waits a bounded time."""
    portals = _open_portals.copy()
    for portal in portals:
        portal.stop()
    deadline = time.monotonic() + EXIT_SECONDS
    for portal in portals:
        portal.join(max(0.0, deadline - time.monotonic()))
