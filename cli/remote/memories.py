"""Forgetting by way of the daemon."""

from __future__ import annotations

from ...client.client import connect
from ...config.daemon_file import RunningDaemon
from ...runtime.wire.fields import Nothing
from ...runtime.wire.memories import OneMemory


async def forget_there(daemon: RunningDaemon, memory_id: str) -> None:
    """Takes a memory back; raises `NotFoundError`."""
    async with connect(daemon.url, daemon.token.reveal()) as client:
        await client.request("memory/delete", OneMemory(memory_id), Nothing)
