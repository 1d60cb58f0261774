"""A runtime before providers of several wire formats, each a scripted server of its own."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

import callboard
from callboard.config.settings import (
    DialectName,
    Limits,
    NetworkSettings,
    ProviderSettings,
    Settings,
)
from callboard.providers.testing.scripted_server import (
    ScriptedServer,
    ServerStep,
    open_scripted_server,
)
from callboard.runtime.definitions import ThinkingEffort
from callboard.runtime.events import Stored
from support.stage import check_records, make_workspace

FORMATS = tuple(map(str, DialectName))
"""Providers here are named after their wire format; a second one of it has a `2` behind the name."""

MODELS = {
    "openai_chat": "qwen3",
    "openai_responses": "gpt-5-mini",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-3-pro",
}
"""Of each, one that reasons and wants its proofs back."""

SOON = Limits(retry_wait_seconds=0.02)
"""As by default, but the waits."""


class FormatStage(msgspec.Struct, frozen=True):
    """A runtime and the servers of its providers, by name."""

    runtime: callboard.Runtime
    servers: Mapping[str, ScriptedServer]
    workspace: Path

    async def session(self) -> callboard.Session:
        """A new session with the first provider's model."""
        return await self.runtime.create_session(model=model_of(next(iter(self.servers))))

    async def record(self, session: callboard.Session) -> list[Stored]:
        """The whole journal of a session."""
        return await self.runtime.store.events(session.session_id)

    @property
    def connections(self) -> int:
        """Of the runtime's, those in use now."""
        return self.runtime._host.http.statistics().active


def model_of(provider: str) -> str:
    """`PROVIDER/MODEL` of a provider here."""
    return f"{provider}/{MODELS[provider.rstrip('2')]}"


@asynccontextmanager
async def open_formats(
    folder: Path,
    scripts: Mapping[str, Sequence[ServerStep]],
    *,
    limits: Limits = SOON,
    network: NetworkSettings | None = None,
    thinking: ThinkingEffort | None = ThinkingEffort.MEDIUM,
    **options: Any,
) -> AsyncGenerator[FormatStage]:
    """Each provider plays its script; where one fails for good, the next one goes on."""
    async with AsyncExitStack() as stack:
        servers = {
            name: await stack.enter_async_context(open_scripted_server(steps))
            for name, steps in scripts.items()
        }
        settings = Settings(
            limits=limits,
            network=network or NetworkSettings(),
            providers={
                name: ProviderSettings(
                    name=name,
                    base_url=server.base_url,
                    dialect=DialectName(name.rstrip("2")),
                    key_env=f"{name.upper()}_KEY",
                )
                for name, server in servers.items()
            },
            agents={
                "general": callboard.Agent(
                    thinking=thinking, fallbacks=tuple(map(model_of, [*scripts][1:]))
                )
            },
        )
        workspace = make_workspace(folder)
        async with callboard.open_runtime(
            model=model_of(next(iter(scripts))),
            workspace=workspace,
            settings=settings,
            environ={f"{name.upper()}_KEY": f"key-of-{name}" for name in scripts},
            strict=True,
            **options,
        ) as runtime:
            yield FormatStage(runtime, servers, workspace)  # ruff: ignore[fallible-context-manager] a flow that failed needs no more
            await check_records(runtime)
        for server in servers.values():
            server.assert_complete()
