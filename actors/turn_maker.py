"""What a turn is made of: its agent, its models, its tools."""

from __future__ import annotations

from functools import partial

from ..runtime.errors import NotFoundError
from ..runtime.mailbox import Mailbox
from ..runtime.store import OpenTurn
from ..runtime.subscription import Subscription
from .model_caller import ModelCaller
from .model_choice import ModelChoice
from .model_stream import StartModelCall
from .session_services import SessionServices
from .turn import Turn, TurnHost


def make_turn(
    host: TurnHost,
    services: SessionServices,
    model_stream: Mailbox[StartModelCall],
    input_id: str,
    pacer: Subscription | None,
    suspended: OpenTurn | None,
) -> Turn:
    """A turn for an input, or the one that was suspended; raises `NotFoundError`."""
    conversation = host.conversation
    agent = services.agents.get(conversation.agent)
    if agent is None:
        known = ", ".join(sorted(services.agents))
        raise NotFoundError(f"there is no agent {conversation.agent!r}; there are: {known}")
    models = services.models
    choice = ModelChoice(
        models.target(conversation.model, agent.model),
        [partial(models.fallback, name) for name in agent.fallbacks],
        services.health,
    )
    return Turn(
        host,
        input_id,
        agent=agent,
        caller=lambda turn_id: ModelCaller(
            host,
            turn_id,
            choice=choice,
            mailbox=model_stream,
            pacer=pacer,
            limits=services.limits,
            health=services.health,
        ),
        tools=services.tools.definitions(agent.tools, conversation.kind),
        dispatcher=services.dispatcher,
        limits=services.limits,
        suspended=suspended,
    )
