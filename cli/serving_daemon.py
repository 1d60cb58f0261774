"""Which daemon a command about the configuration speaks to, if any."""

from __future__ import annotations

from pathlib import Path

from ..config.daemon_file import RunningDaemon, find_daemon


def serving_daemon(config: Path | None, data: Path) -> RunningDaemon | None:
    """The one of the data folder; `None` when none runs, or the command names a file of its own.

    Raises:
        StorageError: What a daemon left can't be read.
    """
    return find_daemon(data) if config is None else None
