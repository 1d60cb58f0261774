"""The route of `/v1/`; all behind it is imported with the first request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import trio

from ...runtime.kernel.late_import import import_late
from ..door.exchange import Exchange, Route
from ..door.http import BadHead, HttpAnswer
from ..http_turns import HttpTurns
from ..shared.state import DaemonState

PATH = "/v1/"


def openai_routes(daemon: DaemonState, turns: HttpTurns) -> dict[str, Route]:
    """Return the routes by path."""

    def make() -> Api:
        from .api import OpenAiApi

        return OpenAiApi(daemon, turns)

    return {PATH: late_route(make, ("GET", "POST", "DELETE"))}


class Api(Protocol):
    """What answers below a path."""

    async def answer(self, exchange: Exchange) -> HttpAnswer | None:
        """Answer a request, or refuse it in OpenAI's words."""
        ...


def late_route(make: Callable[[], Api], methods: tuple[str, ...]) -> Route:
    """Return the route of what is made, and imported, with its first request: most daemons are never asked.

    It is imported in a thread, so that turns go on meanwhile. What the door refuses is told in OpenAI's words.
    """
    made: list[Api] = []
    making = trio.Lock()

    async def answer(exchange: Exchange) -> HttpAnswer | None:
        async with making:
            if not made:
                made.append(await import_late(make))
        return await made[0].answer(exchange)

    return Route(answer=answer, methods=methods, refuse=_refused)


def _refused(error: BadHead) -> HttpAnswer:
    from .problems import answer_of, problem_of

    return answer_of(problem_of(error))
