"""The model that answers when none is configured: rules for plain English, real tools.

It keeps nothing between calls. Each call reads the last input again, works out which of its steps
have results, and either asks for the calls that are due, several at once where they do not depend
on each other, or answers from the results.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import trio

from ...runtime.history import Answer, Input, Item, Result
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
from .plan import call_id, encodable, read_json, read_result, replay, text_of
from .report import INTRODUCTION, WORDS, call_report, lead, report
from .requests import Requests

MAX_MEMORY_ITEMS = 200
"""How far `it` reaches back over earlier turns: some tens of them."""

MAX_TEXT_DELTAS = 200
"""An answer of a few lines streams word by word; a long one in larger pieces."""

MAX_BRIEF_CHARS = 200
"""The beginning of a result that is shown when nothing more is known about its tool."""

_RAN = "was allowed, and has run"
_LATE = re.compile(
    r"The call of (?P<tool>\S+) that was pending as \S+?(?: with (?P<arguments>\{.*\}))? "
    rf"(?P<end>{_RAN}|was not allowed, and did not run|was cancelled|was interrupted"
    r"|was allowed, and failed)\. This is its result, and no request of a person:\n(?P<result>.*)",
    re.DOTALL,
)
_ASKED_AGAIN = re.compile(
    r"The call of (\S+) that was pending as \S+ did not run: .* is pending as (\S+?)\.?",
    re.DOTALL,
)


_RECORD = re.compile(r"<record>\n(?P<said>.*)\n</record>", re.DOTALL)
"""A conversation that is to be summed up: data, and no request."""
NOTES = "The last lines of what was said before, by rules and not by a language model:"
MAX_NOTED_LINES = 10
"""A page of notes was asked for; of rules, the latest lines are worth most."""


class RehearsalModel:
    """A `LocalModel` of rules; one object serves any number of sessions at once.

    Its first line in a turn says what it is. It asks only for tools of the request, each step at
    most once, and any text and any result lead to a terminal event.
    """

    async def run(self, request: ModelRequest, emit: Emit) -> None:
        """Emit one answer; blocks only in `emit`, and can be cancelled between words."""
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
    last = next((n for n in range(len(items) - 1, -1, -1) if type(items[n]) is Input), None)
    before, since = (items, []) if last is None else (items[:last], items[last + 1 :])
    prompt = "" if last is None else encodable(items[last].text)  # type: ignore[union-attr]
    tools = frozenset(definition.name for definition in request.tools)
    if not tools and (record := _RECORD.fullmatch(prompt)) is not None:
        yield from _words(_notes(record["said"]))
        yield [Done(StopReason.END)]
        return
    requests = Requests(prompt, tools, *remembered(before))
    outcomes, due = replay(requests.steps, tools, since)
    if due:
        text = lead([requests.steps[number] for number in due])
    else:
        text = report(requests, outcomes, tools)
    yield from _words(text if since else f"{INTRODUCTION}\n\n{text}")
    for index, (number, arguments) in enumerate(due.items()):
        yield [
            ToolCallStart(index, call_id(number), requests.steps[number].tool),
            ToolCallDelta(index, msgspec.json.encode(arguments).decode()),
            ToolCallEnd(index),
        ]
    yield [Done(StopReason.TOOL_CALLS if due else StopReason.END)]


def _notes(said: str) -> str:
    """Return the latest lines of a record, shortened."""
    lines = [line for line in said.splitlines() if line.strip() and INTRODUCTION not in line]
    return "\n".join([NOTES, *(line[:MAX_BRIEF_CHARS] for line in lines[-MAX_NOTED_LINES:])])


def _words(text: str) -> Iterator[list[AnyStreamEvent]]:
    words = re.findall(r"\S+\s*|\s+", text)
    size = max(1, -(-len(words) // MAX_TEXT_DELTAS))
    for start in range(0, len(words), size):
        yield [TextDelta("".join(words[start : start + size]))]


def remembered(items: Sequence[Item]) -> tuple[tuple[str, ...], str | None]:
    """Return what `it` may mean after these items: the files named last, the last value."""
    files: tuple[str, ...] = ()
    value: str | None = None
    changed: dict[str, Mapping[str, Any]] = {}
    contents: dict[str, str] = {}
    for item in reversed(items[-MAX_MEMORY_ITEMS:]):
        if type(item) is Result:
            outcome = read_result(item)
            if value is None and outcome.ok:
                value = text_of(outcome.value)
            if outcome.arguments is not None:
                changed[item.call_id] = outcome.arguments
        elif type(item) is Answer and not files:
            calls = [changed.get(c.call_id) or _object(c.arguments) for c in item.calls]
            named = [(a.get("to") or a.get("path"), a.get("content")) for a in calls]
            files = tuple(dict.fromkeys(name for name, _ in named if isinstance(name, str)))
            contents = {n: c for n, c in named if isinstance(n, str) and isinstance(c, str)}
    return files, contents.get(files[-1]) if value is None and files else value


def _object(text: str) -> dict[str, Any]:
    value = read_json(text)
    return value if isinstance(value, dict) else {}


def late_report(items: Sequence[Item]) -> str | None:
    """Return a sentence for each pending call that ended, `None` if a person spoke last."""
    sentences: list[str] = []
    for item in reversed(items):
        if type(item) is not Input or (sentence := _late_sentence(encodable(item.text))) is None:
            break
        sentences.insert(0, sentence)
    return "\n".join(sentences) or None


def _late_sentence(text: str) -> str | None:
    if (again := _ASKED_AGAIN.fullmatch(text)) is not None:
        return f"{again[1]} waits for your answer once more: callboard approve {again[2]}."
    if (late := _LATE.fullmatch(text)) is None:
        return None
    tool, end = late["tool"], late["end"]
    outcome = read_result(Result("", tool, late["result"]))
    if end != _RAN or not outcome.ok:
        return f"The call of {tool} that waited {end}: {outcome.message.removeprefix('Not run: ')}."
    if tool in WORDS:
        arguments = outcome.arguments or _object(late["arguments"] or "{}")
        return f"The call that waited has run: {call_report(tool, arguments, outcome)}"
    value = outcome.value
    brief = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if len(brief) > MAX_BRIEF_CHARS:
        brief = f"{brief[:MAX_BRIEF_CHARS]}..."
    return f"The call of {tool} that waited has run: {brief}."
