"""The daemon of the console's golden pictures: `python -m support.gateway.console_gallery_peer`, see `console_watch_peer`.

Its clock stands still, ids are counted, and its sessions are those of `gallery_record`: whoever looks at it sees the same each time.
"""

from __future__ import annotations

import itertools
import logging
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import trio

from callboard.providers.provider import ModelRequest
from callboard.providers.testing.script import Step, last_result, reply, stall
from callboard.runtime import identity
from callboard.runtime.history import Input
from callboard.runtime.store import ledger
from support.gateway.console_watch_peer import Watched, opened, serve_until_ended
from support.gateway.daemon_scene import Daemon, open_greeted
from support.gateway.gallery_record import NOW_MS, record

CONFIGURATION = """\
policy = "strict"

[server]
log_level = "info"
roots = ["{root}"]

[network]
allow = ["{endpoint}"]

[agents.researcher]
description = "Looks things up, and changes nothing."
prompt = "You look things up.\\nYou answer with sources, in a few sentences."
tools = ["read_file", "list_files", "search_files", "web_search"]

[prices."anthropic/claude-sonnet"]
input = 3.0
output = 15.0

[prices."anthropic/claude-haiku"]
input = 0.8
output = 4.0
"""
NOTES = "# Monday\n\n- Water the beds at six.\n- Call Ada about the gate.\n- 买三袋土。\n"
SCHEDULES: tuple[dict[str, Any], ...] = (
    {"name": "morning", "prompt": "What has to be done in the garden today?", "cron": "0 6 * * 1-5"},
    {"name": "frost", "prompt": "Is there frost tonight? Warn me.", "every": "2h", "agent": "researcher"},
    {"name": "weekly", "prompt": "总结这一周。", "cron": "0 18 * * 5", "paused": True},
)  # fmt: skip
TOOLS = {
    "search_plants": "Finds plants by their name, their colour or the month in which they bloom.",
    "water": "Opens the valve of a bed for so many minutes.",
    "forecast": "The weather of the next five days at a place.",
}


def step(request: ModelRequest) -> Step:
    """What the model does with what was said last."""
    said = [item for each in request.rounds for item in each.items]
    if result := last_result(request) if not isinstance(said[-1], Input) else "":
        return reply(f"Done. It says: {result[:80]}")
    last = next(item for item in reversed(said) if isinstance(item, Input)).text
    match last.split()[0]:
        case "Write" | "write":
            return reply(
                "I write it down.",
                calls=[("write_file", {"path": "notes/monday.md", "content": NOTES})],
            )
        case "slow":
            return stall("I begin, and never end.")
        case "fail":
            raise AssertionError("the model of the gallery never fails")
        case _:
            return reply(f"You said: {last}")


def stand_still() -> None:
    """Let the process have one time for ever, and ids that are counted: of whoever took the functions by their names, too."""
    numbers = itertools.count(1000)
    still: tuple[tuple[ModuleType, str, Callable[..., Any]], ...] = (
        (identity, "now_ms", lambda: NOW_MS),
        (identity, "new_id", lambda prefix: f"{prefix}_{next(numbers):020}"),
        (ledger, "wall_clock_ms", lambda: NOW_MS),
    )
    for home, name, other in still:
        real = getattr(home, name)
        for module in list(sys.modules.values()):
            if getattr(module, name, None) is real:
                setattr(module, name, other)
    make = logging.getLogRecordFactory()

    def at_that_time(*args: Any, **told: Any) -> logging.LogRecord:
        made = make(*args, **told)
        made.created, made.msecs = NOW_MS / 1000, 0
        return made

    logging.setLogRecordFactory(at_that_time)


async def fill(daemon: Daemon, watched: Watched) -> None:
    """What there is beside sessions: schedules, a server of MCP, and a question that waits."""
    async with open_greeted(daemon) as raw:

        async def call(method: str, **params: Any) -> Any:
            answer = await raw.call(method, **params)
            assert "result" in answer, answer
            return answer["result"]

        for each in SCHEDULES:
            await call("schedule/create", schedule=each)
        server = {"name": "garden", "url": watched.web.url}
        offer = await call("mcp/look", name="garden", server=server)
        await call("mcp/add", server=server, tools=offer["digests"], offers=offer["offers_digest"])
        session = await call("session/new", title="Notes for Monday")
        await call(
            "session/prompt",
            session_id=session["session_id"],
            content="Write the notes for Monday down.",
        )


async def serve() -> None:
    """Serve until it is ended."""
    stand_still()
    async with opened(step, record(), CONFIGURATION, TOOLS) as watched:
        await fill(watched.daemon, watched)
        await serve_until_ended(watched)


if __name__ == "__main__":
    trio.run(serve)
