"""How often a model may call a tool wrongly in a turn, and what it is told meanwhile.

Counted are answers of the model with arguments that the tool does not take, not their calls: what
is wrong three times in one answer is one attempt. A right call in between gives none back. Each
such result says how many are left, which is how the count survives the process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ...runtime.definitions import ErrorType, ToolDefinition, ToolFailure
from ...runtime.errors import CallboardError
from ...runtime.event_types.calls import CallFinished, ToolGivenUp
from ...runtime.kernel.mailbox import Mailbox
from ...runtime.messages import AppendEvents, CallPlace, JournalMessage
from ...runtime.redaction import redacting_logger
from ...tools.schema.validation import TRY_AGAIN
from .call import Outcome, content_of

logger = redacting_logger(__name__)

MAX_ATTEMPTS = 3
"""One and two retries (ADR-0004): enough for a slip, too few for a circle."""

_LEFT = "attempts_left"


class Retries:
    """What a turn's results say of it; folded like the rest of a session.

    Attributes:
        left: How many attempts each tool has left; those that had none wrong are not named.
        before: The same before the latest answer.
    """

    def __init__(self) -> None:
        self.left: dict[str, int] = {}
        self.before: Mapping[str, int] = {}

    def left_to(self, *, goes_on: bool) -> Mapping[str, int]:
        """What calls are judged by: those that go on, by what was so before their answer."""
        return self.before if goes_on else dict(self.left)

    def begin_answer(self) -> None:
        """The model has answered: its calls follow, and their results."""
        self.before = dict(self.left)

    def count(self, event: CallFinished) -> None:
        """Takes the result of a call into account."""
        if event.attempts_left is not None:
            self.left[event.name] = event.attempts_left


class Attempts:
    """The attempts of one answer.

    Args:
        turn_id: Its turn.
        left: How many attempts each tool has left, this one among them.
    """

    def __init__(self, turn_id: str, left: Mapping[str, int]) -> None:
        self._turn_id = turn_id
        self._left = left
        self._given_up: dict[str, ToolGivenUp] = {}
        self._untold: list[ToolGivenUp] = []

    def check(self, name: str) -> None:
        """Raises `ToolFailure` for a tool that the turn goes on without."""
        if self._left.get(name) == 0:
            raise ToolFailure(
                ErrorType.VALIDATION_ERROR,
                f"Not run: {name} was called wrongly in {MAX_ATTEMPTS} answers. {_stop(name)}",
                **{_LEFT: 0},
            )

    def judged(self, name: str, outcome: Outcome, definition: ToolDefinition | None) -> Outcome:
        """The outcome with what the model needs for the next attempt, when its arguments were wrong."""
        details = dict(outcome.failure or {})
        if details.get("error_type") != ErrorType.VALIDATION_ERROR or self._left.get(name) == 0:
            return outcome
        left = self._left.get(name, MAX_ATTEMPTS) - 1
        # The schema may be long: what was wrong stands before it. What a tool says beside it
        # can't take the place of what is counted here.
        told: dict[str, Any] = {
            **{name: details.pop(name) for name in ("status", "error_type", "message")},
            "field": details.pop("field", None),
            _LEFT: left,
            "schema": definition and definition.parameters,
        }
        told = {**told, **{name: value for name, value in details.items() if name not in told}}
        if left == 0:
            self._give_up(name, told["message"])
            said = told["message"].removesuffix(TRY_AGAIN).rstrip()
            told["message"] = (
                f"{said} This was attempt {MAX_ATTEMPTS} of {MAX_ATTEMPTS}. {_stop(name)}"
            )
        content = content_of(told)
        return msgspec.structs.replace(outcome, content=content, failure=told, attempts_left=left)

    def take_given_up(self) -> tuple[ToolGivenUp, ...]:
        """The tools that were given up since the last time; their events go with the results."""
        taken = tuple(self._untold)
        self._untold.clear()
        return taken

    def _give_up(self, name: str, message: str) -> None:
        if name not in self._given_up:
            event = ToolGivenUp(
                turn_id=self._turn_id, name=name, attempts=MAX_ATTEMPTS, message=message
            )
            self._given_up[name] = event
            self._untold.append(event)


async def tell_parent(
    journal: Mailbox[JournalMessage], place: CallPlace, given_up: tuple[ToolGivenUp, ...]
) -> None:
    """Puts on the parent's record too, if there is one, which tools were given up here."""
    if not given_up or not place.lineage:
        return
    parent, child = place.lineage[0].session_id, place.session_id
    told = tuple(msgspec.structs.replace(event, child_id=child) for event in given_up)
    try:
        await journal.ask(AppendEvents(session_id=parent, events=told))
    except CallboardError as error:  # it stands in the child: nothing else depends on this
        logger.warning("%s can't be told what %s gave up: %s", parent, child, error)


def _stop(name: str) -> str:
    return f"Do not call {name} again in this turn: go on without it, or say what you could not do."
