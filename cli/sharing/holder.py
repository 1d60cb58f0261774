"""Keeps a daemon on a data folder: the one that runs, or this process."""

from __future__ import annotations

import fcntl
import os
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path

import trio

from ...config.daemon_file import RunningDaemon, find_daemon
from ...config.private_file import make_private_folder
from ...runtime.disk.data_lock import DataInUse
from ...runtime.errors import CallboardError, StorageError
from .own_daemon import OwnDaemon
from .rules import OwnRules

TURN_NAME = "daemon.turn"
LOOK_SECONDS = 0.1
"""Time between two looks for a daemon: the others wait for the one that takes over."""
HELD_SECONDS = 10.0
"""Time for a process that has the data folder and is not a daemon to leave it: a command that changes
one thing has it for a moment."""

OpenDaemon = Callable[[], AbstractAsyncContextManager[OwnDaemon]]


class Holder:
    """Whether this process is the daemon of a data folder, which changes when another one ends.

    Attributes:
        own: The daemon of this process, while it is one.
        is_shared: Whether the daemon is a command, of this process or another, and no `callboard serve`.
        rules: Which daemons may run this command's turns.
    """

    def __init__(
        self, data: Path, open_own: OpenDaemon, notice: Callable[[str], None], config: Path | None
    ) -> None:
        self.own: OwnDaemon | None = None
        self.is_shared = True
        self._data = data
        self._open_own = open_own
        self._notice = notice
        self.rules = OwnRules(config, running(data))

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
        while True:
            try:
                if (daemon := running(self._data)) is not None:
                    self.is_shared = daemon.command != "serve"
                    self.rules.check(daemon)
                    start()
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
        with turn_of(self._data) as is_ours:
            if not is_ours or running(self._data) is not None:
                return
            async with self._open_own() as own:
                self.own = own
                try:
                    start()
                    await trio.sleep_forever()
                finally:
                    self.own = None


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
    data: Path, open_own: OpenDaemon, notice: Callable[[str], None], config: Path | None = None
) -> AsyncGenerator[Holder]:
    """Keep a daemon on the data folder around the block: the one that runs, or this process.

    Raises:
        CallboardError: There is none, and this process can't be one.
    """
    holder = Holder(data, open_own, notice, config)
    raised: BaseException | None = None
    async with trio.open_nursery() as nursery:
        try:
            await nursery.start(holder.run, name="daemon of this command")
            yield holder
        except BaseException as error:  # noqa: ASYNC103  raised again below
            raised = error
        finally:
            nursery.cancel_scope.cancel(reason="the command is over")
    if raised is not None:
        raise raised
