"""What a turn is made of: its agent, its models, its tools."""

from __future__ import annotations

from functools import partial

from ..runtime.mailbox import Mailbox
from ..runtime.store import OpenTurn
from ..runtime.subscription import Subscription
from .lineage import agent_named, narrowed, under
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
    agent = under(
        narrowed(agent_named(services.agents, conversation.agent), conversation.tools),
        host.lineage,
    )
    choice = ModelChoice(
        services.models.target(conversation.model, agent.model),
        [partial(services.models.fallback, name) for name in agent.fallbacks],
        services.health,
    )
    return Turn(
        host,
        input_id,
        agent=agent,
        budgets=services.budgets,
        caller=lambda turn_id, budget: ModelCaller(
            host,
            turn_id,
            choice=choice,
            mailbox=model_stream,
            pacer=pacer,
            limits=services.limits,
            health=services.health,
            budget=budget,
        ),
        tools=services.tools.definitions(agent.tools, conversation.kind),
        channel=services.channels.own(conversation.kind),
        end_children=partial(services.tree.cancel_detached, host.session_id),
        dispatcher=services.dispatcher,
        limits=services.limits,
        suspended=suspended,
    )
