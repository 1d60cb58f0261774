"""Servers of MCP that are not as they were accepted: heard of when that is found, for webhooks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator

import msgspec

from ...embedding.host import Host
from ...runtime.kernel.live_lists import ListName
from .notices import ServerNotice


async def hear_changed_servers(host: Host, tell: Callable[[ServerNotice], None]) -> None:
    """Tell of each change of a server once, as long as this runs; a change is found when the server runs."""
    told: dict[str, str] = {}
    known = {ListName.TOOLS: 0}
    while True:
        known = await host.lists.wait(known)
        now = {notice.server: notice for notice in _notices(host)}
        for notice in now.values():
            if told.get(notice.server) != notice.change:
                tell(notice)
        told = {name: notice.change for name, notice in now.items()}


def _notices(host: Host) -> Iterator[ServerNotice]:
    if host.mcp is None:
        return
    from ...tools.mcp.book import row_of  # here: most runtimes have no servers

    states = host.mcp.states()
    for name, server in host.settings.mcp.items():
        row = row_of(server, "managed", states)
        if not row.to_review:
            continue
        listed = states[name].listed or {}
        pins = {pin.name: pin.original for pin in server.tools}
        its = [(each, listed.get(pins[each], "")) for each in row.withheld]
        fresh = sorted((each, listed[each]) for each in row.new)
        change = msgspec.json.encode([name, its, fresh, row.withheld_prompts])
        yield ServerNotice(
            server=name,
            withheld=row.withheld,
            new=len(row.new),
            change=f"mcp_{hashlib.sha256(change).hexdigest()[:32]}",
            text=f"callboard: {row.to_review}",
        )
