"""Requests with a key are done once: who sends one again gets the first answer again.

What a request with an event as its effect came to is on record, with the event, and survives
restarts. The answers to others are remembered here, while the daemon runs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import trio

from ...runtime.errors import ConflictError
from ...runtime.identity import RequestKey

MAX_ANSWERS = 1024
"""Answers that are remembered: a client repeats a request within seconds."""
MAX_ANSWER_BYTES = 64 * 1024
"""Of one that is remembered; larger ones are of methods that change nothing, or can be asked for."""

Place = tuple[str, str, str]
Known = Callable[[], Awaitable[Any | None]]
"""Gives what is on record of a request, or `None`; raises `ConflictError` for other parameters."""


class _Running:
    __slots__ = ("digest", "ended")

    def __init__(self, digest: str) -> None:
        self.digest = digest
        self.ended = trio.Event()


class Repeats:
    """The requests with a key of all connections."""

    def __init__(self) -> None:
        self._running: dict[Place, _Running] = {}
        self._answers: OrderedDict[Place, tuple[str, msgspec.Raw | None]] = OrderedDict()

    async def once(
        self,
        request: RequestKey,
        do: Callable[[], Awaitable[Any]],
        known: Known | None,
        *,
        is_told_once: bool = False,
    ) -> Any:
        """Does a request, or gives what it came to; one that is being done is waited for.

        An error is no answer: the request may be done again.

        Args:
            request: Which.
            do: Does it.
            known: For requests whose effect is an event.
            is_told_once: Whether the answer is a secret: that it was done is remembered, and no more.

        Raises:
            ConflictError: The key was used with other parameters, or for what is told once.
        """
        place = (request.sender, request.method, request.key)
        while (running := self._running.get(place)) is not None:
            check_digest(request, running.digest)
            await running.ended.wait()
        if (answer := self._answers.get(place)) is not None:
            check_digest(request, answer[0])
            if answer[1] is None:
                raise ConflictError(
                    f"{request.method} was done for this key already. What it made is told once and "
                    "kept nowhere: if that was lost, token/rotate makes another.",
                    kind="told",
                )
            return answer[1]
        own = self._running[place] = _Running(request.digest)
        try:
            if known is not None:
                return await _recorded(do, known)
            result = msgspec.Raw(msgspec.json.encode(await do()))
            self._remember(place, request.digest, None if is_told_once else result)
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


async def _recorded(do: Callable[[], Awaitable[Any]], known: Known) -> Any:
    answer = await known()
    if answer is not None:
        return answer
    try:
        return await do()
    except ConflictError as error:
        refusal = error
    # The first one may have been cut off from its client, and was stored meanwhile.
    answer = await known()
    if answer is None:
        raise refusal
    return answer


def check_digest(request: RequestKey, digest: str) -> None:
    """Raises `ConflictError` when a request is another one than the first with its key."""
    if digest != request.digest:
        raise ConflictError(
            f"the idempotency key {request.key!r} was used for another {request.method}: each "
            "request has a key of its own",
            kind="key",
        )
