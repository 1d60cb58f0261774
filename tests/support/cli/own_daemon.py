"""A daemon in the process of a test, which commands find."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import callboard
from callboard.config.daemon_file import DaemonFile, RunningDaemon
from callboard.config.keys.tokens import local_credential
from callboard.config.sections import ServerSettings
from callboard.gateway.gateway import open_gateway
from callboard.gateway.lifecycle import websocket_url
from callboard.gateway.shared.clients_channel import ClientsChannel
from support.cli.command import Command


@asynccontextmanager
async def daemon_of(
    command: Command, model: Any, **options: Any
) -> AsyncGenerator[callboard.Runtime]:
    """A daemon in this process, which commands find."""
    data = command.home / "data"
    credential, token = local_credential()
    settings = ServerSettings(port=0, roots=(str(command.workspace),))
    async with (
        callboard.open_runtime(
            model=model,
            workspace=command.workspace,
            data=data,
            environ={},
            channel=ClientsChannel(),
            **options,
        ) as runtime,
        open_gateway(runtime, settings, data, local=credential) as gateway,
    ):
        running = RunningDaemon(
            url=websocket_url("127.0.0.1", gateway.port),
            pid=1,
            token=token,
            started_at_ms=time.time_ns() // 1_000_000,
        )
        with DaemonFile(data, running):
            yield runtime
