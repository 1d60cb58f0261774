"""What a call may know and touch: the context that its tool gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import InitVar, dataclass

from ..runtime.definitions import Agent, SessionKind
from ..runtime.handles import (
    ArtifactReader,
    ChannelHandle,
    Network,
    PlanHandle,
    ReadableFiles,
    SessionsHandle,
    SkillReader,
    WritableFiles,
)
from ..runtime.memories import MemoryReader, MemoryWriter
from ..runtime.processes import Processes
from ..runtime.search import Search
from .development.workshop import Workshop
from .progress import ProgressRelay


@dataclass(kw_only=True, eq=False, repr=False)
class ToolContext:
    """What a call may know and touch: a missing handle is `None`.

    Attributes:
        session_id, turn_id, call_id: Whose call this is.
        session_kind: The kind of its session.
        agent: The agent's configuration.
        files_read, files_write: The workspace, as far as the session kind allows it.
        network: The way out, to public hosts.
        channel: The way to the people of the session.
        sessions: The way to sessions of its own.
        processes: The way to run programs in a sandbox, on the workspace.
        memory_read, memory_write: What the agent's sessions remember.
        plan, skills: The session's plan, and the skills that its model is told of.
        search: The operator's search engine.
        workshop: What the operator gives development tools.
        artifacts: The kept whole of results that were cut.
        approval_reason: Why this call counted as worth a question when it was decided (whether
            one was asked or not); `None` when it did not. A write that was decided as new must
            not replace a file that appeared meanwhile.
        shown_preview: What a person saw of this call before they allowed it, as they saw it; `None`
            when none was asked, or what runs are other arguments than those.

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
    files_read: ReadableFiles | None = None
    files_write: WritableFiles | None = None
    network: Network | None = None
    channel: ChannelHandle | None = None
    sessions: SessionsHandle | None = None
    processes: Processes | None = None
    memory_read: MemoryReader | None = None
    memory_write: MemoryWriter | None = None
    plan: PlanHandle | None = None
    skills: SkillReader | None = None
    search: Search | None = None
    workshop: Workshop | None = None
    artifacts: ArtifactReader | None = None
    approval_reason: str | None = None
    shown_preview: str | None = None
    on_progress: InitVar[Callable[[str], None] | None] = None

    def __post_init__(self, on_progress: Callable[[str], None] | None) -> None:
        self._relay = None if on_progress is None else ProgressRelay(on_progress)

    def progress(self, text: str) -> None:
        """Shows output while the call runs.

        From any thread; never blocks, and drops what nobody can take.
        """
        if self._relay is not None:
            self._relay.tell(text)
