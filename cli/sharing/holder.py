"""Keeps a daemon on a data folder: the one that runs, or this process."""

from __future__ import annotations

import fcntl
import os
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from ...config.daemon_file import RunningDaemon, find_daemon
from ...config.private_file import make_private_folder
from ...runtime.disk.data_lock import DataInUse
from ...runtime.errors import CallboardError, StorageError
from ...runtime.kernel.service_nursery import open_service_nursery
from .own_runtime import OwnRuntime, open_own_runtime
from .rules import OwnRules

if TYPE_CHECKING:
    from .background import Background
    from .door import Door

TURN_NAME = "daemon.turn"
LEFT = "the chat was left"
"""Why its turn is cancelled, and what waits behind that."""
LOOK_SECONDS = 0.1
"""Time between two looks for a daemon: the others wait for the one that takes over."""
HELD_SECONDS = 10.0
"""Time for a process that has the data folder and is not a daemon to leave it: a command that changes
one thing has it for a moment."""


class Holder:
    """Whether this process is the daemon of a data folder, which changes when another one ends.

    Attributes:
        door: That of this process, while it is the daemon.
        background: The daemon that this command has begun as a process of its own.
        is_shared: Whether the daemon is a command, of this process or another, and no `callboard serve`.
        rules: Which daemons may run this command's turns.
    """

    def __init__(
        self, own: OwnRuntime, notice: Callable[[str], None], background: Background | None
    ) -> None:
        self.door: Door | None = None
        self.background = background
        self.is_shared = True
        self._own = own
        self._notice = notice
        self.rules = OwnRules(own.config, running(own.data))

    @property
    def is_ours(self) -> bool:
        """Whether the daemon is this command's, in this process or its own."""
        return self.door is not None or (self.background is not None and self.background.serves)

    def show(self, *ids: str) -> None:
        """Note which sessions, and inputs there, are this command's own: they end with it, in a daemon of its own."""
        if self.background is not None:
            self.background.show(*ids)

    async def wait_others(self, notice: Callable[[str], None]) -> None:
        """Stay while turns of other commands run in this process, and say so."""
        if self.door is not None:
            await self.door.wait_others(notice)

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Keep a daemon until cancelled; started once there is one.

        Raises:
            DataInUse: Before it has started: another process has the folder, and is not a daemon.
            CallboardError: Before it has started: no runtime can be opened, or the daemon goes by the rules
                of another configuration.
        """
        has_started, said = False, ""

        def start() -> None:
            nonlocal has_started
            if not has_started:
                has_started = True
                task_status.started()

        patience = trio.current_time() + HELD_SECONDS
        background = self.background
        if background is not None:
            await background.wait_started()
        while True:
            try:
                if (daemon := running(self._own.data)) is not None:
                    self.is_shared = daemon.command != "serve"
                    self.rules.check(daemon)
                    start()
                elif background is not None and (background.serves or background.was_stopped):
                    pass  # it ends, and so does this command
                elif self.is_shared:  # else whoever started it starts it again
                    await self._take_turn(start)
            except CallboardError as error:
                is_held = isinstance(error, DataInUse) and trio.current_time() < patience
                if not has_started and not is_held:
                    raise
                if has_started and str(error) != said:
                    said = str(error)
                    self._notice(f"this command can't take over: {said}")
            await trio.sleep(LOOK_SECONDS)

    async def _take_turn(self, start: Callable[[], None]) -> None:
        """Be the daemon, unless another process is about to."""
        with turn_of(self._own.data) as is_ours:
            if not is_ours or running(self._own.data) is not None:
                return
            async with open_own_runtime(self._own) as door:
                self.door = door
                try:
                    start()
                    await trio.sleep_forever()
                finally:
                    self.door = None


def running(data: Path) -> RunningDaemon | None:
    """Return the daemon that runs on a data folder."""
    try:
        return find_daemon(data)
    except StorageError:
        return None  # it is being written or removed just now


@contextmanager
def turn_of(data: Path) -> Generator[bool]:
    """Take the turn to become the daemon, for the block; give whether no other process has it.

    Raises:
        StorageError: The data folder can't be written.
    """
    make_private_folder(data)
    path = data / TURN_NAME
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        raise StorageError(f"{path} can't be opened: {error.strerror or error}.") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            try:
                yield True
            finally:
                # Closing is not enough: a child between its fork and its exec still holds a copy.
                fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


@asynccontextmanager
async def holding(
    own: OwnRuntime, notice: Callable[[str], None], background: Background | None = None
) -> AsyncGenerator[Holder]:
    """Keep a daemon on the data folder around the block: the one that runs, or this command's own.

    Raises:
        CallboardError: There is none, and this process can't be one.
    """
    holder = Holder(own, notice, background)
    async with open_service_nursery("the command is over") as nursery:
        await nursery.start(holder.run, name="daemon of this command")
        yield holder
