"""Somebody else's client of MCP at a daemon's door: the official one, over its own transport."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation

from support.gateway.daemon_scene import Daemon


@asynccontextmanager
async def open_mcp(
    daemon: Daemon, token: str | None = None, *, mode: Any = "auto", **options: Any
) -> AsyncGenerator[Any]:
    """A client that has greeted; `legacy` is a session of an earlier revision."""
    headers = {"authorization": f"Bearer {daemon.token if token is None else token}"}
    url = f"http://127.0.0.1:{daemon.gateway.port}/mcp"
    async with httpx2.AsyncClient(headers=headers, timeout=30, trust_env=False) as http:
        transport = streamable_http_client(url, http_client=http)
        info = Implementation(name="probe", version="1")
        async with Client(transport, mode=mode, client_info=info, cache=None, **options) as client:
            yield client
