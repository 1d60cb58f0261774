"""`callboard token`: through the daemon when one runs, so that connections end at once."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ...config.daemon_file import find_daemon
from ...config.files import load_settings
from ...config.keys.tokens import Credentials, Role
from ...runtime.wire.daemon import TokenRow, TokenText
from ..backend import FileBackend
from ..exit_codes import ANSWERED
from ..terminal.complaint import complain
from ..terminal.escaping import safe_line
from ..terminal.json_lines import json_line

if TYPE_CHECKING:
    from ...client.client import Client


def create_token(
    data: Path,
    name: str,
    role: Role,
    agents: tuple[str, ...] | None,
    sessions: tuple[str, ...] | None,
    *,
    json: bool,
) -> int:
    """Make a token and print it."""
    backend = _open(data)
    known = backend.ask(_agents_there, lambda _: _agents_here()) if agents else ()
    token = backend.ask(
        lambda client: client.tokens.create(name, role, agents=agents, sessions=sessions),
        lambda book: book.create(name, role, agents=agents, sessions=sessions).reveal(),
    )
    code = _show_token(name, token, json=json)
    for agent in agents or ():
        if agent not in known:
            complain(
                f"There is no agent {agent!r} yet: until callboard.toml has [agents.{agent}], the "
                "token knows of no session for it."
            )
    return code


def list_tokens(data: Path, *, json: bool) -> int:
    """List the tokens, the oldest first."""
    rows = _open(data).ask(lambda client: client.tokens.list(), _rows_here)
    for row in rows:
        sys.stdout.write(json_line(row) if json else _line(row))
    if not rows:
        complain("There are no tokens: `callboard token create NAME` makes one.")
    return ANSWERED


def rotate_token(data: Path, name: str, *, json: bool) -> int:
    """Replace a token by a new one and print that."""
    token = _open(data).ask(
        lambda client: client.tokens.rotate(name), lambda book: book.rotate(name).reveal()
    )
    return _show_token(name, token, json=json)


def revoke_token(data: Path, name: str) -> int:
    """End a token."""
    _open(data).ask(lambda client: client.tokens.revoke(name), lambda book: book.revoke(name))
    print(f"Revoked {name}: whoever has it can't connect any more.")
    return ANSWERED


def _open(data: Path) -> FileBackend[Credentials]:
    return FileBackend(find_daemon(data), lambda: Credentials(data))


def _rows_here(credentials: Credentials) -> Sequence[TokenRow]:
    return [
        TokenRow(
            name=each.name,
            role=each.role,
            created_at_ms=each.created_at_ms,
            agents=each.agents,
            sessions=each.sessions,
        )
        for each in credentials.list()
    ]


def _agents_here() -> Collection[str]:
    return {"general", *load_settings().agents}


async def _agents_there(client: Client) -> Collection[str]:
    return {agent.name for agent in await client.agents()}


def _show_token(name: str, token: str, *, json: bool) -> int:
    if json:
        sys.stdout.write(json_line(TokenText(name, token)))
    else:
        print(token)
        complain(f"This is the token {name}. It is shown this once, and kept nowhere.")
    return ANSWERED


def _line(row: TokenRow) -> str:
    when = datetime.fromtimestamp(row.created_at_ms / 1000).astimezone()
    limits = [
        f"{noun} {safe_line(', '.join(names))}"
        for noun, names in (("agents", row.agents), ("sessions", row.sessions))
        if names is not None
    ]
    only = f"  only {'; '.join(limits)}" if limits else ""
    return f"{safe_line(row.name):20}  {row.role:8}  {when:%Y-%m-%d %H:%M}{only}\n"
