"""By whose rules the turns of a command run: those of its own configuration, or of the daemon that it met."""

from __future__ import annotations

from pathlib import Path

from ...config.daemon_file import RunningDaemon
from ...config.files import config_file
from ...runtime.errors import ConflictError


class OwnRules:
    """Which daemons may run the turns of a command: those that go by its own configuration.

    A `callboard serve` may go by another one, if it ran when the command began, which named none with `--config`.
    """

    def __init__(self, config: Path | None, daemon: RunningDaemon | None) -> None:
        self._configuration = str(config_file(config).resolve())
        self._takes_served = config is None and daemon is not None and daemon.command == "serve"

    def check(self, daemon: RunningDaemon) -> None:
        """Raise `ConflictError` for a daemon that goes by other rules."""
        is_served = daemon.command == "serve"
        if daemon.configuration == self._configuration or (is_served and self._takes_served):
            return
        instead = (
            "Leave --config out to work by its rules"
            if is_served
            else "Wait until it has ended, give it the same --config"
        )
        raise ConflictError(
            f"`callboard {daemon.command}` (process {daemon.pid}) has the sessions, and goes by the rules "
            f"of {daemon.configuration or 'another configuration'}, not by those of {self._configuration}. {instead}, "
            "or use another data folder with --data."
        )
