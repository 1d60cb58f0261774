"""What a session hears of the calls of the sessions below it, for whoever watches it.

A call of `delegate` listens to its child's turn. Of what it hears it makes live events of its own session; those of a
child's child come as live events of the child, and go on up as they are. So they travel on what was handed down, and
whoever listens to a session needs no other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from ...runtime.events import (
    ApprovalAnswered,
    ApprovalAsked,
    CallDeferred,
    CallFinished,
    CallProposed,
    CallStarted,
    ChildCall,
    DurableEvent,
    QuestionAsked,
    Stored,
)
from ...runtime.kernel.delivery import Update
from ...runtime.redaction import mask
from ...runtime.text import excerpt, without_surrogates
from ...runtime.turns.call_subject import PROGRAMS, telling_argument

MAX_LINE_CHARS = 120
"""Of a task, and of what a call is about: a line of a terminal. The record has all of it."""
MAX_READ_CHARS = 64 * 1024
"""Arguments that are longer hold a whole file, and are not read for one line."""


class _Open(msgspec.Struct, frozen=True):
    name: str
    subject: str
    is_program: bool


class CallsBelow:
    """The calls of one child, and of the sessions below it.

    Args:
        call_id: The call that waits for the child.
        session_id: The child.
        task: What it was told to do.
        show: Takes the live events, without waiting.
    """

    def __init__(
        self, call_id: str, session_id: str, task: str, show: Callable[[ChildCall], None]
    ) -> None:
        self._call_id = call_id
        self._session_id = session_id
        self._task = _line(task)
        self._show = show
        self._open: dict[str, _Open] = {}  # as many as one answer may ask for

    def take(self, update: Update) -> None:
        """Show what an update of the child says of calls."""
        if isinstance(update, Stored):
            self._stored(update.event)
        elif isinstance(update, ChildCall):
            deeper = update.depth + 1
            self._show(msgspec.structs.replace(update, call_id=self._call_id, depth=deeper))

    def _stored(self, event: DurableEvent) -> None:
        match event:
            case CallProposed(call_id=call_id, name=name, arguments=arguments):
                self._open[call_id] = _opened(name, arguments)
                self._say(call_id, "proposed")
            case ApprovalAsked(call_id=call_id) | QuestionAsked(call_id=call_id):
                self._say(call_id, "asks")
            case ApprovalAnswered(call_id=call_id, decision="allow"):
                self._say(call_id, "proposed")
            case CallStarted(call_id=call_id):
                self._say(call_id, "started")
            case CallFinished():
                self._finished(event)
            case CallDeferred(call_id=call_id):
                self._open.pop(call_id, None)
            case _:
                pass

    def _say(self, call_id: str, state: Literal["proposed", "asks", "started"]) -> None:
        call = self._open.get(call_id)
        if call is not None:  # else it was proposed in an earlier process
            self._show(self._event(call_id, call, state))

    def _finished(self, event: CallFinished) -> None:
        call = self._open.pop(event.call_id, None)
        if call is None or event.arguments is not None:  # a person may have changed them
            call = _opened(event.name, event.arguments or "")
        said = self._event(event.call_id, call, "finished")
        ended = msgspec.structs.replace(said, status=event.status, duration_ms=event.duration_ms)
        self._show(ended)

    def _event(
        self,
        call_id: str,
        call: _Open,
        state: Literal["proposed", "asks", "started", "finished"],
    ) -> ChildCall:
        return ChildCall(
            call_id=self._call_id,
            session_id=self._session_id,
            task=self._task,
            child_call_id=call_id,
            name=call.name,
            subject=call.subject,
            is_program=call.is_program,
            state=state,
        )


def _opened(name: str, arguments: str) -> _Open:
    key, text = telling_argument(arguments) if len(arguments) <= MAX_READ_CHARS else ("", "")
    sign = "$ " if key == "command" else ""
    return _Open(_line(name), _line(f"{sign}{text}" if text else ""), key in PROGRAMS)


def _line(text: str) -> str:
    # Masked first: the beginning of a key that is cut off is not known any more.
    return without_surrogates(excerpt(mask(text), MAX_LINE_CHARS))
