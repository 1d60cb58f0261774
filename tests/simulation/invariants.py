"""What holds in every world, whatever happens: one function for each law."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

import trio

import callboard
from callboard.actors.upkeep.replay import Pages, Replay, Tape
from callboard.providers.provider import ModelRequest
from callboard.runtime.definitions import CallStatus, SessionKind
from callboard.runtime.events import (
    AgentSwitched,
    ApprovalAnswered,
    ApprovalAsked,
    AttemptCharged,
    AttemptFailed,
    CallFinished,
    CallStarted,
    DurableEvent,
    InputAccepted,
    InputCancelled,
    InputDelivered,
    MessageCompleted,
    QuestionAsked,
    SessionCreated,
    SessionDeleted,
    SessionRestored,
    Stored,
    TurnEnded,
    TurnSetAside,
    TurnStarted,
)
from callboard.runtime.store.ledger import Ledger
from callboard.runtime.store.rows import ApprovalRow
from simulation.disk import new_database
from simulation.settings import LIMITS
from simulation.tools import Took
from support.stage import check_in_each_format, check_messages, check_record, messages_of

if TYPE_CHECKING:
    from simulation.world import World


def at_work(world: World) -> list[str]:
    """What has not come to rest."""
    queries = world.queries()
    turns = [f"turn {each.turn_id}" for each in queries.open_turns()]
    inputs = [
        f"input {each.input_id}"
        for session_id in world.record
        if session_id not in world.gone and not _is_deleted(world.record[session_id])
        for each in queries.open_inputs(session_id)
    ]
    asked = [f"question {each.approval_id}" for each in waiting(world)]
    return [*turns, *inputs, *asked]


def _is_deleted(record: Sequence[Stored]) -> bool:
    """Whether a session is hidden, so that its inputs wait until it is restored."""
    is_deleted = False
    for event in (stored.event for stored in record):
        if isinstance(event, SessionDeleted | SessionRestored):
            is_deleted = isinstance(event, SessionDeleted)
    return is_deleted


def waiting(world: World) -> list[ApprovalRow]:
    """Questions that wait for a person."""
    return world.queries().approvals(state="waiting", limit=1000)


# ── while it runs ────────────────────────────────────────────────────────────────────────────────


def effect_of(
    world: World, life: int, tool: str, context: callboard.ToolContext, name: str
) -> Took:
    """An effect, with what is on record at that moment."""
    record = [stored.event for stored in world.record.get(context.session_id, ())]
    call_id = context.call_id
    return Took(
        world.clock.current_time(),
        life,
        tool,
        context.session_id,
        call_id,
        name,
        had_started=any(isinstance(e, CallStarted) and e.call_id == call_id for e in record),
        was_allowed=_is_allowed(record, call_id, name),
        has_ended=any(
            (isinstance(e, CallFinished) and e.call_id == call_id)
            or (isinstance(e, TurnEnded) and e.turn_id == context.turn_id)
            for e in record
        ),
    )


def _is_allowed(record: Sequence[DurableEvent], call_id: str, name: str) -> bool:
    """Whether the last question about a call was answered with yes, for these arguments."""
    asked = ""
    is_allowed = False
    for event in record:
        match event:
            case ApprovalAsked(call_id=id_of) if id_of == call_id:
                asked, is_allowed = event.arguments, False
            case ApprovalAnswered(call_id=id_of) if id_of == call_id:
                arguments = event.arguments or asked
                is_allowed = event.decision == "allow" and f'"{name}"' in arguments
            case _:
                pass
    return is_allowed


def started_is_on_record_before_the_effect(world: World, took: Took) -> None:
    """What is not `read` has its `CallStarted` committed before its effect."""
    if took.tool != "look" and not took.had_started:
        world.breaks("started_is_on_record_before_the_effect", f"{took.call_id} {took.name}")


def no_effect_without_a_yes(world: World, took: Took) -> None:
    """What always asks was allowed, with the arguments with which it runs."""
    if took.tool == "post" and not took.was_allowed:
        world.breaks("no_effect_without_a_yes", f"{took.call_id} {took.name}")


def nothing_is_done_for_what_has_ended(world: World, took: Took) -> None:
    """A call whose end, or whose turn's end, is on record does nothing more."""
    if took.has_ended:
        world.breaks("nothing_is_done_for_what_has_ended", f"{took.call_id} {took.name}")


def what_is_denied_does_not_start(world: World, took: Took) -> None:
    """What the configuration in force denies did not start since then."""
    if took.tool == "post" and world.denies_since is not None:
        started = [
            stored.at_ms
            for stored in world.record[took.session_id]
            if isinstance(stored.event, CallStarted) and stored.event.call_id == took.call_id
        ]
        if started and started[-1] > world.denies_since + COMMIT_MS:
            world.breaks("what_is_denied_does_not_start", f"{took.call_id} {took.name}")


COMMIT_MS = 1000
"""The most that a commit takes: what was decided before it may be on record only behind it."""

FOR_EACH_EFFECT = (
    started_is_on_record_before_the_effect,
    no_effect_without_a_yes,
    nothing_is_done_for_what_has_ended,
    what_is_denied_does_not_start,
)


def the_next_request_is_valid(world: World, request: ModelRequest) -> None:
    """Whatever happened before, each provider would accept what a model is asked."""
    try:
        check_messages(messages_of(request))
        check_in_each_format(request)
    except AssertionError as error:
        world.breaks("the_next_request_is_valid", str(error)[:500])


def nothing_is_held_for_ever(world: World) -> None:
    """Once nothing fails any more, every session comes to rest."""
    left = at_work(world)
    world.breaks("nothing_is_held_for_ever", ", ".join(left) or "an action never ends")


# ── at the end ───────────────────────────────────────────────────────────────────────────────────


def records_are_sound(world: World) -> None:
    """No gap in `seq`; turns end once; each call is proposed once and has one result."""
    for session_id, record in world.record.items():
        try:
            check_record(record)
        except AssertionError as error:
            raise AssertionError(f"{session_id}: {error}") from error


def acknowledged_inputs_have_one_turn(world: World) -> None:
    """An acknowledged input has one turn that stands, or was cancelled visibly."""
    for input_id, session_id in world.acknowledged.items():
        if session_id in world.gone:
            continue
        events = [stored.event for stored in world.record[session_id]]
        accepted = [e for e in events if isinstance(e, InputAccepted) and e.input_id == input_id]
        assert len(accepted) == 1, f"{input_id} is on record {len(accepted)} times"
        aside = {e.turn_id for e in events if isinstance(e, TurnSetAside)}
        turns = [
            e
            for e in events
            if isinstance(e, TurnStarted) and input_id in e.input_ids and e.turn_id not in aside
        ]
        others = [
            e
            for e in events
            if isinstance(e, InputDelivered | InputCancelled) and e.input_id == input_id
        ]
        count = len(turns) + len(others)
        waits = not count and _is_deleted(world.record[session_id])
        assert count == 1 or waits, f"{input_id} has {len(turns)} turns, {others}"


def no_effect_happens_twice(world: World) -> None:
    """What is neither read nor idempotent happens once for each call."""
    seen: set[str] = set()
    for took in world.effects:
        if took.tool in {"note", "post"}:
            assert took.call_id not in seen, f"{took.tool} {took.name} happened twice"
            seen.add(took.call_id)


def views_equal_the_record(world: World) -> None:
    """What a client heard of a session is the beginning of its record, without gap or repetition."""
    for client in world.clients:
        for session_id, view in client.views.items():
            record = world.record[session_id]
            heard = view.stored
            assert heard == record[: len(heard)], f"{client.name} heard another {session_id}"
            assert not view.problem, f"{client.name}, {session_id}: {view.problem}"


def results_are_those_of_the_calls(world: World) -> None:
    """A result is that of the arguments with which its call ran at last."""
    done = {took.call_id: took for took in world.effects}
    for session_id in world.record.keys() - world.gone:
        for stored in world.record[session_id]:
            event = stored.event
            if isinstance(event, CallFinished) and event.call_id in done:
                took = done[event.call_id]
                if event.arguments is None:  # it was cut off by a cancel or a crash
                    assert event.status in {CallStatus.CANCELLED, CallStatus.INTERRUPTED}, event
                else:
                    assert f'"{took.name}"' in event.arguments, f"{took.name}: {event}"


def budgets_hold(world: World) -> None:
    """No turn used more than its budget, by more than the calls of one answer."""
    for session_id in world.record.keys() - world.gone:
        agent, bounded, used = "", "", 0
        for event in (stored.event for stored in world.record[session_id]):
            match event:
                case SessionCreated() | AgentSwitched():
                    agent = event.agent
                case TurnStarted():
                    bounded, used = event.turn_id if agent == "bounded" else "", 0
                case MessageCompleted() | AttemptFailed() | AttemptCharged():
                    used += bool(event.turn_id == bounded)
                    assert used <= MODEL_CALLS, f"{bounded} asked its model {used} times"
                case _:
                    pass


MODEL_CALLS = 4
"""The budget of the agent `bounded`, in requests."""


def workers_ask_nobody(world: World) -> None:
    """A worker neither asks for approval nor does more than read."""
    workers = {
        stored.session_id
        for stored in chain(*world.commits)
        if isinstance(stored.event, SessionCreated) and stored.event.kind is SessionKind.WORKER
    }
    asked = [
        stored
        for stored in chain(*world.commits)
        if stored.session_id in workers and isinstance(stored.event, ApprovalAsked | QuestionAsked)
    ]
    assert not asked, asked
    acted = [took for took in world.effects if took.session_id in workers and took.tool != "look"]
    assert not acted, acted


def rows_follow_from_events(world: World) -> None:
    """Rows that are made anew from the record are those that were made while it grew."""
    connection = world.disk.connection
    assert connection.execute("pragma integrity_check").get == "ok"
    assert connection.execute("pragma foreign_key_check").get is None
    if world.gone:
        return
    with closing(new_database()) as other:
        ledger = Ledger(other, "rows made anew", world.now_ms, monotonic=world.clock.current_time)
        for commit in world.commits:
            ledger.bring_in(commit)
        for table in TABLES:
            here, there = (
                list(each.execute(f"select * from {table}")) for each in (connection, other)
            )
            for mine, theirs in zip_longest(here, there):
                assert mine == theirs, f"{table}: {mine} was made, and {theirs} follows"


TABLES = (
    "sessions",
    "turns",
    "messages",
    "tool_calls",
    "grants",
    "inputs",
    "memories",
    "approvals",
)


AT_THE_END: tuple[Callable[[World], None], ...] = (
    records_are_sound,
    acknowledged_inputs_have_one_turn,
    no_effect_happens_twice,
    views_equal_the_record,
    results_are_those_of_the_calls,
    budgets_hold,
    workers_ask_nobody,
    rows_follow_from_events,
)


async def replays_are_the_same(world: World) -> None:
    """Each session comes out of its record again as it is there."""
    for session_id in world.record.keys() - world.gone:
        done = await Replay(
            session_id, Tape(_pages(world.record[session_id])), LIMITS, _unseen
        ).run()
        world.replayed += 1
        if not done.is_same:
            world.breaks("replays_are_the_same", f"{session_id}: {done.difference}")


def _pages(record: Sequence[Stored]) -> Pages:
    async def page(after_seq: int) -> Sequence[Stored]:
        await trio.lowlevel.checkpoint()
        return record[after_seq : after_seq + 100]

    return page


def _unseen(*_: object) -> None:
    pass
