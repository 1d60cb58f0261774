"""What a turn puts on record of its answers, and of the calls that have no result yet."""

from __future__ import annotations

from typing import Protocol

import trio

from ...runtime.definitions import CallStatus, ErrorType
from ...runtime.events import (
    CallFinished,
    CallProposed,
    DurableEvent,
    InputAccepted,
    InputCancelled,
    MessageCompleted,
    TurnSuspended,
)
from ...runtime.history import Call
from ...runtime.identity import new_id, now_ms
from ...runtime.messages import SubmitInput
from ...runtime.store.recovery import closing_events
from ...runtime.store.rows import OpenTurn
from ...tools.processes.unreaped import unreaped
from ...tools.programs.program_result import processes
from ..calls.call import failure_outcome
from ..conversation.conversation import Conversation
from ..model.answer import AnswerBuilder
from .model_caller import ModelCaller

_UNKNOWN_OUTCOME = "It was interrupted; its outcome is unknown. Check before you retry."
_NOT_BEGUN = (
    "It was interrupted before it began to change anything: it had not started, or only read. It "
    "can be asked for again."
)


class RecordHost(Protocol):
    """What the record of a turn is made from, and where its end goes."""

    conversation: Conversation

    async def append_end(self, *events: DurableEvent) -> object:
        """Stores the end of a turn, behind that of what ends with it."""
        ...


class TurnRecord:
    """Makes the events of one turn; stores nothing."""

    def __init__(self, host: RecordHost, turn_id: str) -> None:
        self._host = host
        self._turn_id = turn_id

    def message(self, answer: AnswerBuilder, caller: ModelCaller) -> MessageCompleted:
        """A whole answer."""
        assert answer.done is not None
        return MessageCompleted(
            turn_id=self._turn_id,
            message_id=new_id("message"),
            parts=answer.parts(self._host.conversation.call_ids),
            provider=caller.target.provider,
            model=caller.target.model,
            dialect=caller.target.recorded_dialect,
            stop_reason=answer.done.stop_reason,
            usage=answer.taken.usage,
            estimate=answer.taken.estimate,
            duration_ms=round((trio.current_time() - caller.asked_at) * 1000),
        )

    def kept_text(
        self, broken_off: AnswerBuilder | None, caller: ModelCaller
    ) -> list[DurableEvent]:
        """The text so far of an answer that was broken off, if any; and what attempts took."""
        charged: list[DurableEvent] = list(caller.unrecorded)
        if broken_off is None:
            return charged
        parts = broken_off.parts_without_calls()
        if not parts:
            taken = caller.charged(broken_off.taken)
            return charged if broken_off.taken.is_nothing else [*charged, taken]
        return [
            *charged,
            MessageCompleted(
                turn_id=self._turn_id,
                message_id=new_id("message"),
                parts=parts,
                provider=caller.target.provider,
                model=caller.target.model,
                dialect=caller.target.recorded_dialect,
                incomplete=True,
                usage=broken_off.taken.usage,
                estimate=broken_off.taken.estimate,
            ),
        ]

    def proposed(
        self, message: MessageCompleted, calls: tuple[Call, ...]
    ) -> tuple[CallProposed, ...]:
        """The calls of an answer, which go into the same commit behind it."""
        return tuple(
            CallProposed(
                turn_id=self._turn_id,
                message_id=message.message_id,
                call_id=call.call_id,
                index=index,
                name=call.name,
                arguments=call.arguments,
            )
            for index, call in enumerate(calls)
        )

    def missing(
        self, asked: MessageCompleted | None, why_cancelled: str | None, since: float
    ) -> list[DurableEvent]:
        """The answer, when it is not stored yet, and a result for each call that has none.

        Args:
            asked: The answer whose calls ran, if any did.
            why_cancelled: The reason, when the turn was cancelled.
            since: When the calls were asked for.
        """
        conversation = self._host.conversation
        missing: list[DurableEvent] = []
        open_calls = list(conversation.open_calls.values())
        if asked is not None and conversation.message_id != asked.message_id:
            calls = tuple(part for part in asked.parts if isinstance(part, Call))
            open_calls = list(self.proposed(asked, calls))
            missing += [asked, *open_calls]
        killed = unreaped().take_killed(self._turn_id)
        for proposed in open_calls:
            call = Call(proposed.call_id, proposed.name, proposed.arguments)
            if why_cancelled is not None:
                count = killed.get(call.call_id)
                missing.append(self.cancelled(call, why_cancelled, since, killed=count))
            else:
                missing.append(self._interrupted(call, since))
        return missing

    def suspension(self, left: OpenTurn | None, why: str, since: float) -> list[DurableEvent]:
        """What suspends the turn where calls wait for people; nothing when none does."""
        closing = closing_events(left, now_ms()) if left is not None else ()
        if not any(isinstance(event, TurnSuspended) for event in closing):
            return []
        killed = unreaped().take_killed(self._turn_id)
        return [
            self.cancelled(
                Call(event.call_id, event.name, ""), why, since, killed=killed.get(event.call_id)
            )
            if isinstance(event, CallFinished)
            else event
            for event in closing
        ]

    def cancelled(
        self, call: Call, why: str, since: float | None = None, *, killed: int | None = None
    ) -> CallFinished:
        """A call that did not end by itself; of one that ran a program, how many were killed."""
        message, more = f"Not finished: {why}.", {}
        if killed is not None:
            message = f"{message} {processes(killed).capitalize()}; none is left."
            more = {"killed": killed}
        outcome = failure_outcome(ErrorType.CANCELLED, message, status=CallStatus.CANCELLED, **more)
        return self._finished(call, CallStatus.CANCELLED, outcome.content, outcome.display, since)

    def _interrupted(self, call: Call, since: float) -> CallFinished:
        """A call whose dispatcher died."""
        has_started = call.call_id in self._host.conversation.started_calls
        text = _UNKNOWN_OUTCOME if has_started else _NOT_BEGUN
        outcome = failure_outcome(ErrorType.INTERRUPTED, text, status=CallStatus.INTERRUPTED)
        return self._finished(call, CallStatus.INTERRUPTED, outcome.content, outcome.display, since)

    def _finished(
        self, call: Call, status: CallStatus, result: str, display: str, since: float | None
    ) -> CallFinished:
        duration = 0.0 if since is None else trio.current_time() - since
        return CallFinished(
            turn_id=self._turn_id,
            call_id=call.call_id,
            name=call.name,
            status=status,
            result=result,
            display=display,
            duration_ms=round(duration * 1000),
        )


def accepted_input(input_id: str, message: SubmitInput) -> InputAccepted:
    """An input as it is stored."""
    return InputAccepted(
        input_id=input_id,
        text=message.text,
        attachments=message.attachments,
        budget=message.budget,
        mode=message.mode,
        request=message.request,
        options=message.options,
        widens=message.widens,
    )


def cancelled_input(host: RecordHost, input_id: str, why: str) -> list[DurableEvent]:
    """An input is cancelled before it had its turn, and with it the deferred call it was about."""
    due = host.conversation.deferred.due((input_id,))
    cancelled: list[DurableEvent] = [
        TurnRecord(host, call.turn_id).cancelled(Call(call.call_id, call.name, ""), why)
        for call in due.values()
    ]
    return [*cancelled, InputCancelled(input_id=input_id, reason=why)]
