"""Models of providers by way of the daemon, which has the keys and the lists."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import trio

from ...client.client import Client, connect
from ...config.daemon_file import RunningDaemon
from ...providers.catalog.connection_test import ConnectionReport
from ...providers.catalog.services import ModelList
from ...runtime.wire.fields import Nothing
from ...runtime.wire.providers import ListModels, ProviderRow, Providers, TryProvider


class RemoteModels:
    """A `ModelPlace`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def list_models(self, provider: str, *, refresh: bool = False) -> ModelList:
        """See `ModelPlace`."""
        method = "model/refresh" if refresh else "model/list"
        return await self._client.request(method, ListModels(provider), ModelList)

    async def providers(self) -> Sequence[ProviderRow]:
        """The providers there are."""
        return (await self._client.request("provider/list", Nothing(), Providers)).providers


@asynccontextmanager
async def open_remote_models(daemon: RunningDaemon) -> AsyncGenerator[RemoteModels]:
    """What a daemon knows of models, around the block."""
    async with connect(daemon.url, daemon.token.reveal()) as client:
        yield RemoteModels(client)


def try_there(daemon: RunningDaemon, name: str, model: str | None) -> tuple[bool, ConnectionReport]:
    """Has the daemon test a provider: whether it may be used, and how that went. Blocks."""
    choice = model.removeprefix(f"{name}/") if model is not None else None

    async def ask() -> tuple[bool, ConnectionReport]:
        async with connect(daemon.url, daemon.token.reveal()) as client:
            params = TryProvider(provider=name, model=choice)
            report = await client.request("provider/test", params, ConnectionReport)
            rows = await RemoteModels(client).providers()
            return all(row.is_active for row in rows if row.name == name), report

    return trio.run(ask)
