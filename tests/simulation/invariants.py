"""What holds in every world while it runs, whatever happens: one function for each law."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import callboard
from callboard.client.subscriptions import RemoteEvents
from callboard.providers.provider import ModelRequest
from callboard.runtime.events import (
    ApprovalAnswered,
    ApprovalAsked,
    CallFinished,
    CallStarted,
    DurableEvent,
    InputAccepted,
    MessagesDeleted,
    SessionDeleted,
    SessionRestored,
    Stored,
    TurnEnded,
    TurnResumed,
    TurnStarted,
)
from callboard.runtime.history import Input
from callboard.runtime.store.queries import Queries
from callboard.runtime.store.rows import ApprovalRow, SessionRow
from callboard.runtime.store.tables.deleted_messages import DELETED
from callboard.runtime.wire.topics import Snapshot
from simulation.tools import READS, Took
from support.stage import check_in_each_format, check_messages, messages_of

if TYPE_CHECKING:
    from simulation.world import World


def at_work(world: World) -> list[str]:
    """What has not come to rest."""
    queries = world.queries()
    turns = [f"turn {each.turn_id}" for each in queries.open_turns()]
    inputs = [
        f"input {each.input_id}"
        for session_id in world.record
        if session_id not in world.gone and not is_deleted(world.record[session_id])
        for each in queries.open_inputs(session_id)
    ]
    asked = [f"question {each.approval_id}" for each in waiting(world)]
    unheard = [
        f"the answer of {child.session_id}"
        for child in queries.children(is_detached=True)
        if not any(is_deleted(world.record[each]) for each in _line(child, queries))
    ]
    return [*turns, *inputs, *asked, *unheard]


def _line(row: SessionRow, queries: Queries) -> Iterator[str]:
    """A session and those above it."""
    up: SessionRow | None = row
    while up is not None:
        yield up.session_id
        up = queries.session(up.parent_id) if up.parent_id is not None else None


def is_deleted(record: Sequence[Stored]) -> bool:
    """Whether a session is hidden, so that its inputs wait until it is restored."""
    is_hidden = False
    for event in (stored.event for stored in record):
        if isinstance(event, SessionDeleted | SessionRestored):
            is_hidden = isinstance(event, SessionDeleted)
    return is_hidden


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


def deleted_inputs(
    world: World, session_id: str, deleted: MessagesDeleted
) -> dict[str, tuple[str, str]]:
    """Session and text of each input that is deleted, by its id; a fork has only what stands in their place."""
    return {
        event.input_id: (session_id, event.text)
        for event in (stored.event for stored in world.record[session_id])
        if isinstance(event, InputAccepted)
        and event.input_id in deleted.message_ids
        and event.text != DELETED
    }


def deleted_words_are_not_sent(world: World, request: ModelRequest) -> None:
    """No model reads an input that was deleted."""
    if not world.deleted:
        return
    sent = {
        item.text for round_ in request.rounds for item in round_.items if isinstance(item, Input)
    }
    for input_id, (session_id, text) in world.deleted.items():
        others = [
            stored
            for stored in chain(*world.commits)
            if isinstance(stored.event, InputAccepted)
            and stored.event.text == text
            and (stored.session_id, stored.event.input_id) != (session_id, input_id)
        ]
        if text in sent and not others:
            world.breaks("deleted_words_are_not_sent", f"{text} of {session_id}")


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


def a_start_closes_what_a_crash_left(world: World) -> None:
    """When a daemon serves, each turn that an earlier one left has ended, or is suspended for an answer."""
    begun: dict[str, int] = {}
    for life, commit in zip(world.lived, world.commits, strict=True):
        for event in (stored.event for stored in commit):
            if isinstance(event, TurnStarted | TurnResumed):
                begun[event.turn_id] = life
    for turn in world.queries().open_turns():
        if begun[turn.turn_id] < world.life.number and not turn.is_suspended:
            world.breaks("a_start_closes_what_a_crash_left", turn.turn_id)


def nothing_is_held_for_ever(world: World) -> None:
    """Once nothing fails any more, every session comes to rest."""
    left = at_work(world)
    world.breaks("nothing_is_held_for_ever", ", ".join(left) or "an action never ends")
