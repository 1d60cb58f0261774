"""The people behind a question, and what they say in time."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

import msgspec
import trio

from ...runtime.channel import Channel
from ...runtime.definitions import SessionKind
from ...runtime.errors import CallboardError
from ...runtime.kernel.user_code import raise_stop
from ...runtime.messages import ApprovalAnswer, ApprovalRequest, CallPlace
from ...runtime.redaction import redacting_logger
from .channels import Channels, Served
from .person_answer import as_answer
from .question import OpenQuestion

logger = redacting_logger(__name__)

Said = TypeVar("Said")

Approver = Callable[[ApprovalRequest], Awaitable[ApprovalAnswer | str | bool]]
"""Asks a person, or answers for them: `allow`, `deny`, a bool, or a whole answer."""

LOOK_SECONDS = 1.0
"""How often it is looked whether somebody has come to a channel that nobody was at."""

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

    async def ask(self, question: OpenQuestion, nursery: trio.Nursery) -> ApprovalAnswer | None:
        """What they answer, or that time is over; `None` when others settled it meanwhile.

        A deferred question waits on record where nobody is. The channel is asked in a task of
        `nursery`, and may outlast the question there.
        """
        served = self.serving(question.place)
        if served is None and not question.is_deferred:
            is_worker = question.place.session_kind is SessionKind.WORKER
            return NOBODY_FOR_WORKERS if is_worker else NOBODY
        answers: list[ApprovalAnswer] = []
        asking = trio.CancelScope()

        async def call(channel: Channel) -> None:
            with asking:
                answers.append(await _answer_of(channel, question))
                waiting.cancel(reason="answered")

        if served is not None:
            nursery.start_soon(call, served.channel, name=f"approver {question.approval_id}")
        try:
            with trio.move_on_after(question.patience_seconds) as patience:  # noqa: ASYNC912
                with trio.CancelScope() as waiting:  # noqa: ASYNC912
                    with suppress(CallboardError):  # told to whoever asked
                        await question.outcome.wait()
        finally:
            # Not waited for: what can't be cancelled, a thread in `input()`, holds up no answer.
            asking.cancel(reason="answered, or over")
        if answers:
            return answers[0]
        return EXPIRED if patience.cancelled_caught else None


async def _answer_of(channel: Channel, question: OpenQuestion) -> ApprovalAnswer:
    """What a channel says; while nobody is there, the question waits on record."""
    try:
        while not channel.is_connected:  # noqa: ASYNC110  an application tells nobody
            await trio.sleep(LOOK_SECONDS)
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
