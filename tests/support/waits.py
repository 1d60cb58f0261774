"""How a test waits for what other tasks do: the clock decides nothing."""

from __future__ import annotations

from collections.abc import Callable

import trio


async def until(condition: Callable[[], object]) -> None:
    """Waits until something is so."""
    while not condition():  # ruff: ignore[async-busy-wait] nothing tells of it  # noqa: ASYNC110
        await trio.sleep(0.003)
