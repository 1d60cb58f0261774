"""Restart crashed actors: a crash is logged, contained and followed by a new actor.

The state of the crashed actor is thrown away, because it may be what caused the crash; its successor
rebuilds it from the store. The mailbox outlives both, so addresses stay valid. An actor that crashes
too often is given up and its mailbox closed. If it is vital (a service that all sessions share), the
runtime ends with it. A `DiskBroken` is never retried: after a failed fsync only a new process can find
out what is on the disk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec
import trio

from ..errors import CallboardError, DiskBroken, InternalError, StorageError
from ..redaction import redacting_logger
from .mailbox import Mailbox

logger = redacting_logger(__name__)

MAX_REMEMBERED = 1000
"""Actors whose restarts are counted; beyond them the one that crashed first is dropped."""
RESTART_DELAY_SECONDS = 0.05
"""A pause before a restart, so that an actor that crashes at once does not spin."""


class Actor(Protocol):
    """An actor as the supervisor runs it."""

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Serve the mailbox to the end; call `task_status.started()` when ready to serve it."""
        ...


class RestartLimit(msgspec.Struct, frozen=True):
    """How many restarts are allowed within a time. More than five a minute is not transient."""

    max_restarts: int = 5
    within_seconds: float = 60.0


DEFAULT_LIMIT = RestartLimit()


class Supervisor:
    """Runs actors in a nursery, each isolated from the others.

    Args:
        nursery: Where the actors live; leaving it ends them.
        strict: Turns isolation off: the first crash propagates. Tests use it.

    Attributes:
        failure: The error that ends the nursery, set before the other actors end, so that tasks that
            wait for those can tell why.
        restarts: How often each crashed actor was restarted, by its mailbox's name.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        *,
        strict: bool = False,
        limit: RestartLimit = DEFAULT_LIMIT,
    ) -> None:
        self._nursery = nursery
        self._strict = strict
        self._limit = limit
        self.failure: BaseException | None = None
        self.restarts: dict[str, int] = {}

    async def start(
        self, name: str, make: Callable[[], Actor], mailbox: Mailbox[Any], *, vital: bool = True
    ) -> None:
        """Start an actor and return when it serves its mailbox.

        Args:
            name: The task's name, for logs.
            make: Builds a new actor for each start.
            mailbox: Its address, closed when it has ended for good.
            vital: Whether giving it up ends the nursery too.
        """
        await self._nursery.start(self._supervise, make, mailbox, vital, name=name)

    def start_soon(
        self, name: str, make: Callable[[], Actor], mailbox: Mailbox[Any], *, vital: bool = True
    ) -> None:
        """Like `start`, without waiting; messages stay in the mailbox meanwhile."""
        self._nursery.start_soon(self._supervise, make, mailbox, vital, name=name)

    async def _supervise(  # noqa: ASYNC128  the actor calls it
        self,
        make: Callable[[], Actor],
        mailbox: Mailbox[Any],
        vital: bool,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        crashes: list[float] = []
        crashed: BaseExceptionGroup[Exception] | None
        status = _FirstStart(task_status)
        try:
            # After the mailbox was closed, another actor has its address: no successor.
            while not mailbox.is_closed:
                crashed = None
                try:
                    await make().run(task_status=status)
                except* Exception as group:
                    if self._strict:
                        self.failure = self.failure or group
                        raise
                    # In this clause, because a cancellation in the same group is raised after it.
                    logger.error("%s crashed", mailbox.name, exc_info=group)
                    crashed = group
                if crashed is None:
                    return
                crashes.append(trio.current_time())
                del crashes[: -self._limit.max_restarts - 1]
                if self._is_exhausted(crashes) or crashed.subgroup(DiskBroken) is not None:
                    self._give_up(mailbox.name, crashed, vital)
                    return
                self._count_restart(mailbox.name)
                await trio.sleep(RESTART_DELAY_SECONDS)
        finally:
            mailbox.close()

    def _count_restart(self, name: str) -> None:
        self.restarts[name] = self.restarts.get(name, 0) + 1
        if len(self.restarts) > MAX_REMEMBERED:
            del self.restarts[next(iter(self.restarts))]

    def _is_exhausted(self, crashes: list[float]) -> bool:
        return (
            len(crashes) > self._limit.max_restarts
            and crashes[-1] - crashes[0] <= self._limit.within_seconds
        )

    def _give_up(self, name: str, crashed: BaseExceptionGroup[Exception], vital: bool) -> None:
        cause: BaseException = crashed
        while isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        message = (
            f"{name} crashed {self._limit.max_restarts + 1} times within "
            f"{self._limit.within_seconds:g} s and is given up"
        )
        if isinstance(cause, DiskBroken):
            message = f"{name} can't go on"
        if isinstance(cause, CallboardError):  # its text is written for people
            message = f"{message}: {cause}"
        logger.critical("%s", message)
        if vital:
            kind = StorageError if isinstance(cause, StorageError) else InternalError
            self.failure = kind(message)
            raise self.failure from crashed


class _FirstStart:
    """A task status that passes on the first `started()` of an actor and its successors."""

    def __init__(self, status: trio.TaskStatus[None]) -> None:
        self._status: trio.TaskStatus[None] = status

    def started(self, value: None = None) -> None:
        status, self._status = self._status, trio.TASK_STATUS_IGNORED
        status.started(value)
