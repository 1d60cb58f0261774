"""The handles of calls: made here, over workspaces that are opened once and shared."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...runtime.changes.version_log import CallVersions, VersionStore
from ...runtime.definitions import Capability, ErrorType, ToolFailure
from ...runtime.errors import ValidationError
from ...runtime.event_types.plan import PlanItem
from ...runtime.events import ChildCall, FilesMarked, PlanSet
from ...runtime.handles import (
    ArtifactReader,
    ChannelHandle,
    Network,
    PlanHandle,
    ReadableFiles,
    SearchHandle,
    SessionsHandle,
    SkillReader,
    WritableFiles,
)
from ...runtime.history import Call
from ...runtime.kernel.mailbox import Mailbox
from ...runtime.memory.memories import MemoryReader, MemoryStore, MemoryWriter
from ...runtime.messages import AppendEvents, CallPlace, JournalMessage
from ...runtime.processes import Processes
from ...runtime.store.interface import StoreReader
from ...runtime.taint.marked_files import MarkedFiles
from ...runtime.taint.marks import STRANGERS
from ...runtime.taint.tracked_files import FileWatch
from ...runtime.taint.tracked_network import Connect, TrackedNetwork
from ...tools.skills.shelf import OpenSkills, SkillShelf
from ...tools.workshop import Workshop
from ...tools.workspace.protected_places import HeldPlaces
from ...tools.workspace.workspace import Workspace, open_workspace
from ..delegation.tree import SessionTree
from ..people.speech import Speech
from .memories import OpenReader, OpenWriter

if TYPE_CHECKING:
    from ...tools.sandbox.sandbox import Sandbox
    from ...tools.web.search import SearchPlace


class OpenPlan:
    """A `PlanHandle` of one call."""

    def __init__(self, journal: Mailbox[JournalMessage], place: CallPlace, call: Call) -> None:
        self._journal = journal
        self._place = place
        self._call = call

    async def set(self, items: tuple[PlanItem, ...]) -> None:
        """Replace the whole plan; on record on return."""
        place = self._place
        event = PlanSet(turn_id=place.turn_id, call_id=self._call.call_id, items=items)
        await self._journal.ask(AppendEvents(session_id=place.session_id, events=(event,)))


class CallMarks:
    """A `MarkKeeper` of one call."""

    def __init__(self, journal: Mailbox[JournalMessage], session_id: str, call_id: str) -> None:
        self.session_id = session_id
        self._journal = journal
        self._call_id = call_id

    async def keep(self, marked: tuple[str, ...], cleared: tuple[str, ...]) -> None:
        """See `MarkKeeper`."""
        event = FilesMarked(call_id=self._call_id, marked=marked, cleared=cleared)
        await self._journal.ask(AppendEvents(session_id=self.session_id, events=(event,)))


_FILE_ID = re.compile(r"(.+)/([1-9][0-9]{0,2})")
MAX_OPEN_WORKSPACES = 64
"""Workspaces kept open, each with one descriptor: a process has 1,024 by default."""


class OpenHandles:
    """Makes the handles of a runtime's calls.

    Args:
        store: Holds the kept outputs.
        forbidden: Folders that no workspace may contain: callboard's own data.
        network: The way out.
        connect: Makes the connections of programs, or `None` where they get none.
        speech: The way to people.
        tree: The way to sessions below one.
        journal: Stores memories and plans.
        shelf: The skills.
        memories: Keeps memories, with or without an index.
        versions: Keeps what programs change.
        marked_files: The files that tainted sessions wrote.
        engine: Returns the search engine, if one is configured now.
        sandbox: Runs programs, if any may run.
        workshop: What development tools get.
        is_confined: Whether a workspace is a real path in a root: then a link that takes its place is refused.

    `close` closes every open folder; calls that still run keep theirs until they end.
    """

    def __init__(
        self,
        store: StoreReader,
        forbidden: Sequence[Path],
        *,
        network: Network,
        connect: Connect | None,
        speech: Speech,
        tree: SessionTree,
        journal: Mailbox[JournalMessage],
        shelf: SkillShelf,
        memories: MemoryStore,
        versions: VersionStore,
        marked_files: MarkedFiles,
        engine: Callable[[], SearchPlace | None] = lambda: None,
        sandbox: Sandbox | None = None,
        workshop: Workshop | None = None,
        is_confined: Callable[[str], bool] | None = None,
    ) -> None:
        self.network = network
        self.connect = connect
        self.workshop = workshop
        self._speech = speech
        self._tree = tree
        self._journal = journal
        self._shelf = shelf
        self._engine = engine
        self._sandbox = sandbox
        self._memories = memories
        self._store = store
        self._versions = versions
        self._marked_files = marked_files
        self._forbidden = tuple(forbidden)
        self._workspaces: dict[str, Workspace] = {}
        self._held = HeldPlaces()
        self._is_confined = is_confined

    def files_read(self, workspace: str) -> ReadableFiles:
        """Return the workspace, read-only."""
        return self._open(workspace).read_only()

    def files_write(self, workspace: str) -> WritableFiles:
        """Return the workspace."""
        return self._open(workspace)

    def artifacts(self, session_id: str) -> ArtifactReader:
        """Return the session's kept outputs, which were too large for the model."""
        return _KeptOutputs(self._store, session_id)

    def channel(self, place: CallPlace, call: Call) -> ChannelHandle | None:
        """Return the way to the people of the session, or of one above it."""
        return self._speech.handle(place, call)

    def sessions(
        self, place: CallPlace, call: Call, show: Callable[[ChildCall], None] | None
    ) -> SessionsHandle | None:
        """Return the way to sessions of its own; `None` for a worker. `show` takes their calls, without waiting."""
        return self._tree.handle(place, call, show)

    async def wait_tested(self) -> None:
        """Wait until it is known whether programs may be started."""
        if self._sandbox is not None:
            await self._sandbox.tested()

    def processes(
        self, place: CallPlace, call: Call, way_out: TrackedNetwork | None = None
    ) -> Processes | None:
        """Return the way to run programs in the workspace; `way_out` lets them reach hosts."""
        if self._sandbox is None:
            return None
        from ...tools.sandbox.session_processes import SessionProcesses  # here: few calls run any

        workspace = self._open(place.workspace)
        return SessionProcesses(
            self._sandbox,
            workspace.place,
            place.session_id,
            place.turn_id,
            call.call_id,
            way_out,
            self._call_versions(place, call),
            workspace.identity,
            None if place.trace is None else place.trace.below(call.call_id),
        )

    def _call_versions(self, place: CallPlace, call: Call) -> CallVersions:
        watch = FileWatch(self._marked_files, place.workspace)
        return CallVersions(
            log=self._versions.log(place.session_id),
            session_id=place.session_id,
            call_id=call.call_id,
            is_marked=watch.is_marked,
            open_aside=self._versions.open_aside,
        )

    def keeper(self, place: CallPlace, call: Call) -> CallMarks:
        """Return the way to store what is marked behind a call."""
        return CallMarks(self._journal, place.session_id, call.call_id)

    def memory_read(self, place: CallPlace) -> MemoryReader:
        """Return the way to what the agent remembers."""
        return OpenReader(self._memories, place.agent.name)

    def memory_write(
        self,
        place: CallPlace,
        call: Call,
        needs: tuple[Capability, ...],
        reader: MemoryReader | None,
    ) -> MemoryWriter:
        """Return the way to remember more, for a call with these needs and this reader."""
        is_untrusted = not STRANGERS.isdisjoint(needs)
        return OpenWriter(self._memories, place, call, is_untrusted=is_untrusted, reader=reader)

    def plan(self, place: CallPlace, call: Call) -> PlanHandle:
        """Return the way to the session's plan."""
        return OpenPlan(self._journal, place, call)

    def skills(self, workspace: str, names: tuple[str, ...] | None = None) -> SkillReader:
        """Return the way to the skills of the user and of a workspace; `names` are those of its agent."""
        return OpenSkills(self._shelf, workspace, names)

    def search(self, network: Network) -> SearchHandle | None:
        """Return the operator's search engine, over a call's way out."""
        if (place := self._engine()) is None:
            return None
        from ...tools.web.search import WebSearch  # here: few runtimes have one

        return WebSearch(place, network)

    def close(self) -> None:
        """Close the workspaces. Idempotent."""
        while self._workspaces:
            self._workspaces.popitem()[1].close()

    def _open(self, path: str) -> Workspace:
        workspace = self._workspaces.pop(path, None)
        if workspace is None or not workspace.is_at(path):
            try:
                is_real = self._is_confined is not None and self._is_confined(path)
                workspace = open_workspace(Path(path), forbidden=self._forbidden, is_real=is_real)
                self._held.check(path, workspace.place)
            except ValidationError as error:
                raise ToolFailure(ErrorType.ACCESS_DENIED, str(error)) from error
        # The latest used is last. A dropped one closes when the calls that use it have ended.
        self._workspaces[path] = workspace
        if len(self._workspaces) > MAX_OPEN_WORKSPACES:
            del self._workspaces[next(iter(self._workspaces))]
        return workspace


class _KeptOutputs:
    def __init__(self, store: StoreReader, session_id: str) -> None:
        self._store = store
        self._session_id = session_id

    async def read_artifact(self, artifact_id: str) -> bytes | None:
        """Return the output of this call, or one of its files, which are counted from 1; `None` if there is none.

        The id of a file is that of its call, a slash and its number.
        """
        if (its := _FILE_ID.fullmatch(artifact_id)) is not None:
            call = await self._store.finished_call(self._session_id, its[1])
            if call is not None and int(its[2]) <= len(call.attachments):
                return call.attachments[int(its[2]) - 1].data
        call = await self._store.finished_call(self._session_id, artifact_id)
        return None if call is None or call.full_output is None else call.full_output.encode()
