"""`key/…` and `provider/set_key`: who has a key; none goes out."""

from __future__ import annotations

import trio

from ..model_access import data_of, forget_keys, wish_of
from ..providers.key_book import KeyBook
from ..runtime.errors import ConflictError
from ..runtime.redaction import redactor
from ..runtime.secrets import Secret
from ..runtime.wire.keys import KeyOwner, KeyPlace, Keys, KeysRemoved, KeyStored, SetKey
from ..runtime.wire.roles import Role
from .caller import Caller
from .methods import MethodTable, Nothing

methods = MethodTable()


@methods.add("key/list", Role.OPERATOR)
async def list_keys(caller: Caller, params: Nothing) -> Keys:
    """Who has a key, and whether it is used; never a key itself."""
    return await trio.to_thread.run_sync(lambda: _book(caller).keys())


@methods.add("key/place", Role.ADMIN)
async def place_of_key(caller: Caller, params: KeyOwner) -> KeyPlace:
    """Where a key would be sent."""
    return await trio.to_thread.run_sync(
        lambda: _book(caller).place(params.provider, params.origin)
    )


@methods.add("provider/set_key", Role.ADMIN)
async def set_key(caller: Caller, params: SetKey) -> KeyStored:
    """Stores a key, encrypted, and uses it from the next request on; it is never told again."""
    key = Secret(params.key.strip())
    redactor.add(key)
    stored = await trio.to_thread.run_sync(
        lambda: _book(caller).put(params.provider, params.origin, key)
    )
    forget_keys(caller.runtime)
    return stored


@methods.add("key/remove", Role.ADMIN)
async def remove_keys(caller: Caller, params: KeyOwner) -> KeysRemoved:
    """Removes the stored keys of a provider, of all its places; what has begun goes on."""
    removed = await trio.to_thread.run_sync(lambda: _book(caller).remove(params.provider))
    forget_keys(caller.runtime)
    return removed


def _book(caller: Caller) -> KeyBook:
    wish, data = wish_of(caller.runtime), data_of(caller.runtime)
    if data is None:
        raise ConflictError("this runtime keeps everything in memory: it stores no keys")
    return KeyBook(data, wish.settings, wish.environ)
