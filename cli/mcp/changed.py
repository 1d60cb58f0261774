"""Servers that are not as they were accepted, said to whoever has a chat open."""

from __future__ import annotations

from collections.abc import Callable

from ...client.client import Client

METHOD = "mcp/list"


async def hear_changed(client: Client, say: Callable[[str], None]) -> None:
    """Say of each server what waits for a person to look at it, once for each change, as long as this runs.

    Ends at once where the daemon lists no servers to us.
    """
    said: dict[str, str] = {}
    known = {"tools": 0}
    while METHOD in client.welcome.methods:
        known = await client.wait_lists(known)
        now = {row.name: row.to_review for row in await client.mcp.list()}
        for name, words in now.items():
            if words and said.get(name) != words:
                say(words)
        said = now
