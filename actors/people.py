"""The people behind a question, and what they say in time."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

import msgspec
import trio

from ..runtime.channel import Channel
from ..runtime.definitions import SessionKind
from ..runtime.errors import CallboardError
from ..runtime.foreign_crash import raise_stop
from ..runtime.messages import ApprovalAnswer, ApprovalRequest, CallPlace
from ..runtime.redaction import redacting_logger
from .channels import Channels, Served
from .open_question import OpenQuestion, as_answer

logger = redacting_logger(__name__)

Said = TypeVar("Said")

Approver = Callable[[ApprovalRequest], Awaitable[ApprovalAnswer | str | bool]]
"""Asks a person, or answers for them: `allow`, `deny`, a bool, or a whole answer."""

NOBODY = ApprovalAnswer(
    decision="deny",
    reason="there is nobody to ask: run in a terminal, choose --policy auto, or (in a program) "
    "pass on_approval or channel",
    answered_by="callboard",
)
NOBODY_FOR_WORKERS = msgspec.structs.replace(
    NOBODY, reason="a worker asks nobody: what needs a person is for the session that started it"
)
EXPIRED = ApprovalAnswer(
    decision="expired", reason="nobody answered in time", answered_by="callboard"
)
CRASHED = ApprovalAnswer(
    decision="deny", reason="the approval handler failed", answered_by="callboard"
)


class ApproverChannel(Channel):
    """A function that is asked about calls, as a channel: `on_approval`.

    Args:
        approver: The function.
    """

    def __init__(self, approver: Approver) -> None:
        self._approver = approver

    async def approve(self, request: ApprovalRequest) -> ApprovalAnswer | str | bool:
        """See `Channel`."""
        return await self._approver(request)


class People:
    """Puts questions about calls to people.

    Args:
        channels: Where they are.
    """

    def __init__(self, channels: Channels) -> None:
        self._channels = channels

    def serving(self, place: CallPlace) -> Served | None:
        """Who is asked about the calls of a place."""
        return self._channels.serving(place)

    async def ask(self, question: OpenQuestion) -> ApprovalAnswer | None:
        """What they answer, or that time is over; `None` when others settled it meanwhile.

        A deferred question waits on record where nobody is.
        """
        served = self.serving(question.place)
        if served is None and not question.is_deferred:
            is_worker = question.place.session_kind is SessionKind.WORKER
            return NOBODY_FOR_WORKERS if is_worker else NOBODY
        answers: list[ApprovalAnswer] = []

        async def call() -> None:
            if served is None:
                return
            if (answer := await _answer_of(served.channel, question)) is not None:
                answers.append(answer)
                nursery.cancel_scope.cancel(reason="answered")

        with trio.move_on_after(question.patience_seconds):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(call, name=f"approver {question.approval_id}")
                with suppress(CallboardError):  # told to whoever asked
                    await question.outcome.wait()
                nursery.cancel_scope.cancel(reason="answered by others")
            return answers[0] if answers else None
        return EXPIRED


async def _answer_of(channel: Channel, question: OpenQuestion) -> ApprovalAnswer | None:
    """What a channel says; `None` when nobody is there, and the question waits on record."""
    try:
        if not channel.is_connected:
            return None
        return as_answer(await said(channel.approve(question.request())))
    except BaseException as crash:  # noqa: ASYNC103  the application's: the answer is no
        raise_stop(crash)
        tool = question.question.name
        logger.exception("the channel failed to ask about %s; the call is denied", tool)
        return CRASHED  # noqa: ASYNC104


async def said(answer: Awaitable[Said] | Said) -> Said:
    """What the application says, now or when it is awaited."""
    if inspect.isawaitable(answer):
        return await answer
    await trio.lowlevel.checkpoint()
    return answer
