"""`POST /ag-ui/AGENT`: one run of a thread, answered with its events as they come."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote

import msgspec
import trio

from ...embedding.runtime import host_of
from ...embedding.turn import checked_text
from ...runtime.definitions import InputMode
from ...runtime.errors import (
    CallboardError,
    ConflictError,
    NotFoundError,
    PermissionRefused,
    ValidationError,
)
from ...runtime.events import AttemptCharged
from ...runtime.history import checked_attachments
from ...runtime.kernel.delivery import Subscription
from ...runtime.messages import SubmitInput
from ...runtime.turn_options import ClientContext
from ...runtime.wire.approvals import AnswerQuestion, Resolve
from ...runtime.wire.fields import Role
from ..connection.caller import Caller, Requester
from ..connection.method_table import MethodTable
from ..door.exchange import Exchange
from ..door.http import BadHead, Headers, HttpAnswer, RequestHead
from ..http_turns import HeldTurn, HttpTurns
from ..openai.asked import check_tools, late_results
from ..openai.chat_answer import event_of
from ..openai.content import read_by
from ..openai.problems import ApiProblem, answer_of, problem_of
from ..shared.state import DaemonState
from ..used_below import used_below
from .events import AgUiEvent
from .interrupts import (
    approval,
    approval_answer,
    interrupt_of,
    open_questions,
    question_answer,
    question_of,
    sees_question,
)
from .run_fold import RunFold
from .run_input import LAST_MESSAGE, NewWords, Resume, RunRequest
from .threads import VIA, FollowedTurn, KnownInput, Threads, run_key

SESSION = "x-callboard-session"
PAGE_EVENTS = 256
"""Read of the record at a time."""


ANSWER_TRIES = 40
ANSWER_AGAIN_SECONDS = 0.05
"""For a turn to ask a question again that was suspended with it: that takes a moment."""


class RunRefused(Exception):
    """What a thread waits for does not allow this run: AG-UI wants that said as a run that failed.

    Attributes:
        code: A word for programs.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class AgUiApi:
    """Answers requests for runs.

    Args:
        daemon: What is spoken to.
        table: The methods with which questions are answered.
        turns: Where turns begin.
    """

    def __init__(self, daemon: DaemonState, table: MethodTable, turns: HttpTurns) -> None:
        self._daemon = daemon
        self._table = table
        self._turns = turns
        self._threads = Threads(turns)

    async def answer(self, exchange: Exchange) -> HttpAnswer | None:
        """Answer a request; the turn is cancelled when the client leaves before the end of the run."""
        assert exchange.credential is not None  # the route takes a token
        requester = Requester(self._daemon, exchange.credential, VIA)
        try:
            await self._answer(exchange, requester)
        except ApiProblem as problem:
            return answer_of(problem)
        except (BadHead, CallboardError) as error:
            return answer_of(problem_of(error))
        return None

    async def _answer(self, exchange: Exchange, requester: Requester) -> None:
        requester.check_role(Role.OPERATOR)
        agent = unquote(exchange.rest)
        if agent not in host_of(requester.runtime).agents or not requester.knows_agent(agent):
            why = f"there is no agent {agent!r:.200}: GET /v1/models lists them"
            raise ApiProblem(why, status=404, code="not_found")
        body = await exchange.body(host_of(requester.runtime).settings.openai.max_body_bytes)
        request = await read_by(RunRequest, body)
        del body
        check_tools(requester, agent, request.client.tools)
        try:
            async with HeldTurn() as held:
                turn = await self._open(held, exchange.head, requester, agent, request)
                request.forget()
                fold = RunFold(
                    request.thread_id,
                    request.run_id,
                    turn.session_id,
                    turn.input_id,
                    turn.client_tools,
                    request.known,
                    request.state,
                )
                headers = _headers(turn, request)
                is_whole = await self._stream(exchange, requester, turn, fold, headers)
                if fold.ended is not None:
                    turn.let_go()
                elif is_whole:  # whoever has all of it may close its connection at once
                    turn.pause()
                    held.give()
                    if calls := fold.client_calls:
                        ids = [each.call_id for each in calls]
                        self._turns.park(turn, requester, ids)
        except RunRefused as refused:
            fold = RunFold(request.thread_id, request.run_id, "", "", ())
            async with exchange.stream() as stream:
                await stream.send(_bytes(fold.begin() + fold.fail(refused.code, str(refused))))

    # ── what a run goes on with ──────────────────────────────────────────────────────────────────

    async def _open(
        self,
        held: HeldTurn,
        head: RequestHead,
        requester: Requester,
        agent: str,
        request: RunRequest,
    ) -> FollowedTurn:
        """Return the turn of a run, entered and held: one that waits for it, or a new one."""
        session_id = await self._threads.find(requester, agent, request.thread_id)
        last, before = None, ""
        if session_id is not None:
            key = run_key(session_id, request.run_id, request.digest)
            if (done := await self._threads.run(requester, key)) is not None:
                return await _entered(held, FollowedTurn(requester, done))
            last = await self._threads.last(requester, session_id)
            before = "" if last is None else last.client.metadata.get(LAST_MESSAGE, "")
        new = request.behind(before)
        if request.resume and last is None:
            raise RunRefused("unknown_interrupt", "this thread has asked nothing")
        if last is not None and (last.is_open or request.resume):
            turn = await self._go_on(held, requester, request, last, new)
            if turn is not None:
                return turn
        if not new.inputs and not (new.results and session_id is not None):
            why = "nothing is asked: the last message is a person's, or the result of a call"
            raise ApiProblem(why, "messages")
        with self._turns.room(requester):
            if session_id is None:
                session_id = await self._threads.begin(
                    requester, agent, request.thread_id, new.given
                )
                new = msgspec.structs.replace(new, results={})  # they are part of what was given
            message = _input(head, requester, session_id, request, new)
            turn = FollowedTurn(requester, message)
            try:
                return await _entered(held, turn)
            except ConflictError as refusal:  # the same run was begun a moment ago
                error = refusal
            key = run_key(session_id, request.run_id, request.digest)
            if (done := await self._threads.run(requester, key)) is None:
                raise error
            return await _entered(held, FollowedTurn(requester, done))

    async def _go_on(
        self,
        held: HeldTurn,
        requester: Requester,
        request: RunRequest,
        last: KnownInput,
        new: NewWords,
    ) -> FollowedTurn | None:
        """Return the last turn of a thread with what it waited for; `None` if it waits for nothing of this.

        Raises:
            RunRefused: It waits for something else.
        """
        fold = await self._stand(requester, last)
        resumed = request.resume
        calls = {each.call_id for each in fold.client_calls}
        results = {name: text for name, text in new.results.items() if name in calls}
        if not resumed:
            if waiting := await open_questions(requester, fold):
                why = f"this thread waits for answers: resume {', '.join(waiting)}"
                raise RunRefused("interrupted", why)
            if fold.ended is not None or (new.inputs and not calls):
                return None  # what is said waits behind the turn
            if missing := calls.difference(results):
                why = f"this thread waits for the results of {', '.join(sorted(missing))}"
                raise RunRefused("tool_results_missing", why)
        answers = [await self._answer_to(requester, fold, each) for each in resumed]
        # Before the session is followed, which loads it: a suspended turn then goes on, and asks again.
        for answer in answers:
            if answer is not None:
                await self._resolve(requester, answer)
        turn = await _entered(held, FollowedTurn(requester, last))
        if results:
            self._turns.come_back(last.session_id)
        if new.inputs and fold.ended is None:
            await _steer(requester, last.session_id, new)
        for call_id, text in results.items():
            host_of(requester.runtime).client_calls.answer(call_id, text)
        return turn

    async def _stand(self, requester: Requester, last: KnownInput) -> RunFold:
        """Return how the turn of an input stands, from the record alone."""
        tools = (each.name for each in last.client.tools)
        fold = RunFold("", "", last.session_id, last.input_id, tools)
        store, seq = requester.runtime.store, last.seq - 1
        while page := await store.events(last.session_id, after_seq=seq, limit=PAGE_EVENTS):
            seq = page[-1].seq
            for stored in page:
                fold.take(stored)
            fold.told()
        return fold

    async def _answer_to(
        self, requester: Requester, fold: RunFold, said: Resume
    ) -> Resolve | AnswerQuestion | None:
        """Return the answer to a question of this turn; `None` when it is answered already.

        Raises:
            RunRefused: There is no such question, it has expired, or this is no answer to it.
            PermissionRefused: The token may not answer it.
        """
        name = said.interrupt_id
        if name not in fold.asked or not await sees_question(requester, fold, name):
            raise RunRefused("unknown_interrupt", f"this thread has not asked {name!r:.100}")
        try:
            if (question := await question_of(requester, fold, name)) is not None:
                return question_answer(said, question)
            row = await approval(requester, name)
            if row is None:
                return None  # a question that was answered, or has ended
            if (refusal := self._refusal(requester, "approval/resolve")) is not None:
                raise PermissionRefused(refusal)
            if row.state == "expired" and said.status == "resolved":
                why = (
                    f"nobody answered {name} in time, and the call was not made: cancel it to go on"
                )
                raise RunRefused("expired_interrupt", why)
            return approval_answer(said) if row.state == "waiting" else None
        except ApiProblem as problem:
            raise RunRefused("invalid_payload", f"{problem.param}: {problem}") from problem

    async def _resolve(self, requester: Requester, answer: Resolve | AnswerQuestion) -> None:
        """Answer a question; somebody else may have been first, which is then what counts."""
        method = "approval/resolve" if isinstance(answer, Resolve) else "question/answer"
        if (refusal := self._refusal(requester, method)) is not None:
            raise PermissionRefused(refusal)
        known = self._table.get(method)
        assert known is not None
        caller = Caller(self._daemon, requester.credential, None, via=VIA)
        for _ in range(ANSWER_TRIES):
            try:
                await known.call(caller, answer)
            except ConflictError:
                pass
            except NotFoundError:  # a turn that goes on just now asks its question again
                await trio.sleep(ANSWER_AGAIN_SECONDS)
                continue
            except ValidationError as error:
                raise RunRefused("invalid_payload", str(error)) from error
            caller.answered()
            return
        raise RunRefused("conflict", "the question can't be answered just now: answer it again")

    def _refusal(self, requester: Requester, method: str) -> str | None:
        known = self._table.get(method)
        assert known is not None
        return known.refusal(requester.credential)

    # ── the events of a run ──────────────────────────────────────────────────────────────────────

    async def _stream(
        self,
        exchange: Exchange,
        requester: Requester,
        turn: FollowedTurn,
        fold: RunFold,
        headers: Headers,
    ) -> bool:
        """Tell a run; return whether all of it was sent."""
        is_over = False
        async with exchange.stream(headers=headers) as stream:
            await stream.send(_bytes(fold.begin()))
            seen: object = None
            while not is_over:
                try:
                    for heard in await turn.next():
                        fold.take(heard)
                    await _count_below(requester, fold)
                    told = fold.told()
                    if fold.ended is not None:
                        told += fold.finish()
                        is_over = True
                    elif turn.is_current and fold.is_blocked:
                        waits = fold.waits_for, fold.client_calls
                        if any(waits) and seen != waits:
                            seen = waits
                            end = await _wait(requester, fold)
                            told += end
                            is_over = bool(end)
                except CallboardError as error:
                    told = fold.fail(error.type, str(error))
                    is_over = True
                comments = b"" if is_over else fold.view.waits(stream)
                await stream.send(_bytes(told) + comments, holds=not is_over)
            return True
        return False


async def _entered(held: HeldTurn, turn: FollowedTurn) -> FollowedTurn:
    await turn.__aenter__()
    held.take(turn)
    return turn


async def _wait(requester: Requester, fold: RunFold) -> list[AgUiEvent]:
    """Return the end of a run that waits for its client; nothing if it waits for others."""
    found = await open_questions(requester, fold)
    interrupts = tuple(
        interrupt_of(name, each, call_id=fold.call_of(name), subagent=fold.subagent)
        for name, each in found.items()
    )
    return fold.wait(interrupts) if interrupts or fold.client_calls else []


async def _count_below(requester: Requester, fold: RunFold) -> None:
    """Count what the calls took that delegated and have ended."""
    store, used = requester.runtime.store, list[AttemptCharged]()
    for call_id in fold.delegated:
        used += await used_below(store, fold.session_id, call_id)
    fold.count_below(used)


async def _steer(requester: Requester, session_id: str, new: NewWords) -> None:
    """Have a turn that goes on read what people say beside their answers."""
    await host_of(requester.runtime).directory.ask(
        SubmitInput(
            session_id=session_id,
            text=new.text,
            attachments=checked_attachments(_files(new)),
            mode=InputMode.STEER,
            via=requester.name,
        )
    )


def _input(
    head: RequestHead, requester: Requester, session_id: str, request: RunRequest, new: NewWords
) -> SubmitInput:
    client = request.client
    return SubmitInput(
        session_id=session_id,
        text=checked_text(late_results(new.results) + new.text),
        attachments=checked_attachments(_files(new)),
        subscription=Subscription(),
        request=run_key(session_id, request.run_id, request.digest),
        is_untrusted=bool(new.results),
        via=requester.name,
        client=ClientContext(client.instructions, client.tools, {LAST_MESSAGE: new.last_id}),
        trace=head.trace,
    )


def _files(new: NewWords) -> tuple[Any, ...]:
    return tuple(file for each in new.inputs for file in each.attachments)


def _headers(turn: FollowedTurn, request: RunRequest) -> Headers:
    ignored = request.ignored
    told = (("x-callboard-ignored", ", ".join(ignored)),) if ignored else ()
    return ((SESSION, turn.session_id), ("x-request-id", turn.input_id), *told)


def _bytes(events: Iterable[AgUiEvent]) -> bytes:
    return b"".join(map(event_of, events))
