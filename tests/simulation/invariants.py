"""What holds in every world, whatever happens: one function for each law."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import callboard
from callboard.runtime.events import (
    CallStarted,
    InputAccepted,
    InputCancelled,
    InputDelivered,
    TurnStarted,
)
from callboard.runtime.store.rows import ApprovalRow
from simulation.tools import Took
from support.stage import check_record

if TYPE_CHECKING:
    from simulation.world import World


def at_work(world: World) -> list[str]:
    """What has not come to rest."""
    queries = world.queries()
    turns = [f"turn {each.turn_id}" for each in queries.open_turns()]
    inputs = [
        f"input {each.input_id}"
        for session_id in world.record
        if session_id not in world.gone
        for each in queries.open_inputs(session_id)
    ]
    asked = [f"question {each.approval_id}" for each in waiting(world)]
    return [*turns, *inputs, *asked]


def waiting(world: World) -> list[ApprovalRow]:
    """Questions that wait for a person."""
    return world.queries().approvals(state="waiting", limit=1000)


# ── while it runs ────────────────────────────────────────────────────────────────────────────────


def effect_of(
    world: World, life: int, tool: str, context: callboard.ToolContext, name: str
) -> Took:
    """An effect, with what is on record at that moment."""
    record = world.record.get(context.session_id, ())
    had_started = any(
        isinstance(stored.event, CallStarted) and stored.event.call_id == context.call_id
        for stored in record
    )
    at = world.clock.current_time()
    return Took(at, life, tool, context.session_id, context.call_id, name, had_started)


def started_is_on_record_before_the_effect(world: World, took: Took) -> None:
    """What is not `read` has its `CallStarted` committed before its effect."""
    if took.tool != "look" and not took.had_started:
        world.breaks("started_is_on_record_before_the_effect", f"{took.call_id} {took.name}")


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
    """An acknowledged input has one turn that ended, or was cancelled visibly."""
    for input_id, session_id in world.acknowledged.items():
        if session_id in world.gone:
            continue
        events = [stored.event for stored in world.record[session_id]]
        accepted = [e for e in events if isinstance(e, InputAccepted) and e.input_id == input_id]
        assert len(accepted) == 1, f"{input_id} is on record {len(accepted)} times"
        turns = [e for e in events if isinstance(e, TurnStarted) and input_id in e.input_ids]
        others = [
            e
            for e in events
            if isinstance(e, InputDelivered | InputCancelled) and e.input_id == input_id
        ]
        assert len(turns) + len(others) == 1, f"{input_id} has {len(turns)} turns, {others}"


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


AT_THE_END: tuple[Callable[[World], None], ...] = (
    records_are_sound,
    acknowledged_inputs_have_one_turn,
    no_effect_happens_twice,
    views_equal_the_record,
)
