"""`agent/…` on the wire."""

from __future__ import annotations

import msgspec

from ..definitions import Agent
from .sizes import Word


class OneAgent(msgspec.Struct, frozen=True):
    """An agent by its name."""

    name: Word


class Agents(msgspec.Struct, frozen=True):
    """The agents there are, by name."""

    agents: list[Agent]
