"""A daemon whose record is on disk, so that it can end and begin again at the same address."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import callboard
from callboard.config.keys.tokens import Credentials, Role
from callboard.config.sections import ServerSettings
from callboard.gateway.gateway import open_gateway
from support.gateway.daemon_scene import Daemon


@asynccontextmanager
async def open_kept(
    folder: Path, model: Any, *, port: int = 0, data: str = "data", token: str = "", **options: Any
) -> AsyncGenerator[Daemon]:
    """A daemon on the data of `folder`; with a token of an earlier one, that holds still."""
    store, work = folder / data, folder / "work"
    work.mkdir(exist_ok=True)
    credentials = Credentials(store)
    token = token or credentials.create("test", Role.ADMIN).reveal()
    async with (
        callboard.open_runtime(
            model=model,
            data=store,
            workspace=work,
            environ={},
            **{"on_approval": "wait", **options},
        ) as runtime,
        open_gateway(runtime, ServerSettings(port=port), store) as gateway,
    ):
        yield Daemon(gateway, runtime, credentials, token)
