"""`callboard token`: makes and ends tokens, through the daemon when one runs: connections end at once."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from ...config.daemon_file import find_daemon
from ...config.files import load_settings
from ...config.keys.console_logins import ConsoleLogins, is_login_name, token_rows
from ...config.keys.tokens import Credentials, Role
from ...runtime.wire.daemon import TokenRow, TokenText
from ..backend import FileBackend
from ..exit_codes import ANSWERED
from ..parameters import Data, Json, data_path
from ..terminal.complaint import complain
from ..terminal.escaping import safe_line
from ..terminal.json_lines import json_line
from ..terminal.listing import write_list
from ..terminal.style import minute

if TYPE_CHECKING:
    from ...client.client import Client

TokenName = Annotated[str, Parameter(name="NAME", help="What the token is called.")]
RoleName = Annotated[
    Literal["observer", "operator", "approver", "admin"],
    Parameter(name="--role", help="What it may do; each role includes those before it."),
]
AgentNames = Annotated[
    tuple[str, ...],
    Parameter(
        name="--agent",
        help="Only sessions of this agent; more than once for more.",
        negative=(),
        show_default=False,
    ),
]
SessionNames = Annotated[
    tuple[str, ...],
    Parameter(
        name="--session",
        help="Only this session, by its id; more than once for more.",
        negative=(),
        show_default=False,
    ),
]

token = App(name="token", help="Make, list and end the tokens with which clients connect.")


@token.command(name="create")
def create_token(
    name: TokenName,
    /,
    *,
    role: RoleName = "operator",
    agents: AgentNames = (),
    sessions: SessionNames = (),
    json: Json = False,
    data: Data = None,
) -> int:
    """Make a token for a client, and print it this once."""
    backend = _open(data)
    known = backend.ask(_agents_there, lambda _: _agents_here()) if agents else ()
    its, agents_of, sessions_of = Role(role), agents or None, sessions or None
    made = backend.ask(
        lambda client: client.tokens.create(name, its, agents=agents_of, sessions=sessions_of),
        lambda book: book.create(name, its, agents=agents_of, sessions=sessions_of).reveal(),
    )
    code = _show_token(name, made, json=json)
    for agent in agents:
        if agent not in known:
            complain(
                f"There is no agent {agent!r} yet: until callboard.toml has [agents.{agent}], the "
                "token knows of no session for it."
            )
    return code


@token.command(name="list")
def list_tokens(*, json: Json = False, data: Data = None) -> int:
    """List the tokens there are, and the browsers that are logged in at the console; never a token itself."""
    rows = _open(data).ask(lambda client: client.tokens.list(), _rows_here)
    if json:
        sys.stdout.writelines(map(json_line, rows))
    else:
        write_list(("token", "role", "made", "limits"), map(_cells, rows))
    if not rows:
        complain("There are no tokens: `callboard token create NAME` makes one.")
    return ANSWERED


@token.command(name="rotate")
def rotate_token(name: TokenName, /, *, json: Json = False, data: Data = None) -> int:
    """Replace a token with a new one; connections with the old one end."""
    made = _open(data).ask(
        lambda client: client.tokens.rotate(name), lambda book: book.rotate(name).reveal()
    )
    return _show_token(name, made, json=json)


@token.command(name="revoke")
def revoke_token(name: TokenName, /, *, data: Data = None) -> int:
    """End a token, and its connections; or log out the browsers that are listed as `console of NAME`."""
    _open(data).ask(lambda client: client.tokens.revoke(name), partial(_revoke_here, name))
    print(f"Revoked {name}: whoever has it can't connect any more.")
    return ANSWERED


def _open(data: Path | None) -> FileBackend[Credentials]:
    folder = data_path(data)
    return FileBackend(find_daemon(folder), lambda: Credentials(folder))


def _rows_here(credentials: Credentials) -> Sequence[TokenRow]:
    return token_rows(credentials.list(), ConsoleLogins(credentials.path.parent).list())


def _revoke_here(name: str, credentials: Credentials) -> None:
    logins = ConsoleLogins(credentials.path.parent)
    if not (is_login_name(name) and logins.end(lambda login: login.listed_as == name)):
        credentials.revoke(name)


def _agents_here() -> Collection[str]:
    return {"general", *load_settings().agents}


async def _agents_there(client: Client) -> Collection[str]:
    return {agent.name for agent in await client.agents.list()}


def _show_token(name: str, token: str, *, json: bool) -> int:
    if json:
        sys.stdout.write(json_line(TokenText(name, token)))
    else:
        print(token)
        complain(f"This is the token {name}. It is shown this once, and kept nowhere.")
    return ANSWERED


def _cells(row: TokenRow) -> tuple[str, ...]:
    limits = [
        f"{noun} {safe_line(', '.join(names))}"
        for noun, names in (("agents", row.agents), ("sessions", row.sessions))
        if names is not None
    ]
    only = f"only {'; '.join(limits)}" if limits else ""
    return safe_line(row.name), row.role, minute(row.created_at_ms), only
