"""The context of a call: what its tool may know and touch."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import InitVar, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import trio

from ..runtime.definitions import Agent, SessionKind
from ..runtime.event_types.calls import CalledServer
from ..runtime.handles import (
    ArtifactReader,
    ChannelHandle,
    ModelHandle,
    Network,
    PlanHandle,
    ReadableFiles,
    SearchHandle,
    SessionsHandle,
    SkillReader,
    WritableFiles,
)
from ..runtime.identity import TraceContext
from ..runtime.memory.memories import MemoryReader, MemoryWriter
from ..runtime.processes import Processes
from .workshop import Workshop

if TYPE_CHECKING:  # type checkers bring these along; at run time a default is not needed
    from typing_extensions import TypeVar as TypeVarWithDefault

    from ..runtime.telemetry.context import TurnTrace

    App = TypeVarWithDefault("App", default=Any)
else:
    App = TypeVar("App")

NO_APP: Any = None
"""The `app` of a program that gave none; a tool whose context wants one is refused at the start."""

MAX_WAITING_LINES = 64
"""Progress lines of one call that wait for the Trio thread; as many as the turn keeps. Further lines are
dropped: a thread in a tight loop must neither wait nor fill the memory."""


class ProgressRelay:
    """Calls `show` in the thread that made the relay; any thread may `send`, and never blocks.

    `show` must not raise: in the Trio thread, it would end the run.
    """

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._home = threading.get_ident()
        # A worker process has no Trio run; there `show` writes to a pipe, as any thread may.
        in_run = trio.lowlevel.in_trio_run()
        self._token = trio.lowlevel.current_trio_token() if in_run else None
        self._lines: deque[str] = deque()

    def send(self, text: str) -> None:
        """Show a line now, or soon when called from another thread."""
        if self._token is None or threading.get_ident() == self._home:
            self._show_waiting()
            self._show(text)
        elif len(self._lines) < MAX_WAITING_LINES:
            self._lines.append(text)
            try:
                self._token.run_sync_soon(self._show_waiting, idempotent=True)
            except trio.RunFinishedError:
                self._lines.clear()  # the thread outlived the run: nobody reads it

    def _show_waiting(self) -> None:
        while self._lines:
            self._show(self._lines.popleft())


@dataclass(kw_only=True, eq=False, repr=False)
class ToolContext(Generic[App]):
    """What a call may know and touch; a missing handle is `None`.

    Attributes:
        session_id, turn_id, call_id: The call, and where it belongs.
        session_kind: The kind of its session.
        agent: The agent's configuration.
        app: What the program gave to `open_runtime(app=…)`; annotate the parameter
            `ToolContext[Shop]`, and it is a `Shop`. `None` in a tool with `process=True`.
        files_read, files_write: The workspace, as far as the session kind allows it.
        workspace: Its folder, for a tool that needs one of these. What a tool does there past its handles
            is neither undone nor marked, and no path is resolved for it.
        network: Requests to public hosts.
        channel: The people of the session.
        sessions: Sessions that this one starts.
        processes: Programs in a sandbox, on the workspace.
        memory_read, memory_write: What the agent's sessions remember.
        plan, skills: The session's plan, and the skills that its model knows of.
        search: The operator's search engine.
        workshop: The operator's settings for development tools.
        artifacts: The whole of results that were cut.
        max_result_bytes: How much JSON of a result the model gets; a tool with pages makes them fit.
        approval_reason: Why this call was worth a question when it was decided, whether anybody
            was asked or not; `None` when it was not. A write that was decided as new must not
            replace a file that appeared meanwhile.
        shown_preview: The preview that a person saw before they allowed this call; `None` when
            nobody was asked, or the arguments that run are others.
        model: The model of the turn, for a tool that may ask it.
        trace: Where the call stands in a trace, for whatever it asks elsewhere; `None` without `[telemetry]`.
        server: The MCP server that the call has asked; its tool says so here, for the record.

    Example:
        @callboard.tool(needs=["files.read"])
        def count_bytes(path: str, context: callboard.ToolContext) -> int:
            '''Counts the bytes of a file.'''
            context.progress(f"looking at {path}")
            return context.files_read.read(path, limit=1).info.size_bytes
    """

    session_id: str
    turn_id: str
    call_id: str
    session_kind: SessionKind
    agent: Agent
    app: App = NO_APP
    files_read: ReadableFiles | None = None
    files_write: WritableFiles | None = None
    workspace: Path | None = None
    network: Network | None = None
    channel: ChannelHandle | None = None
    sessions: SessionsHandle | None = None
    processes: Processes | None = None
    memory_read: MemoryReader | None = None
    memory_write: MemoryWriter | None = None
    plan: PlanHandle | None = None
    skills: SkillReader | None = None
    search: SearchHandle | None = None
    workshop: Workshop | None = None
    artifacts: ArtifactReader | None = None
    max_result_bytes: int | None = None
    approval_reason: str | None = None
    shown_preview: str | None = None
    server: CalledServer | None = None
    model: ModelHandle | None = None
    on_progress: InitVar[Callable[[str], None] | None] = None
    turn_trace: InitVar[TurnTrace | None] = None

    def __post_init__(
        self, on_progress: Callable[[str], None] | None, turn_trace: TurnTrace | None
    ) -> None:
        self._relay = None if on_progress is None else ProgressRelay(on_progress)
        self._scope: trio.CancelScope | None = None
        self._outside = 0
        self._left = math.inf
        self._turn_trace = turn_trace

    @cached_property
    def trace(self) -> TraceContext | None:
        """Where the call stands in a trace; most tools don't ask, so it is found when one does."""
        return None if self._turn_trace is None else self._turn_trace.below(self.call_id)

    def run_in(self, scope: trio.CancelScope) -> None:
        """Note the scope that the call runs in, with its deadline; for who runs it."""
        self._scope = scope

    @contextmanager
    def outside_deadline(self) -> Generator[None]:
        """Stop the deadline of the call while one block or several run, in which people take their time."""
        if self._scope is None:
            yield
            return
        if not self._outside:
            self._left = self._scope.deadline - trio.current_time()
            self._scope.deadline = math.inf
        self._outside += 1
        try:
            yield
        finally:
            self._outside -= 1
            if not self._outside:
                self._scope.deadline = trio.current_time() + self._left

    def progress(self, text: str) -> None:
        """Show a line while the call runs.

        Works from any thread and never blocks; lines that come too fast are dropped.
        """
        if self._relay is not None:
            self._relay.send(text)
