"""What holds of a world that is over: its record, its files, and what clients heard. One function for each law."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from callboard.actors.upkeep.replay import Pages, Replay, Tape
from callboard.runtime.definitions import CallStatus, SessionKind
from callboard.runtime.events import (
    AgentSwitched,
    ApprovalAnswered,
    ApprovalAsked,
    AttemptCharged,
    AttemptFailed,
    CallFinished,
    CallProposed,
    CallStarted,
    GrantGiven,
    GrantRevoked,
    InputAccepted,
    InputCancelled,
    InputDelivered,
    MessageCompleted,
    QuestionAsked,
    SessionCreated,
    SessionTainted,
    Stored,
    TurnResumed,
    TurnSetAside,
    TurnStarted,
    TurnSuspended,
)
from callboard.runtime.store.ledger import Ledger
from callboard.runtime.store.tables.deleted_messages import DELETED, without_deleted
from simulation.disk import empty_database
from simulation.invariants import is_deleted
from simulation.models import FILES
from simulation.settings import LIMITS, MODEL_CALLS, TOOL_CALLS
from simulation.tools import READS
from support.stage import check_record

if TYPE_CHECKING:
    from simulation.world import World


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
        waits = not count and is_deleted(world.record[session_id])
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
            left = without_deleted(record)  # who comes later hears no more of it
            heard = view.stored
            assert all(map(_is_heard, heard, record, left)), (
                f"{client.name} heard another {session_id}"
            )
            assert len(heard) <= len(record), f"{client.name} heard more of {session_id}"
            assert not view.problem, f"{client.name}, {session_id}: {view.problem}"


def _is_heard(heard: Stored, stored: Stored, left: Stored) -> bool:
    return any(heard == each for each in (stored, left))


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
        agent, bounded, used, ran = "", "", 0, 0
        for event in (stored.event for stored in world.record[session_id]):
            match event:
                case SessionCreated() | AgentSwitched():
                    agent = event.agent
                case TurnStarted():
                    bounded, used, ran = event.turn_id if agent == "bounded" else "", 0, 0
                case MessageCompleted() | AttemptFailed() | AttemptCharged():
                    used += bool(event.turn_id == bounded)
                    assert used <= MODEL_CALLS, f"{bounded} asked its model {used} times"
                case CallStarted():
                    ran += bool(event.turn_id == bounded)
                    assert ran <= TOOL_CALLS, f"{bounded} ran {ran} calls"
                case _:
                    pass


def workers_ask_nobody(world: World) -> None:
    """A worker's questions are answered by nobody but grants, with no; it does no more than read."""
    workers = {
        stored.session_id
        for stored in chain(*world.commits)
        if isinstance(stored.event, SessionCreated) and stored.event.kind is SessionKind.WORKER
    }
    for stored in chain(*world.commits):
        if stored.session_id in workers:
            event = stored.event
            assert not isinstance(event, QuestionAsked), event
            if isinstance(event, ApprovalAnswered):
                assert event.grant_id or event.answered_by == "callboard", event
                assert event.grant_id or event.decision != "allow", event
    acted = [t for t in world.effects if t.session_id in workers and t.tool not in READS]
    assert not acted, acted


def requests_are_done_once(world: World) -> None:
    """A request that a client sent again has one effect on record."""
    seen: set[tuple[str, str, str]] = set()
    for stored in chain(*world.commits):
        if request := getattr(stored.event, "request", None):
            key = request.sender, request.method, request.key
            assert key not in seen, f"{request.method} was done twice: {stored}"
            seen.add(key)


def questions_have_one_answer(world: World) -> None:
    """A question is answered once, by people in time; an allowed one may be void later."""
    for session_id, record in world.record.items():
        ends: dict[str, int] = {}
        answers: dict[str, str] = {}
        for stored in record:
            match stored.event:
                case ApprovalAsked() as question:
                    ends[question.approval_id] = question.expires_at_ms
                case ApprovalAnswered(decision=decision, approval_id=approval_id):
                    before = answers.get(approval_id)
                    assert before == ("allow" if decision == "void" else None), (
                        f"{session_id}: {approval_id} was answered with {before} and {decision}"
                    )
                    is_in_time = not ends[approval_id] or stored.at_ms < ends[approval_id]
                    assert is_in_time or decision not in {"allow", "deny"}, (
                        f"{session_id}: {approval_id} was answered after its end: {stored}"
                    )
                    answers[approval_id] = decision
                case _:
                    pass


def what_was_allowed_is_what_begins(world: World) -> None:
    """Nothing but the call that a person allowed comes to its start, so the store refuses none."""
    for stored in chain(*world.commits):
        if isinstance(stored.event, CallFinished):
            assert "is not what was allowed" not in stored.event.result, stored


def a_crash_ends_what_was_allowed(world: World) -> None:
    """An answer that a crash kept from being acted on is asked for again, but that to a turn that was suspended."""
    questions: dict[str, ApprovalAsked] = {}
    allowed: dict[str, int] = {}
    suspended: set[str] = set()
    for life, commit in zip(world.lived, world.commits, strict=True):
        for event in (stored.event for stored in commit):
            match event:
                case ApprovalAsked(approval_id=approval_id):
                    questions[approval_id] = event
                case ApprovalAnswered(decision="allow", approval_id=approval_id):
                    if approval_id in questions:
                        asked = questions[approval_id]
                        holds = asked.is_deferred or asked.turn_id in suspended
                        allowed[approval_id] = 0 if holds else life
                case TurnSuspended(turn_id=turn_id):
                    suspended.add(turn_id)
                    for approval_id, at in allowed.items():  # by a stop in order
                        if at == life and questions[approval_id].turn_id == turn_id:
                            allowed[approval_id] = 0
                case TurnResumed(turn_id=turn_id):
                    suspended.discard(turn_id)
                case CallStarted(approval_id=approval_id) if approval_id in allowed:
                    answered = allowed.pop(approval_id)  # once: a copy has the same start
                    assert answered in {0, life}, f"{event} by an answer to life {answered}"
                case _:
                    pass


def grants_hold_where_they_may(world: World) -> None:
    """A grant answers for its own tool, turn and session, until it is revoked or a taint suspends it."""
    given: dict[str, tuple[str, GrantGiven]] = {}
    asked: dict[str, ApprovalAsked] = {}
    revoked: set[str] = set()
    tainted: set[str] = set()
    for stored in chain(*world.commits):
        match stored.event:
            case GrantGiven() as grant:
                given[grant.grant_id] = stored.session_id, grant
            case GrantRevoked():
                revoked.add(stored.event.grant_id)
            case SessionTainted():
                tainted.add(stored.session_id)
            case ApprovalAsked() as question:
                asked[question.approval_id] = question
            case ApprovalAnswered(decision="allow") as answer if answer.grant_id:
                _, grant = given[answer.grant_id]
                question = asked[answer.approval_id]
                assert answer.grant_id not in revoked, f"{answer} is by a revoked grant"
                assert question.name == grant.tool, f"{answer} is by {grant}"
                if grant.scope == "turn":
                    assert question.turn_id == grant.turn_id, f"{answer} is by {grant}"
                if stored.session_id in tainted:
                    holds = grant.is_tainted and grant.scope in {"turn", "session"}
                    assert holds, f"{answer} is by {grant} in a tainted session"
            case _:
                pass


def strangers_words_taint(world: World) -> None:
    """Who reads what strangers wrote is tainted, and so are the children it makes then, and what they answer to."""
    tainted: set[str] = set()
    told: set[str] = set()
    wrote: dict[str, bool] = {}
    children: dict[str, str] = {}
    for commit in world.commits:
        before = frozenset(tainted)
        tainted |= {each.session_id for each in commit if isinstance(each.event, SessionTainted)}
        for who, event in ((stored.session_id, stored.event) for stored in commit):
            must = False
            match event:
                case CallProposed() if who in before:
                    told.add(event.call_id)  # its arguments may hold their words
                case SessionCreated(parent_id=str()):
                    children[event.parent_call_id] = who
                    must = event.parent_call_id in told
                case CallFinished(status=CallStatus.SUCCESS):
                    must = _taints(event, who in before, children, before, wrote)
                case _:
                    pass
            assert who in tainted or not must, f"{who} is not tainted by {event}"


def _taints(
    end: CallFinished,
    was_tainted: bool,
    children: Mapping[str, str],
    tainted: frozenset[str],
    wrote: dict[str, bool],
) -> bool:
    """Whether a call's success taints; `wrote` are the texts of files, and whether all are marked."""
    given = json.loads(end.arguments or "{}")
    if end.name == "delegate":
        return given["wait"] and children.get(end.call_id) in tainted
    if end.name == "write_file":
        wrote[given["content"]] = was_tainted and wrote.get(given["content"], True)
    if end.name == "read_file":
        return wrote.get(json.loads(end.result)["result"]["content"], False)
    return end.name == "fetch"


def files_are_those_of_the_record(world: World) -> None:
    """A file holds a whole text that somebody wrote, that of the last call where nothing else can be."""
    ends: dict[str, CallFinished] = {}
    begun: dict[Path, str] = {}
    places: dict[str, Path] = {}
    texts: set[str] = set()
    copied: set[str] = set()
    paths: dict[str, list[Path]] = {}
    for stored in chain(*world.commits):
        match stored.event:
            case SessionCreated() as created:
                places[stored.session_id] = Path(created.workspace)
            case CallProposed(call_id=call_id) as call if call_id in paths:
                copied.add(call_id)  # an imported session's: nothing runs
            case CallProposed(name="write_file" | "delete_file" | "move_file") as call:
                given = json.loads(call.arguments)
                names = [value for key, value in given.items() if key in {"path", "from", "to"}]
                paths[call.call_id] = [places[stored.session_id] / name for name in names]
                texts |= {str(given.get("content")), f"changed {given.get('content')}"}
            case CallFinished() as end:
                ends[end.call_id] = end
            case CallStarted(call_id=call_id) if call_id not in copied:
                begun |= dict.fromkeys(paths.get(call_id, ()), call_id)
            case _:
                pass
    there = {
        path: path.read_text()
        for place in {*places.values()}
        if place.is_dir()
        for path in place.iterdir()
    }
    assert {path.name for path in there} <= {*FILES}, sorted(there)
    assert {*there.values()} <= texts, there
    if any(action.kind == "undo" for action in world.plan.actions):
        return
    for path, call_id in begun.items():
        last = ends[call_id]
        if last.status is CallStatus.SUCCESS and last.name != "move_file":
            content = json.loads(last.arguments or "").get("content")
            assert there.get(path) == content, f"{path}: {last}"


def forks_begin_as_their_source(world: World) -> None:
    """A fork has the inputs of its source, in their order, and neither asks nor does anything by itself."""
    for commit in world.commits:
        created = commit[0].event if commit else None
        if not isinstance(created, SessionCreated) or not created.forked_from:
            continue
        source = iter(_inputs(world.record[created.forked_from]))
        copied = [text for text in _inputs(commit) if text != DELETED]
        assert all(text in source for text in copied), f"{copied} in {created}"
        acts = [
            stored
            for stored in (*commit, *world.record[commit[0].session_id][len(commit) :])
            if isinstance(stored.event, ApprovalAsked | GrantGiven)
            or (isinstance(stored.event, TurnStarted) and stored not in commit)
        ]
        assert not acts, acts


def _inputs(record: Sequence[Stored]) -> list[str]:
    return [stored.event.text for stored in record if isinstance(stored.event, InputAccepted)]


def who_called_got_what_came(world: World) -> None:
    """The outcomes of a program's calls are those on record, in the order of the calls."""
    for names, called in world.called:
        for name, each in zip(names, called, strict=True):
            record = world.record[each.session_id]
            ends = {
                stored.event.status: stored.event.display
                for stored in record
                if isinstance(stored.event, CallFinished) and stored.event.call_id == each.call_id
            }
            if each.status in ends:
                assert each.display == ends[each.status], each
            else:
                assert each.status is CallStatus.DEFERRED, f"{each} is not on record: {ends}"
            proposed = [
                stored.event.arguments
                for stored in record
                if isinstance(stored.event, CallProposed) and stored.event.call_id == each.call_id
            ]
            assert all(f'"{name}"' in arguments for arguments in proposed), f"{each} is not {name}"


def rows_follow_from_events(world: World) -> None:
    """Rows that are made anew from the record are those that were made while it grew."""
    connection = world.disk.connection
    assert connection.execute("pragma integrity_check").get == "ok"
    assert connection.execute("pragma foreign_key_check").get is None
    if world.gone:
        return
    with empty_database() as other:
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
    requests_are_done_once,
    questions_have_one_answer,
    what_was_allowed_is_what_begins,
    a_crash_ends_what_was_allowed,
    grants_hold_where_they_may,
    strangers_words_taint,
    files_are_those_of_the_record,
    forks_begin_as_their_source,
    who_called_got_what_came,
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
