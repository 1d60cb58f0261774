"""Options of turns by the record: under whose name they hold, who steers, what a late answer has."""

from __future__ import annotations

import pytest

from callboard.actors.conversation.inputs import InputOptions, InputQueue, SessionOptions
from callboard.runtime.definitions import Agent, InputMode, InputSource, Preset
from callboard.runtime.errors import PermissionRefused
from callboard.runtime.events import (
    CallDeferred,
    InputAccepted,
    InputCancelled,
    InputDelivered,
    TurnSetAside,
    TurnStarted,
)
from callboard.runtime.turn_options import TurnOptions

WIDE = TurnOptions(policy=Preset.AUTO)
NARROW = TurnOptions(policy=Preset.STRICT)


def begun(input_id: str, options: TurnOptions | None, widens: str = "") -> SessionOptions:
    """A session whose turn for that input has begun."""
    given = SessionOptions()
    given.fold(InputAccepted(input_id=input_id, text="Go.", options=options, widens=widens))
    given.fold(TurnStarted(turn_id="t", input_ids=(input_id,), provider="p", model="m"))
    return given


def steering(input_id: str, widens: str = "") -> InputAccepted:
    return InputAccepted(input_id=input_id, text="More.", mode=InputMode.STEER, widens=widens)


def test_a_wider_preset_holds_for_the_agent_that_it_was_given() -> None:
    given = InputOptions(WIDE, "general")
    assert begun("i", WIDE, "general").turn == given
    presets = [
        given.applied(Agent(name=name, policy=Preset.STRICT)).policy
        for name in ("general", "power", "")
    ]
    assert presets == [Preset.AUTO, Preset.STRICT, Preset.STRICT]
    assert InputOptions(WIDE).applied(Agent(name="", policy=Preset.STRICT)).policy is Preset.STRICT
    assert (
        InputOptions(NARROW).applied(Agent(name="power")).policy is Preset.STRICT
    )  # less runs anywhere


def test_a_turn_that_is_run_again_is_no_wider_than_its_agent() -> None:
    given = begun("i", WIDE, "general")
    given.fold(TurnSetAside(turn_id="t", input_ids=("i",), why="retry"))
    assert given.of("i") == given.again == InputOptions(WIDE)


def test_who_may_not_widen_a_turn_does_not_steer_a_wider_one() -> None:
    given = begun("i", WIDE, "general")
    with pytest.raises(PermissionRefused, match="only an administrator steers it"):
        given.check_steering(steering("s"), "t")
    given.check_steering(steering("s"), None)  # it begins a turn of its own
    given.check_steering(steering("s", "general"), "t")
    begun("i", NARROW).check_steering(steering("s"), "t")
    begun("i", None).check_steering(steering("s"), "t")


def test_an_input_that_came_before_the_wider_turn_is_not_told_to_it_either() -> None:
    """One that was to steer the turn before: its commit may come behind the next turn's begin."""
    given, queue = begun("i", WIDE, "general"), InputQueue()
    for event in (steering("operator"), steering("admin", "general")):
        given.fold(event)
        queue.add(event.input_id, event.mode)
    assert queue.take_steering(given.may_steer) == ["admin"]
    assert list(queue) == ["operator"]
    given.fold(InputDelivered(turn_id="t", input_id="admin"))
    assert not given.may_steer("admin")  # of what is gone nothing is kept
    given.fold(InputCancelled(input_id="operator", reason="no"))
    given.fold(TurnStarted(turn_id="u", input_ids=("other",), provider="p", model="m"))
    assert given.may_steer("operator")


@pytest.mark.parametrize(("options", "widens"), [(NARROW, ""), (WIDE, "general"), (None, "")])
def test_the_turn_of_a_late_answer_goes_on_under_the_options(
    options: TurnOptions | None, widens: str
) -> None:
    given = begun("i", options, widens)
    pending = CallDeferred(turn_id="t", call_id="c", name="n", approval_id="a", result="{}")
    given.fold(pending)
    given.fold(InputAccepted(input_id="other", text="Go."))
    source = InputSource.DEFERRED
    given.fold(
        InputAccepted(input_id="late", text="Yes.", source=source, call_id="c", approval_id="a")
    )
    assert given.of("other") is None
    assert given.of("late") == (None if options is None else InputOptions(options))  # and no wider
