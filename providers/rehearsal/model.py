"""The model that answers when none is configured: rules for plain English, real tools.

It keeps nothing between calls. Each call reads the last input again, replays which of its steps
have results, and either asks for the calls that are due, several at once where they do not depend
on each other, or answers from the results.
"""

from __future__ import annotations

import itertools
import re
import uuid
from collections.abc import Iterator, Sequence

import msgspec
import trio

from ...runtime.history import Input, Item, Result
from ...runtime.stream import (
    AnyStreamEvent,
    Done,
    StopReason,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from ..provider import Emit, ModelRequest
from .changes import intent_of
from .intents import understand
from .plan import PlannedCall, due_steps, replay
from .results import (
    INTRODUCTION,
    encodable,
    lead,
    read_arguments,
    read_result,
    remembered,
    report,
    result_of,
    since_last_input,
)

MAX_BRIEF_CHARS = 200
"""Of a result of a tool that nothing more is known about."""

_HAS_RUN = "was allowed, and has run"
_CAME = re.compile(
    r"The call of (?P<tool>\S+) that was pending as \S+?(?: with (?P<arguments>\{.*\}))? "
    rf"(?P<end>{_HAS_RUN}|was not allowed, and did not run|was cancelled|was interrupted"
    r"|was allowed, and failed)\. This is its result, and no request of a person:\n(?P<result>.*)",
    re.DOTALL,
)
_ASKED_AGAIN = re.compile(
    r"The call of (\S+) that was pending as \S+ did not run: .* is pending as (\S+?)\.?",
    re.DOTALL,
)


def late_report(items: Sequence[Item]) -> str | None:
    """A sentence about each call that the last inputs are about; `None` when a person spoke."""
    told: list[str] = []
    for item in reversed(items):
        said = _sentence(encodable(item.text)) if type(item) is Input else None
        if said is None:
            break
        told.append(said)
    return "\n".join(reversed(told)) or None


def _sentence(text: str) -> str | None:
    if (again := _ASKED_AGAIN.fullmatch(text)) is not None:
        return f"{again[1]} waits for your answer once more: callboard approve {again[2]}."
    came = _CAME.fullmatch(text)
    if came is None:
        return None
    tool, end = came["tool"], came["end"]
    outcome = read_result(Result("", tool, came["result"]))
    arguments = outcome.arguments or read_arguments(came["arguments"] or "{}")
    intent = intent_of(tool, arguments)
    if end == _HAS_RUN and outcome.ok:
        if intent is not None:
            return f"The call that waited has run: {result_of(intent, outcome)}"
        return f"The call of {tool} that waited has run: {_brief(outcome.value)}."
    why = outcome.message.removeprefix("Not run: ")
    return f"The call of {tool} that waited {end}: {why}."


def _brief(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= MAX_BRIEF_CHARS else f"{text[:MAX_BRIEF_CHARS]}..."


MAX_TEXT_DELTAS = 200
"""Word by word is how an answer of a few lines streams; a long one goes in larger pieces."""


class RehearsalModel:
    """A `LocalModel` of rules; one object serves any number of sessions at once.

    It says in the first line of a turn what it is. It asks only for tools of the request, each step
    at most once, and any text and any result lead to a terminal event.
    """

    async def run(self, request: ModelRequest, emit: Emit) -> None:
        """Emits one answer; blocks only in `emit`, and is cancelled there or between words."""
        await trio.lowlevel.checkpoint()
        for batch in _answer(request):
            await emit(batch)
            await trio.lowlevel.checkpoint()


def _answer(request: ModelRequest) -> Iterator[list[AnyStreamEvent]]:
    items = list(itertools.chain.from_iterable(r.items for r in request.rounds))
    if (late := late_report(items)) is not None:
        yield from _words(f"{INTRODUCTION}\n\n{late}")
        yield [Done(StopReason.END)]
        return
    before, text, behind = since_last_input(items)
    tools = frozenset(definition.name for definition in request.tools)
    understanding = understand(text, remembered(before))
    outcomes, wave = replay(understanding.steps, tools, behind)
    if wave:
        said = lead(due_steps(wave, understanding.steps))
    else:
        said = report(understanding, outcomes, tools)
    first = not behind
    yield from _words(f"{INTRODUCTION}\n\n{said}" if first else said)
    if wave:
        yield from _calls(wave)
    yield [Done(StopReason.TOOL_CALLS if wave else StopReason.END)]


def _words(text: str) -> Iterator[list[AnyStreamEvent]]:
    words = re.findall(r"\S+\s*|\s+", text)
    size = max(1, -(-len(words) // MAX_TEXT_DELTAS))
    for start in range(0, len(words), size):
        yield [TextDelta("".join(words[start : start + size]))]


def _calls(wave: Sequence[PlannedCall]) -> Iterator[list[AnyStreamEvent]]:
    for index, call in enumerate(wave):
        arguments = msgspec.json.encode(call.arguments).decode()
        yield [
            ToolCallStart(index, f"call_{uuid.uuid4().hex}", call.tool),
            ToolCallDelta(index, arguments),
            ToolCallEnd(index),
        ]
