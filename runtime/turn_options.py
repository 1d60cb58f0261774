"""Options of one turn, in place of its agent's: how the model answers, and how much is asked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec

from .definitions import (
    MAX_OUTPUT_TOKENS,
    MAX_TEMPERATURE,
    Agent,
    Fallbacks,
    ModelName,
    Preset,
    ThinkingEffort,
    ToolDefinition,
)
from .errors import ValidationError
from .stream import MAX_ARGUMENT_BYTES

STRICTNESS = (Preset.AUTO, Preset.BALANCED, Preset.STRICT)
"""The presets, from the one that asks least to the one that asks most."""


MAX_GIVEN_CALLS = 256
"""As many as one answer of a model may ask for."""


class GivenCall(msgspec.Struct, frozen=True):
    """A call that a program makes itself; `arguments` is the text of a JSON object."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=ToolDefinition.max_name_length)]
    arguments: Annotated[str, msgspec.Meta(max_length=MAX_ARGUMENT_BYTES)] = "{}"


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
    """

    model: ModelName | None = None
    fallbacks: Fallbacks | None = None
    thinking: ThinkingEffort | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=MAX_TEMPERATURE)] | None = None
    max_output_tokens: Annotated[int, msgspec.Meta(ge=1, le=MAX_OUTPUT_TOKENS)] | None = None
    policy: Preset | None = None
    calls: Annotated[tuple[GivenCall, ...], msgspec.Meta(max_length=MAX_GIVEN_CALLS)] = ()

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
        }
        changes = {name: value for name, value in given.items() if value is not None}
        return msgspec.structs.replace(agent, **changes)


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
