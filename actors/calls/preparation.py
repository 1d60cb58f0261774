"""From what a model, or a person, said to a call that is ready: its tool, its handles, its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ...config.settings import Limits
from ...runtime.changes.version_log import VersionStore
from ...runtime.definitions import Capability, ErrorType, ToolDefinition, ToolFailure
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
from ...runtime.memory.memories import MemoryReader, MemoryWriter
from ...runtime.messages import CallPlace
from ...runtime.processes import Processes
from ...runtime.taint.marked_files import MarkedFiles
from ...runtime.taint.tracked_files import FileWatch, WatchedReader, WatchedWriter
from ...runtime.taint.tracked_network import Connect, WatchedNetwork
from ...runtime.taint.tracked_processes import WatchedProcesses
from ...tools.registry import HANDLES, ToolRegistry
from ...tools.tool import ToolContext
from ...tools.workshop import Workshop
from ...tools.workspace.workspace import Workspace
from .call import ReadyCall, find_tool, make_ready


class ToolHandles(Protocol):
    """Where tools get what they act through; it hands out what the kind allows."""

    @property
    def network(self) -> Network | None:
        """The way out; all kinds of sessions have it, and tiers say who may use what."""
        ...

    @property
    def connect(self) -> Connect | None:
        """Makes the connections of programs; `None` where they get none."""
        ...

    @property
    def workshop(self) -> Workshop | None:
        """What the operator gives development tools; `None` for nothing."""
        ...

    def files_read(self, workspace: str) -> ReadableFiles:
        """The workspace without a way to write; raises `ToolFailure` when it can't be opened."""
        ...

    def files_write(self, workspace: str) -> WritableFiles:
        """The whole workspace; raises `ToolFailure` when it can't be opened."""
        ...

    def artifacts(self, session_id: str) -> ArtifactReader:
        """The outputs of the session's calls that were too large for the model."""
        ...

    def channel(self, place: CallPlace, call: Call) -> ChannelHandle | None:
        """The way to the people of the session, or of a parent; `None` where there are none."""
        ...

    def sessions(self, place: CallPlace, call: Call) -> SessionsHandle | None:
        """The way to sessions of its own; `None` for a worker."""
        ...

    def processes(
        self, place: CallPlace, call: Call, way_out: WatchedNetwork | None
    ) -> Processes | None:
        """The way to run programs in the session's workspace; `None` where there is no sandbox.

        With `way_out`, they may reach hosts through it.
        """
        ...

    def memory_read(self, place: CallPlace) -> MemoryReader | None:
        """The way to what the agent remembers; `None` where nothing is kept."""
        ...

    def memory_write(
        self,
        place: CallPlace,
        call: Call,
        needs: tuple[Capability, ...],
        reader: MemoryReader | None,
    ) -> MemoryWriter | None:
        """The way to remember more, by a call that needs this and reads memories with that."""
        ...

    def plan(self, place: CallPlace, call: Call) -> PlanHandle | None:
        """The way to the session's plan; `None` where there is no session."""
        ...

    def skills(self, workspace: str) -> SkillReader | None:
        """The way to the skills of the user and of a workspace; `None` where there are none."""
        ...

    def search(self, network: Network) -> SearchHandle | None:
        """The operator's search engine, over a call's way out; `None` where none is configured."""
        ...


class CallPreparation:
    """The one way to a call that may be decided about, whoever wrote its arguments.

    Args:
        registry: The tools.
        handles: What they act through.
        limits: How large arguments may be.
        marked_files: What tainted sessions wrote; without it, calls here mark and find nothing.
        versions: Where what calls change is kept; without it, nothing is.

    Attributes:
        limits: The same.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        handles: ToolHandles,
        limits: Limits,
        marked_files: MarkedFiles | None = None,
        versions: VersionStore | None = None,
    ) -> None:
        self._registry = registry
        self._marked_files = MarkedFiles() if marked_files is None else marked_files
        self._versions = versions
        self._handles = handles
        self.limits = limits

    def definition(self, name: str) -> ToolDefinition | None:
        """The definition of a tool, if there is one of that name."""
        tool = self._registry.get(name)
        return tool.definition if tool is not None else None

    def ready(
        self,
        place: CallPlace,
        call: Call,
        arguments: str,
        on_progress: Callable[[str], None] | None = None,
    ) -> ReadyCall:
        """Looks up and validates; raises `ToolFailure` that says what is wrong."""
        tool = find_tool(self._registry, call.name, place.agent, place.session_kind)
        most = self.limits.max_arguments_bytes
        if len(arguments) > most or len(arguments.encode(errors="replace")) > most:
            text = f"{call.name}: the arguments are larger than {most} bytes; send less at once."
            raise ToolFailure(ErrorType.VALIDATION_ERROR, text)

        def context_of(needs: tuple[Capability, ...]) -> ToolContext:
            return self._context(place, call, needs, on_progress)

        return make_ready(tool, call, arguments, context_of)

    def _context(
        self,
        place: CallPlace,
        call: Call,
        needs: tuple[Capability, ...],
        on_progress: Callable[[str], None] | None,
    ) -> ToolContext:
        """The handles that the tool needs and the session kind allows; others are not opened."""
        handles = self._handles
        has = HANDLES[place.session_kind].intersection(needs)
        watch = FileWatch(self._marked_files, place.workspace)
        files_read, files_write = self._files(place, call, needs, has, watch)
        memory = handles.memory_read(place) if Capability.MEMORY_READ in has else None
        network = self._network() if Capability.NETWORK in has else None
        runs = Capability.PROCESSES in has
        processes = handles.processes(place, call, network) if runs else None
        return ToolContext(
            session_id=place.session_id,
            turn_id=place.turn_id,
            call_id=call.call_id,
            session_kind=place.session_kind,
            agent=place.agent,
            files_read=files_read,
            files_write=files_write,
            network=network,
            search=None if network is None else handles.search(network),
            channel=handles.channel(place, call) if Capability.CHANNEL in has else None,
            sessions=handles.sessions(place, call) if Capability.SESSIONS in has else None,
            processes=None if processes is None else WatchedProcesses(processes, watch),
            workshop=None if processes is None else handles.workshop,
            memory_read=memory,
            memory_write=handles.memory_write(place, call, needs, memory)
            if Capability.MEMORY_WRITE in has
            else None,
            plan=handles.plan(place, call),
            skills=handles.skills(place.workspace),
            artifacts=handles.artifacts(place.session_id),
            on_progress=on_progress,
        )

    def _network(self) -> WatchedNetwork | None:
        handles = self._handles
        return None if handles.network is None else WatchedNetwork(handles.network, handles.connect)

    def _files(
        self,
        place: CallPlace,
        call: Call,
        needs: tuple[Capability, ...],
        has: frozenset[Capability],
        watch: FileWatch,
    ) -> tuple[ReadableFiles | None, WritableFiles | None]:
        """The files of a call, to read and to write: under one watch, since it may copy."""
        if Capability.FILES_READ not in needs and Capability.FILES_WRITE not in needs:
            return None, None
        reader = WatchedReader(self._handles.files_read(place.workspace), watch)
        if Capability.FILES_WRITE not in has:
            return reader, None
        files = self._handles.files_write(place.workspace)
        if self._versions is not None and isinstance(files, Workspace):
            from ...tools.undo.recorded_files import RecordedFiles  # here: a start needs it not

            log = self._versions.log(place.session_id)
            files = RecordedFiles(files, log, place.session_id, call.call_id, watch.is_marked)
        return reader, WatchedWriter(files, watch)
