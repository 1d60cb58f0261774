"""`key/…`, `provider/set_key` and `token/…`: who has a key, which never goes out, and who may connect."""

from __future__ import annotations

from functools import partial

import trio

from ...config.keys.console_logins import is_login_name, token_rows
from ...config.keys.tokens import Credential
from ...embedding.runtime import data_of, forget_keys, host_of, wish_of
from ...providers.catalog.key_book import KeyBook
from ...runtime.errors import ConflictError, PermissionRefused
from ...runtime.kernel.live_lists import ListName
from ...runtime.redaction import Secret, redactor
from ...runtime.wire.daemon import (
    ConsoleTicket,
    NamedToken,
    NewToken,
    TokenList,
    TokenText,
    WantedTicket,
)
from ...runtime.wire.fields import Role
from ...runtime.wire.providers import KeyDestination, KeyOwner, Keys, KeysRemoved, KeyStored, SetKey
from ..connection.caller import Caller
from ..connection.method_table import MethodTable, Nothing

methods = MethodTable()


@methods.add("key/list", Role.OPERATOR)
async def list_keys(caller: Caller, params: Nothing) -> Keys:
    """List who has a key, and whether it is used; never a key itself."""
    return await trio.to_thread.run_sync(lambda: _book(caller).keys())


@methods.add("key/place", Role.ADMIN)
async def place_of_key(caller: Caller, params: KeyOwner) -> KeyDestination:
    """Say where a key would be sent."""
    return await trio.to_thread.run_sync(
        lambda: _book(caller).place(params.provider, params.origin)
    )


@methods.add("provider/set_key", Role.ADMIN)
async def set_key(caller: Caller, params: SetKey) -> KeyStored:
    """Store a key, encrypted, and use it from the next request on; it is never shown again."""
    key = Secret(params.key.strip())
    redactor.add(key)
    stored = await trio.to_thread.run_sync(
        lambda: _book(caller).put(params.provider, params.origin, key)
    )
    forget_keys(caller.runtime)
    return stored


@methods.add("key/remove", Role.ADMIN)
async def remove_keys(caller: Caller, params: KeyOwner) -> KeysRemoved:
    """Remove all stored keys of a provider; requests that have begun go on."""
    removed = await trio.to_thread.run_sync(lambda: _book(caller).remove(params.provider))
    forget_keys(caller.runtime)
    return removed


def _book(caller: Caller) -> KeyBook:
    wish, data = wish_of(caller.runtime), data_of(caller.runtime)
    if data is None:
        raise ConflictError("this runtime keeps everything in memory: it stores no keys")
    return KeyBook(data, wish.settings, wish.environ)


@methods.add("token/list", Role.ADMIN)
async def list_tokens(caller: Caller, params: Nothing) -> TokenList:
    """Return the tokens, and then the browsers that are logged in at the console with one."""
    found: tuple[Credential, ...] = await trio.to_thread.run_sync(caller.daemon.credentials.list)
    logins = await caller.daemon.console.list()
    return TokenList(token_rows(found, logins))


@methods.add("token/create", Role.ADMIN, is_secret=True)
async def create_token(caller: Caller, params: NewToken) -> TokenText:
    """Create a token, which is shown this once."""
    credentials, by = caller.daemon.credentials, _asking(caller)

    def create() -> str:
        return credentials.create(
            params.name, params.role, agents=params.agents, sessions=params.sessions, by=by
        ).reveal()

    token = await trio.to_thread.run_sync(create)
    _tokens_changed(caller)
    return TokenText(params.name, token)


@methods.add("token/rotate", Role.ADMIN, is_secret=True)
async def rotate_token(caller: Caller, params: NamedToken) -> TokenText:
    """Replace a token by a new one, and end the connections of the old one."""
    credentials, by = caller.daemon.credentials, _asking(caller)
    gone = await _digests(caller, params.name)
    token = await trio.to_thread.run_sync(lambda: credentials.rotate(params.name, by=by).reveal())
    _tokens_changed(caller)
    _end(caller, gone, "its token was rotated")
    return TokenText(params.name, token)


@methods.add("token/revoke", Role.ADMIN)
async def revoke_token(caller: Caller, params: NamedToken) -> Nothing:
    """Revoke a token and end its connections, or log out all browsers that are listed as `console of NAME`."""
    # No token has such a name: one is revoked also where the file of the logins is damaged.
    if is_login_name(params.name) and await caller.daemon.console.end(
        lambda login: login.listed_as == params.name
    ):
        return Nothing()
    gone = await _digests(caller, params.name)
    revoke = partial(caller.daemon.credentials.revoke, params.name, by=_asking(caller))
    await trio.to_thread.run_sync(revoke)
    _tokens_changed(caller)
    _end(caller, gone, "its token was revoked")
    return Nothing()


@methods.add("console/ticket", Role.OBSERVER, is_secret=True)
async def console_ticket(caller: Caller, params: WantedTicket) -> ConsoleTicket:
    """Make a ticket with which a browser logs in at the console once, as who asks or in a lower role."""
    await trio.lowlevel.checkpoint()
    if caller.is_page or caller.via:  # a script in a page must not take a login along
        raise PermissionRefused("a page can't log another browser in: run `callboard console`")
    return caller.daemon.console.ticket(caller.credential, params.role)


def _asking(caller: Caller) -> Credential | None:
    """Return the credential that the file must still have; this process' own is in no file."""
    return None if caller.daemon.is_local(caller.credential) else caller.credential


async def _digests(caller: Caller, name: str) -> list[str]:
    found: tuple[Credential, ...] = await trio.to_thread.run_sync(caller.daemon.credentials.list)
    return [each.digest for each in found if each.name == name]


def _tokens_changed(caller: Caller) -> None:
    host_of(caller.runtime).lists.changed(ListName.TOKENS)


def _end(caller: Caller, digests: list[str], reason: str) -> None:
    """End connections after the answer, as the caller's own may be among them."""

    def end() -> None:
        for digest in digests:
            is_own = digest == caller.credential.digest
            caller.daemon.end_connections(digest, reason, at_once=not is_own)

    caller.afterwards(end)
