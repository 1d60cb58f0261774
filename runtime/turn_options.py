"""What a turn may be given in the place of its agent's own: how its model answers, and what asks."""

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
)
from .errors import ValidationError

STRICTNESS = (Preset.AUTO, Preset.BALANCED, Preset.STRICT)
"""From the preset under which most runs without asking to the one under which least does."""


class TurnOptions(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """For one turn, and for what it delegates; what is left out is as the agent has it.

    Attributes:
        model: `PROVIDER/MODEL`.
        fallbacks, thinking, temperature, max_output_tokens: As of an agent.
        policy: The preset.
    """

    model: ModelName | None = None
    fallbacks: Fallbacks | None = None
    thinking: ThinkingEffort | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=MAX_TEMPERATURE)] | None = None
    max_output_tokens: Annotated[int, msgspec.Meta(ge=1, le=MAX_OUTPUT_TOKENS)] | None = None
    policy: Preset | None = None

    def widens(self, agent: Agent) -> bool:
        """Whether more would run without asking than this agent has it."""
        wanted = self.policy
        return wanted is not None and _strictness(wanted) < _strictness(agent.policy)

    def applied(self, agent: Agent, *, may_widen: bool) -> Agent:
        """The agent with these; without `may_widen`, with no preset that lets more run."""
        given = {
            "fallbacks": self.fallbacks,
            "thinking": self.thinking,
            "temperature": self.temperature,
            "max_output_tokens": self.max_output_tokens,
            "policy": None if self.widens(agent) and not may_widen else self.policy,
        }
        changes = {name: value for name, value in given.items() if value is not None}
        return msgspec.structs.replace(agent, **changes)


def check_fallbacks(names: Iterable[str]) -> None:
    """Raises `ValidationError` for one that names no model."""
    for name in names:
        provider, _, model = name.partition("/")
        if not provider or not model:
            raise ValidationError(
                f"{name!r} is no PROVIDER/MODEL, as in openai/gpt-5-mini", field="fallbacks"
            )


def _strictness(preset: Preset) -> int:
    return STRICTNESS.index(preset)
