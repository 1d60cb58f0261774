"""Time, chance, threads and the order of tasks, all by a seed."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar
from unittest import mock

import trio
from trio.testing import MockClock

from callboard.tools.workspace import roots
from simulation.network import Network

Result = TypeVar("Result")

BEGINS_AT = 1_700_000_000
"""The wall clock when a world begins, in Unix seconds."""
MAX_THREADS = 40
"""As many as Trio has."""


def chance(seed: int, name: str) -> random.Random:
    """A source of chance of its own, so that what one part draws changes nothing for others."""
    return random.Random(f"{seed}/{name}")


@contextmanager
def played_edges(
    seed: int, clock: MockClock, network: Network, is_dead: Callable[[], bool]
) -> Generator[None]:
    """Time, chance, threads and connections are the world's own around the block.

    `is_dead` says whether the process was killed to which the running task belongs.
    """
    state, ids = random.getstate(), chance(seed, "ids")
    random.seed(f"{seed}/random")
    with (
        seeded_scheduling(seed),
        mock.patch.multiple(
            time,
            time=lambda: BEGINS_AT + clock.current_time(),
            time_ns=lambda: BEGINS_AT * 10**9 + int(clock.current_time() * 10**9),
            monotonic=clock.current_time,
            monotonic_ns=lambda: int(clock.current_time() * 10**9),
        ),
        # Apart from all else: some libraries draw when they are imported, which is once in a process.
        mock.patch("callboard.actors.model.choice.random", chance(seed, "retries")),
        mock.patch("callboard.client.link.random", chance(seed, "pauses")),
        mock.patch("callboard.runtime.identity.os", SimpleNamespace(urandom=ids.randbytes)),
        mock.patch("callboard.tools.workspace.roots.homes", _homes),
        mock.patch("callboard.tools.workspace.roots._closed", _closed_places),
        # The times of files are the kernel's.
        mock.patch("callboard.tools.files.file_pages.timestamp", _same_time),
        mock.patch.object(os, "urandom", chance(seed, "secrets").randbytes),
        mock.patch.object(
            trio.to_thread, "run_sync", played_thread(chance(seed, "threads"), is_dead)
        ),
        mock.patch.object(os, "fsync", _no_fsync),
        mock.patch.object(trio.from_thread, "check_cancelled", _not_cancelled),
        mock.patch.object(trio.lowlevel, "start_thread_soon", _no_thread),
        mock.patch.object(trio, "open_tcp_stream", network.connect),
    ):
        try:
            yield
        finally:
            random.setstate(state)


@contextmanager
def seeded_scheduling(seed: int) -> Generator[None]:
    """Trio draws the order of tasks from a seeded source.

    There is no public way. These two names are Trio's own means for reproducible tests under
    Hypothesis; a release without them fails here, and one that ignores them in `test_determinism`.
    """
    from trio._core import _run

    if not isinstance(_run._r, random.Random) or not isinstance(
        _run._ALLOW_DETERMINISTIC_SCHEDULING, bool
    ):
        raise TypeError("this Trio has other means to choose the order of tasks: see its _run.py")
    with (
        mock.patch.object(_run, "_ALLOW_DETERMINISTIC_SCHEDULING", new=True),
        mock.patch.object(_run, "_r", chance(seed, "scheduling")),
    ):
        yield


def played_thread(random: random.Random, is_dead: Callable[[], bool]) -> Callable[..., Any]:
    """`trio.to_thread.run_sync` without a thread: the work is done at once, at a later time."""
    limiters: dict[object, trio.CapacityLimiter] = {}

    async def run_sync(
        work: Callable[..., Result],
        *args: Any,
        thread_name: str | None = None,
        abandon_on_cancel: bool = False,
        limiter: trio.CapacityLimiter | None = None,
    ) -> Result:
        if limiter is None:
            token = trio.lowlevel.current_trio_token()
            limiter = limiters.setdefault(token, trio.CapacityLimiter(MAX_THREADS))
        await trio.lowlevel.checkpoint_if_cancelled()
        async with limiter:
            with trio.CancelScope(shield=not abandon_on_cancel):
                await trio.sleep(random.choice(THREAD_SECONDS))
            if is_dead():
                raise RuntimeError("the process crashes: it was killed")
            return work(*args)

    return run_sync


THREAD_SECONDS = (0.0, 0.0, 0.0, 0.0001, 0.001, 0.02)


_homes = cache(roots.homes)
"""The machine's places stay as they are: to look at them took a sixth of a small world."""
_closed = cache(lambda own, homes, _find=roots._closed: [*_find(own, homes)])


def _closed_places(own: Sequence[Path], of_people: Iterable[str]) -> list[str]:
    places: list[str] = _closed(tuple(own), frozenset(of_people))
    return places


def _not_cancelled() -> None:
    pass


def _same_time(_: float) -> str:
    return "2023-11-14T22:13:20Z"


def _no_fsync(_: int) -> None:
    """No machine loses its power here, and files outlive processes without it."""


def _no_thread(*_: object) -> None:
    raise AssertionError("a thread in a simulated world")
