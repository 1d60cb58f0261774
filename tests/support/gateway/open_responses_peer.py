"""A daemon for the acceptance tests of Open Responses: its agent has no tools, and says, calls or thinks what is asked for.

`python -m support.gateway.open_responses_peer` prints its URL, a token and the model, and ends with SIGINT.
"""

from __future__ import annotations

import signal
import sys

import trio

import callboard
from callboard.config.sections import OpenAiSettings
from callboard.config.settings import Settings
from callboard.providers.provider import Emit, ModelRequest, ToolChoice
from callboard.runtime.stream import (
    Done,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallStart,
    Usage,
)
from support.gateway.daemon_scene import open_daemon

AGENT = "gpt-5"
"""Its name: the tests ask for thoughts where a model is named as one that thinks."""


class Obedient:
    """Calls a tool where it must, thinks where it is told how much, and else says a few words."""

    async def run(self, request: ModelRequest, emit: Emit) -> None:
        if request.tool_choice is ToolChoice.REQUIRED:
            name = request.tools[0].name
            await emit([ToolCallStart(0, "call_1", name), ToolCallDelta(0, '{"location":"Oslo"}')])
            await emit([Done(StopReason.TOOL_CALLS)])
            return
        if request.thinking is not None:
            await emit([ThinkingDelta("15 times 37 is 555.")])
        for word in ("Hello", " to", " you."):
            await emit([TextDelta(word)])
        await emit([Usage(100, 20, reasoning_tokens=8), Done(StopReason.END)])


async def serve() -> None:
    configured = Settings(
        openai=OpenAiSettings(items="plain"), agents={AGENT: callboard.Agent(name=AGENT, tools=())}
    )
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with open_daemon(Obedient(), configured=configured) as daemon:
            sys.stdout.write(f"http://127.0.0.1:{daemon.gateway.port}/v1 {daemon.token} {AGENT}\n")
            sys.stdout.flush()
            async for _ in signals:
                return


if __name__ == "__main__":
    trio.run(serve)
