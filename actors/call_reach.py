"""How far one call reaches: where its requests may lead, and what it has read when it has run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, runtime_checkable

import msgspec

from ..config.new_hosts import named_hosts, url_arguments
from ..config.policy_match import CallArguments
from ..runtime.handles import WebRequest
from ..runtime.messages import PermissionQuestion, SessionMarks
from ..runtime.watched_network import WatchedNetwork
from .session_marks import joined, marks_of_call
from .tool_call import ReadyCall

Judge = Callable[[PermissionQuestion], Awaitable[str | None]]
"""Why a call must not do this, or `None` when it may."""


@runtime_checkable
class HasRead(Protocol):
    """A handle through which a call may have read more than what its tool needs tells."""

    @property
    def read(self) -> SessionMarks:
        """What it has read so far: of delegated sessions, what they have."""
        ...


def limit_reach(ready: ReadyCall, judge: Judge) -> None:
    """Has every request judged that leads to a host which the call's arguments don't name.

    A call whose arguments name none was decided about as one that may connect anywhere.
    """
    network = ready.context.network
    if not isinstance(network, WatchedNetwork):
        return
    definition = ready.tool.definition
    decided = named_hosts(definition, CallArguments(ready.arguments.canonical))
    if decided is None:
        return

    async def may_visit(request: WebRequest) -> str | None:
        return await judge(_elsewhere(ready, request))

    network.limit(decided, may_visit)


def hosts_of(ready: ReadyCall | None) -> tuple[str, ...]:
    """Where a call has connected."""
    network = ready.context.network if ready is not None else None
    return network.hosts if isinstance(network, WatchedNetwork) else ()


def read_by(ready: ReadyCall) -> SessionMarks:
    """What a call that has run has read."""
    read = marks_of_call(ready.tool.definition.needs, hosts_of(ready))
    sessions = ready.context.sessions
    return joined(read, sessions.read) if isinstance(sessions, HasRead) else read


def _elsewhere(ready: ReadyCall, request: WebRequest) -> PermissionQuestion:
    """The call as it would be if the model had asked for this request."""
    definition = ready.tool.definition
    properties = definition.parameters.get("properties", {})
    arguments = CallArguments(ready.arguments.canonical, properties)
    said = dict(arguments.given)
    for name in url_arguments(definition, arguments):
        said[name] = [request.url] if isinstance(said[name], list) else request.url
    if "method" in properties and str(arguments.value("method")).upper() != request.method:
        said["method"] = request.method  # else as it was said, or left out: grants compare it
    text = msgspec.json.encode(said, order="deterministic").decode()
    return msgspec.structs.replace(
        ready.question, arguments=text, approval_reason=None, is_redirect=True
    )
