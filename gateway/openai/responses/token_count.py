"""`POST /v1/responses/input_tokens`: about how many tokens a model would read, without asking one."""

from __future__ import annotations

import msgspec

from ....actors.model.answer import request_tokens
from ....actors.turn.setup import CLIENT_HEADING, told
from ....embedding.runtime import host_of
from ....providers.provider import ModelRequest
from ....runtime.definitions import SessionKind
from ....runtime.history import Item, rounds_of
from ....runtime.wire.fields import Role
from ....tools.client_tool import definition_of
from ...connection.caller import Requester
from ...door.exchange import Exchange
from ...door.http import JSON, HttpAnswer
from ..asked import agent_of, check_tools
from ..content import decoded, read_by
from .compaction import history_of
from .items import TokenCountBody
from .request import CountRequest, SaidItems, conversation_of


async def count_tokens(exchange: Exchange, requester: Requester) -> HttpAnswer:
    """Answer with what the agent's prompt, tools and history, and the request itself, come to.

    It is what a turn reckons with before a model has counted: nothing is begun, and no model is asked.
    """
    requester.check_role(Role.OPERATOR)
    host = host_of(requester.runtime)
    body = await exchange.body(host.settings.openai.max_body_bytes)
    request, said = await read_by(_read, body)
    del body
    name, _ = agent_of(requester, request.model)
    tools = request.client_tools
    check_tools(requester, name, tools)
    before: list[Item] = []
    if request.previous_response_id:
        before = await history_of(requester, request.previous_response_id)
    prompt = (await requester.runtime.agents.preview(name)).text
    if instructions := [*filter(None, (request.instructions, *said.instructions))]:
        prompt = told(prompt, f"{CLIENT_HEADING}\n" + "\n\n".join(instructions))
    own = host.plan.registry.definitions(host.agents[name].tools, SessionKind.MAIN)
    count = request_tokens(
        ModelRequest(
            model="",
            system=prompt,
            rounds=rounds_of([*before, *said.items]),
            tools=(*own, *map(definition_of, tools)),
        )
    )
    return HttpAnswer(200, msgspec.json.encode(TokenCountBody(count)), JSON)


def _read(body: bytes) -> tuple[CountRequest, SaidItems]:
    """Return what a body asks for; raise `ApiProblem`."""
    request = decoded(body, CountRequest)
    said = conversation_of(request.input)
    request.input = None  # it refers to the body
    return request, said
