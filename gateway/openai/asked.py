"""What a request asks for, whichever of the two it is, and the turn that it begins or goes on with."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress

import msgspec

from ...embedding.options import check_turn_options
from ...embedding.runtime import host_of
from ...embedding.turn import checked_text
from ...runtime.approval import ApprovalAnswer
from ...runtime.budget import Budget
from ...runtime.definitions import Attachment, InputMode, SessionKind
from ...runtime.errors import ConflictError
from ...runtime.history import Item
from ...runtime.kernel.delivery import Subscription
from ...runtime.messages import SubmitInput
from ...runtime.turn_options import ClientContext, TurnOptions
from ...tools.tool import checked_name
from ..connection.caller import Requester
from ..door.http import RequestHead
from ..http_turns import HttpTurn, HttpTurns, trace_of
from .problems import ApiProblem, no_model

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
    approvals: Mapping[str, ApprovalAnswer] = msgspec.field(default_factory=dict)


class TurnOpener:
    """Begins the turns of requests.

    Args:
        turns: Where they begin.
    """

    def __init__(self, turns: HttpTurns) -> None:
        self._turns = turns

    async def open(
        self, stack: AsyncExitStack, head: RequestHead, requester: Requester, asked: WantedTurn
    ) -> HttpTurn:
        """Return the turn of a request, entered on the stack: the one that waits for it, or a new one.

        Raises:
            ApiProblem: There is no such model, or a tool of the client has the name of another.
            CallboardError: It can't begin.
        """
        agent, options = self._checked(requester, asked)
        brought = {*asked.results, *asked.approvals}
        if (parked := self._turns.take(requester, brought)) is not None:
            turn = parked.turn
            stack.push_async_exit(turn)
            for approval_id in parked.calls & asked.approvals.keys():
                await _resolve(requester, approval_id, asked.approvals[approval_id])
            if asked.text:
                await _steer(requester, turn, asked)
            self._turns.answer(parked, asked.results)
            return turn
        if asked.approvals:
            why = "no answer waits for this: look at the response, or at `callboard approvals`"
            raise ApiProblem(why, "input", status=404, code="not_found")
        if asked.session_id and (left := self._turns.waits_for(asked.session_id)):
            why = f"this session waits for the results of {', '.join(sorted(left))}"
            raise ApiProblem(why, "input")
        with self._turns.room():
            session_id = asked.session_id
            if session_id:
                row = await self._turns.brought_back(requester, session_id)
                if row.agent != agent:
                    why = f"the session {session_id} has the agent {row.agent}: name that"
                    raise ApiProblem(why, "model", status=409, code="conflict")
            else:
                session = await self._turns.begin_session(requester, agent, given=asked.given)
                session_id = session.session_id
            message = SubmitInput(
                session_id=session_id,
                text=checked_text(_late_results(asked) + asked.text or GO_ON),
                attachments=asked.attachments,
                budget=asked.budget,
                subscription=Subscription(),
                options=None if options == TurnOptions() else options,
                is_untrusted=bool(asked.session_id and asked.results),
                via=requester.name,
                client=None if asked.client == ClientContext() else asked.client,
                trace=trace_of(head),
            )
            turn = await stack.enter_async_context(self._turns.turn(message))
            turn.is_alone = asked.is_alone and not asked.session_id
            return turn

    def _checked(self, requester: Requester, asked: WantedTurn) -> tuple[str, TurnOptions]:
        host = host_of(requester.runtime)
        agent, model = agent_of(requester, asked.model)
        options = msgspec.structs.replace(asked.options, model=model)
        check_turn_options(host, options)
        own = host.plan.registry.definitions(host.agents[agent].tools, SessionKind.MAIN)
        taken = {each.name for each in own}
        for number, tool in enumerate(asked.client.tools):
            if tool.name in taken:
                why = f"there is a tool {tool.name!r} already: call yours otherwise"
                raise ApiProblem(why, f"tools[{number}]")
            taken.add(checked_name(tool.name))
        return agent, options


async def _resolve(requester: Requester, approval_id: str, answer: ApprovalAnswer) -> None:
    """Answer a question about a call; somebody else may have been first, which is then what counts."""
    with suppress(ConflictError):
        await requester.runtime.answer(approval_id, answer)


def _late_results(asked: WantedTurn) -> str:
    """Return results of calls that nobody waits for any more, as the model reads them."""
    if not asked.session_id:
        return ""  # they are part of what was given
    return "".join(f"The result of {name}: {text}\n\n" for name, text in asked.results.items())


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
