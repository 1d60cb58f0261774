"""Follow one session, a topic of all sessions, or lists: `session/subscribe`, `topic/subscribe`, `list/wait`."""

from __future__ import annotations

from collections.abc import Mapping

import trio

from ...embedding.list_changes import follow_usage
from ...embedding.runtime import host_of
from ...runtime.errors import ConflictError, PermissionRefused
from ...runtime.kernel.live_lists import ListName
from ...runtime.wire.fields import Role
from ...runtime.wire.lists import KnownLists, ListRevisions
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
    if params.after_seq is not None:
        return Subscribed(row.head_seq)
    # Read behind the head: what has begun since, its event tells.
    inputs = await caller.runtime.store.open_inputs(params.session_id)
    return Subscribed(row.head_seq, tuple(each.input_id for each in inputs if each.turn_id is None))


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


ROLES: Mapping[ListName, Role] = {
    ListName.PROVIDERS: Role.OPERATOR,
    ListName.KEYS: Role.OPERATOR,
    ListName.ROOTS: Role.OPERATOR,
    ListName.SKILLS: Role.OPERATOR,
    ListName.HOOKS: Role.OPERATOR,
    ListName.SETTINGS: Role.ADMIN,
    ListName.TOKENS: Role.ADMIN,
}
"""The role that reading a list takes, and so following it; of the others, the least one."""

WAIT_SECONDS = 600.0
"""A wait ends then, with the revisions that were known: less than any client waits for an answer."""


@methods.add("list/wait", Role.OBSERVER, is_slow=True)
async def wait_lists(caller: Caller, params: KnownLists) -> ListRevisions:
    """Wait until a list changes, ten minutes at most; return the revisions of those asked about."""
    for name in params.known:
        if not caller.credential.role.includes(ROLES.get(name, Role.OBSERVER)):
            raise PermissionRefused(f"the list {name} takes the role {ROLES[name]}")
        if name in WHOLE and caller.is_limited:
            raise PermissionRefused(f"the list {name} is not for a token that is limited")
    if ListName.USAGE in params.known:
        follow_usage(host_of(caller.runtime))
    with trio.move_on_after(WAIT_SECONDS):
        return ListRevisions(await caller.daemon.status_watch.wait(params.known))
    return ListRevisions(params.known)


WHOLE = frozenset(
    {
        ListName.HOOKS,
        ListName.USAGE,
        ListName.SETTINGS,
        ListName.SKILLS,
        ListName.STATUS,
        ListName.TOKENS,
    }
)
"""Lists that say something about the work of all."""


def check_epoch(caller: Caller, epoch: str | None) -> None:
    """Raise `ConflictError` if a client's `seq` is of another store."""
    if epoch is not None and epoch != caller.daemon.epoch:
        raise ConflictError(
            "the store is another one now (it was replaced, or restored from a backup): each seq "
            "that was kept is void. Start over with after_seq=0.",
            kind="seq",
        )
