"""`hook/…`: what other systems begin here, what they are told, and what could not be delivered."""

from __future__ import annotations

from ...embedding.runtime import host_of
from ...runtime.errors import ValidationError
from ...runtime.hooks.hook import Hook
from ...runtime.wire.fields import Role
from ...runtime.wire.hooks import (
    ChangedHook,
    DeadLetterList,
    HookDraft,
    HookList,
    HookRow,
    HookTested,
    NewHook,
    OneHook,
    Resend,
    Resent,
)
from ..connection.caller import Caller
from ..connection.method_table import MethodTable, Nothing
from ..shared.workspaces import check_workspace_named

methods = MethodTable()


@methods.add("hook/list", Role.OPERATOR, is_whole=True)
async def list_hooks(caller: Caller, params: Nothing) -> HookList:
    """Return the hooks and webhooks, never their secrets."""
    return HookList(await caller.runtime.hooks.rows(caller.daemon.webhooks.state))


@methods.add("hook/get", Role.OPERATOR, is_whole=True)
async def get_hook(caller: Caller, params: OneHook) -> HookRow:
    """Return a hook, never its secret."""
    return await caller.runtime.hooks.get(params.name)


@methods.add("hook/create", Role.ADMIN)
async def create_hook(caller: Caller, params: NewHook) -> HookRow:
    """Make a hook, which takes deliveries at once if it has a secret."""
    return await caller.runtime.hooks.create(await _allowed(caller, params.hook))


@methods.add("hook/update", Role.ADMIN)
async def update_hook(caller: Caller, params: ChangedHook) -> HookRow:
    """Change a hook as a whole; a paused one lets nothing in."""
    return await caller.runtime.hooks.update(await _allowed(caller, params.hook))


@methods.add("hook/delete", Role.ADMIN)
async def delete_hook(caller: Caller, params: OneHook) -> Nothing:
    """Remove a hook; its sessions and its secret stay."""
    await caller.runtime.hooks.delete(params.name)
    return Nothing()


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
    """Send dead letters once more, and now what waits; those that are taken are dead no more."""
    webhooks = caller.daemon.webhooks
    names = params.names or tuple(letter.name for letter in webhooks.dead)
    hurried = webhooks.hurry(name.partition("/")[0] for name in params.names)
    left = await webhooks.resend(names)
    return Resent(len(names) - len(left), [letter.row for letter in left], hurried)


async def _allowed(caller: Caller, draft: HookDraft) -> Hook:
    """Return a hook whose folder, if it names another one than before, is one in which clients may begin sessions."""
    hook = draft.hook()
    before = host_of(caller.runtime).settings.hooks.get(hook.name)
    if hook.workspace is not None and (before is None or before.workspace != hook.workspace):
        try:
            await check_workspace_named(caller.daemon, hook.workspace)
        except ValidationError as error:
            raise ValidationError(str(error), field="hook.workspace") from error
    return hook
