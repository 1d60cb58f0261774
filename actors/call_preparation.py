"""From what a model, or a person, said to a call that is ready: its tool, its handles, its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..config.settings import Limits
from ..runtime.definitions import Capability, ErrorType, ToolDefinition, ToolFailure
from ..runtime.handles import (
    ArtifactReader,
    ChannelHandle,
    Network,
    ReadableFiles,
    SessionsHandle,
    WritableFiles,
)
from ..runtime.history import Call
from ..runtime.messages import CallPlace
from ..runtime.watched_network import WatchedNetwork
from ..tools.registry import HANDLES, ToolRegistry
from ..tools.tool import ToolContext
from .tool_call import ReadyCall, find_tool, make_ready


class ToolHandles(Protocol):
    """Where tools get what they act through; it hands out what the kind allows."""

    @property
    def network(self) -> Network | None:
        """The way out; all kinds of sessions have it, and tiers say who may use what."""
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


class CallPreparation:
    """The one way to a call that may be decided about, whoever wrote its arguments."""

    def __init__(self, registry: ToolRegistry, handles: ToolHandles, limits: Limits) -> None:
        self._registry = registry
        self._handles = handles
        self._max_bytes = limits.max_arguments_bytes

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
        most = self._max_bytes
        if len(arguments) > most or len(arguments.encode(errors="replace")) > most:
            text = f"{call.name}: the arguments are larger than {most} bytes; send less at once."
            raise ToolFailure(ErrorType.VALIDATION_ERROR, text)
        context = self._context(place, call, tool.definition.needs, on_progress)
        return make_ready(tool, call, arguments, context)

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
        return ToolContext(
            session_id=place.session_id,
            turn_id=place.turn_id,
            call_id=call.call_id,
            session_kind=place.session_kind,
            agent=place.agent,
            files_read=handles.files_read(place.workspace)
            if Capability.FILES_READ in needs or Capability.FILES_WRITE in needs
            else None,
            files_write=handles.files_write(place.workspace)
            if Capability.FILES_WRITE in has
            else None,
            network=WatchedNetwork(handles.network)
            if Capability.NETWORK in has and handles.network is not None
            else None,
            channel=handles.channel(place, call) if Capability.CHANNEL in has else None,
            sessions=handles.sessions(place, call) if Capability.SESSIONS in has else None,
            artifacts=handles.artifacts(place.session_id),
            on_progress=on_progress,
        )
