"""How a chat begins a session: in the folder of the command, which the daemon may have to be told of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from ...client.client import Client
from ...runtime.errors import ConflictError, ValidationError
from ...runtime.store.rows import SessionRow
from ...runtime.wire.daemon import WorkspaceRoot, WorkspaceRoots
from ..daemon.roots import root_advice


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """What new sessions are begun with."""

    workspace: Path
    agent: str = "general"
    model: str | None = None


async def new_session(
    client: Client, wishes: Wishes, confirm: Callable[[str], Awaitable[bool]]
) -> SessionRow:
    """Begins one; asks before the daemon gets one more folder.

    Raises:
        ConflictError: The folder is below no root of the daemon, and shall not be one.
        CallboardError: There is no such agent, or model.
    """
    try:
        return await _create(client, wishes)
    except ValidationError as error:
        if error.field != "workspace" or not wishes.workspace.is_dir():
            raise
    folder = str(wishes.workspace)
    if not await confirm(
        f"{folder} is below no root of the daemon. Let its sessions work there? [y/N] "
    ):
        raise ConflictError(
            f"{folder} is below no root of the daemon: {root_advice(wishes.workspace)} Or name another "
            "folder with --workspace"
        )
    await client.request("root/add", WorkspaceRoot(folder), WorkspaceRoots)
    return await _create(client, wishes)


async def _create(client: Client, wishes: Wishes) -> SessionRow:
    return await client.create_session(
        agent=wishes.agent, workspace=str(wishes.workspace), model=wishes.model
    )
