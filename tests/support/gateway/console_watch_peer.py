"""A daemon with something to look at, for a browser: `python -m support.gateway.console_watch_peer`, see `console_peer`.

It has had turns on several days, remembers things, has a schedule, a server of MCP and skills. A line `changed` on stdin has the
server of MCP describe a tool in other words, `prompts` has it offer prompts, `prompts WORDS` describe one in these words, `lock` has it
want a login, `edit` changes a skill, `log WORDS` logs a warning, and `token ROLE` prints a token.
"""

from __future__ import annotations

import logging
import secrets
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import trio

import callboard
from callboard.config.files import load_settings
from callboard.config.keys.tokens import Credentials, local_credential
from callboard.embedding.configuration import Configuration
from callboard.embedding.runtime import host_of
from callboard.gateway.gateway import open_gateway
from callboard.providers.catalog.book import ProviderBook
from callboard.providers.provider import ModelRequest
from callboard.providers.testing.script import Step, fail, reply
from callboard.runtime.definitions import Tier
from callboard.runtime.event_types.turns import TurnOutcome
from callboard.runtime.events import (
    DurableEvent,
    InputAccepted,
    MessageCompleted,
    SessionCreated,
    Stored,
    TurnEnded,
    TurnStarted,
)
from callboard.runtime.history import Input, Text
from callboard.runtime.identity import new_id, now_ms
from callboard.runtime.stream import Usage
from callboard.runtime.wire.fields import Role
from callboard.tools.tool import FunctionTool, ToolContext
from support.gateway.daemon_scene import Daemon
from support.mcp.web import Issuer, McpWebServer, serving

DAY_MS = 24 * 3600 * 1000
WORK_ROOT = "work"
WORK = f"{WORK_ROOT}/garden"
SKILL_PLACE = ".callboard/skills/release/SKILL.md"
SKILL = """\
---
name: release
description: Makes a release of this project.
---
# Release

1. Run the tests.
2. Write the changelog.
"""
CONFIGURATION = """\
[server]
log_level = "info"

[network]
allow = ["{endpoint}"]

[agents.researcher]
prompt = "You look things up."

[prices."rehearsed/steady-1"]
input = 3.0
output = 15.0
"""


PROMPTS: list[dict[str, Any]] = [
    {
        "name": "weather",
        "description": "Asks for the weather of a place.",
        "arguments": [{"name": "city", "description": "Where", "required": True}, {"name": "day"}],
    },
    {"name": "hello", "title": "Says hello", "description": "A greeting."},
]
"""What its server of MCP makes texts of."""


async def _pause(context: ToolContext, seconds: float) -> str:
    """Waits so long."""
    await trio.sleep(seconds)
    return f"waited {seconds} s"


pause = FunctionTool(_pause, name="pause", tier=Tier.READ_ONLY)
failed: set[str] = set()


def step(request: ModelRequest) -> Step:
    """What the model does with what was said last."""
    said = [item for each in request.rounds for item in each.items]
    last = next(item for item in reversed(said) if isinstance(item, Input)).text
    results = len(said) - 1 - max(at for at, item in enumerate(said) if isinstance(item, Input))
    match last.split()[0]:
        case "timeline" if results == 0:
            if last not in failed:
                failed.add(last)
                return fail("The model is busy.", retryable=True)
            calls = [("pause", {"seconds": each}) for each in (0.2, 0.35, 0.25, 0.3)]
            task = {"kind": "worker", "task": "Look around."}
            return reply(
                "I look at it from four sides.",
                calls=[*calls, ("delegate", task), ("delete_file", {"path": "old.txt"})],
                delay_seconds=0.1,
                piece_seconds=0.02,
            )
        case "timeline":
            return reply("All of it was done side by side.", delay_seconds=0.1)
        case "Look" if results == 0:
            return reply(calls=[("list_directory", {"path": "."}), ("pause", {"seconds": 0.1})])
        case "long" if results == 0:
            return reply(calls=[("pause", {"seconds": 600})])
        case "many" if results < 240:
            times = [(results + at) / 1e6 for at in range(30)]  # no two are the same call
            return reply(calls=[("pause", {"seconds": each}) for each in times])
        case "many":
            return reply("So many.")
        case _:
            return reply(f"You said: {last}")


def _old_turns() -> list[Stored]:
    """Sessions of the last days, with the tokens that they took."""
    events: list[Stored] = []
    outcome: TurnOutcome = "answered"
    for day in range(1, 13):
        for number in range(1 + day % 3):
            name, turn, given, answer = (
                new_id(each) for each in ("session", "turn", "input", "message")
            )
            agent = "researcher" if (day + number) % 3 == 0 else "general"
            model = "steady-1" if (day + number) % 2 else "quick-1"
            at = now_ms() - day * DAY_MS + number * 60_000
            usage = Usage(
                input_tokens=4000 + day * 900 + number * 2500,
                output_tokens=300 + day * 70,
                cached_tokens=1000 + day * 350,
            )
            its: tuple[DurableEvent, ...] = (
                SessionCreated(
                    agent=agent, workspace="/", title=f"Question {number + 1} of that day"
                ),
                InputAccepted(input_id=given, text="What is new?"),
                TurnStarted(turn_id=turn, input_ids=(given,), provider="rehearsed", model=model),
                MessageCompleted(
                    turn_id=turn,
                    message_id=answer,
                    parts=(Text("Nothing."),),
                    provider="rehearsed",
                    model=model,
                    stop_reason="end_turn",
                    usage=usage,
                    duration_ms=900,
                ),
                TurnEnded(turn_id=turn, outcome=outcome, duration_ms=950),
            )
            events += [
                Stored(name, seq, at + seq * 200, event) for seq, event in enumerate(its, start=1)
            ]
    return events


class Watched(msgspec.Struct, frozen=True):
    """A daemon with something to look at: where it works, and its server of MCP."""

    daemon: Daemon
    web: McpWebServer
    work: Path


@asynccontextmanager
async def opened(
    model: Callable[[ModelRequest], Step],
    turns: Sequence[Stored],
    configuration: str,
    offered: Mapping[str, str] | None = None,
) -> AsyncGenerator[Watched]:
    """A daemon whose sessions have had these turns, in folders of its own; `offered` are the tools of its server of MCP."""
    with tempfile.TemporaryDirectory() as folder, serving() as web:
        if offered is not None:
            web.tools = dict(offered)
        home = Path(folder)
        file, data = home / "config" / "callboard.toml", home / "data"
        file.parent.mkdir(parents=True, mode=0o700)
        file.write_text(configuration.format(endpoint=web.endpoint, root=home / WORK_ROOT))
        environ = {"CALLBOARD_HOME": str(home)}
        settings = load_settings(file)
        work = home / WORK
        (work / SKILL_PLACE).parent.mkdir(parents=True)
        (work / SKILL_PLACE).write_text(SKILL)
        (work / "AGENTS.md").write_text("Write short sentences.\n")
        (work / "old.txt").write_text("old\n")
        credentials = Credentials(data)
        token = credentials.create("test", Role.ADMIN).reveal()
        local, _ = local_credential()
        server = msgspec.structs.replace(settings.server, port=0, roots=(str(work.parent),))
        async with (
            callboard.open_runtime(
                model=callboard.ScriptedModel([model] * 5000),
                workspace=work,
                data=data,
                on_approval="wait",
                settings=settings,
                environ=environ,
                tools=[pause],
                fire=True,
            ) as runtime,
            open_gateway(runtime, server, data, local=local) as gateway,
        ):
            book = ProviderBook(file, data, environ)
            gateway.daemon.configuration = Configuration(lambda: load_settings(file), (file,), book)
            gateway.daemon.local = local
            await host_of(runtime).plan.store.bring_in(turns)
            yield Watched(Daemon(gateway, runtime, credentials, token), web, work)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def _listen(watched: Watched) -> None:
    daemon, web, work = watched.daemon, watched.web, watched.work
    async with trio.lowlevel.FdStream(0) as lines:
        async for each in lines:
            word, _, rest = each.decode().strip().partition(" ")
            match word:
                case "link":
                    _say(f"{daemon.gateway.daemon.console.link(daemon.url)} {daemon.token}")
                case "changed":
                    web.tools = {"say": "Says what it is given, and sends it to a friend."}
                case "prompts":
                    web.prompts = (
                        PROMPTS if rest == "" else [{**PROMPTS[0], "description": rest}, PROMPTS[1]]
                    )
                    _say("offered")
                case "lock":
                    Issuer(web)
                case "edit":
                    (work / SKILL_PLACE).write_text(f"{SKILL}3. Tell everybody.\n")
                    _say("edited")
                case "log":
                    logging.getLogger("callboard.gateway").warning("%s", rest)
                case "token":
                    _say(f"{daemon.new_token(f'{rest}-{secrets.token_hex(2)}', Role(rest))} -")
                case _:
                    pass


async def serve_until_ended(watched: Watched) -> None:
    """Say where it is, and do what is said on stdin, until the process is ended."""
    daemon = watched.daemon
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            link = daemon.gateway.daemon.console.link(daemon.url)
            _say(f"{link} {daemon.token} {watched.web.url} {watched.work}")
            nursery.start_soon(_listen, watched)
            async for _ in signals:
                nursery.cancel_scope.cancel()


async def serve() -> None:
    """Serve until it is ended."""
    async with opened(step, _old_turns(), CONFIGURATION) as watched:
        await serve_until_ended(watched)


if __name__ == "__main__":
    trio.run(serve)
