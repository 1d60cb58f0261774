"""Idempotency keys: a request that a client sends twice is done once, and answered twice.

A client that loses its connection cannot know whether its request was done. It sends the request again
with the same key, and gets the answer of the first one:

- A method whose effect is an event stores the key with the event, in one commit. So the answer can be
  rebuilt from the record, even after the daemon was killed between the commit and the answer.
- The answers of other methods are remembered here while the daemon runs.

A key belongs to one sender and one method, and to the parameters that it came with first: a digest of
those tells a repetition from a mistake. An error does not count: the request may be sent again.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import trio

from ...runtime.errors import ConflictError, ValidationError
from ...runtime.identity import MAX_KEY_LENGTH, RequestKey

MAX_ANSWERS = 1024
"""Answers remembered: a client repeats a request within seconds."""
MAX_ANSWER_BYTES = 64 * 1024
"""Larger answers are not remembered: their methods change nothing, or the answer can be asked for."""
LARGE_PARAMS = 64 * 1024
"""Bytes of parameters that are decoded and hashed in a thread, so that other clients do not wait."""

Place = tuple[str, str, str]
Recall = Callable[[], Awaitable[Any | None]]
"""Returns the recorded answer of a request, or `None`; raises `ConflictError` for other parameters."""


class _Keyed(msgspec.Struct):
    idempotency_key: str | None = None


# At import, since threads use it: see config/keys/tokens.
_KEYED = msgspec.json.Decoder(_Keyed)


async def request_key(
    sender: str, method: str, raw: msgspec.Raw, params: msgspec.Struct
) -> RequestKey | None:
    """Return the key of a request, with a digest of its decoded parameters; `None` without a key.

    Raises:
        ValidationError: The key is not a printable string of the allowed length.
    """
    if len(memoryview(raw)) <= LARGE_PARAMS:
        return _key(sender, method, raw, params)
    return await trio.to_thread.run_sync(_key, sender, method, raw, params)


def _key(sender: str, method: str, raw: msgspec.Raw, params: msgspec.Struct) -> RequestKey | None:
    if b"idempotency_key" not in bytes(raw):
        return None
    try:
        key = _KEYED.decode(raw).idempotency_key
    except msgspec.MsgspecError as error:
        raise ValidationError(f"{error}", field="idempotency_key") from error
    if key is None:
        return None
    if not 1 <= len(key) <= MAX_KEY_LENGTH or not key.isprintable():
        raise ValidationError(
            f"a key has 1 to {MAX_KEY_LENGTH} printable characters", field="idempotency_key"
        )
    digest = hashlib.sha256(msgspec.json.encode(params)).hexdigest()
    return RequestKey(sender, method, key, digest)


class _Running:
    __slots__ = ("digest", "ended")

    def __init__(self, digest: str) -> None:
        self.digest = digest
        self.ended = trio.Event()


class IdempotentRequests:
    """The requests with a key, of all connections."""

    def __init__(self) -> None:
        self._running: dict[Place, _Running] = {}
        self._answers: OrderedDict[Place, tuple[str, msgspec.Raw | None]] = OrderedDict()

    async def once(
        self,
        request: RequestKey,
        do: Callable[[], Awaitable[Any]],
        recall: Recall | None,
        *,
        is_secret: bool = False,
    ) -> Any:
        """Do a request, or return its earlier answer; wait for it if it is being done right now.

        Args:
            request: The key, sender and digest.
            do: Does it.
            recall: Looks for its effect on record, for methods whose effect is an event.
            is_secret: Whether the answer must not be kept: then only the fact that it was given is.

        Raises:
            ConflictError: The key was used with other parameters, or the answer was a secret.
        """
        place = (request.sender, request.method, request.key)
        while (running := self._running.get(place)) is not None:
            check_digest(request, running.digest)
            await running.ended.wait()
        if (answer := self._answers.get(place)) is not None:
            check_digest(request, answer[0])
            if answer[1] is None:
                raise ConflictError(
                    f"{request.method} was done for this key already. Its result is shown once and "
                    "kept nowhere: if it was lost, token/rotate makes another.",
                    kind="told",
                )
            return answer[1]
        own = self._running[place] = _Running(request.digest)
        try:
            if recall is not None:
                return await _recorded(do, recall)
            result = msgspec.Raw(msgspec.json.encode(await do()))
            self._remember(place, request.digest, None if is_secret else result)
            return result
        finally:
            del self._running[place]
            own.ended.set()

    def _remember(self, place: Place, digest: str, answer: msgspec.Raw | None) -> None:
        if answer is not None and len(bytes(answer)) > MAX_ANSWER_BYTES:
            return
        self._answers[place] = digest, answer
        if len(self._answers) > MAX_ANSWERS:
            self._answers.popitem(last=False)


async def _recorded(do: Callable[[], Awaitable[Any]], recall: Recall) -> Any:
    answer = await recall()
    if answer is not None:
        return answer
    try:
        return await do()
    except ConflictError as error:
        refusal = error
    # The first request may have lost its client and been stored while this one ran.
    answer = await recall()
    if answer is None:
        raise refusal
    return answer


def check_digest(request: RequestKey, digest: str) -> None:
    """Raise `ConflictError` unless the key was used with the same parameters before."""
    if digest != request.digest:
        raise ConflictError(
            f"the idempotency key {request.key!r} was used for another {request.method}: give each "
            "request a key of its own",
            kind="key",
        )
