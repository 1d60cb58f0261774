"""`hook/…`: what other systems begin here, what they are told, and what could not be delivered."""

from __future__ import annotations

import trio

from ...embedding.runtime import host_of, wish_of
from ...embedding.unattended.hook_rows import hook_rows
from ...runtime.hooks.hook import SECRET_PLACE
from ...runtime.wire.fields import Role
from ...runtime.wire.hooks import (
    DeadLetterList,
    HookList,
    HookRow,
    HookTested,
    OneHook,
    Resend,
    Resent,
)
from ..connection.caller import Caller
from ..connection.method_table import MethodTable, Nothing

methods = MethodTable()


@methods.add("hook/list", Role.OPERATOR, is_whole=True)
async def list_hooks(caller: Caller, params: Nothing) -> HookList:
    """Return the hooks and webhooks, never their secrets."""
    settings, places = host_of(caller.runtime).settings, wish_of(caller.runtime).stored_places
    webhooks = caller.daemon.webhooks

    def rows() -> list[HookRow]:
        return hook_rows(settings, lambda name: SECRET_PLACE in places(name), webhooks.counts)

    return HookList(await trio.to_thread.run_sync(rows))


@methods.add("hook/test", Role.OPERATOR, is_slow=True, is_whole=True)
async def test_hook(caller: Caller, params: OneHook) -> HookTested:
    """Post a test to a webhook."""
    return HookTested(await caller.daemon.webhooks.test(params.name))


@methods.add("hook/dead", Role.OPERATOR, is_whole=True)
def list_dead(caller: Caller, params: Nothing) -> DeadLetterList:
    """Return the notices that no attempt delivered."""
    return DeadLetterList([letter.row for letter in caller.daemon.webhooks.dead])


@methods.add("hook/resend", Role.OPERATOR, is_slow=True, is_whole=True)
async def resend(caller: Caller, params: Resend) -> Resent:
    """Send dead letters once more; those that are taken are dead no more."""
    webhooks = caller.daemon.webhooks
    names = params.names or tuple(letter.name for letter in webhooks.dead)
    left = await webhooks.resend(names)
    return Resent(len(names) - len(left), [letter.row for letter in left])
