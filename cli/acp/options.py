"""What a person chooses in the editor for a session: the preset (its mode), the model, the thinking, the agent."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import msgspec

from ...client.client import Client
from ...runtime.definitions import Preset, ThinkingEffort
from ...runtime.errors import CallboardError
from ...runtime.turn_options import TurnOptions
from ...runtime.wire.rpc import INVALID_PARAMS
from . import wire
from .connection import RequestFailed

MAX_MODELS = 500
"""Models that an editor is offered: it shows them all in one list."""
AS_CONFIGURED = "default"
"""The value of an option that is as the agent, or the daemon, has it."""

MODES = {
    Preset.STRICT: "asks before every call that does more than read, and about each new host",
    Preset.BALANCED: "works in the folder; asks about elevated calls, what a tool says, and new hosts",
    Preset.AUTO: "asks about elevated calls only",
}


class Choices(msgspec.Struct, kw_only=True):
    """What was chosen for a session, and what there is to choose from.

    Attributes:
        agent: The session's agent.
        policy: That agent's preset.
        own_model: The model that the session was begun with.
        models: `PROVIDER/MODEL`s that may be used.
        agents: Names.
        turn: What the person chose: options of each turn from now on.
    """

    agent: str
    policy: Preset
    own_model: str | None = None
    models: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    turn: TurnOptions = TurnOptions()

    @property
    def mode(self) -> Preset:
        """The preset of the next turn."""
        return self.turn.policy or self.policy

    def modes(self) -> wire.SessionModeState:
        """Return the modes, as editors read them that know no options."""
        available = [
            wire.SessionMode(id=str(preset), name=str(preset).title(), description=said)
            for preset, said in MODES.items()
        ]
        return wire.SessionModeState(
            current_mode_id=str(self.mode), available_modes=tuple(available)
        )

    def config(self) -> tuple[wire.SessionConfigOptionSelect, ...]:
        """Return all options with their values."""
        model = self.turn.model or self.own_model or AS_CONFIGURED
        models = dict.fromkeys((AS_CONFIGURED, *self.models, model))
        thinking = str(self.turn.thinking or AS_CONFIGURED)
        agents = dict.fromkeys((*self.agents, self.agent))
        return (
            _select("mode", "Mode", "mode", str(self.mode), map(str, MODES)),
            _select("model", "Model", "model", model, models),
            _select(
                "thought_level",
                "Thinking",
                "thought_level",
                thinking,
                (AS_CONFIGURED, *map(str, ThinkingEffort)),
            ),
            _select("_agent", "Agent", "_agent", self.agent, agents),
        )

    def choose(self, name: str, value: object) -> None:
        """Choose for the turns from now on; the agent is not chosen here.

        Raises:
            RequestFailed: There is no such option, or it has no such value.
        """
        option = next((each for each in self.config() if each.id == name), None)
        if option is None:
            raise RequestFailed(INVALID_PARAMS, f"there is no option {name!r:.80}")
        if value not in {each.value for each in option.options}:
            raise RequestFailed(INVALID_PARAMS, f"{name} has no value {value!r:.80}")
        chosen = None if value == AS_CONFIGURED else str(value)
        field = {"mode": "policy", "thought_level": "thinking", "model": "model"}.get(name)
        if field == "policy" and chosen == self.policy:
            chosen = None
        if field is not None:
            given = msgspec.structs.asdict(self.turn) | {field: chosen}
            self.turn = msgspec.convert(given, TurnOptions)


async def read_choices(client: Client, agent: str, model: str | None) -> Choices:
    """Ask the daemon what there is to choose from for a session."""
    agents = {each.name: each for each in await client.agents.list()}
    row = agents.get(agent)
    models: list[str] = []
    for provider in await client.providers.list():
        if not provider.is_active or provider.key == "missing" or len(models) >= MAX_MODELS:
            continue
        with suppress(CallboardError):  # that provider is asked when somebody lists its models
            models += [each.choice for each in (await client.models.list(provider.name)).models]
    return Choices(
        agent=agent,
        policy=(None if row is None else row.policy) or Preset.BALANCED,
        own_model=model,
        models=tuple(models[:MAX_MODELS]),
        agents=tuple(agents),
    )


def _select(
    name: str, title: str, category: str, value: str, values: Iterable[str]
) -> wire.SessionConfigOptionSelect:
    options = [wire.SessionConfigSelectOption(value=each, name=each) for each in values]
    return wire.SessionConfigOptionSelect(
        id=name, name=title, category=category, current_value=value, options=tuple(options)
    )
