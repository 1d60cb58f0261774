"""Each flow ends in time, or fails: its steps need no deadlines of their own."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

SECONDS = 120


def pytest_itemcollected(item: pytest.Item) -> None:
    """Bound an asynchronous flow, unless a mocked clock makes its seconds mean nothing."""
    if not isinstance(item, pytest.Function) or "autojump_clock" in item.fixturenames:
        return
    if inspect.iscoroutinefunction(flow := item.obj):
        item.obj = _bounded(flow)


def _bounded(flow: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    @functools.wraps(flow)
    async def run(**fixtures: Any) -> None:
        with trio.fail_after(SECONDS):
            await flow(**fixtures)

    return run
