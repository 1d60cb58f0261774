"""A session whose agent is not in the configuration any more: it goes on with General Assistant when a person agrees.

Nobody knows any more what the agent was allowed. General Assistant may do more: what was begun by an agent that only
reads, under the strict policy, would write.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ...runtime.errors import ConflictError
from ..terminal.escaping import safe_line


def gone_from(session_id: str, agent: str) -> str:
    """Return what is the matter with the session, as the beginning of a sentence."""
    return f"{session_id} had the agent {safe_line(agent)!r}, which is gone"


async def agree_to_general(confirm: Callable[[str], Awaitable[bool]], had: str) -> None:
    """Ask whether a session goes on of which `had` says whose it was.

    Raises:
        ConflictError: Nobody agreed.
    """
    if not await confirm(f"{had}.\nGo on with general, its tools and its policy? [y/N] "):
        raise ConflictError(
            f"{had}, and general may do more than that did. Nothing was sent. `--agent general` goes on with it; "
            "or put the agent back into callboard.toml."
        )
