"""What a turn runs with: its agent, models, tools, and the way to the other actors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

import msgspec

from ...config.settings import Limits
from ...providers.provider import ModelRequest, ModelTarget, ToolChoice
from ...runtime.definitions import Agent, Preset, ToolDefinition
from ...runtime.events import DurableEvent, LiveEvent
from ...runtime.kernel.delivery import AnswerReader, Hold, Subscription
from ...runtime.kernel.mailbox import Mailbox
from ...runtime.messages import Ancestor, DispatcherMessage
from ...runtime.store.rows import OpenTurn
from ...runtime.turn_options import ANY_TOOL, TurnOptions, no_laxer
from ...tools.skills.shelf import workspace_prompt
from ..budget.budgets import BudgetBook
from ..conversation.conversation import Conversation
from ..conversation.inputs import InputOptions
from ..model.choice import ModelChoice, ProviderHealth
from ..model.stream import StartModelCall
from ..people.lineage import agent_named, narrowed, under
from ..services import SessionServices

if TYPE_CHECKING:
    from ...runtime.telemetry.context import Tracing, TurnTrace

_NO_OPTIONS = TurnOptions()

CLIENT_HEADING = "The program that sends this conversation says:"


class TurnHost(Protocol):
    """Whose turn it is: a session, or the replay of one."""

    hold: Hold
    session_id: str
    conversation: Conversation
    lineage: tuple[Ancestor, ...]

    async def append(self, *events: DurableEvent) -> object:
        """Store events and fold what was committed; raises `StorageError`."""
        ...

    async def append_end(self, *events: DurableEvent) -> object:
        """Store the end of a turn, after ending what ends with it."""
        ...

    async def left_open(self) -> OpenTurn | None:
        """Return the turn that has no end on record, once all pending events are stored."""
        ...

    async def deliver_steering(self, turn_id: str) -> None:
        """Make inputs that steer the turn part of it, on record; raises `StorageError`."""
        ...

    def fold_committed(self) -> None:
        """Fold what the dispatcher and the broker had committed; never blocks."""
        ...

    async def recover(self) -> bool:
        """Go back to what is on record, if that lacks what the turn went ahead with; say whether."""
        ...

    def publish(self, update: LiveEvent) -> None:
        """Pass a live event to everybody who listens."""
        ...


class TurnSetup(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a turn runs with.

    Attributes:
        agent: The agent, within what the sessions above allow, with the turn's options.
        choice: The models that it may ask.
        model_stream: The session's model stream.
        dispatcher: The tool dispatcher.
        budgets: Where its use is counted.
        health: The failures of providers, by all sessions.
        limits: Bounds and deadlines.
        pacer: The consumer that may hold the reading up, if there is one.
        tools: What the model may ask for.
        client_tools: Those of them that the program which sent the input runs itself.
        must_call: The one of these that the first answer calls, `*` for any; empty when the model decides.
        workspace_prompt: Returns what the model is told of skills, and by each AGENTS.md.
        channel: Where the session's own people are, if they may be asked.
        lineage: The sessions above, with their people, if those may be asked.
        command: The command of whose input the turn came, if that gave options here.
        kept: The preset that the turn keeps though its agent asks less by now; what it delegates has it, too.
        end_children: Cancels what the turn has delegated.
        gone: Background processes of the session that ended with an earlier process.
        answer_schema: The text of the form of the final answer, if one is given.
        answer_type: Reads that form for whoever waits for the answer; without, the schema alone counts.
        timeout_seconds: How long whoever asked gives the turn.
        tracing: Says where the turn stands in a trace; `None` without telemetry.
        silent_window: Returns the window to which the server of a model cuts off requests without a word, if it is one.
    """

    agent: Agent
    choice: ModelChoice
    model_stream: Mailbox[StartModelCall]
    dispatcher: Mailbox[DispatcherMessage]
    budgets: BudgetBook
    health: ProviderHealth
    limits: Limits
    pacer: Subscription | None = None
    tools: tuple[ToolDefinition, ...] = ()
    client_tools: tuple[ToolDefinition, ...] = ()
    must_call: str = ""
    workspace_prompt: Callable[[], Awaitable[str]] | None = None
    channel: str | None = None
    lineage: tuple[Ancestor, ...] = ()
    command: str = ""
    kept: Preset | None = None
    end_children: Callable[[str, str], Awaitable[None]] | None = None
    gone: tuple[str, ...] = ()
    answer_schema: str | None = None
    answer_type: AnswerReader | None = None
    timeout_seconds: float | None = None
    silent_window: Callable[[ModelTarget], Awaitable[int | None]] | None = None
    tracing: Tracing | None = None

    def with_call(self, request: ModelRequest, conversation: Conversation) -> ModelRequest:
        """Return the request with what its answer must call: the first one of the turn a tool of the client."""
        if not self.must_call or conversation.last_turn.messages:
            return request
        if self.must_call != ANY_TOOL:
            return msgspec.structs.replace(request, forced_tool=self.must_call)
        # Else it would be free to call one of the agent's tools instead.
        return msgspec.structs.replace(
            request, tools=self.client_tools, tool_choice=ToolChoice.REQUIRED
        )

    def trace_of(self, host: TurnHost, turn_id: str) -> TurnTrace | None:
        """Return where the turn stands in a trace; `None` without telemetry."""
        if self.tracing is None:
            return None
        return self.tracing.of_turn(host.conversation.options.trace, host.session_id, turn_id)

    def options_below(self, options: InputOptions | None) -> TurnOptions | None:
        """Return what the turn's sessions below have of its options, and the preset that it keeps."""
        inherited = None if options is None else options.options.inherited
        if self.kept is not None:
            inherited = TurnOptions(policy=self.kept).over(inherited or _NO_OPTIONS)
        return None if inherited == _NO_OPTIONS else inherited


def setup_turn(
    host: TurnHost,
    services: SessionServices,
    model_stream: Mailbox[StartModelCall],
    pacer: Subscription | None,
    options: InputOptions | None,
    origins: tuple[str, ...] = (),
    *,
    goes_on: bool = False,
) -> TurnSetup:
    """Return what the next turn of a session runs with; raises `NotFoundError`.

    What is given for the turn goes before what its session has, and that before its agent's own; `origins` are the
    inputs that the turn comes of, which may be a command's. A turn that goes on, or runs again, has what is given by now before what it began
    with, and keeps the preset that it began under, unless another is given or the agent's asks more by now.
    """
    conversation = host.conversation
    agent = under(
        narrowed(agent_named(services.agents, conversation.agent), conversation.tools),
        host.lineage,
    )
    model = conversation.model
    command = services.given.of_turn(host.session_id, origins)
    by = services.given.by(command)
    if by is not None:
        given = by.options.inherited if host.lineage else by.options
        lasting = InputOptions(given, conversation.agent if by.may_widen else "")
        if options is None:
            options = lasting
        else:
            is_later = goes_on or options.began_under is not None
            # On record without the right to a laxer preset, which the command gives here.
            is_later = is_later or options.options.policy == given.policy
            options = lasting.over(options) if is_later else options.over(lasting)
    wanted = _NO_OPTIONS if options is None else options.options
    if options is not None:
        agent, model = options.applied(agent), wanted.model or model
        agent = _instructed(agent, options.client.instructions)
    is_policy_given = services.is_policy_given or (by is not None and by.is_policy_given)
    kept = None
    if not is_policy_given:
        stricter = no_laxer(agent, conversation.turn_policy) if goes_on else agent
        stricter = no_laxer(stricter, None if options is None else options.began_under)
        kept = None if stricter is agent else stricter.policy
        agent = stricter
    choice = ModelChoice(
        services.models.target(model, agent.model),
        [partial(services.models.fallback, name) for name in agent.fallbacks],
        services.health,
    )
    tools = services.tools.of(host.session_id).definitions(agent.tools, conversation.kind)
    client_tools = _client_tools(options, tools)
    if said := services.tools.instructions_for(tools):
        agent = msgspec.structs.replace(agent, prompt=told(agent.prompt, said))
    channel, lineage = services.channels.own(conversation.kind, command), host.lineage
    if command:
        lineage = tuple(
            msgspec.structs.replace(each, channel=services.channels.own(each.kind, command))
            for each in lineage
        )
    if wanted.unattended is not None:
        channel, lineage = None, tuple(map(_without_people, lineage))
    return TurnSetup(
        agent=agent,
        choice=choice,
        model_stream=model_stream,
        dispatcher=services.dispatcher,
        budgets=services.budgets,
        health=services.health,
        limits=services.limits,
        pacer=pacer,
        tools=(*tools, *client_tools) if client_tools else tools,
        client_tools=client_tools,
        must_call=options.client.must_call if options is not None and client_tools else "",
        workspace_prompt=partial(
            workspace_prompt,
            services.skills,
            conversation.workspace,
            agent.skills,
            reads_skills=any(definition.name == "skill" for definition in tools),
        ),
        channel=channel,
        lineage=lineage,
        command=command,
        kept=kept,
        end_children=partial(services.tree.detached.cancel_below, host.session_id),
        gone=tuple(
            each
            for each in conversation.background
            if not services.programs.knows(host.session_id, each)
        ),
        answer_schema=wanted.answer_schema,
        answer_type=None if pacer is None else pacer.answer_type,
        timeout_seconds=wanted.timeout_seconds,
        silent_window=services.silent_window,
        tracing=services.tracing,
    )


def _instructed(agent: Agent, instructions: str) -> Agent:
    """Return the agent with what a client adds to its prompt, marked as the client's."""
    if not instructions:
        return agent
    prompt = told(agent.prompt, f"{CLIENT_HEADING}\n{instructions}")
    return msgspec.structs.replace(agent, prompt=prompt)


def told(prompt: str, said: str) -> str:
    """Return a system prompt with a part more."""
    return f"{prompt}\n\n{said}".lstrip()


def _client_tools(
    options: InputOptions | None, own: tuple[ToolDefinition, ...]
) -> tuple[ToolDefinition, ...]:
    """Return the tools of the client that are wanted, without those that have the name of one of the agent's."""
    if options is None or not options.client.tools:
        return ()
    from ...tools.client_tool import definition_of  # here: most turns have none

    taken, allowed = {each.name for each in own}, options.client.allowed
    return tuple(
        definition_of(each)
        for each in options.client.tools
        if each.name not in taken and (allowed is None or each.name in allowed)
    )


def _without_people(above: Ancestor) -> Ancestor:
    return msgspec.structs.replace(above, channel=None)
