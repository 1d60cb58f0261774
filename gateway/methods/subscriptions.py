"""`session/subscribe` and `topic/subscribe`: follow one session, or a topic of all sessions."""

from __future__ import annotations

from ...runtime.errors import ConflictError
from ...runtime.wire.fields import Role
from ...runtime.wire.sessions import OneSession, Subscribe, Subscribed
from ...runtime.wire.topics import OneTopic, SubscribedTopic, SubscribeTopic
from ..connection.caller import Caller
from ..connection.method_table import MethodTable, Nothing

methods = MethodTable()


@methods.add("session/subscribe", Role.OBSERVER)
async def subscribe_session(caller: Caller, params: Subscribe) -> Subscribed:
    """Subscribe to a session, after an event or from now on."""
    check_epoch(caller, params.epoch)
    row = await caller.session(params.session_id)
    position = row.head_seq if params.after_seq is None else params.after_seq
    if not 0 <= position <= row.head_seq:
        raise ConflictError(
            f"{params.session_id} has {row.head_seq} events; after_seq={position} is of another "
            "store. Start over with after_seq=0.",
            kind="seq",
        )
    begin = caller.subscriptions.subscribe(params.session_id, position)
    caller.afterwards(begin)
    return Subscribed(row.head_seq)


@methods.add("session/unsubscribe", Role.OBSERVER)
def unsubscribe_session(caller: Caller, params: OneSession) -> Nothing:
    """Unsubscribe from a session."""
    caller.subscriptions.unsubscribe(params.session_id)
    return Nothing()


@methods.add("topic/subscribe", Role.OBSERVER)
async def subscribe(caller: Caller, params: SubscribeTopic) -> SubscribedTopic:
    """Subscribe to a topic, after a `seq` or from now on."""
    check_epoch(caller, params.epoch)
    head_seq = await caller.runtime.store.log_head()
    position = head_seq if params.after_seq is None else params.after_seq
    if not 0 <= position <= head_seq:
        raise ConflictError(
            f"the topics go up to {head_seq}; after_seq={position} is of another store. Start over "
            "with after_seq=0.",
            kind="seq",
        )
    begin = caller.subscriptions.subscribe_topic(params.topic, position)
    caller.afterwards(begin)
    return SubscribedTopic(head_seq)


@methods.add("topic/unsubscribe", Role.OBSERVER)
def unsubscribe(caller: Caller, params: OneTopic) -> Nothing:
    """Unsubscribe from a topic."""
    caller.subscriptions.unsubscribe_topic(params.topic)
    return Nothing()


def check_epoch(caller: Caller, epoch: str | None) -> None:
    """Raise `ConflictError` if a client's `seq` is of another store."""
    if epoch is not None and epoch != caller.daemon.epoch:
        raise ConflictError(
            "the store is another one now (it was replaced, or restored from a backup): each seq "
            "that was kept is void. Start over with after_seq=0.",
            kind="seq",
        )
