"""A thread in which Trio runs a runtime, and how calls from other threads get into it.

    a caller's thread                  the portal's thread: trio.run
    ─────────────────                  ─────────────────────────────
    Crossing ── run_sync_soon ───────► a task with a cancel scope of its own
       ▲                                     │
       └──── future: result, exception ──────┘

Every crossing ends: its future becomes done when the call is gone, when the runtime closes, or when
the thread ends for any other reason. A caller who waits for it can rely on that.
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
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar

import trio

from ..config.settings import DialectName, DialectWord, Settings
from ..embedding import runtime as embedded
from ..embedding.host import CLOSED
from ..embedding.tools import WireFormatWord
from ..embedding.turn import LEAVE_SECONDS, Turn, TurnEvent, Value
from ..providers.provider import LocalModel
from ..runtime.channel import Channel
from ..runtime.definitions import Agent, Preset, PresetWord, ToolDefinition
from ..runtime.errors import ActorStopped, ConflictError, DeadlineError, StorageError
from ..runtime.events import TurnEnded
from ..tools.plugins import Plugin
from ..tools.tool import Tool

if TYPE_CHECKING:
    from ..runtime.http.client import GivenHttp
    from ..runtime.telemetry.telemetry import SpanProcessor

GONE_SECONDS = LEAVE_SECONDS + 5.0
"""How long an interrupted caller waits until its call is gone: longer than leaving a turn may take."""
CLOSE_SECONDS = 30.0
"""How long closing waits for the thread: the runtime's own limits add up to half of it."""
EXIT_SECONDS = 5.0
"""How long the interpreter's exit waits for portals that nobody closed. The record is safe anyway."""

Answer = TypeVar("Answer")
Inner = TypeVar("Inner", covariant=True)


class RuntimeOptions(TypedDict, total=False):
    """The arguments of `open_runtime` (explained there) but for `on_approval`."""

    model: str | LocalModel | None
    base_url: str | None
    dialect: DialectName | DialectWord | None
    workspace: str | Path | None
    data: str | Path | None
    tools: Sequence[Tool]
    app: object
    agents: Sequence[Agent]
    policy: Preset | PresetWord | None
    channel: Channel | None
    settings: Settings | None
    config: str | Path | None
    environ: Mapping[str, str] | None
    record: str | Path | None
    http: GivenHttp | None
    strict: bool
    wake: bool
    fire: bool
    span_processor: SpanProcessor | None


class Crossing(Generic[Answer]):
    """One call into the portal's thread.

    Attributes:
        future: Done when nothing of the call runs any more. Only `Portal.cancel` cancels the call;
            the future's own `cancel` does nothing.
    """

    def __init__(self, function: Callable[[], Awaitable[Answer]]) -> None:
        self.future: Future[Answer] = _promise()
        self._function = function
        self._find_crash: Callable[[], ActorStopped | None] = lambda: None
        self._scope = trio.CancelScope()
        self._has_begun = False

    def begin(self, find_crash: Callable[[], ActorStopped | None]) -> None:
        """Start the call as a system task. Like the methods below, for the portal's thread only.

        `find_crash` returns the error that ended the runtime: a caller whose actor is gone gets it.
        """
        self._find_crash = find_crash
        # Not a task of a nursery inside the runtime: a caller that waits for a turn still learns how
        # it ends while the runtime closes. Calls that take longer are cancelled with Trio's run.
        trio.lowlevel.spawn_system_task(self._run, name="call through the portal")
        self._has_begun = True

    def cancel(self) -> None:
        """Cancel the call; one that has not begun by now never will."""
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
        except Exception as error:  # any error is raised to the caller
            _fail(self.future, error)
        finally:  # errors that end the thread itself are reported by `Portal._run`
            del self  # or exception and frame would keep each other alive


class Portal:
    """A thread with a runtime in it. Any thread may call its methods.

    It must be stopped; the interpreter's exit does so too, but waits only `EXIT_SECONDS`.

    Attributes:
        started: The runtime once it is open, or the error of opening it.
        ended: Done when the runtime is closed and the thread is about to end.
        turns: Turns that were entered and not left. When the runtime closes, the rest of their events
            is fetched for them: afterwards nobody could.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.started: Future[embedded.Runtime] = _promise()
        self.ended: Future[None] = _promise()
        self.turns: set[Turn[Any]] = set()
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
        """Start a call; its future becomes done in any case, even when the thread ends first.

        Raises:
            ActorStopped: The runtime is closed, or belongs to the process that forked this one.
        """
        self._check_process()
        self._unfinished.add(crossing.future)
        crossing.future.add_done_callback(self._unfinished.discard)
        if not self._soon(partial(self._begin, crossing)) or self.ended.done():
            _fail(crossing.future, self._closed())

    def cancel(self, crossing: Crossing[Any]) -> None:
        """Cancel a call that may have ended already; returns at once."""
        self._soon(crossing.cancel)

    def call(self, function: Callable[[], Awaitable[Answer]]) -> Answer:
        """Run a call and block until it has ended; return its result or raise its exception.

        An exception that interrupts the wait, such as `KeyboardInterrupt`, cancels the call and is
        raised when the call is gone.

        Raises:
            ActorStopped: As `submit`.
            ConflictError: Called from the portal's own thread, which cannot wait for itself.
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
            del crossing  # its future's exception refers to this frame

    # ── the end ──────────────────────────────────────────────────────────────────────────────────

    def stop(self) -> None:
        """Make the runtime close in order; returns at once. Idempotent."""
        self._is_stopping = True
        self._soon(partial(self._scope.cancel, "the program closed it"))

    def join(self, seconds: float = CLOSE_SECONDS) -> None:
        """Block until the thread has ended, for so many seconds at most."""
        if self._process == os.getpid():
            self._thread.join(seconds)

    def check_end(self) -> None:
        """Raise the error that ended the runtime, if one did.

        Raises:
            DeadlineError: The runtime has not closed in time.
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
        except BaseException as error:  # noqa: ASYNC103  raised again by `started` or `check_end`
            if not _fail(self.started, error):
                self._crash = error
        self.ended.set_result(None)
        # `submit` looks at `ended` after it has added its future, so that none is missed here.
        for future in (self.started, *self._unfinished.copy()):
            _fail(future, self._closed())
        _open_portals.discard(self)

    async def _serve(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        if self._is_stopping:  # `stop` came before there was a token for it to use
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
        """Call a function in the portal's thread soon; return whether that will happen."""
        if self._token is None or self._process != os.getpid():
            return False
        try:
            self._token.run_sync_soon(function)
        except trio.RunFinishedError:
            return False
        return True

    def _check_process(self) -> None:
        # A fork copies no threads, and the child's wake-up socket is the parent's.
        if self._process != os.getpid():
            raise ActorStopped(
                f"this runtime runs in process {self._process}, from which this one was forked; "
                "open one here"
            )

    def _closed(self) -> ActorStopped:
        return self._find_crash() or ActorStopped(CLOSED)

    def _find_crash(self) -> ActorStopped | None:
        crash = self._crash
        if crash is None and self.started.done() and self.started.exception() is None:
            crash = self.started.result()._host.failure
        if crash is None:
            return None
        stopped = ActorStopped(f"this runtime has ended with {type(crash).__name__}: {crash}")
        stopped.__cause__ = crash
        return stopped


async def _fetch_rest(turn: Turn[Any]) -> None:
    """Fetch the remaining events of a turn that is over; its queue is bounded and closed."""
    with suppress(ActorStopped):
        while await turn.fetch_events():
            pass


class Handle(Generic[Inner]):
    """A program's side of an object in the portal's thread."""

    def __init__(self, portal: Portal, inner: Inner) -> None:
        self._portal = portal
        self._inner = inner


class RuntimeHandle(Handle[embedded.Runtime]):
    """The properties of a runtime that need no waiting."""

    @property
    def model(self) -> str:
        """The default `PROVIDER/MODEL`."""
        return self._inner.model

    @property
    def model_reason(self) -> str:
        """Why it is the default, for a person to read: "because OPENAI_API_KEY is set"."""
        return self._inner.model_reason

    def tools(self) -> tuple[ToolDefinition, ...]:
        """Return all tools, in the order in which models see them."""
        return self._inner.tools()

    def definitions_for(
        self, wire_format: WireFormatWord, *, agent: str = "general"
    ) -> list[dict[str, Any]]:
        """Return an agent's tools as a provider gets them; see `callboard.Runtime.definitions_for`."""
        return self._inner.definitions_for(wire_format, agent=agent)

    def plugins(self) -> tuple[Plugin, ...]:
        """Return the plugins that the configuration enables, loaded or failed."""
        return self._inner.plugins()


class TurnHandle(Handle[Turn[Value]]):
    """The properties of a turn that need no waiting, as of the last event that was read.

    It is safe without a lock: the portal's thread only appends to the turn's deque and the reader
    only pops from it, and both operations are atomic.
    """

    @property
    def input_id(self) -> str:
        """The input's id, once the turn was entered."""
        return self._inner.input_id

    @property
    def seq(self) -> int:
        """The `seq` of the last stored event that was read."""
        return self._inner.seq

    @property
    def at_ms(self) -> int:
        """When that event was stored, in Unix milliseconds."""
        return self._inner.at_ms

    @property
    def ended(self) -> TurnEnded | None:
        """The event of its end, once it was read."""
        return self._inner.ended

    def _fetched(self) -> list[TurnEvent]:
        """Return the events that have come already."""
        return list(iter(self._inner.next_event_nowait, None))


_open_portals: set[Portal] = set()


def _promise() -> Future[Any]:
    """Return a future that its holders cannot cancel."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future


def _fail(future: Future[Any], error: BaseException) -> bool:
    """End a future with this error unless it is done; return whether it was not."""
    try:
        future.set_exception(error)
    except InvalidStateError:
        return False
    return True


@atexit.register
def _stop_open_portals() -> None:
    """Close the portals that are left open, all at once, within `EXIT_SECONDS`."""
    portals = _open_portals.copy()
    for portal in portals:
        portal.stop()
    deadline = time.monotonic() + EXIT_SECONDS
    for portal in portals:
        portal.join(max(0.0, deadline - time.monotonic()))
