"""Whoever sits at this terminal is asked what sessions in the daemon ask; others may be faster."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

import trio

from ...client.client import Client
from ...runtime.channel import ChannelMessage, UserQuestion
from ...runtime.definitions import ToolFailure
from ...runtime.errors import CallboardError, ConflictError, NotFoundError
from ...runtime.events import (
    ApprovalAnswered,
    ApprovalAsked,
    CallFinished,
    ChildAsks,
    MessageSent,
    QuestionAnswered,
    QuestionAsked,
    Stored,
    TurnResumed,
)
from ...runtime.wire.approvals import ListQuestions, Questions
from ..ask.terminal_channel import TerminalChannel


class RemotePeople:
    """Puts questions to a terminal, and takes them back when somebody else has answered.

    Args:
        client: The daemon.
        channel: The terminal; `None` where nobody is, and what waits is told.
        nursery: Where questions wait for their answers.
        notice: Says something to whoever reads.
    """

    def __init__(
        self,
        client: Client,
        channel: TerminalChannel | None,
        nursery: trio.Nursery,
        notice: Callable[[str], None],
    ) -> None:
        self._client = client
        self._channel = channel
        self._nursery = nursery
        self._notice = notice
        self._asking: dict[str, trio.CancelScope] = {}
        self._calls: dict[str, str] = {}

    def see(self, stored: Stored) -> None:
        """Takes note of an event on record, as it is heard; never waits."""
        match stored.event:
            case ApprovalAsked(approval_id=question_id, same_as="", is_deferred=False) as asked:
                self._calls[asked.call_id] = question_id
                self._begin(question_id, self._approve, stored.session_id)
            case QuestionAsked(question_id=question_id) as asked:
                self._calls[asked.call_id] = question_id
                self._begin(question_id, self._ask, stored.session_id)
            case ChildAsks(question_id=question_id, child_id=child_id):
                is_approval = question_id.startswith("approval_")
                ask = self._approve if is_approval else self._ask
                self._begin(question_id, ask, child_id, is_below=True)
            case TurnResumed(approval_ids=approval_ids):
                for question_id in approval_ids:
                    self._begin(question_id, self._approve, stored.session_id)
            case ApprovalAnswered(approval_id=question_id):
                self._end(question_id)
            case QuestionAnswered(question_id=question_id):
                self._end(question_id)
            case CallFinished(call_id=call_id):
                self._end(self._calls.pop(call_id, ""))
            case MessageSent():
                self._tell(stored.session_id, stored.event)
            case _:
                pass

    # ── a question from its beginning to its end ─────────────────────────────────────────────────

    def _begin(
        self,
        question_id: str,
        ask: Callable[[str], Awaitable[None]],
        session_id: str,
        *,
        is_below: bool = False,
    ) -> None:
        if question_id in self._asking:
            return
        self._asking[question_id] = scope = trio.CancelScope()
        listen = session_id if is_below else None
        self._nursery.start_soon(self._put, question_id, scope, ask, listen, name=question_id)

    def _end(self, question_id: str) -> None:
        if (scope := self._asking.get(question_id)) is not None:
            scope.cancel(reason="somebody else has answered")

    async def _put(
        self,
        question_id: str,
        scope: trio.CancelScope,
        ask: Callable[[str], Awaitable[None]],
        listen: str | None,
    ) -> None:
        try:
            with scope:
                async with trio.open_nursery() as nursery:
                    if listen is not None:
                        nursery.start_soon(self._listen, listen, question_id, name="answers below")
                    await self._see_to(question_id, ask)
                    nursery.cancel_scope.cancel(reason="answered")
        finally:
            self._asking.pop(question_id, None)

    async def _see_to(self, question_id: str, ask: Callable[[str], Awaitable[None]]) -> None:
        try:
            await ask(question_id)
        except (ConflictError, NotFoundError):
            pass  # others were first
        except CallboardError as error:
            self._notice(f"{question_id} was not answered here: {error}")

    async def _listen(self, session_id: str, question_id: str) -> None:
        """Hears the session below this one, whose own record says when it has its answer."""
        with suppress(CallboardError):  # it is heard already, for another question; or is gone
            async with self._client.events(session_id) as events:
                async for event in events:
                    if isinstance(event, Stored) and _is_answer(event.event, question_id):
                        self._end(question_id)

    async def _approve(self, approval_id: str) -> None:
        request = await self._client.approval(approval_id)
        if self._channel is None:
            self._notice(
                f"{request.tool} waits for an answer: `callboard approve {approval_id}`, or "
                f"`callboard deny {approval_id}`"
            )
            return
        answer = await self._channel.approve(request)
        await self._client.answer(approval_id, answer)

    async def _ask(self, question_id: str) -> None:
        question = await self._question(question_id)
        if self._channel is None:
            self._notice(f"the model asks a person, and waits: {question.question}")
            return
        try:
            answer = await self._channel.ask(question)
        except ToolFailure:
            return  # the input ended: somebody else may answer
        await self._client.answer_question(question_id, answer.text, option=answer.option)

    async def _question(self, question_id: str) -> UserQuestion:
        waiting = await self._client.request("question/list", ListQuestions(), Questions)
        for question in waiting.questions:
            if question.question_id == question_id:
                return question
        raise NotFoundError(f"the question {question_id} is over")

    def _tell(self, session_id: str, sent: MessageSent) -> None:
        message = ChannelMessage(
            session_id=session_id,
            from_session=sent.child_id or session_id,
            call_id=sent.call_id,
            text=sent.text,
            origin=f"session {sent.child_id}" if sent.child_id else "",
        )
        if self._channel is not None:
            self._nursery.start_soon(self._channel.tell, message, name="message")
        else:
            self._notice(f"message: {sent.text}")


def _is_answer(event: object, question_id: str) -> bool:
    match event:
        case ApprovalAnswered(approval_id=answered):
            return answered == question_id
        case QuestionAnswered(question_id=answered):
            return answered == question_id
    return False
