"""Which lists follow from which settings, and how programs wait until one has changed."""

from __future__ import annotations

from collections.abc import Mapping

from ..config.setting_rows import SettingsChange
from ..config.settings import Settings
from ..runtime.events import MessageCompleted, Stored
from ..runtime.kernel.live_lists import ListName, lists_named
from .host import Host

_MODELS = frozenset({"model", "providers", "inactive"})

FOLLOWS: Mapping[ListName, frozenset[str]] = {
    ListName.AGENTS: frozenset({"agents", "policy"}),
    ListName.PROVIDERS: _MODELS,
    ListName.MODELS: _MODELS,
    ListName.DEFAULT_MODEL: _MODELS,
    ListName.PRICES: frozenset({"prices"}),
    ListName.TOOLS: frozenset({"mcp"}),
    ListName.ROOTS: frozenset({"server"}),
    ListName.HOOKS: frozenset({"hooks", "webhooks", "notify", "agents"}),
    ListName.SCHEDULES: frozenset({"schedules", "agents"}),
    ListName.SETTINGS: frozenset(Settings.__struct_fields__),
}
"""The lists that follow from tables of the settings."""


def tell_changed(host: Host, change: SettingsChange) -> None:
    """Tell who follows lists which of them have changed with the settings; never wait."""
    tables = {name.partition(".")[0] for name in change.changed}
    host.lists.changed(*(name for name, its in FOLLOWS.items() if not its.isdisjoint(tables)))


def tell_keys_changed(host: Host) -> None:
    """Tell who follows lists that a key was stored or removed; never wait."""
    host.lists.changed(ListName.KEYS, ListName.PROVIDERS, ListName.DEFAULT_MODEL, ListName.HOOKS)


def follow_usage(host: Host) -> None:
    """Count each answer of a model as a change of the list `usage`, from its first follower on. Idempotent."""

    def heard(stored: tuple[Stored, ...]) -> None:
        if any(isinstance(each.event, MessageCompleted) for each in stored):
            host.lists.changed(ListName.USAGE)

    if not host.follows_usage:
        host.follows_usage = True
        host.inboxes.watch(heard)


async def wait_lists(host: Host, known: Mapping[str, int]) -> dict[str, int]:
    """See `Runtime.wait_lists`."""
    wanted = lists_named(known)
    if ListName.USAGE in wanted:
        follow_usage(host)
    found = await host.lists.wait(wanted)
    return {str(name): revision for name, revision in found.items()}
