"""What a turn is made of: its agent, its models, its tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from ...runtime.definitions import Agent, ToolDefinition
from ...runtime.kernel.delivery import Subscription
from ...runtime.kernel.mailbox import Mailbox
from ...runtime.store.rows import OpenTurn
from ...tools.skills.shelf import skills_prompt
from ..conversation.conversation import Conversation
from ..conversation.turn_options import Given
from ..model.choice import ModelChoice
from ..model.stream import StartModelCall
from ..people.lineage import agent_named, narrowed, under
from ..services import SessionServices
from .model_caller import ModelCaller
from .turn import Turn, TurnHost


def make_turn(
    host: TurnHost,
    services: SessionServices,
    model_stream: Mailbox[StartModelCall],
    input_id: str,
    pacer: Subscription | None,
    suspended: OpenTurn | None,
    given: Given | None,
) -> Turn:
    """A turn for an input, or the one that was suspended; raises `NotFoundError`.

    `given` are the options of an input that is not on record yet.
    """
    conversation = host.conversation
    agent = under(
        narrowed(agent_named(services.agents, conversation.agent), conversation.tools),
        host.lineage,
    )
    agent, model = _tuned(agent, conversation, given or _given(conversation, input_id, suspended))
    choice = _choice(services, model, agent)
    tools = services.tools.definitions(agent.tools, conversation.kind)
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
        tools=tools,
        skills=_skills(services, tools, conversation.workspace),
        channel=services.channels.own(conversation.kind),
        end_children=partial(services.tree.detached.cancel_below, host.session_id),
        dispatcher=services.dispatcher,
        limits=services.limits,
        suspended=suspended,
    )


def _given(conversation: Conversation, input_id: str, suspended: OpenTurn | None) -> Given | None:
    """What the turn was given, by the record."""
    options = conversation.options
    return options.of(input_id) if suspended is None else options.turn


def _tuned(
    agent: Agent, conversation: Conversation, given: Given | None
) -> tuple[Agent, str | None]:
    """The agent of the turn, and the model that was chosen for it or for its session."""
    if given is None:
        return agent, conversation.model
    return given.applied(agent), given.options.model or conversation.model


def _choice(services: SessionServices, model: str | None, agent: Agent) -> ModelChoice:
    models = services.models
    return ModelChoice(
        models.target(model, agent.model),
        [partial(models.fallback, name) for name in agent.fallbacks],
        services.health,
    )


def _skills(
    services: SessionServices, tools: tuple[ToolDefinition, ...], workspace: str
) -> Callable[[], Awaitable[str]] | None:
    """What tells the model of skills, if it has the tool that reads them."""
    if not any(definition.name == "skill" for definition in tools):
        return None
    return partial(skills_prompt, services.skills, workspace)
