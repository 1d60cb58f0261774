"""Messages to systemd (sd_notify): ready, reloading, stopping, alive.

Datagrams to the socket that `$NOTIFY_SOCKET` names. Without that variable nobody is told.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping

from ...runtime.redaction import redacting_logger

logger = redacting_logger(__name__)


class SystemdNotifier:
    """The process that started this one, if it wants to be told.

    Args:
        environ: Where it says so.

    Attributes:
        watchdog_seconds: Within which it wants to hear that this process is alive; `None`: never.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        self.watchdog_seconds = _watchdog_seconds(environ) if self._address else None

    def ready(self, words: str) -> None:
        """Report that the daemon serves; `systemctl status` shows `words`."""
        self._tell(f"READY=1\nSTATUS={words}\nMAINPID={os.getpid()}")

    def reloading(self) -> None:
        """Report that the configuration is reloaded; `ready` ends that state."""
        self._tell(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self, seconds: float) -> None:
        """Report that the daemon stops, within so many seconds."""
        self._tell(f"STOPPING=1\nEXTEND_TIMEOUT_USEC={int(seconds * 1_000_000)}")

    def alive(self) -> None:
        """Report that the daemon is alive."""
        self._tell("WATCHDOG=1")

    def _tell(self, message: str) -> None:
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as own:
                own.setblocking(False)  # a supervisor that does not read is not waited for
                own.sendto(message.encode(), address)
        except OSError as error:
            logger.warning("the supervisor at %s can't be told: %s", self._address, error)


def _watchdog_seconds(environ: Mapping[str, str]) -> float | None:
    wanted = environ.get("WATCHDOG_USEC", "")
    is_meant = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    return int(wanted) / 1_000_000 if wanted.isdigit() and int(wanted) > 0 and is_meant else None
