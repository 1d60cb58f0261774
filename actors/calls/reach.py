"""What one call reaches while it runs: the hosts it connects to, the files it reads and writes.

A call was decided about by its arguments. Where it goes beyond them, it is judged again: at each
redirect, and at each host that a program in the sandbox connects to. What it read marks the session
(see `runtime/taint/marks.py`), and what a tainted session wrote is marked too.
"""

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
from ...runtime.messages import PermissionQuestion
from ...runtime.taint.marks import SessionMarks, joined, marked, marks_of_call
from ...runtime.taint.tracked_files import FileWatch, TrackedReader, TrackedWriter
from ...runtime.taint.tracked_network import TrackedNetwork
from ...runtime.taint.tracked_processes import TrackedProcesses
from .call import ReadyCall

Judge = Callable[[PermissionQuestion, frozenset[str]], Awaitable[str | None]]
"""Returns why a call must not do this, or `None`; the hosts are those that it was decided with."""

_TAINTED = SessionMarks(is_tainted=True)
_OF_FILES = frozenset({Capability.FILES_READ, Capability.FILES_WRITE})


@runtime_checkable
class HasRead(Protocol):
    """A handle through which a call may have read more than its tool's needs say."""

    @property
    def read(self) -> SessionMarks:
        """What it has read so far: the marks of delegated sessions, or of a memory's author."""
        ...


def named_by(ready: ReadyCall) -> frozenset[str]:
    """Return the hosts that a call's arguments name; none when that is unclear."""
    return frozenset(named_hosts(ready.definition, CallArguments(ready.arguments.canonical)) or ())


def can_reach(ready: ReadyCall) -> bool:
    """Whether a call has a handle by which it may read, write or connect; most need none, and have none."""
    return ready.needs != () or ready.tool.is_trusted is False


def watch(ready: ReadyCall, judge: Judge, is_tainted: Callable[[], bool]) -> None:
    """Watch what the call does from here on: where it connects, and its files.

    Args:
        ready: The call, which is about to run.
        judge: Decides about what the arguments did not name.
        is_tainted: Whether the session is tainted at the time of asking.
    """
    limit_reach(ready, judge)
    files = _watch(ready)
    if files is not None:
        files.begin(lambda: is_tainted() or read_by(ready).is_tainted)


def limit_reach(ready: ReadyCall, judge: Judge) -> None:
    """Have every redirect judged, and every request to a host that the arguments don't name.

    A call whose arguments name no host was decided about as one that may connect anywhere. A call
    that runs a program is not: each host of it is judged as an argument `url` would be. When a
    person allowed that very call, no host is new.
    """
    network = ready.context.network
    if not isinstance(network, TrackedNetwork):
        return
    decided = named_hosts(ready.definition, CallArguments(ready.arguments.canonical))
    if decided is None and Capability.PROCESSES not in ready.needs:
        return
    is_let_out = decided is None and network.is_let_out

    async def may_visit(request: WebRequest) -> str | None:
        own = {parse_url(request.url).host} if is_let_out else frozenset[str]()
        return await judge(_as_if_asked(ready, request), known | own)

    known = frozenset(decided or ())
    network.limit(known, may_visit)


def as_allowed(ready: ReadyCall, asked: ReadyCall) -> ReadyCall:
    """Return the call that a person allowed, as they were asked about it."""
    ready.context.approval_reason = asked.context.approval_reason
    ready.context.shown_preview = asked.context.shown_preview
    if isinstance(ready.context.network, TrackedNetwork):
        ready.context.network.is_let_out = True
    if not asked.arguments.note:
        return ready
    said = msgspec.structs.replace(ready.arguments, note=asked.arguments.note)
    return msgspec.structs.replace(ready, arguments=said)


def files_marked(ready: ReadyCall) -> tuple[FilesMarked, ...]:
    """Return the event of what the call has written, if any, and stop it from writing more."""
    files = _watch(ready)
    there, gone = files.end() if files is not None else ((), ())
    if not there and not gone:
        return ()
    return (FilesMarked(call_id=ready.call.call_id, marked=there, cleared=gone),)


def hosts_of(ready: ReadyCall | None) -> tuple[str, ...]:
    """Return the hosts that a call has connected to."""
    network = ready.context.network if ready is not None else None
    return network.hosts if isinstance(network, TrackedNetwork) else ()


def read_by(ready: ReadyCall) -> SessionMarks:
    """Return what a call that has run has read."""
    read = marks_of_call(_needs_that_read(ready), hosts_of(ready))
    for handle in (ready.context.sessions, ready.context.memory_read):
        # Most calls have neither handle, and asking the protocol takes ten times as long.
        if handle is not None and isinstance(handle, HasRead):
            read = joined(read, handle.read)
    if ready.tool.is_trusted is False or _tainted_file(ready):
        return joined(read, _TAINTED)
    return read


def due_marks(
    ready: ReadyCall, marks: SessionMarks, read: SessionMarks
) -> tuple[DurableEvent, ...]:
    """Return the events due when a session with these marks gets what a call has read."""
    file = _tainted_file(ready)
    is_web = Capability.NETWORK in ready.needs
    source = f"file {file}" if file and not is_web else ready.name
    return marked(marks, read, ready.name, ready.call.call_id, tainted_by=source)


def _needs_that_read(ready: ReadyCall) -> tuple[Capability, ...]:
    """Return the call's needs, without those by which it has certainly learned nothing: the network, and files to write.

    That is certain of a built-in tool that runs no program: its handles are its only way out.
    """
    network, files, needs = ready.context.network, ready.context.files_write, ready.needs
    is_bound = ready.tool.is_ours and Capability.PROCESSES not in needs
    if is_bound and isinstance(files, TrackedWriter) and not files.watch.has_learned:
        needs = tuple(need for need in needs if need not in _OF_FILES)
    if not ready.tool.is_trusted and (
        not isinstance(network, TrackedNetwork) or network.may_have_heard or not is_bound
    ):
        return needs
    return tuple(need for need in needs if need is not Capability.NETWORK)


def _watch(ready: ReadyCall) -> FileWatch | None:
    for handle in (ready.context.files_read, ready.context.processes):
        if isinstance(handle, (TrackedReader, TrackedProcesses)):
            return handle.watch  # all handles of a call share it
    return None


def _tainted_file(ready: ReadyCall) -> str:
    """Return the first file of a tainted session that the call has read, or an empty string."""
    files = _watch(ready)
    return next(iter(tuple(files.read)), "") if files is not None else ""


def _as_if_asked(ready: ReadyCall, request: WebRequest) -> PermissionQuestion:
    """Return the question about the call that the model would have had to make for this request."""
    definition = ready.definition
    properties = definition.parameters.get("properties", {})
    arguments = CallArguments(ready.arguments.canonical, properties)
    said = dict(arguments.given)
    for name in url_arguments(definition, arguments) or URL_ARGUMENTS[:1]:
        said[name] = [request.url] if isinstance(said.get(name), list) else request.url
    if "method" in properties and str(arguments.value("method")).upper() != request.method:
        said["method"] = request.method  # otherwise as it was written: grants compare the text
    text = msgspec.json.encode(said, order="deterministic").decode()
    return msgspec.structs.replace(
        ready.question, arguments=text, approval_reason=None, is_redirect=True
    )
