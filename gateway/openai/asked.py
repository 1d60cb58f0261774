"""What a request asks for, whichever of the two it is, and the turn that it begins or goes on with."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Self

import msgspec
import trio

from ...embedding.options import check_turn_options
from ...embedding.runtime import host_of
from ...embedding.turn import TurnEvent, checked_text
from ...runtime.approval import ApprovalAnswer
from ...runtime.budget import Budget
from ...runtime.definitions import Attachment, InputMode, SessionKind
from ...runtime.errors import ConflictError
from ...runtime.events import InputAccepted
from ...runtime.history import Item
from ...runtime.identity import MAX_KEY_LENGTH, RequestKey
from ...runtime.kernel.delivery import Subscription
from ...runtime.messages import SubmitInput
from ...runtime.turn_options import ClientContext, GivenTool, TurnOptions
from ...tools.tool import checked_name
from ..connection.caller import Requester
from ..door.exchange import Exchange
from ..door.http import RequestHead
from ..http_turns import HeldTurn, HttpTurn, HttpTurns
from ..recorded_turn import RecordedTurn
from ..shared.idempotency import MAX_ANSWERS, check_digest
from .content import read_by
from .problems import ApiProblem, no_model
from .turn_view import AnswerParts, TurnView

SESSION = "x-callboard-session"
"""The header that names a session."""
REPLAYED = (("idempotent-replayed", "true"),)
"""Said of an answer that a request with the same key began."""
GO_ON = "(Go on with these results.)"
"""The text of an input that brings results alone, of which nobody here knows the calls."""


class WantedTurn(msgspec.Struct, frozen=True, kw_only=True):
    """What a request asks for.

    Attributes:
        model: The agent, and the model that it is to ask.
        options: Of its turn, without that model.
        given: What was said before, for a session of its own.
        text, attachments: What is new.
        results: Of calls of the client's tools.
        client: What the client gives the turn beside that.
        session_id: The session that it goes on in; empty for one of its own.
        budget: What the turn may use.
        is_alone: Whether a session of its own is deleted when the turn is over.
        is_private: Whether it is then removed for good.
        approvals: Answers to questions about calls, by their ids.
    """

    model: str
    options: TurnOptions
    given: tuple[Item, ...]
    text: str
    attachments: tuple[Attachment, ...]
    results: Mapping[str, str]
    client: ClientContext
    session_id: str = ""
    budget: Budget | None = None
    is_alone: bool = False
    is_private: bool = False
    approvals: Mapping[str, ApprovalAnswer] = msgspec.field(default_factory=dict)


class Begun(msgspec.Struct, frozen=True):
    """The answer that a request with a key began: which one of which turn."""

    digest: str
    session_id: str
    input_id: str
    part: int = 0


class TurnOpener:
    """Begins the turns of requests.

    Args:
        turns: Where they begin.
    """

    def __init__(self, turns: HttpTurns) -> None:
        self._turns = turns
        self._begun: OrderedDict[tuple[str, str, str], Begun] = OrderedDict()

    async def open(
        self,
        held: HeldTurn,
        head: RequestHead,
        requester: Requester,
        asked: WantedTurn,
        key: RequestKey | None = None,
    ) -> HttpTurn | Begun:
        """Return the turn of a request, entered and held: the one that waits for it, or a new one.

        Of a request with a key that came before, it says which answer that began.

        Raises:
            ApiProblem: There is no such model, a tool of the client has the name of another, or the key was used
                for another request.
            CallboardError: It can't begin.
        """
        if key is None:
            return await self._open(held, head, requester, asked, None)
        place = (key.sender, key.method, key.key)

        async def begin() -> HttpTurn:
            turn = await self._open(held, head, requester, asked, key)
            self._begun[place] = Begun(key.digest, turn.session_id, turn.input_id, turn.answers)
            if len(self._begun) > MAX_ANSWERS:
                self._begun.popitem(last=False)
            return turn

        async def recall() -> Begun | None:
            begun = self._begun.get(place) or await _recorded(requester, key)
            if begun is not None:
                check_digest(key, begun.digest)
            return begun

        try:
            opened: HttpTurn | Begun = await requester.daemon.idempotency.once(key, begin, recall)
        except ConflictError as error:
            if error.kind != "key":
                raise
            raise ApiProblem(str(error), status=422, code="idempotency_key_reused") from error
        return opened

    async def _open(
        self,
        held: HeldTurn,
        head: RequestHead,
        requester: Requester,
        asked: WantedTurn,
        key: RequestKey | None,
    ) -> HttpTurn:
        agent, options = self._checked(requester, asked)
        brought = {*asked.results, *asked.approvals}
        if (parked := self._turns.take(requester, brought)) is not None:
            kept = parked.turn
            assert isinstance(kept, HttpTurn)  # or it is not taken so
            held.take(kept)
            for approval_id in parked.calls & asked.approvals.keys():
                await _resolve(requester, approval_id, asked.approvals[approval_id])
            if asked.text:
                await _steer(requester, kept, asked)
            self._turns.answer(parked, asked.results)
            return kept
        if asked.approvals:
            why = "no answer waits for this: look at the response, or at `callboard approvals`"
            raise ApiProblem(why, "input", status=404, code="not_found")
        text = checked_text(_late_results(asked) + asked.text or GO_ON)
        with self._turns.room(requester):
            session_id = asked.session_id
            if session_id:
                row = await self._turns.brought_back(requester, session_id)
                if left := self._turns.waits_for(session_id):
                    why = f"this session waits for the results of {', '.join(sorted(left))}"
                    raise ApiProblem(why, "input")
                if row.agent != agent:
                    why = f"the session {session_id} has the agent {row.agent}: name that"
                    raise ApiProblem(why, "model", status=409, code="conflict")
            else:
                session = await self._turns.begin_session(requester, agent, given=asked.given)
                session_id = session.session_id
            message = SubmitInput(
                session_id=session_id,
                text=text,
                attachments=asked.attachments,
                budget=asked.budget,
                subscription=Subscription(),
                request=key,
                options=None if options == TurnOptions() else options,
                is_untrusted=bool(asked.session_id and asked.results),
                via=requester.name,
                client=None if asked.client == ClientContext() else asked.client,
                trace=head.trace,
            )
            turn = self._turns.turn(message)
            turn.is_private = asked.is_private
            turn.is_alone = not asked.session_id
            try:
                await turn.__aenter__()
            except BaseException:
                await turn.put_away()  # noqa: ASYNC102, ASYNC120  bounded inside; its session is of no use
                raise
            held.take(turn)
            turn.is_alone = turn.is_alone and asked.is_alone
            return turn

    def _checked(self, requester: Requester, asked: WantedTurn) -> tuple[str, TurnOptions]:
        host = host_of(requester.runtime)
        agent, model = agent_of(requester, asked.model)
        options = msgspec.structs.replace(asked.options, model=model)
        check_turn_options(host, options)
        check_tools(requester, agent, asked.client.tools)
        return agent, options


def check_tools(requester: Requester, agent: str, tools: Iterable[GivenTool]) -> None:
    """Raise `ApiProblem` if a tool of the client has the name of another, `ValidationError` if it can't be one."""
    host = host_of(requester.runtime)
    own = host.plan.registry.definitions(host.agents[agent].tools, SessionKind.MAIN)
    taken = {each.name for each in own}
    for number, tool in enumerate(tools):
        if tool.name in taken:
            why = f"there is a tool {tool.name!r} already: call yours otherwise"
            raise ApiProblem(why, f"tools[{number}]")
        taken.add(checked_name(tool.name))


class TurnAgain:
    """One answer of a turn that is on record, for a request that came before; enter it.

    Attributes:
        input_id: Its input.
        client_tools: The names of the tools that its client runs.
    """

    def __init__(self, requester: Requester, begun: Begun) -> None:
        self._turn = RecordedTurn(requester, begun.session_id, begun.input_id)
        self._part = begun.part
        self.input_id = begun.input_id
        self._parts = AnswerParts(requester.via)
        self.client_tools: tuple[str, ...] = ()

    async def __aenter__(self) -> Self:
        await self._turn.__aenter__()
        self.client_tools = tuple(each.name for each in self._turn.client.tools)
        self._view = TurnView(self.client_tools)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._turn.close()

    async def next_events(self) -> list[TurnEvent]:
        """Wait for events of the answer; the first are all that are on record, and there are none behind its end."""
        found: list[TurnEvent] = []
        is_first = not self._turn.is_at_head
        while self._parts.number <= self._part and (events := await self._turn.read()) is not None:
            for event in events:
                self._parts.begins(self._view, event)
                self._view.take(event)
                if self._parts.number == self._part:
                    found.append(event)
            if self._turn.is_at_head and (found or not is_first):
                break
        return found

    async def put_away(self) -> None:
        """Do nothing: whoever began the turn does it."""
        await trio.lowlevel.checkpoint()


async def key_of(exchange: Exchange, requester: Requester, body: bytes) -> RequestKey | None:
    """Return the idempotency key of a request; raise `ApiProblem` for one that can't be."""
    keys = exchange.head.all("idempotency-key")
    if not keys:
        return None
    key, *others = keys
    if others or not 1 <= len(key) <= MAX_KEY_LENGTH or not key.isprintable():
        why = f"an Idempotency-Key has 1 to {MAX_KEY_LENGTH} printable characters, and comes once"
        raise ApiProblem(why, code="idempotency_key_invalid")
    session = exchange.head.one(SESSION) or ""
    digest = await read_by(lambda body: hashlib.sha256(session.encode() + b"\n" + body), body)
    return RequestKey(requester.sender, f"POST {exchange.rest}", key, digest.hexdigest())


async def _recorded(requester: Requester, key: RequestKey) -> Begun | None:
    """Return what a key began, as far as that is on record."""
    store = requester.runtime.store
    if (done := await store.request(key)) is None:
        return None
    (stored,) = await store.events(done.session_id, after_seq=done.seq - 1, limit=1)
    assert isinstance(stored.event, InputAccepted)
    return Begun(done.digest, done.session_id, stored.event.input_id)


async def _resolve(requester: Requester, approval_id: str, answer: ApprovalAnswer) -> None:
    """Answer a question about a call; somebody else may have been first, which is then what counts."""
    with suppress(ConflictError):
        await requester.runtime.answer(approval_id, answer)


def _late_results(asked: WantedTurn) -> str:
    if not asked.session_id:
        return ""  # they are part of what was given
    return late_results(asked.results)


def late_results(results: Mapping[str, str]) -> str:
    """Return results of calls that nobody waits for any more, as the model reads them."""
    return "".join(f"The result of {name}: {text}\n\n" for name, text in results.items())


async def _steer(requester: Requester, turn: HttpTurn, asked: WantedTurn) -> None:
    """Have a turn that goes on read what the client says beside the results."""
    await host_of(requester.runtime).directory.ask(
        SubmitInput(
            session_id=turn.session_id,
            text=asked.text,
            attachments=asked.attachments,
            mode=InputMode.STEER,
            via=requester.name,
        )
    )


def agent_of(requester: Requester, model: str) -> tuple[str, str | None]:
    """Return the agent that a model is, and the model that it is to ask; raise `ApiProblem`."""
    name, _, wanted = model.partition(":")
    if name not in host_of(requester.runtime).agents or not requester.knows_agent(name):
        raise no_model(model)
    return name, wanted or None
