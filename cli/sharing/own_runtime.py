"""The runtime of a command that other commands find and use."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from ...config.settings import Settings
from ...providers.catalog.catalog import ModelSelection
from ...providers.catalog.table import REHEARSAL
from ...runtime.errors import CallboardError

if TYPE_CHECKING:
    from .door import Door


class OwnRuntime(msgspec.Struct, frozen=True, kw_only=True):
    """What a command opens its runtime with.

    Attributes:
        command: The command that it is.
        workspace: Where sessions work that name no folder; `None` is the present one.
        is_root: Whether sessions of other commands may work below it, too.
        model, base_url: What the command line says, for where no model is configured.
        config: The file that the settings were read from; `None` is the usual one.
    """

    data: Path
    settings: Settings
    command: Literal["chat", "run", "acp", "mcp"]
    workspace: Path | None = None
    is_root: bool = True
    model: str | None = None
    base_url: str | None = None
    config: Path | None = None


@asynccontextmanager
async def open_own_runtime(
    own: OwnRuntime,
    *,
    only_own: Callable[[Door, CallboardError | None], Awaitable[None]] | None = None,
) -> AsyncGenerator[Door]:
    """Open a runtime around the block, with a door for other commands.

    With `only_own` it is for the command's own session first: the gateway comes with the first other
    command, sessions that wait on record are left alone, and the end waits for `only_own`, which has the
    block's error, if it had one, and stays for turns of others.

    Raises:
        DataInUse: Another process has the data folder.
        CallboardError: No runtime can be opened.
    """
    # Here: with a daemon, a command needs none of it.
    from ...embedding.runtime import open_runtime
    from ...gateway.shared.clients_channel import ClientsChannel
    from .door import open_door

    is_for_others = only_own is None
    async with (
        open_runtime(
            model=_default_model(own),
            workspace=own.workspace,
            data=own.data,
            channel=ClientsChannel(),
            wake=is_for_others,
            settings=own.settings,
        ) as runtime,
        open_door(
            runtime,
            own.settings,
            own.data,
            own.command,
            config=own.config,
            roots=(str(own.workspace),) if is_for_others and own.is_root else (),
            is_at_once=is_for_others,
        ) as door,
    ):
        failure: CallboardError | None = None
        try:
            yield door
        except CallboardError as error:
            failure = error
        if only_own is not None:
            await only_own(door, failure)
        if failure is not None:
            raise failure


def _default_model(own: OwnRuntime) -> str | None:
    """Return the default model of a runtime that commands share: the configured one, where that can be used.

    Else it is what the command names that opens it, which has no other.
    """
    from ...embedding.models import open_finder

    try:
        selection = ModelSelection(settings=own.settings, environ=os.environ)
        open_finder(selection, None, own.data).target(None)
    except CallboardError:
        return own.model if own.base_url is None else REHEARSAL
    return None
