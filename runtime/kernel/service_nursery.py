"""A nursery for tasks that serve a block, and end with it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def open_service_nursery(reason: str) -> AsyncGenerator[trio.Nursery]:
    """Give a nursery whose tasks are cancelled, with this reason, when the block is left.

    What the block raises is raised as it is: in no group with what the tasks may raise.
    """
    raised: BaseException | None = None
    async with trio.open_nursery() as nursery:
        try:
            yield nursery
        except BaseException as error:  # noqa: ASYNC103  raised again below
            raised = error
        finally:
            nursery.cancel_scope.cancel(reason=reason)
    if raised is not None:
        raise raised
