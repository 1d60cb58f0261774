"""What a session has read: how marks come about, and which events say so."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.conversation.conversation import Conversation
from callboard.runtime.definitions import CallStatus, Capability
from callboard.runtime.events import (
    CallDeferred,
    CallFinished,
    CallProposed,
    DurableEvent,
    PrivateDataRead,
    SessionTainted,
    Stored,
)
from callboard.runtime.taint.marks import (
    MAX_HOSTS,
    UNMARKED,
    SessionMarks,
    connected,
    joined,
    marked,
    marks_of_call,
)

URL = '{"url":"http://a.test/"}'


def flags(marks: SessionMarks) -> tuple[bool, bool]:
    return marks.is_tainted, marks.has_private


def proposed(call_id: str) -> CallProposed:
    return CallProposed(
        turn_id="t", message_id="m", call_id=call_id, index=0, name="tool", arguments="{}"
    )


def deferred(call_id: str) -> CallDeferred:
    return CallDeferred(turn_id="t", call_id=call_id, name="tool", approval_id="a", result="{}")


def finished(call_id: str, hosts: tuple[str, ...], arguments: str = URL) -> CallFinished:
    return CallFinished(
        turn_id="t", call_id=call_id, name="tool", status=CallStatus.SUCCESS, result="{}",
        arguments=arguments, hosts=hosts,
    )  # fmt: skip


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
def test_what_is_read_is_joined_in_any_order_and_never_lost(
    a: SessionMarks, b: SessionMarks, c: SessionMarks
) -> None:
    assert flags(joined(a, b)) == flags(joined(b, a))
    assert flags(joined(joined(a, b), c)) == flags(joined(a, joined(b, c)))
    assert joined(a, UNMARKED) == joined(a, a) == a
    both = joined(a, b)
    assert flags(both) == (a.is_tainted or b.is_tainted, a.has_private or b.has_private)


@given(MARKS, MARKS)
def test_hosts_are_forgotten_when_both_are_there(a: SessionMarks, b: SessionMarks) -> None:
    both = joined(a, b)
    if not both.is_exposed:
        assert both.hosts == a.hosts | b.hosts
    else:
        assert both.hosts == (a.hosts if a.is_exposed else frozenset())


@given(st.lists(MARKS, max_size=5))
def test_the_record_says_the_same_and_each_thing_once(reads: list[SessionMarks]) -> None:
    conversation, live, known = Conversation(), UNMARKED, set[str]()
    events: list[DurableEvent] = []
    for number, read in enumerate(reads):
        events.append(proposed(f"c{number}"))
        events += marked(live, read, "tool", f"c{number}")
        events.append(finished(f"c{number}", tuple(sorted(read.hosts))))
        is_exposed, live = live.is_exposed, joined(live, read)
        known = known | read.hosts if is_exposed or not live.is_exposed else set()
    conversation.fold_all(Stored("s", n, 0, event) for n, event in enumerate(events, 1))
    assert flags(conversation.marks) == flags(live)
    assert conversation.marks.hosts == known
    assert live.hosts <= known
    assert sum(isinstance(event, SessionTainted) for event in events) == live.is_tainted
    assert sum(isinstance(event, PrivateDataRead) for event in events) == live.has_private


PRIVATE_READ = PrivateDataRead(source="read_file", call_id="r")
TAINT = SessionTainted(source="http_request", call_id="w")


@pytest.mark.parametrize("arguments", [URL, '{"urls":["http://a.test/","http://b.test/"]}', "{}"])
@pytest.mark.parametrize(
    ("before", "knows"),
    [
        ([proposed("w")], True),
        ([PRIVATE_READ, proposed("w")], True),
        # Exposed before it was proposed: somebody was asked.
        ([PRIVATE_READ, TAINT, proposed("w")], True),
        ([TAINT, PRIVATE_READ, proposed("w")], True),
        # While it ran, or by itself.
        ([PRIVATE_READ, proposed("w"), TAINT], False),
        ([TAINT, proposed("w"), PRIVATE_READ], False),
        ([TAINT, proposed("w"), deferred("w"), PRIVATE_READ], False),
        # Only the calls of that time.
        ([TAINT, proposed("v"), PRIVATE_READ, finished("v", ()), proposed("w")], True),
    ],
)
def test_an_exposed_session_knows_the_hosts_of_calls_that_were_asked_about(
    before: list[DurableEvent], knows: bool, arguments: str
) -> None:
    conversation = Conversation()
    events = [*before, finished("w", ("a.test",), arguments)]
    conversation.fold_all(Stored("s", n, 0, event) for n, event in enumerate(events, 1))
    marks = conversation.marks
    # Where the arguments name no host, nobody was shown one.
    assert marks.hosts == (
        {"a.test"} if knows and (arguments != "{}" or not marks.is_exposed) else set()
    )


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
