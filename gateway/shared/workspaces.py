"""Workspaces of clients' sessions: below the operator's roots, or a new folder for each."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from ...config.sections import MAX_PATH_BYTES
from ...embedding.runtime import host_of
from ...runtime.errors import CallboardError, ValidationError
from ...tools.workspace.roots import why_no_workspace
from .state import DaemonState


@asynccontextmanager
async def chosen_workspace(daemon: DaemonState, wanted: str | None) -> AsyncGenerator[Path]:
    """The folder that a client named, or a new one, around what begins a session in it.

    Of a session that is refused no new folder stays.

    Raises:
        ValidationError: It lies below none of the roots, or where keys or callboard's data are.
    """
    folder = await trio.to_thread.run_sync(_chosen, daemon, wanted)
    if wanted is not None and daemon.folders.holds(str(folder)):
        async with host_of(daemon.runtime).plan.folders.using:  # no purge takes it meanwhile
            if not await trio.Path(folder).is_dir():
                raise ValidationError(
                    f"{wanted!r} is gone with its sessions, which were purged. Leave the workspace "
                    "out to get a new folder.",
                    field="workspace",
                )
            yield folder
        return
    try:
        yield folder
    except CallboardError:
        # Refused, and on record nowhere; whoever is cancelled instead may have been heard.
        if wanted is None:
            with trio.CancelScope(shield=True):  # one look at the disk
                await trio.to_thread.run_sync(daemon.folders.take_back, folder)
        raise


async def check_workspace_named(daemon: DaemonState, wanted: str) -> None:
    """Raise `ValidationError` for a folder in which no session of this daemon may work."""
    await trio.to_thread.run_sync(_chosen, daemon, wanted)


def _chosen(daemon: DaemonState, wanted: str | None) -> Path:
    if wanted is None:
        return daemon.folders.make()
    if "\0" in wanted or len(wanted.encode(errors="replace")) > MAX_PATH_BYTES:
        raise ValidationError(
            f"a workspace is a path of at most {MAX_PATH_BYTES} bytes, without a NUL",
            field="workspace",
        )
    real = os.path.realpath(wanted)
    roots = [real_root for root in daemon.roots if (real_root := os.path.realpath(root)) != "/"]
    is_own = daemon.folders.holds(real)
    is_below = any(os.path.commonpath([real, root]) == root for root in roots)
    if not os.path.isabs(wanted) or not (is_below or is_own):
        raise ValidationError(
            f"{wanted!r} is not below a root of this server. Start it with `callboard serve --root "
            "FOLDER`, or leave the workspace out to get a new folder.",
            field="workspace",
        )
    if not is_own:
        _check_open(daemon, wanted, real)
    return Path(real)


def _check_open(daemon: DaemonState, wanted: str, real: str) -> None:
    """Raise `ValidationError` for a folder that no root may lie in: links and mounts come and go."""
    if why := why_no_workspace(real, own_folders(daemon)):
        raise ValidationError(
            f"{wanted!r} can't be a workspace: {why}. Choose a project's own folder.",
            field="workspace",
        )


def own_folders(daemon: DaemonState) -> tuple[Path, ...]:
    """Return callboard's folders of data and of configuration, in which no client works."""
    return (*filter(None, [daemon.folders.data]), *host_of(daemon.runtime).plan.forbidden)
