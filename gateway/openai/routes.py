"""The route of `/v1/`; all behind it is imported with the first request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..door.exchange import Exchange, Route
from ..door.http import BadHead, HttpAnswer
from ..http_turns import HttpTurns
from ..shared.state import DaemonState

if TYPE_CHECKING:
    from .api import OpenAiApi

PATH = "/v1/"


def openai_routes(daemon: DaemonState, turns: HttpTurns) -> dict[str, Route]:
    """Return the routes by path."""
    made: list[OpenAiApi] = []

    async def answer(exchange: Exchange) -> HttpAnswer | None:
        if not made:
            from .api import OpenAiApi  # here: most daemons are never asked

            made.append(OpenAiApi(daemon, turns))
        return await made[0].answer(exchange)

    return {PATH: Route(answer=answer, methods=("GET", "POST", "DELETE"), refuse=_refused)}


def _refused(error: BadHead) -> HttpAnswer:
    from .problems import answer_of, problem_of

    return answer_of(problem_of(error))
