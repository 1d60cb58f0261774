"""What a session has read: how marks come about, and which events say so."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.conversation import Conversation
from callboard.actors.session_marks import MAX_HOSTS, connected, joined, marked, marks_of_call
from callboard.runtime.definitions import CallStatus, Capability
from callboard.runtime.events import (
    CallFinished,
    DurableEvent,
    PrivateDataRead,
    SessionTainted,
    Stored,
)
from callboard.runtime.messages import UNMARKED, SessionMarks


@pytest.mark.parametrize(
    ("needs", "is_tainted", "has_private"),
    [
        ((), False, False),
        ((Capability.NETWORK,), True, False),
        ((Capability.FILES_READ,), False, True),
        ((Capability.FILES_WRITE,), False, True),
        ((Capability.MEMORY_READ,), False, True),
        ((Capability.PROCESSES,), False, True),
        ((Capability.PROCESSES, Capability.NETWORK), True, True),
        ((Capability.MEMORY_WRITE, Capability.CHANNEL, Capability.SESSIONS), False, False),
    ],
)
def test_what_a_call_has_read_follows_from_what_its_tool_needs(
    needs: tuple[Capability, ...], is_tainted: bool, has_private: bool
) -> None:
    read = marks_of_call(needs)
    assert (read.is_tainted, read.has_private) == (is_tainted, has_private)
    assert read.is_exposed is (is_tainted and has_private)


MARKS = st.builds(
    SessionMarks,
    is_tainted=st.booleans(),
    has_private=st.booleans(),
    hosts=st.frozensets(st.sampled_from(("a", "b", "c"))),
)


@given(MARKS, MARKS, MARKS)
def test_marks_are_joined_in_any_order_and_never_lost(
    a: SessionMarks, b: SessionMarks, c: SessionMarks
) -> None:
    assert joined(a, b) == joined(b, a)
    assert joined(joined(a, b), c) == joined(a, joined(b, c))
    assert joined(a, UNMARKED) == joined(a, a) == a
    both = joined(a, b)
    assert both.hosts >= a.hosts
    assert (both.is_tainted, both.has_private) >= (a.is_tainted, a.has_private)


@given(st.lists(MARKS, max_size=5))
def test_the_record_says_the_same_and_each_thing_once(reads: list[SessionMarks]) -> None:
    conversation, live = Conversation(), UNMARKED
    events: list[DurableEvent] = []
    for number, read in enumerate(reads):
        events += marked(live, read, "tool", f"c{number}")
        events.append(finished(f"c{number}", tuple(sorted(read.hosts))))
        live = joined(live, read)
    conversation.fold_all(Stored("s", n, 0, event) for n, event in enumerate(events, 1))
    assert conversation.marks == live
    assert sum(isinstance(event, SessionTainted) for event in events) == live.is_tainted
    assert sum(isinstance(event, PrivateDataRead) for event in events) == live.has_private


def test_a_child_begins_with_what_its_parent_has_read() -> None:
    parent = SessionMarks(is_tainted=True, has_private=True, hosts=frozenset({"a"}))
    assert marked(UNMARKED, parent, "parent") == (
        SessionTainted(source="parent"),
        PrivateDataRead(source="parent"),
    )
    assert marked(parent, parent, "delegate") == ()
    assert marked(UNMARKED, UNMARKED, "parent") == ()


def test_hosts_are_bounded() -> None:
    full = connected(UNMARKED, [f"h{number}" for number in range(MAX_HOSTS + 5)])
    assert len(full.hosts) == MAX_HOSTS
    assert connected(full, ["other"]) is full
    almost = connected(UNMARKED, [f"h{number}" for number in range(MAX_HOSTS - 1)])
    assert connected(almost, ["h0", "x", "y"]).hosts == {*almost.hosts, "x"}


def finished(call_id: str, hosts: tuple[str, ...]) -> CallFinished:
    return CallFinished(
        turn_id="t", call_id=call_id, name="tool", status=CallStatus.SUCCESS, result="{}",
        hosts=hosts,
    )  # fmt: skip
