"""Options of one turn, in place of its agent's: how the model answers, and how much is asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, TypeAlias, TypedDict, get_args

import msgspec

from .budget import MAX_AMOUNT, Budget, narrowed
from .definitions import (
    MAX_OUTPUT_TOKENS,
    MAX_TEMPERATURE,
    Agent,
    Fallbacks,
    ModelName,
    Preset,
    PresetWord,
    ThinkingEffort,
    ThinkingWord,
    ToolDefinition,
)
from .errors import ValidationError
from .identity import TraceContext
from .stream import MAX_ARGUMENT_BYTES

MAX_SCHEMA_CHARS = 256 * 1024
"""The schema of an answer; foreign schemas are bounded so, too."""
MAX_TOOLS = 1000
"""Names of tools in the options of a turn; more than any model is offered."""

STRICTNESS = (Preset.AUTO, Preset.BALANCED, Preset.STRICT)
"""The presets, from the one that asks least to the one that asks most."""


Unattended: TypeAlias = Literal["deny", "defer"]
"""What becomes of that which needs a person, while nobody sits there."""
SessionChoice: TypeAlias = Literal["new", "same"]
"""Whether what comes in unattended has a session of its own each time, or one for all."""

MAX_GIVEN_CALLS = 256
"""As many as one answer of a model may ask for."""


ToolName = Annotated[str, msgspec.Meta(max_length=ToolDefinition.max_name_length)]


class GivenCall(msgspec.Struct, frozen=True):
    """A call that a program makes itself; `arguments` is the text of a JSON object."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=ToolDefinition.max_name_length)]
    arguments: Annotated[str, msgspec.Meta(max_length=MAX_ARGUMENT_BYTES)] = "{}"


MAX_CLIENT_TOOLS = 128
"""Tools of a client in one turn: as many as OpenAI takes."""


class GivenTool(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool that the program which sent an input runs itself.

    `parameters` is the text of a JSON Schema, which that program checks: here it is only shown to the model.
    """

    name: str
    description: str = ""
    parameters: str = '{"type":"object","properties":{}}'


ANY_TOOL = "*"
"""In the place of a tool's name: no tool has it."""


class ClientContext(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the program that sent an input gives its turn beside the text.

    Attributes:
        instructions: Stands behind the agent's prompt, as the program's words.
        tools: Tools that the program runs itself: their calls wait for its results.
        metadata: What the program wants to find again beside the answer; nothing reads it here.
        asks: Whether the program answers questions about calls of the agent's tools.
        must_call: The one of its tools that the turn's first answer calls, `*` for any of them; empty when the model decides.
        allowed: Those of its tools, by name, that the turn's model is offered; `None` for all.
    """

    instructions: str = ""
    tools: tuple[GivenTool, ...] = ()
    metadata: dict[str, str] = {}
    asks: bool = False
    must_call: str = ""
    allowed: tuple[str, ...] | None = None


NO_CLIENT = ClientContext()


class TurnOptions(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Options of one turn and of what it delegates; fields left out are as the agent has them.

    Attributes:
        model: `PROVIDER/MODEL`.
        fallbacks, thinking, temperature, max_output_tokens: As of an agent.
        policy: The preset.
        calls: Calls of tools that its turn makes side by side, as if a model had asked for them. No model
            is asked in that turn.
        compact: The turn answers nothing: its model sums up the conversation so far, and reads the summary in the place
            of that from then on. The text of the input may say behind `/compact` what matters.
        tools: Those of the agent's tools that the turn has; `()` is none.
        timeout_seconds: How long the turn may take, waiting for people included.
        answer_schema: The text of a JSON Schema, of type object, that the final answer must fit.
        unattended: Nobody sits there: what needs a person is denied at once (`deny`), or its question waits
            on record while the turn goes on (`defer`).

    Example:
        options = callboard.TurnOptions(temperature=0.2, tools=("get_current_time",))
        session = await client.create_session()
        ticket = await client.prompt(session.session_id, "What time is it?", options=options)
        print(ticket.input_id)
    """

    model: ModelName | None = None
    fallbacks: Fallbacks | None = None
    thinking: ThinkingEffort | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=MAX_TEMPERATURE)] | None = None
    max_output_tokens: Annotated[int, msgspec.Meta(ge=1, le=MAX_OUTPUT_TOKENS)] | None = None
    policy: Preset | None = None
    calls: Annotated[tuple[GivenCall, ...], msgspec.Meta(max_length=MAX_GIVEN_CALLS)] = ()
    compact: bool = False
    tools: Annotated[tuple[ToolName, ...], msgspec.Meta(max_length=MAX_TOOLS)] | None = None
    timeout_seconds: Annotated[float, msgspec.Meta(ge=0.001, le=MAX_AMOUNT)] | None = None
    answer_schema: Annotated[str, msgspec.Meta(max_length=MAX_SCHEMA_CHARS)] | None = None
    unattended: Unattended | None = None

    def widens(self, agent: Agent) -> bool:
        """Whether these options ask less than the agent's preset does."""
        wanted = self.policy
        return wanted is not None and _strictness(wanted) < _strictness(agent.policy)

    def applied(self, agent: Agent, *, may_widen: bool) -> Agent:
        """Return the agent with these options; without `may_widen`, a preset that asks less is ignored."""
        given = {
            "fallbacks": self.fallbacks,
            "thinking": self.thinking,
            "temperature": self.temperature,
            "max_output_tokens": self.max_output_tokens,
            "policy": None if self.widens(agent) and not may_widen else self.policy,
            "tools": self._tools_of(agent),
            "turn_budget": self._budget_of(agent),
            "defer": None if self.unattended is None else self.unattended == "defer",
        }
        changes = {name: value for name, value in given.items() if value is not None}
        return msgspec.structs.replace(agent, **changes)

    def over(self, others: TurnOptions) -> TurnOptions:
        """Return these options, and those of the others that are not among them."""
        given = msgspec.structs.asdict(self)
        changes = {name: value for name, value in given.items() if value is not None}
        return msgspec.structs.replace(others, **changes)

    @property
    def inherited(self) -> TurnOptions:
        """The options for what the turn leaves to others: sessions below it, and late results."""
        return msgspec.structs.replace(
            self, answer_schema=None, timeout_seconds=None, calls=(), compact=False
        )

    def _tools_of(self, agent: Agent) -> tuple[str, ...] | None:
        if self.tools is None or agent.tools is None:
            return self.tools
        return tuple(name for name in self.tools if name in agent.tools)

    def _budget_of(self, agent: Agent) -> Budget | None:
        if self.timeout_seconds is None:
            return None
        return narrowed(agent.turn_budget, Budget(seconds=self.timeout_seconds))


class TurnKeywords(TypedDict, total=False):
    """The fields of `TurnOptions` as keywords; `None` is as the agent has it."""

    model: str | None
    fallbacks: Sequence[str] | None
    thinking: ThinkingEffort | ThinkingWord | None
    temperature: float | None
    max_output_tokens: int | None
    policy: Preset | PresetWord | None
    compact: bool
    tools: Sequence[str] | None
    timeout_seconds: float | None
    unattended: Unattended | None


class PromptKeywords(TurnKeywords, total=False):
    """The keywords of a prompt: its options, and what goes with the input itself."""

    budget: Budget | None
    is_untrusted: bool
    trace: TraceContext | None


_CHOICES: dict[str, Iterable[str]] = {
    "thinking": ThinkingEffort,
    "policy": Preset,
    "unattended": get_args(Unattended),
}
_OF_INPUT = PromptKeywords.__annotations__.keys() - TurnKeywords.__annotations__.keys()


def options_of_keywords(
    keywords: PromptKeywords, answer_schema: dict[str, Any] | None = None
) -> TurnOptions | None:
    """Return the options that a program gives by keyword, or `None` without any.

    Raises:
        TypeError: There is no such keyword.
        ValidationError: A value is not valid; its `field` is the keyword.
    """
    if not keywords and answer_schema is None:
        return None
    if unknown := keywords.keys() - PromptKeywords.__annotations__.keys():
        raise TypeError(f"a prompt has no option {', '.join(sorted(unknown))}")
    given = {
        name: value
        for name, value in keywords.items()
        if value is not None and name not in _OF_INPUT
    }
    for name, value in given.items():
        try:
            msgspec.convert({name: value}, TurnOptions)
        except msgspec.ValidationError as error:
            choices = _CHOICES.get(name)
            why = str(error).partition(" - at `$")[0]
            if choices is not None:
                why = f"it is one of {', '.join(choices)}"
            raise ValidationError(f"{name}={value!r:.80}: {why}.", field=name) from error
    options = msgspec.convert(given, TurnOptions)
    check_fallbacks(options.fallbacks or ())
    if answer_schema is not None:
        text = msgspec.json.encode(answer_schema).decode()
        options = msgspec.structs.replace(options, answer_schema=text)
    return None if options == TurnOptions() else options


def no_laxer(agent: Agent, preset: Preset | None) -> Agent:
    """Return the agent under this preset, where that asks more than its own."""
    if preset is None or _strictness(preset) <= _strictness(agent.policy):
        return agent
    return msgspec.structs.replace(agent, policy=preset)


def check_fallbacks(names: Iterable[str]) -> None:
    """Raise `ValidationError` if a name is not `PROVIDER/MODEL`."""
    for name in names:
        provider, _, model = name.partition("/")
        if not provider or not model:
            raise ValidationError(
                f"{name!r} is not PROVIDER/MODEL, as in openai/gpt-5-mini", field="fallbacks"
            )


def _strictness(preset: Preset) -> int:
    return STRICTNESS.index(preset)
