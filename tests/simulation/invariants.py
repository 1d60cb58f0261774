"""What holds in every world, whatever happens: one function for each law."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

import trio

import callboard
from callboard.actors.upkeep.replay import Pages, Replay, Tape
from callboard.client.subscriptions import RemoteEvents
from callboard.providers.provider import ModelRequest
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
    DurableEvent,
    GrantGiven,
    GrantRevoked,
    InputAccepted,
    InputCancelled,
    InputDelivered,
    MessageCompleted,
    QuestionAsked,
    SessionCreated,
    SessionDeleted,
    SessionRestored,
    SessionTainted,
    Stored,
    TurnEnded,
    TurnResumed,
    TurnSetAside,
    TurnStarted,
    TurnSuspended,
)
from callboard.runtime.store.ledger import Ledger
from callboard.runtime.store.queries import Queries
from callboard.runtime.store.rows import ApprovalRow, SessionRow
from callboard.runtime.wire.topics import Snapshot
from simulation.disk import new_database
from simulation.models import FILES
from simulation.settings import LIMITS, MODEL_CALLS, TOOL_CALLS
from simulation.tools import READS, Took
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
    unheard = [
        f"the answer of {child.session_id}"
        for child in queries.children(is_detached=True)
        if not any(_is_deleted(world.record[each]) for each in _line(child, queries))
    ]
    return [*turns, *inputs, *asked, *unheard]


def _line(row: SessionRow, queries: Queries) -> Iterator[str]:
    """A session and those above it."""
    up: SessionRow | None = row
    while up is not None:
        yield up.session_id
        up = queries.session(up.parent_id) if up.parent_id is not None else None


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
    if took.tool not in READS and not took.had_started:
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


def no_frame_is_left_out(world: World, feed: RemoteEvents, item: object) -> None:
    """What the daemon sends of a session continues what it sent, so that no client has to notice a gap.

    A frame that comes when the client does not count on the subscription is dropped: those of the same
    subscription that follow it are not judged.
    """
    if not feed._is_subscribed:
        world.dropping.add(feed)
    taken = feed._taken_seq
    if feed in world.dropping or taken is None or not isinstance(item, Stored | Snapshot):
        return
    if item.seq > taken + isinstance(item, Stored):
        world.breaks("no_frame_is_left_out", f"{item.seq} of {feed.name} behind {taken}")


def a_start_ends_what_is_over(world: World, began_ms: int) -> None:
    """When a daemon serves, no turn waits for an answer whose time was over when it began."""
    for row in waiting(world):
        if 0 < row.expires_at_ms <= began_ms and not row.is_deferred:
            world.breaks("a_start_ends_what_is_over", f"{row.approval_id} waits")


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
    requests_are_done_once,
    questions_have_one_answer,
    what_was_allowed_is_what_begins,
    a_crash_ends_what_was_allowed,
    grants_hold_where_they_may,
    strangers_words_taint,
    files_are_those_of_the_record,
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
