"""Where sessions work that clients begin: below the operator's roots, or in a folder of their own."""

from __future__ import annotations

import os
from pathlib import Path

import trio

from ..runtime.errors import StorageError, ValidationError
from ..runtime.identity import new_id
from .daemon import Daemon


async def chosen_workspace(daemon: Daemon, wanted: str | None) -> Path:
    """The folder that a client named, or a new one.

    Raises:
        ValidationError: It lies below none of the roots.
    """
    return await trio.to_thread.run_sync(_chosen, daemon, wanted)


def _chosen(daemon: Daemon, wanted: str | None) -> Path:
    if wanted is None:
        folder = daemon.workspaces / new_id("workspace")
        try:
            folder.mkdir(parents=True, mode=0o700)
        except OSError as error:
            raise StorageError(
                f"no workspace can be made in {daemon.workspaces}: {error}"
            ) from error
        return folder
    real = os.path.realpath(wanted)
    roots = [os.path.realpath(root) for root in daemon.roots]
    own = os.path.realpath(daemon.workspaces)
    is_below = any(os.path.commonpath([real, root]) == root for root in roots)
    if not os.path.isabs(wanted) or not (is_below or os.path.dirname(real) == own):
        raise ValidationError(
            f"{wanted!r} is not below a root of this server. Start it with `callboard serve --root "
            "FOLDER`, or leave the workspace out to get a new folder.",
            field="workspace",
        )
    return Path(real)
