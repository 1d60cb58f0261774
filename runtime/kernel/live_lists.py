"""Which lists may have changed, for whoever follows them: a revision for each, and a wait for another one.

A list is what clients read as a whole: agents, providers, settings. What changes one counts its revision up in
the same step, and wakes who waits. A reader who was away sees at once that the revision is another one, and
reads the list; so nothing is missed, and any number of changes is one.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import trio

from ..errors import ValidationError
from ..identity import now_ms


class ListName(enum.StrEnum):
    """A list that clients can follow."""

    AGENTS = "agents"
    PROVIDERS = "providers"
    MODELS = "models"
    DEFAULT_MODEL = "default_model"
    SETTINGS = "settings"
    TOOLS = "tools"
    SKILLS = "skills"
    KEYS = "keys"
    PRICES = "prices"
    ROOTS = "roots"
    TOKENS = "tokens"
    USAGE = "usage"
    HOOKS = "hooks"
    SCHEDULES = "schedules"
    STATUS = "status"


def lists_named(known: Mapping[str, int]) -> dict[ListName, int]:
    """Return lists by their names; raise `ValidationError` for one that there is not."""
    try:
        return {ListName(name): revision for name, revision in known.items()}
    except ValueError as error:
        raise ValidationError(
            f"known: {error}; there are: {', '.join(ListName)}", field="known"
        ) from None


class LiveLists:
    """The revisions of all lists. They begin at the time of the start, so that a restart is a change, too."""

    def __init__(self) -> None:
        self._revisions = dict.fromkeys(ListName, now_ms())
        self._changed = trio.Event()

    def changed(self, *names: ListName) -> None:
        """Count changes of these lists; never wait."""
        for name in names:
            self._revisions[name] += 1
        self._changed.set()
        self._changed = trio.Event()

    async def wait(self, known: Mapping[ListName, int]) -> dict[ListName, int]:
        """Wait until one of these lists has another revision than the known one; return all of theirs."""
        await trio.lowlevel.checkpoint()
        while True:
            now = {name: self._revisions[name] for name in known}
            if now != known:
                return now
            await self._changed.wait()
