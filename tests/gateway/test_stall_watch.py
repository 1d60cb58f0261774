"""A task that holds up the loop is named while it does."""

from __future__ import annotations

import logging
import time

import pytest
import trio

from callboard.gateway.shared.stall_watch import SLOW_SECONDS, StallWatch

PATIENCE_SECONDS = 30.0


class Told(logging.Handler):
    """The records, and a look at whether there is one that the loop's own thread can take."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


async def test_a_task_that_blocks_is_named_with_its_place() -> None:
    told = Told()
    logger = logging.getLogger("callboard.gateway.shared.stall_watch")
    logger.addHandler(told)
    watch = StallWatch()

    async def blocks() -> None:
        await trio.lowlevel.checkpoint()
        end = time.monotonic() + PATIENCE_SECONDS
        while not told.lines and time.monotonic() < end:
            time.sleep(SLOW_SECONDS)  # noqa: ASYNC251  that is what is looked for

    try:
        with watch.watching():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(blocks, name="a tool that blocks")
    finally:
        logger.removeHandler(told)
    assert "'a tool that blocks' holds up all others" in told.lines[0]
    assert "blocks (" in told.lines[0]
    assert watch.state().blocked == 1


async def test_tasks_that_wait_hold_up_nothing(caplog: pytest.LogCaptureFixture) -> None:
    watch = StallWatch()
    with watch.watching():
        await trio.sleep(3 * SLOW_SECONDS)
    assert watch.state().blocked == 0
    assert caplog.records == []
