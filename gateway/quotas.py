"""Quotas: what the connections of one token may use together, so that no token starves another.

Counted are connections, slow requests, and the bytes that messages hold: what has come of one, until it is
whole and its request done, and what waits for a client. `OWN_BYTES` of each direction of a connection are
not counted, so that ordinary requests pass whatever others do. A token has half of the whole room, or
room for one message of the largest size. Where there is no room, the message gives way that has cost most,
in bytes and seconds: of the same token, or, when the whole room is used up, of the token that holds most.
The token of this user's own commands has room of its own beside that of the others.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from ..config.keys.tokens import Credential
from ..config.sections import ServerSettings
from ..runtime.errors import OverloadedError

OWN_BYTES = 64 * 1024
"""Of each direction of a connection, which are not counted: most messages have a kilobyte."""
MAX_TOKEN_REQUESTS = 256
"""Slow requests of one token at once: those of four busy connections."""


class Quota:
    """What the connections of one token use at present.

    Attributes:
        size: Bytes that are counted.
        connections: Those that are open.
        requests: Slow requests that run.
        waiting: What may have to give way: unfinished messages, and outboxes with counted bytes.
    """

    def __init__(self, quotas: Quotas, *, is_local: bool) -> None:
        self.quotas = quotas
        self.is_local = is_local
        self.size = self.connections = self.requests = 0
        self.waiting: dict[Holding, None] = {}

    def change(self, size: int) -> None:
        """Count so many bytes more, or fewer."""
        self.size += size
        if not self.is_local:
            self.quotas.size += size

    def costliest(self) -> Holding | None:
        """What has held most for longest, of what can give way."""
        return max(self.waiting, key=lambda each: each.cost, default=None)


class Holding:
    """What one direction of a connection holds.

    Args:
        quota: Of its token.
        give_way: Ends the connection; never waits.
    """

    __slots__ = ("_begun_at", "_counted", "_give_way", "_is_closed", "_quota")

    def __init__(self, quota: Quota, give_way: Callable[[], None]) -> None:
        self._quota = quota
        self._give_way = give_way
        self._counted = 0
        self._begun_at = 0.0
        self._is_closed = False

    @property
    def is_over(self) -> bool:
        """Whether some of it is counted, and there is no room for that."""
        return self._counted > 0 and self._quota.quotas.is_over(self._quota)

    @property
    def cost(self) -> float:
        """Counted bytes times seconds."""
        return self._counted * (trio.current_time() - self._begun_at)

    def set(self, size: int) -> None:
        """Note how many bytes are held now."""
        counted = max(0, size - OWN_BYTES)
        if counted != self._counted and not self._is_closed:
            self._quota.change(counted - self._counted)
            self._counted = counted

    def begin(self) -> None:
        """Note that it waits for the client from now on, and may have to give way. Idempotent."""
        if self not in self._quota.waiting and not self._is_closed:
            self._begun_at = trio.current_time()
            self._quota.waiting[self] = None

    def finish(self) -> None:
        """Note that it waits for nobody. Idempotent."""
        self._quota.waiting.pop(self, None)

    def make_room(self) -> bool:
        """Have what is costliest give way, which may be this; return whether there was anything."""
        found = self._quota.quotas.payer(self._quota).costliest()
        if found is not None:
            give_way = found._give_way
            found.close()
            give_way()
        return found is not None

    def close(self) -> None:
        """Count nothing of it any more. Idempotent."""
        self.finish()
        self.set(0)
        self._is_closed = True
        self._give_way = (
            _nothing  # it refers to who has this, and both would wait for the garbage collector
        )


def _nothing() -> None:
    """Give way no more: it has."""


class Quotas:
    """The quotas of all tokens that are connected.

    Attributes:
        settings: The limits; may be replaced.
        size: Bytes that are counted of all tokens, but for this user's own commands.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.size = 0
        self._quotas: dict[str, Quota] = {}

    def is_over(self, quota: Quota) -> bool:
        """Return whether a token holds more than its part, or all together more than there is."""
        whole = self.settings.max_buffered_bytes
        return self._is_beyond_part(quota) or (not quota.is_local and self.size > whole)

    def _is_beyond_part(self, quota: Quota) -> bool:
        settings = self.settings
        return quota.size > max(settings.max_buffered_bytes // 2, settings.max_frame_bytes)

    def payer(self, quota: Quota) -> Quota:
        """Return whose messages give way to make room for a token: its own, or who holds most."""
        if self._is_beyond_part(quota):
            return quota
        others = (each for each in self._quotas.values() if each.waiting and not each.is_local)
        return max(others, key=lambda each: each.size, default=quota)

    def connected(self, credential: Credential | None, *, is_local: bool) -> Connected:
        """Count a connection, or an exchange of HTTP: enter what this returns at once.

        Those without a token have one quota together; how many they are, the door bounds by address.

        Raises:
            OverloadedError: The token has `max_token_connections` already.
        """
        digest = "" if credential is None else credential.digest
        quota = self._quotas.get(digest)
        if quota is None:
            quota = self._quotas[digest] = Quota(self, is_local=is_local)
        if digest and quota.connections >= self.settings.max_token_connections:
            raise OverloadedError(
                f"this token has {quota.connections} connections: close some, use a token for each "
                "program, or raise max_token_connections in [server]"
            )
        quota.connections += 1
        return Connected(self._quotas, digest)


class Connected:
    """A connection that is counted around the block."""

    __slots__ = ("_digest", "_quotas")

    def __init__(self, quotas: dict[str, Quota], digest: str) -> None:
        self._quotas, self._digest = quotas, digest

    def __enter__(self) -> Quota:
        return self._quotas[self._digest]

    def __exit__(self, *_: object) -> None:
        quota = self._quotas[self._digest]
        quota.connections -= 1
        if not quota.connections:
            del self._quotas[self._digest]
