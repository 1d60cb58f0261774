"""Puts the questions of sessions in the daemon to the person of this command; others may be faster.

`callboard run`, `callboard attach` and `callboard acp` use it while a daemon has the sessions. Every question waits in
a task of its own, so that an answer that somebody else gives ends it wherever it stands.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

import trio

from ...client.client import Client
from ...runtime.approval import ApprovalAnswer, ApprovalRequest
from ...runtime.channel import ChannelMessage, UserQuestion
from ...runtime.definitions import ToolFailure
from ...runtime.errors import CallboardError, ConflictError, NotFoundError
from ...runtime.events import MessageSent, Stored
from ...runtime.handles import PersonAnswer
from .pending_questions import PendingQuestion, PendingQuestions, answered_by


class AskingChannel(Protocol):
    """Where a person is asked: a terminal, or an editor. Cancelling takes the question back."""

    async def approve(self, request: ApprovalRequest, /) -> ApprovalAnswer:
        """Ask whether a call may run."""
        ...

    async def ask(self, question: UserQuestion, /) -> PersonAnswer:
        """Ask a model's question; raise `ToolFailure` when this person answers none."""
        ...

    async def tell(self, message: ChannelMessage, /) -> None:
        """Show a message."""
        ...


class DaemonQuestions:
    """Puts questions to a person, and takes them back when somebody else has answered.

    Args:
        client: The daemon.
        channel: Where the person is; without one, a line says what waits.
        nursery: Where questions wait for their answers.
        notice: Prints a line of callboard's own.
    """

    def __init__(
        self,
        client: Client,
        channel: AskingChannel | None,
        nursery: trio.Nursery,
        notice: Callable[[str], None],
    ) -> None:
        self._client = client
        self._channel = channel
        self._nursery = nursery
        self._notice = notice
        self._scopes: dict[str, trio.CancelScope] = {}
        self._open = PendingQuestions(self._begin, self._end)

    def see(self, stored: Stored) -> None:
        """Take an event on record; never waits."""
        self._open.see(stored.event)
        if isinstance(stored.event, MessageSent):
            self._tell(stored.session_id, stored.event)

    def add(self, question: PendingQuestion) -> None:
        """Put a question that waited before the session was followed."""
        self._open.add(question)

    def _begin(self, question: PendingQuestion) -> None:
        self._scopes[question.question_id] = scope = trio.CancelScope()
        self._nursery.start_soon(self._put, question, scope, name=question.question_id)

    def _end(self, question_id: str, who: str) -> None:
        if (scope := self._scopes.get(question_id)) is not None:
            scope.cancel(reason=f"answered by {who}")

    async def _put(self, question: PendingQuestion, scope: trio.CancelScope) -> None:
        try:
            with scope:
                async with trio.open_nursery() as nursery:
                    if question.child_id:
                        nursery.start_soon(self._listen, question, name="answers below")
                    await self._ask(question)
                    nursery.cancel_scope.cancel(reason="answered")
        finally:
            self._scopes.pop(question.question_id, None)
            self._open.remove(question.question_id)

    async def _listen(self, question: PendingQuestion) -> None:
        if (who := await wait_answer(self._client, question)) is not None:
            self._open.remove(question.question_id, who)

    async def _ask(self, question: PendingQuestion) -> None:
        question_id = question.question_id
        try:
            if question.is_approval:
                await self._approve(question_id)
            else:
                await self._answer(question_id)
        except (ConflictError, NotFoundError):
            pass  # others were first
        except CallboardError as error:
            self._notice(f"{question_id} was not answered here: {error}")

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

    async def _answer(self, question_id: str) -> None:
        question = await find_question(self._client, question_id)
        if self._channel is None:
            self._notice(f"the model asks a person, and waits: {question.question}")
            return
        with suppress(ToolFailure):  # the input ended: somebody else may answer
            answer = await self._channel.ask(question)
            await self._client.answer_question(question_id, answer.text, option=answer.option)

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


async def find_question(client: Client, question_id: str) -> UserQuestion:
    """Return a model's question that waits; raise `NotFoundError` when it does not any more."""
    for question in await client.questions():
        if question.question_id == question_id:
            return question
    raise NotFoundError(f"the question {question_id} is over")


async def wait_answer(client: Client, question: PendingQuestion) -> str | None:
    """Return who answers a question of a session below, as soon as that is on its record.

    Returns `None` when that session can't be followed; an answer that comes too late is refused
    then, which tells the person as much.
    """
    with suppress(CallboardError):
        async with client.events(question.child_id, after_seq=0) as events:
            async for event in events:
                answer = answered_by(event.event) if isinstance(event, Stored) else None
                if answer is not None and answer[0] == question.question_id:
                    return answer[1]
    return None
