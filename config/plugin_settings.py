"""Which plugins are used, and how dangerous their tools are: `[plugins.NAME]` of callboard.toml."""

from __future__ import annotations

import msgspec

from ..runtime.definitions import Tier


class PluginSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A plugin that is installed beside callboard; what is not named here is never imported.

    Attributes:
        name: Its name, as `callboard tools` shows it: the name of its table.
        enabled: Whether it is used.
        version: The only version that is used; `None` is any.
        tier: How dangerous its tools are, whatever they say themselves. `elevated`: each of their
            calls asks a person.
        tiers: The same for single tools, by name; they win over `tier`.
    """

    name: str
    enabled: bool = False
    version: str | None = None
    tier: Tier = Tier.ELEVATED
    tiers: dict[str, Tier] = msgspec.field(default_factory=dict)

    def tier_of(self, tool_name: str) -> Tier:
        """The tier of one of its tools."""
        return self.tiers.get(tool_name, self.tier)
