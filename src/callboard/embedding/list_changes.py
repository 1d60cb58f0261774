"""Which lists follow from which settings, and how programs wait until one has changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import trio

from ..config.setting_rows import SettingsChange
from ..config.settings import Settings
from ..runtime.events import MessageCompleted, Stored
from ..runtime.kernel.live_lists import ListName, lists_named
from .host import Host
from .status import RuntimeStatus, status_of

LOOK_SECONDS = 1.0
"""Between two looks at a status that somebody follows: mailboxes and programs tell nobody that they change."""

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
    watch = host.status_watch
    if not isinstance(watch, StatusWatch):
        host.status_watch = watch = StatusWatch(host)
    found = await watch.wait(wanted)
    return {str(name): revision for name, revision in found.items()}


class StatusWatch:
    """Counts each change of the status as one of the list `status`, while somebody waits for it.

    Nobody who waits costs nothing; many who wait cost one look a second.

    Args:
        host: Whose status.
        also: What else belongs to it; another value is a change.
    """

    def __init__(self, host: Host, also: Callable[[], object] = lambda: None) -> None:
        self._host = host
        self._also = also
        self._seen: object = None
        self._looked_at = float("-inf")

    async def wait(self, known: Mapping[ListName, int]) -> dict[ListName, int]:
        """Wait until a list has another revision, as `LiveLists.wait`; look at the status meanwhile if it is one of them."""
        lists = self._host.lists
        if ListName.STATUS not in known:
            return await lists.wait(known)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._look, name="look at the status")
            found = await lists.wait(known)
            nursery.cancel_scope.cancel(reason="a list has changed")
        return found

    async def _look(self) -> None:
        while True:
            now = trio.current_time()
            if now >= self._looked_at + LOOK_SECONDS:
                self._looked_at = now
                seen = _without_times(status_of(self._host)), self._also()
                if seen != self._seen:
                    self._seen = seen
                    self._host.lists.changed(ListName.STATUS)
            await trio.sleep_until(self._looked_at + LOOK_SECONDS)


def _without_times(status: RuntimeStatus) -> object:
    """Return what of a status is other only when something happens."""
    return (
        status.sessions,
        [each.turn_id for each in status.turns],
        [each.call_id for each in status.calls],
        [(each.session_id, each.process_id) for each in status.background],
        status.storage_failed,
        status.storage_warning,
        status.actors,
    )
