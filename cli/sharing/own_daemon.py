"""A daemon inside a command, which other commands of the user find as they find any.

It listens on a port of loopback that nobody knows, with a token that ends with the process.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import msgspec
import trio

from ...config.settings import DialectWord, Settings
from ...providers.catalog.catalog import ModelSelection
from ...providers.catalog.table import REHEARSAL
from ...runtime.budget import Budget
from ...runtime.errors import CallboardError
from ...runtime.history import Attachment
from ...runtime.turn_options import TurnOptions


class OwnDaemon(msgspec.Struct, frozen=True, kw_only=True):
    """A daemon inside the command, and how it ends when another command stops it.

    Attributes:
        wanted: Set when it must stop.
        hurry: Set when that is asked for again: what runs is cancelled.
        seconds: The time that turns have to end.
        drain: Lets turns end, as any daemon does, or cancels them.
    """

    wanted: trio.Event
    hurry: trio.Event
    seconds: float
    drain: Callable[[], Awaitable[None]]

    def ask(self) -> bool:
        """Ask for the end, the second time at once; return whether that was new."""
        is_news = not self.hurry.is_set()
        (self.hurry if self.wanted.is_set() else self.wanted).set()
        return is_news


class ChatOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The command line of `callboard chat`.

    Attributes:
        workspace: Where new sessions work; a root of a daemon inside the command.
        model: The one that new sessions are begun with.
        session: An id, the beginning of one, or `last`.
        config: The file that the settings were read from; `None` is the usual one.
        turn: What each prompt changes of the agent.
        budget: What each turn may use.
        session_budget: What a session may use, from now on.
        prompt: What is sent at once.
        attachments: The files that go with the first prompt.
        base_url, dialect: Where the model is, for a daemon inside the command.
    """

    workspace: Path
    agent: str = "general"
    model: str | None = None
    session: str | None = None
    config: Path | None = None
    turn: TurnOptions = TurnOptions()
    budget: Budget | None = None
    session_budget: Budget | None = None
    prompt: str | None = None
    attachments: tuple[Attachment, ...] = ()
    base_url: str | None = None
    dialect: DialectWord | None = None


@asynccontextmanager
async def open_own_daemon(
    options: ChatOptions,
    settings: Settings,
    data: Path,
    command: Literal["chat", "run"] = "chat",
) -> AsyncGenerator[OwnDaemon]:
    """Be the daemon of a data folder around the block.

    Raises:
        DataInUse: Another process has the data folder.
        CallboardError: No runtime can be opened.
    """
    # Here: with a daemon, a command needs none of it.
    from ...embedding.runtime import open_runtime
    from ...gateway.shared.clients_channel import ClientsChannel
    from .door import open_door

    async with (
        open_runtime(
            model=default_model(settings, data, options.model, options.base_url),
            workspace=options.workspace,
            data=data,
            channel=ClientsChannel(),
            settings=settings,
        ) as runtime,
        open_door(
            runtime,
            settings,
            data,
            command,
            config=options.config,
            roots=(str(options.workspace),),
            is_at_once=True,
        ) as door,
    ):
        assert door.gateway is not None
        yield OwnDaemon(
            wanted=door.gateway.stopped, hurry=door.hurry, seconds=door.seconds, drain=door.drain
        )


def default_model(
    settings: Settings, data: Path, model: str | None, base_url: str | None = None
) -> str | None:
    """Return the default model of a runtime that commands share: the configured one, where that can be used.

    Else it is what the command names that opens it, which has no other.
    """
    from ...embedding.models import open_finder

    try:
        selection = ModelSelection(settings=settings, environ=os.environ)
        open_finder(selection, None, data).target(None)
    except CallboardError:
        return model if base_url is None else REHEARSAL
    return None
