"""Whoever listens to a session hears of the calls of the sessions below it, by what they listen to already."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import callboard
from callboard import ChildCall
from callboard.actors.delegation.calls_below import MAX_LINE_CHARS, MAX_READ_CHARS, CallsBelow
from callboard.actors.session.subscribers import Subscribers
from callboard.providers.testing.script import reply
from callboard.runtime.definitions import CallStatus
from callboard.runtime.events import CallFinished, CallProposed, Stored
from callboard.runtime.kernel.delivery import MAX_WAITING_UPDATES, Subscription
from callboard.runtime.redaction import Secret, redactor
from callboard.runtime.turns.live_state import MAX_BELOW, LiveState
from support.cast import Cast, below, open_cast, part, task
from support.stage import check_records, play_in

WRITE = ("write_file", {"path": "a.txt", "content": "changed"})
READ = ("read_file", {"path": "a.txt"})


def heard(played: Any) -> list[ChildCall]:
    return [event for event in played.events if isinstance(event, ChildCall)]


def lines(calls: list[ChildCall]) -> list[tuple[str, str, str, str]]:
    return [(each.name, each.subject, each.state, each.status or "") for each in calls]


async def test_calls_of_a_child_are_heard_as_they_go(tmp_path: Path) -> None:
    cast = Cast({"Go.": part(task("Write it.")), "Write it.": [*part(WRITE)[:1], *part(READ)]})
    async with open_cast(tmp_path, cast) as runtime:
        session, played = await play_in(runtime, "Go.")
        [child] = await below(runtime, session)
        calls = heard(played)
        assert lines(calls) == [
            ("write_file", "a.txt", "proposed", ""),
            ("write_file", "a.txt", "started", ""),
            ("write_file", "a.txt", "finished", "success"),
            ("read_file", "a.txt", "proposed", ""),
            ("read_file", "a.txt", "started", ""),
            ("read_file", "a.txt", "finished", "success"),
        ]
        [delegate] = [event for event in played.events if isinstance(event, CallProposed)]
        assert {each.call_id for each in calls} == {delegate.call_id}
        assert {each.session_id for each in calls} == {child.session_id}
        assert {(each.task, each.depth) for each in calls} == {("Write it.", 1)}
        rows = await runtime.store.calls(session_id=child.session_id)
        assert {row.call_id for row in rows} == {each.child_call_id for each in calls}
        end = next(event for event in played.events if isinstance(event, CallFinished))
        assert played.events.index(calls[-1]) < played.events.index(end)
        await check_records(runtime)


async def test_a_denied_call_is_heard_and_what_was_allowed_too(tmp_path: Path) -> None:
    @callboard.tool(approval="always")
    async def act(command: str) -> str:
        """Acts."""
        return "acted"

    answers = iter(["deny", "allow"])
    acts = [("act", {"command": "make clean"}), ("act", {"command": "make\ntest"})]
    parts = [reply(calls=[acts[0]]), reply(calls=[acts[1]]), reply("Done.")]
    cast = Cast({"Go.": part(task("Act.")), "Act.": parts})

    async def decide(request: object) -> Any:
        return next(answers)

    async with open_cast(tmp_path, cast, tools=[act], on_approval=decide) as runtime:
        _, played = await play_in(runtime, "Go.")
    said = lines(heard(played))
    assert ("act", "$ make clean", "asks", "") in said
    assert ("act", "$ make clean", "finished", "denied") in said
    assert ("act", "$ make clean", "started", "") not in said
    assert ("act", "$ make test", "started", "") in said
    assert ("act", "$ make test", "finished", "success") in said
    assert all(each.is_program for each in heard(played))


async def test_children_side_by_side_and_their_children_are_told_apart(tmp_path: Path) -> None:
    cast = Cast(
        {
            "Go.": part(task("One."), task("Two.")),
            "One.": part(task("Below one.")),
            "Below one.": part(READ),
            "Two.": part(READ),
        }
    )
    async with open_cast(tmp_path, cast) as runtime:
        (tmp_path / "work/a.txt").write_text("here")
        session, played = await play_in(runtime, "Go.")
        rows = {row.title: row for row in await below(runtime, session)}
        [deep] = await runtime.store.children(rows["One."].session_id)
    ends = [each for each in heard(played) if each.state == "finished"]
    found = {(each.task, each.depth, each.name): each for each in ends}
    assert set(found) == {
        ("One.", 1, "delegate"),
        ("Below one.", 2, "read_file"),
        ("Two.", 1, "read_file"),
    }
    first, second = (each.call_id for each in played.events if isinstance(each, CallProposed))
    assert found["Below one.", 2, "read_file"].call_id == first
    assert found["Below one.", 2, "read_file"].session_id == deep.session_id
    assert found["Two.", 1, "read_file"].call_id == second


async def test_a_session_without_children_says_nothing_of_any(tmp_path: Path) -> None:
    async with open_cast(tmp_path, Cast({"Go.": part(READ)})) as runtime:
        _, played = await play_in(runtime, "Go.")
    assert heard(played) == []


def child_call(number: int = 1, **more: Any) -> ChildCall:
    given: dict[str, Any] = {"state": "proposed", "name": "read_file", "call_id": "call_0"}
    return ChildCall(**{"session_id": "s", "child_call_id": f"call_{number}", **given, **more})


def test_who_joins_late_hears_what_runs_below_and_not_more_than_has_room() -> None:
    state = LiveState()
    state.fold(child_call(1))
    state.fold(child_call(2))
    state.fold(child_call(1, state="started"))
    state.fold(child_call(2, state="finished", status=CallStatus.ERROR))
    assert state.snapshot().below == (child_call(1, state="started"),)
    again = LiveState(state.snapshot())
    assert again.snapshot() == state.snapshot()
    for number in range(3, 3 + MAX_BELOW):
        again.fold(child_call(number))
    kept = again.snapshot().below
    assert (len(kept), kept[0].child_call_id) == (MAX_BELOW, "call_3")
    other = child_call(99, call_id="call_9")
    again.fold(other)
    ended = CallFinished(
        turn_id="t", call_id="call_0", name="delegate", status=CallStatus.SUCCESS, result="{}"
    )
    again.fold_stored(ended)
    assert again.snapshot().below == (other,)


def test_who_reads_slowly_misses_some_and_nothing_on_record() -> None:
    """A turn that waits for another session has no stream that could pause for its consumer."""
    subscribers, slow = Subscribers("s"), Subscription()
    subscribers.add("input_1", slow)
    subscribers.attend(("input_1",))
    for number in range(2 * MAX_WAITING_UPDATES):
        subscribers.publish(child_call(number))
    assert slow.waiting == MAX_WAITING_UPDATES
    ended = CallFinished(
        turn_id="t", call_id="call_0", name="delegate", status=CallStatus.SUCCESS, result="{}"
    )
    subscribers.tell([Stored("s", 1, 0, ended)])
    assert slow.waiting == MAX_WAITING_UPDATES + 1


@pytest.mark.parametrize(
    "arguments", ["", "{", "[1]", "{}", '{"path": "' + "x" * MAX_READ_CHARS + '"}']
)
def test_what_a_call_is_about_is_one_bounded_line_whatever_it_is_given(arguments: str) -> None:
    said: list[ChildCall] = []
    calls = CallsBelow("call_0", "s", "Look.\n" * 1000, said.append)
    text = json.dumps({"command": "echo " + "x" * (MAX_READ_CHARS - 100)})
    for each in (arguments, text):
        event = CallProposed(
            turn_id="t", message_id="m", call_id="c", index=0, name="n", arguments=each
        )
        calls.take(Stored("s", 1, 0, event))
    first, second = said
    assert "\n" not in first.task
    assert len(first.subject) <= MAX_LINE_CHARS
    assert second.subject.startswith("$ echo x")
    assert len(second.subject) <= MAX_LINE_CHARS


async def test_a_key_that_is_cut_off_is_not_shown_by_its_beginning(tmp_path: Path) -> None:
    """What was cut off first was no key any more, so that its beginning was shown and on record, in a title."""
    key = "kept-private-" + "k" * 40
    redactor.add(Secret(key))
    known, read = f"{'x' * 40}-***", {"path": f"{'y' * 90}-{key}"}
    cast = Cast({"Go.": part(task(known.replace("***", key))), known: part(("read_file", read))})
    try:
        async with open_cast(tmp_path, cast) as runtime:
            session, played = await play_in(runtime, "Go.")
            [child] = await below(runtime, session)
    finally:
        redactor.discard(Secret(key))
    assert child.title == known
    assert {each.task for each in heard(played)} == {known}
    assert {each.subject for each in heard(played)} == {f"{'y' * 90}-***"}
