"""What a path below `/v1/` means, who may ask it, and every failure as an error of OpenAI's shape."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TypeVar
from urllib.parse import unquote

import msgspec
import trio

from ...embedding.options import check_turn_options
from ...embedding.runtime import host_of
from ...runtime.definitions import Agent
from ...runtime.errors import CallboardError
from ...runtime.turn_options import TurnOptions
from ..connection.caller import Requester
from ..door.exchange import Exchange
from ..door.http import JSON, BadHead, HttpAnswer
from ..http_turns import HttpTurns
from ..shared.state import DaemonState
from .chat import ChatApi
from .problems import ApiProblem, answer_of, no_model, problem_of
from .responses.api import ResponsesApi
from .responses.compaction import CompactionApi
from .responses.token_count import count_tokens

VIA = "openai"

WHAT_THERE_IS = "here are models, chat/completions and responses"
ELSEWHERE = {
    "models": "models are agents, which `callboard agents` or the console changes",
    "chat/completions": "chat completions are not stored; responses are, and can be read again",
    "completions": "use chat/completions",
    "responses": 'a response is read by its id; one that streams is asked for with "stream": true',
}
"""What is said of a path, or of one below it, that other servers of this API answer."""

_ID = re.compile(r"^responses/resp_[0-9A-Za-z_]+")

Body = TypeVar("Body")
Answering = Callable[[Exchange, Requester], Awaitable[HttpAnswer | None]]


class AgentModel(msgspec.Struct):
    """An agent, as a model."""

    id: str
    created: int
    object: str = "model"
    owned_by: str = "callboard"


class AgentModels(msgspec.Struct):
    """All agents that a token sees."""

    data: list[AgentModel]
    object: str = "list"


class OpenAiApi:
    """Answers what stands below `/v1/`.

    Args:
        daemon: What is spoken to.
        turns: Where turns begin.
    """

    def __init__(self, daemon: DaemonState, turns: HttpTurns) -> None:
        self._daemon = daemon
        self._chat = ChatApi(daemon, turns)
        self._responses = ResponsesApi(turns)
        self._compaction = CompactionApi(turns)

    async def answer(self, exchange: Exchange) -> HttpAnswer | None:
        """Answer a request, or refuse it in OpenAI's words."""
        assert exchange.credential is not None  # the route takes a token
        requester = Requester(self._daemon, exchange.credential, VIA)
        try:
            return await self._find(exchange)(exchange, requester)
        except ApiProblem as problem:
            return answer_of(problem)
        except (BadHead, CallboardError) as error:
            return answer_of(problem_of(error))

    def _find(self, exchange: Exchange) -> Answering:
        """Return what answers a path by this method; raise `ApiProblem`."""
        method, path = exchange.head.method, exchange.rest
        first = path.partition("/")[0]
        known: dict[str, dict[str, Answering]] = {
            "models": {"GET": self._models},
            "chat/completions": {"POST": self._chat.answer},
            "responses": {"POST": self._responses.create},
            "responses/compact": {"POST": self._compaction.answer},
            "responses/input_tokens": {"POST": count_tokens},
            "responses/ID": {"GET": self._responses.one, "DELETE": self._responses.delete},
            "responses/ID/input_items": {"GET": self._responses.input_items},
            "responses/ID/cancel": {"POST": self._responses.cancel},
        }
        answers = known.get("models" if first == "models" else _ID.sub("responses/ID", path))
        if answers is None:
            why = ELSEWHERE.get(path.rpartition("/")[0] or path, WHAT_THERE_IS)
            raise ApiProblem(f"there is nothing at /v1/{path}: {why}", status=404, code="not_found")
        if method not in answers:
            allowed = " or ".join(answers)
            why = ELSEWHERE.get(first if first == "models" else path, "")
            raise ApiProblem(
                f"only {allowed} is answered at /v1/{path}" + (f": {why}" if why else ""),
                status=405,
                code="method_not_allowed",
                headers=(("allow", ", ".join(answers)),),
            )
        return answers[method]

    async def _models(self, exchange: Exchange, requester: Requester) -> HttpAnswer:
        await trio.lowlevel.checkpoint()
        agents = host_of(requester.runtime).agents
        seen = [_model(each) for each in agents.values() if requester.knows_agent(each.name)]
        wanted = unquote(exchange.rest.partition("/")[2])
        if not wanted:
            return HttpAnswer(200, msgspec.json.encode(AgentModels(seen)), JSON)
        name, _, its_model = wanted.partition(":")
        for model in seen:
            if model.id == name:
                if its_model:
                    check_turn_options(host_of(requester.runtime), TurnOptions(model=its_model))
                    model.id = wanted
                return HttpAnswer(200, msgspec.json.encode(model), JSON)
        raise no_model(wanted)


def _model(agent: Agent) -> AgentModel:
    return AgentModel(agent.name, (agent.created_at_ms or 0) // 1000)
