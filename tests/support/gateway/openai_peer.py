"""A daemon for npm openai: `python -m support.gateway.openai_peer` prints its URL and a token, and ends with SIGINT."""

from __future__ import annotations

import signal
import sys

import trio

import callboard
from callboard.config.settings import Settings
from callboard.providers.testing.script import fail, reply, stall
from support.gateway.daemon_scene import open_daemon

STEPS = (
    reply("It is noon."),
    reply(["It ", "is ", "noon."]),
    reply(calls=[("get_weather", {"city": "Oslo"})]),
    reply("It rains."),
    fail("The model is ill."),
    reply("I look.", calls=[("get_current_time", {})]),
    reply(["It is ", "noon."], thinking="Hm."),
    reply("You are Ada."),
    reply(calls=[("get_weather", {"city": "Oslo"})]),
    reply("It rains."),
    reply('{"city": "Oslo"}'),
    reply(calls=[("write_file", {"path": "a.txt", "content": "x"})]),
    reply("Written."),
    stall("One."),
)
"""What the model says, in the order in which `client.js` asks."""


async def serve() -> None:
    strict = Settings(policy=callboard.Preset.STRICT)
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with open_daemon(callboard.ScriptedModel([*STEPS]), configured=strict) as daemon:
            sys.stdout.write(f"http://127.0.0.1:{daemon.gateway.port}/v1 {daemon.token}\n")
            sys.stdout.flush()
            async for _ in signals:
                return


if __name__ == "__main__":
    trio.run(serve)
