"""What `callboard token` does: through the daemon when one runs, so that connections end at once."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Protocol

import trio

from ...config.daemon_file import find_daemon
from ...config.files import load_settings
from ...config.keys.tokens import Credentials, Role
from ...runtime.wire.daemon import NewToken, TokenRow, TokenText
from ..exit_codes import ANSWERED
from ..terminal.complaint import complain
from ..terminal.escaping import safe_line
from ..terminal.json_lines import json_line


class TokenPlace(Protocol):
    """Where tokens are kept."""

    async def list(self) -> Sequence[TokenRow]:
        """Those there are, the oldest first."""
        ...

    async def create(self, new: NewToken) -> TokenText:
        """Makes one; raises `ConflictError` when there is one of that name."""
        ...

    async def rotate(self, name: str) -> TokenText:
        """Makes a new one in its place; raises `NotFoundError`."""
        ...

    async def revoke(self, name: str) -> None:
        """Ends one; raises `NotFoundError`."""
        ...

    async def agents(self) -> Collection[str]:
        """Those that sessions can have, by name."""
        ...


class TokenDesk:
    """The commands over one data folder; each gives its exit code."""

    def __init__(self, data: Path, *, json: bool) -> None:
        self._data = data
        self._json = json

    def create(
        self, name: str, role: str, agents: tuple[str, ...] | None, sessions: tuple[str, ...] | None
    ) -> int:
        """Makes a token and prints it."""
        new = NewToken(name=name, role=Role(role), agents=agents, sessions=sessions)

        async def create() -> tuple[TokenText, list[str]]:
            async with _open(self._data) as place:
                known = await place.agents() if agents else ()
                return await place.create(new), [each for each in agents or () if each not in known]

        token, unknown = trio.run(create)
        code = self._tell(token)
        for agent in unknown:
            complain(
                f"There is no agent {agent!r} yet: until callboard.toml has [agents.{agent}], the token "
                "knows of no session for it."
            )
        return code

    def show(self) -> int:
        """Lists them."""

        async def listed() -> Sequence[TokenRow]:
            async with _open(self._data) as place:
                return await place.list()

        rows = trio.run(listed)
        for row in rows:
            sys.stdout.write(json_line(row) if self._json else _line(row))
        if not rows:
            complain("There are no tokens: `callboard token create NAME` makes one.")
        return ANSWERED

    def rotate(self, name: str) -> int:
        """Makes a new token in the place of one and prints it."""

        async def rotate() -> TokenText:
            async with _open(self._data) as place:
                return await place.rotate(name)

        return self._tell(trio.run(rotate))

    def revoke(self, name: str) -> int:
        """Ends a token."""

        async def revoke() -> None:
            async with _open(self._data) as place:
                await place.revoke(name)

        trio.run(revoke)
        print(f"Revoked {name}: whoever has it can't connect any more.")
        return ANSWERED

    def _tell(self, token: TokenText) -> int:
        if self._json:
            sys.stdout.write(json_line(token))
        else:
            print(token.token)
            complain(f"This is the token {token.name}. It is shown this once, and kept nowhere.")
        return ANSWERED


@asynccontextmanager
async def _open(data: Path) -> AsyncGenerator[TokenPlace]:
    daemon = find_daemon(data)
    if daemon is None:
        await trio.lowlevel.checkpoint()
        yield _File(Credentials(data))
        return
    from ..remote.tokens import open_remote_tokens  # here: most of the time no daemon runs

    async with open_remote_tokens(daemon) as place:
        yield place


class _File:
    """The file of a data folder on which no daemon runs."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    async def list(self) -> Sequence[TokenRow]:
        return [
            TokenRow(
                name=each.name,
                role=each.role,
                created_at_ms=each.created_at_ms,
                agents=each.agents,
                sessions=each.sessions,
            )
            for each in await trio.to_thread.run_sync(self._credentials.list)
        ]

    async def create(self, new: NewToken) -> TokenText:
        def create() -> str:
            return self._credentials.create(
                new.name, new.role, agents=new.agents, sessions=new.sessions
            ).reveal()

        return TokenText(new.name, await trio.to_thread.run_sync(create))

    async def rotate(self, name: str) -> TokenText:
        token = await trio.to_thread.run_sync(self._credentials.rotate, name)
        return TokenText(name, token.reveal())

    async def revoke(self, name: str) -> None:
        await trio.to_thread.run_sync(self._credentials.revoke, name)

    async def agents(self) -> Collection[str]:
        settings = await trio.to_thread.run_sync(load_settings)
        return {"general", *settings.agents}


def _line(row: TokenRow) -> str:
    when = datetime.fromtimestamp(row.created_at_ms / 1000).astimezone()
    limits = [
        f"{noun} {safe_line(', '.join(names))}"
        for noun, names in (("agents", row.agents), ("sessions", row.sessions))
        if names is not None
    ]
    only = f"  only {'; '.join(limits)}" if limits else ""
    return f"{safe_line(row.name):20}  {row.role:8}  {when:%Y-%m-%d %H:%M}{only}\n"
