"""The questions of a session, put to whoever chats: one after another, and not those that others answer."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import trio

from ...client.client import Client
from ...client.events import RemoteEvent
from ...runtime.approval import ApprovalAnswer, ApprovalRequest
from ...runtime.channel import UserQuestion
from ...runtime.errors import CallboardError, ConflictError, NotFoundError, ValidationError
from ...runtime.events import (
    ApprovalAnswered,
    ApprovalAsked,
    CallFinished,
    ChildAsks,
    DurableEvent,
    QuestionAnswered,
    QuestionAsked,
    Stored,
    TurnEnded,
)
from ...runtime.wire.approvals import ListQuestions, Questions
from ..ask.dialogue import Dialogue
from ..ask.editing import Editor
from ..ask.notify import headline_of
from ..show.question_text import block, question
from ..terminal.escaping import exact, safe_line
from ..terminal.keyboard import Keyboard
from ..terminal.output import Output
from ..terminal.style import Style

NOT_ASKED = (NotFoundError, ConflictError)
"""How the daemon says that a question waits no longer."""


class InputEnded(Exception):
    """The person ended the input while a question stood open: it waits on."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A question that waits.

    Attributes:
        question_id: Of the approval, or of the model's question.
        call_id: The call that waits for it.
        tool: The tool that it is about.
        child_id: The session whose question it is, when that is below this one.
        words: What the model asks, when it is such a question and this session's own.
    """

    question_id: str
    call_id: str
    tool: str
    child_id: str = ""
    words: QuestionAsked | None = None

    @property
    def is_approval(self) -> bool:
        """Whether it is about a call, and not a model's own."""
        return self.tool != "ask_user"

    def how_to_answer(self, session_id: str) -> str:
        """The command that answers it elsewhere; `session_id` is that of the chat."""
        if self.is_approval:
            return f"callboard approve {self.question_id}"
        return f"callboard chat --session {session_id}"

    @property
    def headline(self) -> str:
        """One line for a notification."""
        return headline_of(self.tool if self.is_approval else "")


class _Keys(Keyboard):
    """A keyboard at which the end of the input is no answer."""

    async def line(self, prompt: str) -> str | None:
        typed = await super().line(prompt)
        if typed is None:
            raise InputEnded
        return typed


class ChatQuestions:
    """Knows what is asked, by the events of a session, and asks it.

    Args:
        output: Where questions are printed; what else there is to print is held back meanwhile.
        style: What it can show.
        data: Where arguments are edited; see `Editor`.
        arrived: Is called when there is one more.

    Attributes:
        answered: Is told the question about a call whose answer is given here, ahead of it.
    """

    def __init__(
        self, output: Output, style: Style, data: Path, arrived: Callable[[], None]
    ) -> None:
        self._keyboard = _Keys(0, output)
        self._editor = Editor(self._keyboard, data)
        self._style = style
        self._arrived = arrived
        self.answered: Callable[[str], None] = lambda _: None
        self._open: dict[str, Asked] = {}
        self._is_known = False
        self._asking = ""
        self._scope = trio.CancelScope()
        self._is_sending = False
        self._withdrawn_by = ""

    # ── what is asked ────────────────────────────────────────────────────────────────────────────

    def see(self, event: DurableEvent) -> None:
        """Takes note of what is asked and answered."""
        match event:
            case ApprovalAsked(same_as="", is_deferred=False):
                self._add(
                    Asked(question_id=event.approval_id, call_id=event.call_id, tool=event.name)
                )
            case QuestionAsked():
                self._add(
                    Asked(
                        question_id=event.question_id,
                        call_id=event.call_id,
                        tool="ask_user",
                        words=event,
                    )
                )
            case ChildAsks():
                self._add(
                    Asked(
                        question_id=event.question_id,
                        call_id=event.call_id,
                        tool=event.name,
                        child_id=event.child_id,
                    )
                )
            case ApprovalAnswered(approval_id=question_id, answered_by=who):
                self._remove(question_id, who)
            case QuestionAnswered(question_id=question_id, answered_by=who):
                self._remove(question_id, who)
            case CallFinished():
                for each in [*self._open.values()]:
                    if each.call_id == event.call_id and not each.child_id:
                        self._remove(each.question_id, "")
            case TurnEnded(outcome=outcome) if outcome != "suspended":
                self.forget()
            case _:
                pass

    def forget(self) -> None:
        """Nothing is asked any more, as far as is known."""
        for question_id in [*self._open]:
            self._remove(question_id, "")

    def next(self) -> Asked | None:
        """The one to put now; none while it is not known which of those seen wait still."""
        return next(iter(self._open.values()), None) if self._is_known else None

    def settle(self, waiting: list[Asked], known: set[str]) -> None:
        """From now on what is seen is new: of what was seen so far, what is `known` to wait stays."""
        for question_id in [*self._open]:
            if question_id not in known:
                self._remove(question_id, "")
        self._is_known = True
        for asked in waiting:
            self._add(asked)
        if self._open:
            self._arrived()

    def drop(self, asked: Asked) -> None:
        """It is somebody else's affair."""
        self._open.pop(asked.question_id, None)

    def unsettle(self) -> None:
        """From now on what is seen may be long past."""
        self._is_known = False

    def _add(self, asked: Asked) -> None:
        if asked.question_id not in self._open:
            self._open[asked.question_id] = asked
            if self._is_known:
                self._arrived()

    def _remove(self, question_id: str, who: str) -> None:
        self._open.pop(question_id, None)
        if self._asking == question_id and not self._is_sending:
            self._withdrawn_by = who
            self._scope.cancel(reason="no longer asked")

    def abandon(self) -> None:
        """Ahead of an exit on the spot: the terminal is left as it was found."""
        self._editor.abandon()

    # ── how it is put ────────────────────────────────────────────────────────────────────────────

    async def put(self, client: Client, asked: Asked) -> None:
        """Asks until there is an answer on record, the person's or another's.

        Raises:
            InputEnded: It is left open.
            NetworkError: The daemon is gone.
        """
        self._scope, self._asking, self._withdrawn_by = trio.CancelScope(), asked.question_id, ""
        try:
            with self._scope:
                await self._put_watched(client, asked)
            self._open.pop(asked.question_id, None)
        except NOT_ASKED:
            self._open.pop(asked.question_id, None)
            self._keyboard.write("(it is no longer asked)\n")
        finally:
            self._asking, self._is_sending = "", False
            self._keyboard.forget_typed()
        if self._scope.cancelled_caught:
            by = f": {safe_line(self._withdrawn_by)} was first" if self._withdrawn_by else ""
            self._keyboard.write(f"\n(no longer asked{by})\n")

    async def _put_watched(self, client: Client, asked: Asked) -> None:
        raised: BaseException | None = None
        async with trio.open_nursery() as nursery:
            if asked.child_id:
                nursery.start_soon(self._watch_child, client, asked)
            try:
                await self._put(client, asked)
            except (CallboardError, InputEnded) as error:
                raised = error
            nursery.cancel_scope.cancel(reason="it has ended")
        if raised is not None:
            raise raised

    async def _watch_child(self, client: Client, asked: Asked) -> None:
        """An answer to a question below stands on the record of the session below."""
        with suppress(CallboardError):  # then its answer is refused, which says as much
            async with client.events(asked.child_id, after_seq=0) as events:
                async for event in events:
                    who = _answered_by(event, asked.question_id)
                    if who is not None:
                        self._remove(asked.question_id, who)
                        return

    async def _put(self, client: Client, asked: Asked) -> None:
        if asked.is_approval:
            await self._put_approval(client, asked.question_id)
        elif asked.words is not None:
            words = asked.words
            await self._put_question(client, asked.question_id, words.question, words.options, "")
        else:
            found = await _model_question(client, asked)
            await self._put_question(
                client, asked.question_id, found.question, found.options, found.origin
            )

    async def _put_approval(self, client: Client, approval_id: str) -> None:
        request = await client.approval(approval_id)

        async def consider(arguments: str) -> ApprovalRequest:
            return await client.approval(approval_id, arguments=arguments)

        dialogue = Dialogue(self._keyboard, self._editor, request, self._style, consider)
        self._keyboard.write(question(request, self._style))
        await self._keyboard.settle()  # what was typed before answers something else
        while True:
            answer = await dialogue.answer()
            try:
                await self._send(client, approval_id, answer)
            except ValidationError as problem:
                dialogue.refuse(str(problem))
                continue
            return

    async def _send(self, client: Client, approval_id: str, answer: ApprovalAnswer) -> None:
        self._is_sending = True  # its own answer comes back as an event, too
        self.answered(approval_id)
        try:
            await client.answer(approval_id, answer)
        finally:
            self._is_sending = False

    async def _put_question(
        self,
        client: Client,
        question_id: str,
        words: str,
        options: tuple[str, ...],
        origin: str,
    ) -> None:
        who = f" ({safe_line(origin)})" if origin else ""
        lines = ["", f"the model asks you{who}:", *block(words)]
        lines += (f"  [{number}] {exact(text)}" for number, text in enumerate(options, 1))
        self._keyboard.write("\n".join(lines) + "\n")
        await self._keyboard.settle()
        prompt = "a number, or your own answer: " if options else "your answer: "
        typed = ""
        while not typed:
            typed = await self._keyboard.line(prompt) or ""
        if typed.isascii() and typed.isdigit() and 0 < int(typed) <= len(options):
            typed = options[int(typed) - 1]
        option = options.index(typed) if typed in options else None
        self._is_sending = True
        await client.answer_question(question_id, typed, option=option)


async def put_to_nobody(client: Client, asked: Asked, session_id: str, *, is_host: bool) -> str:
    """Where nobody sits: the command's own daemon is told no; another may have people.

    Gives what to say about it.
    """
    if not is_host:
        await trio.lowlevel.checkpoint()
        return f"{asked.tool} waits for an answer: {asked.how_to_answer(session_id)}"
    try:
        if asked.is_approval:
            answer = ApprovalAnswer(decision="deny", reason="nobody is at a terminal")
            await client.answer(asked.question_id, answer)
        else:
            await client.answer_question(asked.question_id, "Nobody is here to answer.")
    except CallboardError as error:
        return str(error)
    return ""


async def waiting_questions(client: Client, session_id: str) -> tuple[list[Asked], set[str]]:
    """Those of a session, and of branches that ask there, that wait now; and the ids of all."""
    rows = await client.approvals()
    found = [
        Asked(question_id=row.approval_id, call_id=row.call_id, tool=row.tool)
        for row in reversed(rows)
        if row.session_id == session_id and not row.is_deferred and not row.same_as
    ]
    params = ListQuestions(session_id=session_id)
    for each in (await client.request("question/list", params, Questions)).questions:
        child_id = each.session_id if each.session_id != session_id else ""
        found.append(
            Asked(
                question_id=each.question_id,
                call_id=each.call_id,
                tool="ask_user",
                child_id=child_id,
                words=None,
            )
        )
    return found, {row.approval_id for row in rows} | {each.question_id for each in found}


def _answered_by(event: RemoteEvent, question_id: str) -> str | None:
    """Who answered a question by this event, if it is its answer."""
    match event:
        case Stored(event=ApprovalAnswered(approval_id=answered, answered_by=who)):
            return who if answered == question_id else None
        case Stored(event=QuestionAnswered(question_id=answered, answered_by=who)):
            return who if answered == question_id else None
        case _:
            return None


async def _model_question(client: Client, asked: Asked) -> UserQuestion:
    listed = await client.request("question/list", ListQuestions(), Questions)
    for each in listed.questions:
        if each.question_id == asked.question_id:
            return each
    raise NotFoundError(f"{asked.question_id} waits no longer")
