"""Whose people serve a place in the session tree."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ...runtime.channel import Channel
from ...runtime.definitions import SessionKind
from ...runtime.messages import CallPlace


class Served(msgspec.Struct, frozen=True):
    """A channel as it serves a place.

    Attributes:
        session_id: The session whose own it is.
        channel: The channel.
        asked_in: That session, when it is one above the place; empty otherwise.
        origin: That what comes there comes from below, and with which task, in words; or empty.
    """

    session_id: str
    channel: Channel
    asked_in: str = ""
    origin: str = ""


class Channels:
    """The channels of a runtime, by the names that places and policies know.

    Args:
        channel: The one of its main sessions; `None` where there are no people.
    """

    def __init__(self, channel: Channel | None = None) -> None:
        self._channel = channel

    def own(self, kind: SessionKind) -> str | None:
        """The name of the channel that a session of this kind has by itself."""
        if self._channel is None or kind is not SessionKind.MAIN:
            return None
        return self._channel.name

    def serving(self, place: CallPlace) -> Served | None:
        """The nearest channel up the session tree; a worker has none, wherever it stands."""
        return next(self._reachable(place), None)

    def reachable(self, place: CallPlace) -> tuple[Served, ...]:
        """Those that a place can speak to, the nearest first; each once."""
        found: dict[str, Served] = {}
        for served in self._reachable(place):
            found.setdefault(served.channel.name, served)
        return tuple(found.values())

    def _reachable(self, place: CallPlace) -> Iterator[Served]:
        if place.session_kind is SessionKind.WORKER:
            return
        chain = [(place.session_id, place.channel)]
        chain += [(each.session_id, each.channel) for each in place.lineage]
        for session_id, name in chain:
            if name is not None and self._channel is not None and name == self._channel.name:
                is_above = session_id != place.session_id
                yield Served(
                    session_id,
                    self._channel,
                    asked_in=session_id if is_above else "",
                    origin=_origin(place) if is_above else "",
                )


def _origin(place: CallPlace) -> str:
    task = f", whose task is: {place.task}" if place.task else ""
    return f"from the {place.session_kind} {place.session_id}{task}"
