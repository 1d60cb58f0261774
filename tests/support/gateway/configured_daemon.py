"""A daemon with a configuration that its clients may change."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

import callboard
from callboard.config.files import load_settings
from callboard.config.keys.tokens import Credentials, local_credential
from callboard.embedding.configuration import Configuration
from callboard.gateway.gateway import open_gateway
from callboard.providers.catalog.book import ProviderBook
from callboard.runtime.wire.fields import Role
from support.gateway.daemon_scene import Daemon


@asynccontextmanager
async def served(
    home: Path, text: str = "", model: Any = None
) -> AsyncGenerator[tuple[Daemon, str]]:
    """A daemon with a configuration of its own, and the token of its own user's commands."""
    file, data = home / "config" / "callboard.toml", home / "data"
    file.parent.mkdir(parents=True, mode=0o700)
    file.write_text(text)
    environ = {"CALLBOARD_HOME": str(home)}
    settings = load_settings(file)
    credentials = Credentials(data)
    token = credentials.create("test", Role.ADMIN).reveal()
    local, local_token = local_credential()
    async with (
        callboard.open_runtime(
            model=model,
            workspace=data / "workspaces",
            data=data,
            on_approval="deny",
            settings=settings,
            environ=environ,
        ) as runtime,
        open_gateway(
            runtime, msgspec.structs.replace(settings.server, port=0), data, local=local
        ) as gateway,
    ):
        book = ProviderBook(file, data, environ)
        gateway.daemon.configuration = Configuration(lambda: load_settings(file), (file,), book)
        yield Daemon(gateway, runtime, credentials, token), local_token.reveal()
