"""The outcome of a call that a program made itself, without a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ..definitions import Artifact, CallStatus
from ..errors import ValidationError
from ..events import CallDeferred, CallFinished, CallProposed, TurnEnded, error_of_turn
from ..turn_options import MAX_GIVEN_CALLS, GivenCall


class CalledTool(msgspec.Struct, frozen=True, kw_only=True):
    """How a call of a program ended.

    Attributes:
        session_id, call_id, name: The call, as it is on record.
        status: `success`, or what became of it; `deferred` when a person answers later.
        output: What the tool returned; `None` unless it succeeded.
        error: What a model would have got: `error_type`, `message` and details; empty for a success.
        note: What a model would have got beside it: of arguments in another spelling.
        display: A line for people.
        artifacts: What it made.
        duration_ms: How long it took.

    Example:
        called = await runtime.call_tool("list_directory", {"path": "."})
        if called.status == "success":
            print([entry["name"] for entry in called.output["entries"]])
        else:
            print(called.error["message"])
    """

    session_id: str
    call_id: str
    name: str
    status: CallStatus
    output: Any = None
    error: dict[str, Any] = {}
    note: str = ""
    display: str = ""
    artifacts: tuple[Artifact, ...] = ()
    duration_ms: int = 0


def given_calls(calls: Iterable[tuple[str, Mapping[str, Any]]]) -> tuple[GivenCall, ...]:
    """Return calls as an input takes them; raise `ValidationError` for what can't be some."""
    made: list[GivenCall] = []
    for number, call in enumerate(calls, 1):
        try:
            name, arguments = call
            if not isinstance(name, str) or not name:
                raise TypeError(f"{name!r:.80} is not the name of a tool")
            made.append(GivenCall(name, msgspec.json.encode(dict(arguments)).decode()))
        except (TypeError, ValueError) as error:
            raise ValidationError(
                f"calls[{number}]: {error}. A call is the name of a tool and its arguments, a mapping "
                "of JSON values.",
                field="calls",
            ) from error
    if not 0 < len(made) <= MAX_GIVEN_CALLS:
        raise ValidationError(f"{len(made)} calls: pass 1 to {MAX_GIVEN_CALLS}", field="calls")
    return tuple(made)


def text_of_calls(calls: Iterable[GivenCall]) -> str:
    """Return the text of the input that brings calls: a later model reads it."""
    names = ", ".join(dict.fromkeys(call.name for call in calls))
    return f"(The program makes these calls itself: {names}.)"


class CalledTools:
    """Gathers the outcomes of one turn's calls.

    Attributes:
        outcomes: By call, in the order of the calls; `None` until it has come.
        ended: The end of the turn, once it was seen.
    """

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self.outcomes: dict[str, CalledTool | None] = {}
        self.ended: TurnEnded | None = None

    def see(self, event: object) -> None:
        """Take the next event of the turn into account."""
        match event:
            case CallProposed(call_id=call_id):
                self.outcomes[call_id] = None
            case CallDeferred() | CallFinished():
                self.outcomes[event.call_id] = called_tool(self._session_id, event)
            case TurnEnded():
                self.ended = event
            case _:
                pass

    def cancel(self, reason: str) -> None:
        """Note that the input was cancelled before its turn."""
        self.ended = TurnEnded(turn_id="", outcome="cancelled", message=reason)

    def result(self) -> list[CalledTool]:
        """Return the outcomes, once the turn has ended; raise its error when a call has none."""
        found = [each for each in self.outcomes.values() if each is not None]
        if self.ended is not None and len(found) < max(1, len(self.outcomes)):
            raise error_of_turn(self.ended)
        return found


def called_tool(session_id: str, event: CallFinished | CallDeferred) -> CalledTool:
    """Return the outcome of a call that an event tells of."""
    said: dict[str, Any] = msgspec.json.decode(event.result)
    if isinstance(event, CallDeferred):
        return CalledTool(
            session_id=session_id,
            call_id=event.call_id,
            name=event.name,
            status=CallStatus.DEFERRED,
            error=said,
        )
    is_success = event.status is CallStatus.SUCCESS
    whole = None if event.full_output is None else msgspec.json.decode(event.full_output)
    return CalledTool(
        session_id=session_id,
        call_id=event.call_id,
        name=event.name,
        status=event.status,
        output=(said.get("result") if whole is None else whole) if is_success else None,
        error={} if is_success else whole or said,
        note=said.get("note", ""),
        display=event.display,
        artifacts=event.artifacts,
        duration_ms=event.duration_ms,
    )
