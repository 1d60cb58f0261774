"""A daemon for npm @ag-ui/client: `python -m support.gateway.agui_peer` prints its URL and a token, and ends with SIGINT."""

from __future__ import annotations

import signal
import sys

import trio

import callboard
from callboard.config.settings import Settings
from callboard.providers.testing.script import fail, reply, stall
from support.gateway.daemon_scene import open_daemon

STEPS = (
    reply("I look.", calls=[("get_current_time", {})]),
    reply(["It is ", "noon."], thinking="Hm."),
    reply("You are Ada."),
    reply(calls=[("plan", {"items": [{"text": "Look.", "status": "in_progress"}]})]),
    reply("Planned."),
    reply(calls=[("pick_colour", {})]),
    reply("Red it is."),
    reply(calls=[("write_file", {"path": "a.txt", "content": "x"})]),
    reply("Written."),
    fail("The model is ill."),
    stall("One."),
    reply("Yes."),
)
"""What the model says, in the order in which `front_end.js` asks."""


async def serve() -> None:
    strict = Settings(policy=callboard.Preset.STRICT)
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with open_daemon(callboard.ScriptedModel([*STEPS]), configured=strict) as daemon:
            sys.stdout.write(
                f"http://127.0.0.1:{daemon.gateway.port}/ag-ui/general {daemon.token}\n"
            )
            sys.stdout.flush()
            async for _ in signals:
                return


if __name__ == "__main__":
    trio.run(serve)
