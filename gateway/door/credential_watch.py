"""Ends the connections of tokens that are gone or have other rights, whoever changed the file."""

from __future__ import annotations

import os
from pathlib import Path

import trio

from ...config.keys.tokens import LOCAL_NAME, Credential
from ...runtime.errors import CallboardError
from ...runtime.redaction import redacting_logger
from ..shared.state import Daemon, OpenConnection

logger = redacting_logger(__name__)

LOOK_SECONDS = 0.5
"""Between two looks at the file: a token that was revoked is of no use a second later."""
RULES_BROKEN = 1008


async def watch_credentials(daemon: Daemon) -> None:
    """Watches until cancelled; who is in stays in while the file can't be read."""
    path = daemon.credentials.path
    seen: object = None
    known: dict[str, Credential] | None = None
    while True:
        # Those that were let in by what stands in the file now, or before: not by what comes later.
        connections = [each for each in daemon.connections if each.credential.name != LOCAL_NAME]
        state = _state_of(path)
        if state != seen:
            try:
                listed = await trio.to_thread.run_sync(daemon.credentials.list)
            except CallboardError as error:
                logger.error("who is connected stays, nobody else can connect: %s", error)
            else:
                known = {each.digest: each for each in listed}
            seen = state
        if known is not None:
            _end_stale(connections, known)
        await trio.sleep(LOOK_SECONDS)


def _end_stale(connections: list[OpenConnection], known: dict[str, Credential]) -> None:
    for connection in connections:
        current = known.get(connection.credential.digest)
        if current is None:
            connection.close(RULES_BROKEN, "its token is gone", at_once=True)
        elif current != connection.credential:
            connection.close(RULES_BROKEN, "its token has other rights now", at_once=True)


def _state_of(path: Path) -> object:
    """What changes when the file does."""
    try:
        found = os.stat(path)
    except OSError as error:
        return error.errno
    return found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode
