"""How far one call reaches: where its requests may lead, and what it has read, and written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, runtime_checkable

import msgspec

from ...config.policy.match import CallArguments
from ...config.policy.new_hosts import URL_ARGUMENTS, named_hosts, url_arguments
from ...runtime.definitions import Capability
from ...runtime.events import DurableEvent, FilesMarked
from ...runtime.handles import WebRequest
from ...runtime.http.url import parse_url
from ...runtime.messages import PermissionQuestion, SessionMarks
from ...runtime.taint.tracked_files import FileWatch, WatchedReader
from ...runtime.taint.tracked_network import WatchedNetwork
from ...runtime.taint.tracked_processes import WatchedProcesses
from .call import ReadyCall
from .marks import joined, marked, marks_of_call

Judge = Callable[[PermissionQuestion, frozenset[str]], Awaitable[str | None]]
"""Why a call must not do this, or `None` when it may; the hosts are what it was decided about."""

_STRANGE = SessionMarks(is_tainted=True)


@runtime_checkable
class HasRead(Protocol):
    """A handle through which a call may have read more than what its tool needs tells."""

    @property
    def read(self) -> SessionMarks:
        """What it has read so far: of delegated sessions, what they have; of memories, who wrote."""
        ...


def watch(ready: ReadyCall, judge: Judge, is_tainted: Callable[[], bool]) -> None:
    """Has an eye on what the call does from here on: where it connects, and on its files.

    Args:
        ready: The call, which is about to run.
        judge: Says what it must not do.
        is_tainted: Whether its session is, at the time that it is asked.
    """
    limit_reach(ready, judge)
    files = _watch(ready)
    if files is not None:
        files.begin(lambda: is_tainted() or read_by(ready).is_tainted)


def limit_reach(ready: ReadyCall, judge: Judge) -> None:
    """Has every redirect judged, and every request to a host which the call's arguments don't name.

    A call whose arguments name none was decided about as one that may connect anywhere. Not so one
    that runs a program: each host of it is judged, as an argument `url` would be. When a person
    allowed that very call, none is new.
    """
    network = ready.context.network
    if not isinstance(network, WatchedNetwork):
        return
    decided = named_hosts(ready.definition, CallArguments(ready.arguments.canonical))
    if decided is None and Capability.PROCESSES not in ready.needs:
        return
    is_let_out = decided is None and network.is_let_out

    async def may_visit(request: WebRequest) -> str | None:
        own = {parse_url(request.url).host} if is_let_out else frozenset[str]()
        return await judge(_elsewhere(ready, request), known | own)

    known = frozenset(decided or ())
    network.limit(known, may_visit)


def as_allowed(ready: ReadyCall, asked: ReadyCall) -> ReadyCall:
    """The call that a person allowed, when they were asked about one with these arguments."""
    ready.context.approval_reason = asked.context.approval_reason
    ready.context.shown_preview = asked.context.shown_preview
    if isinstance(ready.context.network, WatchedNetwork):
        ready.context.network.is_let_out = True
    return ready


def files_marked(ready: ReadyCall) -> tuple[FilesMarked, ...]:
    """The event of what the call has written, if there is any; it can write no more."""
    files = _watch(ready)
    there, gone = files.end() if files is not None else ((), ())
    if not there and not gone:
        return ()
    return (FilesMarked(call_id=ready.call.call_id, marked=there, cleared=gone),)


def hosts_of(ready: ReadyCall | None) -> tuple[str, ...]:
    """Where a call has connected."""
    network = ready.context.network if ready is not None else None
    return network.hosts if isinstance(network, WatchedNetwork) else ()


def read_by(ready: ReadyCall) -> SessionMarks:
    """What a call that has run has read."""
    read = marks_of_call(_heard_through(ready), hosts_of(ready))
    for handle in (ready.context.sessions, ready.context.memory_read):
        # Most calls have neither handle, and the look at a protocol takes ten times as long.
        if handle is not None and isinstance(handle, HasRead):
            read = joined(read, handle.read)
    return joined(read, _STRANGE) if _strange_file(ready) else read


def due_marks(
    ready: ReadyCall, marks: SessionMarks, read: SessionMarks
) -> tuple[DurableEvent, ...]:
    """The events that are due when a session with these marks gets what a call has read."""
    file = _strange_file(ready)
    is_web = Capability.NETWORK in ready.needs
    source = f"file {file}" if file and not is_web else ready.name
    return marked(marks, read, ready.name, ready.call.call_id, tainted_by=source)


def _heard_through(ready: ReadyCall) -> tuple[Capability, ...]:
    """What the call needs, without the network when it is certain that it has heard nobody.

    That is so of a tool which has no other way out than its handle: of ours, if they run no program.
    """
    network = ready.context.network
    if (
        not isinstance(network, WatchedNetwork)
        or network.may_have_heard
        or not ready.tool.is_ours
        or Capability.PROCESSES in ready.needs
    ):
        return ready.needs
    return tuple(need for need in ready.needs if need is not Capability.NETWORK)


def _watch(ready: ReadyCall) -> FileWatch | None:
    for handle in (ready.context.files_read, ready.context.processes):
        if isinstance(handle, (WatchedReader, WatchedProcesses)):
            return handle.watch  # its handles share it
    return None


def _strange_file(ready: ReadyCall) -> str:
    """The first file that the call has read and a tainted session wrote, if there is one."""
    files = _watch(ready)
    return next(iter(tuple(files.read)), "") if files is not None else ""


def _elsewhere(ready: ReadyCall, request: WebRequest) -> PermissionQuestion:
    """The call as it would be if the model had asked for this request."""
    definition = ready.definition
    properties = definition.parameters.get("properties", {})
    arguments = CallArguments(ready.arguments.canonical, properties)
    said = dict(arguments.given)
    for name in url_arguments(definition, arguments) or URL_ARGUMENTS[:1]:
        said[name] = [request.url] if isinstance(said.get(name), list) else request.url
    if "method" in properties and str(arguments.value("method")).upper() != request.method:
        said["method"] = request.method  # else as it was said, or left out: grants compare it
    text = msgspec.json.encode(said, order="deterministic").decode()
    return msgspec.structs.replace(
        ready.question, arguments=text, approval_reason=None, is_redirect=True
    )
