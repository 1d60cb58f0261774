"""The subscriptions of a client: what the daemon says by itself finds its reader."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from ..runtime.errors import CallboardError, ConflictError
from ..runtime.redaction import Secret
from ..runtime.store.feeds import Topic
from ..runtime.wire.fields import Nothing
from ..runtime.wire.rpc import RpcError, error_from
from ..runtime.wire.sessions import OneSession, Subscribe, Subscribed
from ..runtime.wire.topics import (
    OneTopic,
    Snapshot,
    Stopping,
    SubscribedTopic,
    SubscribeTopic,
    TopicCurrent,
    TopicUpdate,
    Update,
)
from .events import RemoteEvent, RemoteEvents
from .link import Link
from .reading import (
    OtherForm,
    UnknownUpdate,
    read_params,
    read_snapshot,
    read_topic_update,
    read_update,
)
from .topics import RemoteTopic


class _LostSession(msgspec.Struct, frozen=True):
    session_id: str
    error: RpcError


class _LostTopic(msgspec.Struct, frozen=True):
    topic: Topic
    error: RpcError


class ClientHearing:
    """All that a client hears, over one connection after the other.

    Attributes:
        link: The connection.
        stops_in: The seconds that turns have, since the daemon said that it stops; `None` until then.
    """

    def __init__(self, url: str, token: Secret) -> None:
        self.link = Link(url, token, self)
        self._sessions: dict[str, RemoteEvents] = {}
        self._topics: dict[Topic, RemoteTopic] = {}
        self._epoch: str | None = None
        self.stops_in: float | None = None

    # ── what the link tells ──────────────────────────────────────────────────────────────────────

    def hear(self, method: str, params: msgspec.Raw) -> None:
        """See `Listener`."""
        match method:
            case "session/update":
                self._tell_update(read_update(params, self.link.url))
            case "session/snapshot":
                self._tell_snapshot(read_snapshot(params, self.link.url))
            case "session/lost":
                session = read_params(params, _LostSession, self.link.url)
                if (events := self._sessions.get(session.session_id)) is not None:
                    events.fail(error_from(session.error))
            case "topic/update":
                if (told := read_topic_update(params, self.link.url)) is not None:
                    self._tell_topic(told)
            case "topic/current":
                self._tell_topic(read_params(params, TopicCurrent, self.link.url))
            case "topic/lost":
                topic = read_params(params, _LostTopic, self.link.url)
                if (feed := self._topics.get(topic.topic)) is not None:
                    feed.fail(error_from(topic.error))
            case "runtime/stopping":
                self.stops_in = read_params(params, Stopping, self.link.url).seconds
            case _:
                pass  # a newer daemon says more

    def connected(self) -> None:
        """See `Listener`."""
        assert self.link.welcome is not None
        epoch = self.link.welcome.epoch
        if self._epoch is not None and epoch != self._epoch:
            self.ended(
                ConflictError(
                    "the daemon has another store now, in which no seq means what it did: start over",
                    kind="seq",
                )
            )
        self._epoch, self.stops_in = epoch, None
        for feed in self._feeds():
            feed.lost()

    def ended(self, error: CallboardError) -> None:
        """See `Listener`."""
        for feed in self._feeds():
            feed.fail(error)

    def _feeds(self) -> list[RemoteEvents | RemoteTopic]:
        return [*self._sessions.values(), *self._topics.values()]

    def _tell_update(self, update: Update | UnknownUpdate | OtherForm) -> None:
        if isinstance(update, Update):
            self._tell(update.session_id, update.known())
        elif isinstance(update, OtherForm):
            self._fail_session(update)
        elif update.seq is not None and update.session_id in self._sessions:
            self._sessions[update.session_id].pass_over(update.seq)

    def _tell_snapshot(self, snapshot: Snapshot | OtherForm) -> None:
        if isinstance(snapshot, OtherForm):
            self._fail_session(snapshot)
        else:
            self._tell(snapshot.session_id, snapshot)

    def _fail_session(self, told: OtherForm) -> None:
        if (events := self._sessions.get(told.name)) is not None:
            events.fail(told.error)

    def _tell(self, session_id: str, event: RemoteEvent) -> None:
        if (events := self._sessions.get(session_id)) is not None:
            events.put(event)

    def _tell_topic(self, event: TopicUpdate | TopicCurrent | OtherForm) -> None:
        if isinstance(event, OtherForm):
            if (feed := self._topics.get(Topic(event.name))) is not None:
                feed.fail(event.error)
        elif (feed := self._topics.get(event.topic)) is not None:
            feed.put(event)

    # ── what readers ask ─────────────────────────────────────────────────────────────────────────

    async def subscribe(self, events: RemoteEvents, after_seq: int | None) -> int:
        """See `Hearing`."""
        known = self._sessions.setdefault(events.session_id, events)
        if known is not events:
            raise ConflictError(
                f"this client hears {events.session_id} already: read it in one place, or connect "
                "a second time"
            )
        params = Subscribe(
            session_id=events.session_id, after_seq=after_seq, epoch=events.epoch or None
        )
        seq = (await self.link.request("session/subscribe", params, Subscribed)).seq
        self._note_epoch(events)
        return seq

    def drop(self, events: RemoteEvents) -> bool:
        """See `Hearing`; gives whether it was heard."""
        is_heard = self._sessions.get(events.session_id) is events
        if is_heard:
            del self._sessions[events.session_id]
        return is_heard

    async def forget(self, events: RemoteEvents) -> None:
        """See `Hearing`."""
        if self.drop(events) and self.link.is_connected:
            with suppress(CallboardError):
                params = OneSession(events.session_id)
                await self.link.request("session/unsubscribe", params, Nothing)

    async def begin_topic_anew(self, feed: RemoteTopic) -> None:
        """See `TopicHearing`."""
        known = self._topics.setdefault(feed.topic, feed)
        if known is not feed:
            raise ConflictError(
                f"this client hears the topic {feed.topic} already: read it in one place, or "
                "connect a second time"
            )
        await self.link.request("topic/unsubscribe", OneTopic(feed.topic), Nothing)

    async def subscribe_topic(self, feed: RemoteTopic, after_seq: int | None) -> int:
        """See `TopicHearing`."""
        params = SubscribeTopic(topic=feed.topic, after_seq=after_seq, epoch=feed.epoch or None)
        seq = (await self.link.request("topic/subscribe", params, SubscribedTopic)).seq
        self._note_epoch(feed)
        return seq

    def _note_epoch(self, feed: RemoteEvents | RemoteTopic) -> None:
        feed.epoch = feed.epoch or self._epoch or ""

    def drop_topic(self, feed: RemoteTopic) -> bool:
        """See `TopicHearing`; gives whether it was heard."""
        is_heard = self._topics.get(feed.topic) is feed
        if is_heard:
            del self._topics[feed.topic]
        return is_heard

    async def forget_topic(self, feed: RemoteTopic) -> None:
        """See `TopicHearing`."""
        if self.drop_topic(feed) and self.link.is_connected:
            with suppress(CallboardError):
                await self.link.request("topic/unsubscribe", OneTopic(feed.topic), Nothing)
