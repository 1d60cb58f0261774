"""`callboard token` and its options; what they do is imported when they run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from ..parameters import Data, Json, data_path

if TYPE_CHECKING:
    from pathlib import Path

    from .tokens import TokenDesk

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


@token.command
def create(
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
    return _desk(data, json=json).create(name, role, agents or None, sessions or None)


@token.command(name="list")
def list_tokens(*, json: Json = False, data: Data = None) -> int:
    """List the tokens there are; never a token itself."""
    return _desk(data, json=json).show()


@token.command
def rotate(name: TokenName, /, *, json: Json = False, data: Data = None) -> int:
    """Make a new token in the place of one, whose connections end."""
    return _desk(data, json=json).rotate(name)


@token.command
def revoke(name: TokenName, /, *, data: Data = None) -> int:
    """End a token, and its connections."""
    return _desk(data, json=False).revoke(name)


def _desk(data: Path | None, *, json: bool) -> TokenDesk:
    from .tokens import TokenDesk

    return TokenDesk(data_path(data), json=json)
