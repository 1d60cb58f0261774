"""What a session has read, and where it has connected: how its marks come about. Pure.

The marks are what the journal says (`SessionTainted`, `PrivateDataRead`, the hosts of each result);
a batch, whose later calls must not wait for the journal to be folded, adds to its own the same way.

Whoever gave a session its orders may be behind a host that it knows. So all hosts are forgotten when
it becomes exposed, and from then on it learns those of calls that were decided about as an exposed
session's: a person, a grant or a rule let each of them connect there.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ...config.policy.match import CallArguments
from ...config.policy.new_hosts import says_where
from ...runtime.definitions import Capability
from ...runtime.events import CallFinished, DurableEvent, PrivateDataRead, SessionTainted
from ...runtime.messages import UNMARKED, SessionMarks

STRANGERS = frozenset({Capability.NETWORK})
"""What a tool needs to read what strangers may have written."""

PRIVATE = frozenset(
    {
        Capability.FILES_READ,
        Capability.FILES_WRITE,
        Capability.MEMORY_READ,
        Capability.PROCESSES,
    }
)
"""What a tool needs to read what is not for strangers: files, memory, what programs put out."""

MAX_HOSTS = 1000
"""More than a session visits in earnest; past it, further hosts stay new to it."""


def marks_of_call(needs: Iterable[Capability], hosts: Iterable[str] = ()) -> SessionMarks:
    """What a call that has run has read, by what its tool needs."""
    needed = frozenset(needs)
    return SessionMarks(
        is_tainted=not needed.isdisjoint(STRANGERS),
        has_private=not needed.isdisjoint(PRIVATE),
        hosts=frozenset(hosts),
    )


def joined(marks: SessionMarks, more: SessionMarks) -> SessionMarks:
    """The marks of a session that has read more, in a call that was decided about before.

    Exposed, it knows no further host by that, and none at all when it was not exposed before.
    """
    if more == UNMARKED:
        return marks
    both = SessionMarks(
        is_tainted=marks.is_tainted or more.is_tainted,
        has_private=marks.has_private or more.has_private,
        hosts=marks.hosts,
    )
    if not both.is_exposed:
        return connected(both, more.hosts)
    return both if marks.is_exposed else msgspec.structs.replace(both, hosts=frozenset())


def connected(marks: SessionMarks, hosts: Iterable[str]) -> SessionMarks:
    """The marks with further hosts; in their order, as many as fit."""
    new = [host for host in hosts if host not in marks.hosts][: MAX_HOSTS - len(marks.hosts)]
    return msgspec.structs.replace(marks, hosts=marks.hosts.union(new)) if new else marks


def learned(marks: SessionMarks, finished: CallFinished) -> tuple[str, ...]:
    """The hosts that a session with these marks knows by a call that was decided about under them.

    Exposed, none by a call that named none: whoever let it run was not shown where it connects.
    """
    if marks.is_exposed and not says_where(CallArguments(finished.arguments or "{}")):
        return ()
    return finished.hosts


def mark_of(event: PrivateDataRead | SessionTainted) -> SessionMarks:
    """What an event says that its session has read."""
    is_tainted = isinstance(event, SessionTainted)
    return SessionMarks(is_tainted=is_tainted, has_private=not is_tainted)


def marked(
    marks: SessionMarks, more: SessionMarks, source: str, call_id: str = "", *, tainted_by: str = ""
) -> tuple[DurableEvent, ...]:
    """The events that are due when a session with these marks gets more, each once in its life.

    Args:
        marks: What is on record of the session.
        more: What it has read, or has been told by a session that has.
        source: From where: a tool's name, or `parent`.
        call_id: The call, if it was one.
        tainted_by: What strangers may have written, if `source` does not say it.
    """
    events: list[DurableEvent] = []
    if more.is_tainted and not marks.is_tainted:
        events.append(SessionTainted(source=tainted_by or source, call_id=call_id))
    if more.has_private and not marks.has_private:
        events.append(PrivateDataRead(source=source, call_id=call_id))
    return tuple(events)
