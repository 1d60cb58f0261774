"""`session/retry` and `session/regenerate`: the last turn of a session once more."""

from __future__ import annotations

from ..embedded import directory_of
from ..runtime.errors import OverloadedError
from ..runtime.messages import RerunTurn
from ..runtime.turn_events import RerunWay
from ..runtime.wire.roles import Role
from ..runtime.wire.sessions import RunAgain, Ticket
from .caller import Caller
from .methods import MethodTable
from .session_methods import prompted

methods = MethodTable()


@methods.add("session/retry", Role.OPERATOR, recall=prompted)
async def retry(caller: Caller, params: RunAgain) -> Ticket:
    """Runs the last turn again, which was not answered; on record when this answers."""
    return await _again(caller, params, "retry")


@methods.add("session/regenerate", Role.OPERATOR, recall=prompted)
async def regenerate(caller: Caller, params: RunAgain) -> Ticket:
    """Sets the last answer aside and asks for another; on record when this answers."""
    return await _again(caller, params, "regenerate")


async def _again(caller: Caller, params: RunAgain, why: RerunWay) -> Ticket:
    if caller.daemon.is_stopping:
        raise OverloadedError(
            "the daemon is stopping: nothing new begins. Ask again when it is back.",
            kind="stopping",
        )
    await caller.session(params.session_id)
    ticket = await directory_of(caller.runtime).ask(
        RerunTurn(
            session_id=params.session_id,
            why=why,
            message_id=params.message_id,
            request=caller.request,
        )
    )
    return Ticket(ticket.input_id, ticket.seq, ticket.turn_id)
