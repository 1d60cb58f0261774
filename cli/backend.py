"""Where a command works: in the daemon that has the data folder, or in this process when none runs.

One process at a time writes to a data folder, and whoever writes must be the runtime that has the
sessions: it knows what runs in them. So a command that changes the store asks the daemon, if one
runs. Otherwise it opens a runtime of its own that begins no turn (`wake=False`), does its work there
and closes it. Both have the same methods, those of `Client`, so each command is written once.

Commands that only read open the record instead (`show.sessions.open_record`), which takes no lock.
Keys, providers and tokens are files of their own; a command changes them directly when no daemon runs.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec
import trio

from ..config.daemon_file import RunningDaemon, check_runs, find_daemon
from ..runtime.disk.data_lock import DataInUse
from ..runtime.errors import ConflictError
from .sharing.holder import HELD_SECONDS, LOOK_SECONDS, turn_of
from .show.question_text import ANSWERED_BY

if TYPE_CHECKING:  # a command imports the one that it needs
    from ..client.client import Client
    from ..config.settings import Settings
    from ..embedding.configuration import Configuration
    from ..embedding.host import Host
    from ..embedding.runtime import Runtime
    from ..runtime.changes.undo_report import UndoReport
    from ..runtime.channel import Channel
    from ..runtime.definitions import Agent, Preset, PresetWord
    from ..runtime.store.rows import SessionRow

Result = TypeVar("Result")
Book = TypeVar("Book")


def serving_daemon(config: Path | None, data: Path) -> RunningDaemon | None:
    """Return the daemon of the data folder; `None` if none runs, or `--config` names another file.

    Raises:
        StorageError: The file that a daemon left can't be read.
    """
    return find_daemon(data) if config is None else None


def ask_daemon(daemon: RunningDaemon, request: Callable[[Client], Awaitable[Result]], /) -> Result:
    """Connect to the daemon, make one request and return its result. Blocks; runs Trio itself."""

    async def ask() -> Result:
        async with connected(daemon) as client:
            return await request(client)

    return trio.run(ask)


class FileBackend(Generic[Book]):
    """The daemon of a data folder, or a book that changes the same files when none runs.

    Args:
        daemon: The daemon, if one runs.
        open_book: Opens the book, where there is no daemon.
    """

    def __init__(self, daemon: RunningDaemon | None, open_book: Callable[[], Book]) -> None:
        self._daemon = daemon
        self._book = open_book() if daemon is None else None

    def ask(
        self, there: Callable[[Client], Awaitable[Result]], here: Callable[[Book], Result]
    ) -> Result:
        """Make one request of the daemon, or do the same with the book. Blocks."""
        if self._daemon is not None:
            return ask_daemon(self._daemon, there)
        assert self._book is not None
        return here(self._book)


@asynccontextmanager
async def connected(daemon: RunningDaemon) -> AsyncGenerator[Client]:
    """Keep a connection to the daemon around the block."""
    from ..client.client import connect  # mostly no daemon runs

    check_runs(daemon)
    async with connect(daemon.url, daemon.token.reveal()) as client:
        yield client


@asynccontextmanager
async def open_backend(
    data: Path,
    *,
    settings: Settings | None = None,
    agents: Sequence[Agent] = (),
    policy: Preset | PresetWord | None = None,
    channel: Channel | None = None,
    config: Path | None = None,
) -> AsyncGenerator[Client | LocalBackend]:
    """Give the daemon of the data folder, or a runtime of this process, around the block.

    Args:
        data: The data folder.
        settings: The configuration of a runtime of this process; by default nothing is configured.
        agents: Agents that it has beside the configured ones.
        policy: Its preset.
        channel: Where its people are.
        config: The operator's file, for who changes agents: read in place of `settings`.

    Raises:
        ConflictError: Another process has the data folder, and is not a daemon.
    """
    patience = trio.current_time() + HELD_SECONDS
    with ExitStack() as turn:
        while (daemon := find_daemon(data)) is None:
            with ExitStack() as attempt:  # who comes meanwhile waits its turn, too
                if attempt.enter_context(turn_of(data)) or trio.current_time() > patience:
                    turn.push(attempt.pop_all())
                    break
            await trio.sleep(LOOK_SECONDS)
        if daemon is not None:
            async with connected(daemon) as client:
                yield client
            return
        async with _open_local(data, settings, agents, policy, channel, config) as local:
            yield local


@asynccontextmanager
async def _open_local(
    data: Path,
    settings: Settings | None,
    agents: Sequence[Agent],
    policy: Preset | PresetWord | None,
    channel: Channel | None,
    config: Path | None,
) -> AsyncGenerator[LocalBackend]:
    from ..embedding.runtime import (  # with a daemon, none of it is needed
        give_configuration,
        open_runtime,
    )
    from .log_file import start_logging, wants_log_on_terminal

    configuration = None if config is None else _configuration(config)
    settings = settings if configuration is None else await configuration.load()
    try:
        async with open_runtime(
            model="rehearsal",  # no turn begins, and a model must be named
            data=data,
            agents=agents,
            policy=policy,
            channel=channel,
            settings=None if settings is None else _quiet(settings),
            wake=False,
        ) as runtime:
            if configuration is not None:
                give_configuration(runtime, configuration)
            start_logging(data, verbose=wants_log_on_terminal())
            yield LocalBackend(runtime)
    except DataInUse as error:
        raise ConflictError(
            f"{data} is in use by {error.holder}, and only that process can change its sessions now: "
            "do it there (at its terminal, or in its program), or stop it and run this again. "
            "Nothing was changed."
        ) from error


class LocalBackend:
    """A runtime of this process, with the methods of `Client` that commands use.

    Attributes:
        memories: Forgets memories, as `Client.memories` does.
    """

    def __init__(self, runtime: Runtime) -> None:
        from ..embedding.runtime import host_of

        self._host = host_of(runtime)
        self.agents = runtime.agents
        self.memories = LocalMemories(self._host)
        self.approval = runtime.approval
        self.answer = runtime.answer
        self.search = runtime.search
        keeping = self._host.keeping
        self.rename = keeping.rename
        self.set_agent = keeping.set_agent
        self.delete_sessions = keeping.delete
        self.restore_sessions = keeping.restore
        self.purge_sessions = keeping.purge
        self.delete_messages = keeping.delete_messages

    async def revoke(self, grant_id: str) -> None:
        """See `Client.revoke`."""
        await self._host.revoke(grant_id, ANSWERED_BY)

    async def fork(
        self, session_id: str, message_id: str | None = None, *, title: str = ""
    ) -> SessionRow:
        """See `Client.fork`."""
        await self._host.pruning.check()
        name = await self._host.keeping.fork(session_id, message_id, title=title)
        row = await self._host.plan.store.session(name)
        assert row is not None
        return row

    async def import_session(self, file: bytes, *, workspace: str) -> str:
        """See `Client.import_session`."""
        await self._host.pruning.check()
        return await self._host.keeping.import_lines(file.splitlines(), workspace)

    async def undo(self, session_id: str, *, call_id: str | None, force: bool) -> UndoReport:
        """See `Client.undo`."""
        return await self._host.undoing.undo(
            session_id, call_id, force=force, undone_by=ANSWERED_BY
        )


class LocalMemories:
    """The memories of a runtime of this process."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def forget(self, memory_id: str) -> None:
        """See `Client.memories.forget`."""
        from ..actors.handles.memories import JournaledMemories

        plan = self._host.plan
        memories = JournaledMemories(self._host.journal, plan.store, plan.node)
        await memories.forget(memory_id, forgotten_by=ANSWERED_BY)


def _configuration(file: Path) -> Configuration:
    from ..config.files import load_settings_of, watched_files
    from ..embedding.configuration import Configuration

    return Configuration(lambda: _quiet(load_settings_of(file)), watched_files(file))


def _quiet(settings: Settings) -> Settings:
    """Return the settings without what a runtime would do beside the command: plugins, servers, upkeep, an index."""
    from ..config.sections import MemorySettings, SessionSettings

    return msgspec.structs.replace(
        settings, plugins={}, mcp={}, memory=MemorySettings(), sessions=SessionSettings()
    )
