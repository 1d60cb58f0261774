"""A model that answers at length, in pieces, and now and then with a call; its answer says what it heard."""

from __future__ import annotations

import random

import trio

from callboard.providers.provider import Emit, ModelRequest
from callboard.providers.testing.script import events_of, reply
from callboard.runtime.history import Input
from callboard.runtime.stream import TextDelta, ThinkingDelta, ToolCallDelta


class ChattyModel:
    """Answers the same to the same input."""

    async def run(self, request: ModelRequest, emit: Emit) -> None:
        """See `LocalModel`."""
        said = request.rounds[-1].items[-1]
        if isinstance(said, Input):
            dice = random.Random(said.text)
            text = [
                f"{said.text} heard, ",
                *(f"wörd {n} 🌍 " for n in range(dice.randrange(3, 12))),
            ]
            calls = (
                [("get_current_time", {"timezone": "Asia/Tokyo"})] if dice.random() < 0.5 else []
            )
            answer = reply(text, thinking=["let me ", "think "], calls=calls)
        else:
            answer = reply(["That ", "is ", "it."])
        for event in events_of(answer):
            if isinstance(event, TextDelta | ThinkingDelta | ToolCallDelta):
                await trio.sleep(0.001)
            await emit([event])
