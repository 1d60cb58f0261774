"""A model whose answers go on piece by piece, as a test lets them."""

from __future__ import annotations

from collections.abc import Sequence

import trio

from callboard.providers.provider import Emit, ModelRequest
from callboard.runtime.stream import AnyStreamEvent


class GatedModel:
    """Emits the n-th answer's events one by one, each when it was let."""

    def __init__(self, *answers: Sequence[AnyStreamEvent]) -> None:
        self._answers = answers
        self._taken = 0
        self._gate = trio.Semaphore(0)

    def let(self, count: int = 1) -> None:
        """So many more events may come."""
        for _ in range(count):
            self._gate.release()

    def let_all(self) -> None:
        """All of them may come."""
        self.let(sum(len(answer) for answer in self._answers))

    async def run(self, request: ModelRequest, emit: Emit) -> None:
        """See `LocalModel`."""
        answer = self._answers[self._taken]
        self._taken += 1
        for event in answer:
            await self._gate.acquire()
            await emit([event])
