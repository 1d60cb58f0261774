"""How much of what all tokens share one of them may have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from ...runtime.errors import OverloadedError


def has_share(own: int, all_together: int, most: int) -> bool:
    """Return whether a token may have one more: it never has more than what is then left for others.

    A token alone gets half of the room, two get a third each, and so on; the next one finds as much free.
    """
    return own < most - all_together


class Shares:
    """Places that tokens hold for a time, each no more than its share.

    Args:
        most: The places of all tokens together.
        what: What they are for, in the plural.
    """

    def __init__(self, most: int, what: str) -> None:
        self._most = most
        self._what = what
        self._held = Counter[str]()

    @contextmanager
    def place(self, owner: str) -> Generator[None]:
        """Hold a place in the block; raise `OverloadedError` where the owner has its share."""
        own = self._held[owner]
        if not has_share(own, self._held.total(), self._most):
            raise OverloadedError(
                f"{own} {self._what} of this token run already, of {self._held.total()}; try again when one has ended"
            )
        self._held[owner] += 1
        try:
            yield
        finally:
            self._held[owner] -= 1
            if not self._held[owner]:
                del self._held[owner]
