"""The route of `/ag-ui/`; all behind it is imported with the first request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..connection.method_table import MethodTable
from ..door.exchange import Exchange, Route
from ..door.http import BadHead, HttpAnswer
from ..http_turns import HttpTurns
from ..shared.state import DaemonState

if TYPE_CHECKING:
    from .api import AgUiApi

PATH = "/ag-ui/"


def agui_routes(daemon: DaemonState, table: MethodTable, turns: HttpTurns) -> dict[str, Route]:
    """Return the routes by path."""
    made: list[AgUiApi] = []

    async def answer(exchange: Exchange) -> HttpAnswer | None:
        if not made:
            from .api import AgUiApi  # here: most daemons are never asked

            made.append(AgUiApi(daemon, table, turns))
        return await made[0].answer(exchange)

    return {PATH: Route(answer=answer, methods=("POST",), refuse=_refused)}


def _refused(error: BadHead) -> HttpAnswer:
    from ..openai.problems import answer_of, problem_of

    return answer_of(problem_of(error))
