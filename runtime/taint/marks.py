"""What a session has read and where it has connected, as its marks. Pure.

The journal has the marks (`SessionTainted`, `PrivateDataRead`, the hosts of each result). A batch of
calls can't wait until the journal is folded, so it adds to its own copy by the same functions.

A session that is both tainted and private is *exposed*: strangers may have told it to send them what
is not for them, and they may be behind a host that it knows. So it forgets all hosts when it becomes
exposed, and from then on learns only those of calls that were decided about as an exposed session's:
a person, a grant or a rule let each of these connect there.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ..definitions import Capability
from ..events import DurableEvent, PrivateDataRead, SessionTainted

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
"""What a tool needs to read what is not for strangers: files, memories, the output of programs."""

MAX_HOSTS = 1000
"""More than a session really visits; further hosts stay new to it."""


class SessionMarks(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a session has read, as far as a permission depends on it.

    Attributes:
        is_tainted: It has read what strangers may have written.
        has_private: It has read what is not for strangers.
        hosts: The hosts that it knows: where it has connected, or, once it is exposed, where it was
            let since.
    """

    is_tainted: bool = False
    has_private: bool = False
    hosts: frozenset[str] = frozenset()

    @property
    def is_exposed(self) -> bool:
        """Whether strangers may have told it to send them what is not for them."""
        return self.is_tainted and self.has_private


UNMARKED = SessionMarks()
"""The marks of a session that has read nothing."""


def marks_of_call(needs: Iterable[Capability], hosts: Iterable[str] = ()) -> SessionMarks:
    """Return what a call that has run has read, by what its tool needs."""
    needed = frozenset(needs)
    return SessionMarks(
        is_tainted=not needed.isdisjoint(STRANGERS),
        has_private=not needed.isdisjoint(PRIVATE),
        hosts=frozenset(hosts),
    )


def joined(marks: SessionMarks, more: SessionMarks) -> SessionMarks:
    """Return the marks of a session that has read more, in a call that was decided about before.

    An exposed session learns no host by that, and forgets all when it becomes exposed.
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
    """Return the marks with further hosts, in their order, as many as fit."""
    new = [host for host in hosts if host not in marks.hosts][: MAX_HOSTS - len(marks.hosts)]
    return msgspec.structs.replace(marks, hosts=marks.hosts.union(new)) if new else marks


def mark_of(event: PrivateDataRead | SessionTainted) -> SessionMarks:
    """Return what an event says that its session has read."""
    is_tainted = isinstance(event, SessionTainted)
    return SessionMarks(is_tainted=is_tainted, has_private=not is_tainted)


def marked(
    marks: SessionMarks, more: SessionMarks, source: str, call_id: str = "", *, tainted_by: str = ""
) -> tuple[DurableEvent, ...]:
    """Return the events due when a session with these marks gets more, each once in its life.

    Args:
        marks: What is on record of the session.
        more: What it has read, or was told by a session that has.
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
