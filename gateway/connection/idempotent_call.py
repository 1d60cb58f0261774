"""Calls a method for a request that may have a key; see `repeats`."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import trio

from ...config.keys.tokens import Credential
from ...runtime.errors import ValidationError
from ...runtime.identity import MAX_KEY_LENGTH, RequestKey
from ...runtime.wire.fields import Role
from ..shared.idempotency import check_digest
from .caller import Caller
from .incoming import LARGE_FRAME
from .method_table import Method


class _Keyed(msgspec.Struct):
    idempotency_key: str | None = None


async def request_key(
    method: Method, credential: Credential, raw: msgspec.Raw, params: msgspec.Struct
) -> RequestKey | None:
    """The key of a request that changes something, which is what observers may not.

    Raises:
        ValidationError: It is none.
    """
    # A large one is searched and summed up in a thread: nobody waits for that.
    if method.role is Role.OBSERVER:
        return None
    if len(memoryview(raw)) <= LARGE_FRAME:
        return _key(method, credential, raw, params)
    return await trio.to_thread.run_sync(_key, method, credential, raw, params)


def _key(
    method: Method, credential: Credential, raw: msgspec.Raw, params: msgspec.Struct
) -> RequestKey | None:
    if b"idempotency_key" not in bytes(raw):
        return None
    try:
        key = msgspec.json.decode(raw, type=_Keyed).idempotency_key
    except msgspec.MsgspecError as error:
        raise ValidationError(f"{error}", field="idempotency_key") from error
    if key is None:
        return None
    if not 1 <= len(key) <= MAX_KEY_LENGTH or not key.isprintable():
        raise ValidationError(
            f"a key has 1 to {MAX_KEY_LENGTH} printable characters", field="idempotency_key"
        )
    digest = hashlib.sha256(msgspec.json.encode(params)).hexdigest()
    return RequestKey(credential.name, method.name, key, digest)


async def call_once(method: Method, caller: Caller, params: msgspec.Struct) -> Any:
    """Does what a method does, or gives what the same request came to before."""
    request = caller.request
    if request is None:
        return await method.call(caller, params)

    async def recalled() -> Any | None:
        assert method.recall is not None
        done = await caller.runtime.store.request(request)
        if done is None:
            return None
        check_digest(request, done.digest)
        return await method.recall(caller, done)

    return await caller.daemon.repeats.once(
        request,
        lambda: method.call(caller, params),
        None if method.recall is None else recalled,
        is_told_once=method.is_told_once,
    )
