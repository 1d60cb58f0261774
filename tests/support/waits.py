"""How a test waits for what other tasks do: the clock decides nothing."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import trio
from trio.testing import MockClock

if TYPE_CHECKING:  # processes without tests wait, too
    import pytest


async def until(condition: Callable[[], object]) -> None:
    """Waits until something is so."""
    while not condition():  # ruff: ignore[async-busy-wait] nothing tells of it  # noqa: ASYNC110
        await trio.sleep(0.003)


async def some(ask: Callable[[], Awaitable[Sequence[Any]]]) -> Sequence[Any]:
    """What is asked for, once there is some."""
    while not (found := await ask()):  # noqa: ASYNC110  # ruff: ignore[async-busy-wait]
        await trio.sleep(0.02)
    return found


def leap(seconds: float) -> None:
    """Passes over so many seconds of a test with `leaping_clock`: what is due by then is due now.

    A deadline that shall come after something has happened comes then, on however slow a machine.
    """
    clock = trio.lowlevel.current_clock()
    assert isinstance(clock, MockClock), "the test needs the fixture leaping_clock"
    clock.jump(seconds)


async def leap_when(condition: Callable[[], object], seconds: float) -> None:
    """Passes over so many seconds once something is so."""
    await until(condition)
    leap(seconds)


def set_wall_clock_ahead(patch: pytest.MonkeyPatch, seconds: float) -> None:
    """Has the dates of this process be those of so many seconds later."""
    real = time.time_ns
    patch.setattr(time, "time_ns", lambda: real() + round(seconds * 1e9))
