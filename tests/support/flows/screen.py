"""What a consumer of a turn has before it, and where its answer may be cut."""

from __future__ import annotations

import random

import callboard
from callboard.providers.testing import chat_wire as scripted_wire
from callboard.providers.testing.script import ScriptedReply
from callboard.runtime.events import MessageCompleted
from support.stage import Played, text_of


def failures(played: Played) -> list[callboard.AttemptFailed]:
    return [event for event in played.events if isinstance(event, callboard.AttemptFailed)]


def screen(played: Played) -> list[str]:
    """The texts that a consumer has before it when it takes back what is withdrawn."""
    texts = [""]
    for event in played.events:
        match event:
            case callboard.TextDelta(text=text):
                texts[-1] += text
            case callboard.MessageDiscarded():
                texts[-1] = ""
            case MessageCompleted():
                assert texts[-1] == text_of(event)
                texts.append("")
            case _:
                pass
    return texts[:-1]


def cuts_of(answer: ScriptedReply) -> list[int]:
    """Behind every event, and at some random bytes; the terminal event is not whole at any."""
    events = scripted_wire.reply_events(answer, 1)
    finish = next(at for at, event in enumerate(events) if b'"finish_reason":"' in event)
    bounds = [sum(map(len, events[:count])) for count in range(finish + 1)]
    source = random.Random(20)
    return sorted({*bounds, *(source.randrange(bounds[-1]) for _ in range(30))})
