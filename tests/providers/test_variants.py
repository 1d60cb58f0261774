"""An answer is read the same in whichever legal way its server writes it, and an error wherever it stands.

The answers are those of the scripted server, and the recordings where they are; of these some, and all
with `CALLBOARD_SOAK=1`.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest
from trio.testing import MockClock

from callboard.actors.model.stream import SETTLE_SECONDS
from callboard.providers.dialects import dialect_named
from callboard.providers.testing.script import ScriptedCall, reply
from callboard.providers.testing.wires import wire_named
from callboard.runtime.errors import NetworkError
from callboard.runtime.stream import AnyStreamEvent, Done, StreamError, Usage
from support.providers.decoding import decode_with
from support.providers.hearing import END, Reads, heard
from support.providers.recordings import BOM, body_of, recordings
from support.providers.variants import (
    BREAKS,
    ERRORS,
    VARIANTS,
    WORDS,
    Answer,
    ends_at,
    events_of,
    is_spliced,
    said,
    write,
)

SOAK = bool(os.environ.get("CALLBOARD_SOAK"))
RECORDED = 1000 if SOAK else 12
"""Recordings of each format: of the shorter ones, spread over their lengths."""
MAX_BYTES = 1_000_000 if SOAK else 20_000


def rounds(body: bytes) -> int:
    """How often each way is tried: in a soak, many times of a small answer and once of a large one."""
    return max(1, min(20, 50_000 // len(body))) if SOAK else 1


CALLS = [ScriptedCall("find", '{"name": "é", "n": [1, 2]}', "i1"), ScriptedCall("go", "{}", "i2")]
SCRIPTED = {
    "text": reply(["Hello, ", "wörld", ".\n"], thinking=["Well", "."], usage=Usage(9, 4)),
    "calls": reply("I look.", calls=CALLS, usage=Usage(7, 3)),
}


def bodies() -> Iterator[tuple[str, str, bytes]]:
    """Format, name and bytes of each answer."""
    for dialect in VARIANTS:
        for name, step in SCRIPTED.items():
            yield dialect, name, b"".join(wire_named(dialect).reply_events(step, 1))
        found = [(each["file"], body_of(each)) for each in recordings(dialect, ".sse")]
        small = [pair for pair in found if len(pair[1]) <= MAX_BYTES]
        small.sort(key=lambda pair: len(pair[1]))
        for file, body in small[:: max(1, len(small) // RECORDED)]:
            yield dialect, file.rpartition("/")[2], body


each_answer = pytest.mark.parametrize(
    ("dialect", "body"), [pytest.param(d, body, id=f"{d}-{name}") for d, name, body in bodies()]
)


def decode(dialect: str, body: bytes, chance: random.Random | None = None) -> list[AnyStreamEvent]:
    cuts = [chance.randrange(len(body) + 1) for _ in range(5)] if chance is not None else []
    return decode_with(dialect_named(dialect).decoder(), body, *cuts)


@each_answer
def test_each_variant_of_an_answer_is_read_the_same(dialect: str, body: bytes) -> None:
    whole = said(decode(dialect, body))
    answer = events_of(body)
    for name, vary in VARIANTS[dialect].items():
        chance = random.Random(name)
        for _ in range(rounds(body)):
            variant = write(vary(answer), chance)
            assert said(decode(dialect, variant, chance)) == whole, name


@each_answer
def test_variants_of_variants_are_read_the_same(dialect: str, body: bytes) -> None:
    whole = said(decode(dialect, body))
    chance = random.Random(len(body))
    # Together some leave nothing to tell calls apart.
    ways = [name for name in VARIANTS[dialect] if "count" not in name and "all at" not in name]
    for _ in range(2 * rounds(body)):
        names = chance.sample(ways, 3)
        answer = events_of(body)
        for name in names:
            answer = VARIANTS[dialect][name](answer)
        variant = BOM + write(answer, chance)
        assert said(decode(dialect, variant, chance)) == whole, names


def error_of(events: list[AnyStreamEvent]) -> StreamError:
    assert sum(isinstance(event, Done | StreamError) for event in events) == 1
    last = events[-1]
    assert isinstance(last, StreamError)
    assert WORDS in last.message
    return last


def places(answer: Answer, count: int, chance: random.Random) -> list[int]:
    """Events before which a server may break off: the first, the one that ends the answer, some between."""
    end = ends_at(answer)
    return [0, end, *(chance.randrange(end + 1) for _ in range(count))]


@each_answer
def test_an_error_keeps_its_words_wherever_and_however_it_stands(dialect: str, body: bytes) -> None:
    answer = events_of(body)
    chance = random.Random(len(body))
    for form, lines in ERRORS[dialect].items():
        for place in places(answer, rounds(body), chance):
            begun = write(answer[:place], chance, line_end=b"\n") + lines.encode()
            for broken in (begun, begun.rstrip(), begun + write(answer[place:], chance)):
                error = error_of(decode(dialect, broken, chance))
                assert (error.error_type, error.retryable) == ("provider", False), form


@each_answer
def test_what_breaks_a_stream_off_without_an_event_keeps_its_words(
    dialect: str, body: bytes
) -> None:
    answer = events_of(body)
    chance = random.Random(len(body))
    for form, text in BREAKS.items():
        for place in places(answer, rounds(body), chance):
            begun = write(answer[:place], chance, line_end=b"\n")
            error = error_of(decode(dialect, begun + text.encode(), chance))
            if place:
                is_said = form.startswith("an object")
                said_so = (error.error_type, error.retryable)
                assert said_so == (("provider", False) if is_said else ("network", True)), form


@each_answer
async def test_pauses_anywhere_change_nothing(
    autojump_clock: MockClock, dialect: str, body: bytes
) -> None:
    whole = said(decode(dialect, body))
    chance = random.Random(len(body))
    for name, vary in VARIANTS[dialect].items():
        if not SOAK and name not in {"as it is", "a reason to stop in each", "usage everywhere"}:
            continue
        answer = vary(events_of(body))
        seconds = [0.0] * len(answer)
        for _ in range(8):
            seconds[chance.randrange(len(answer))] = chance.choice([0.2, 10 * SETTLE_SECONDS])
        reads = [(pause, event.write()) for pause, event in zip(seconds, answer, strict=True)]
        if is_spliced(answer):
            # What is behind the end of a message is waited for as long as an end is.
            reads = [(min(pause, 0.2), data) for pause, data in reads]
        endings: list[Reads] = [[(0.5, END)]]
        if answer[-1].data == "[DONE]" or dialect in {"openai_responses", "anthropic"}:
            endings.append([(0, NetworkError("The connection broke."))])
        for ending in endings:
            events = await heard(dialect_named(dialect), [*reads, *ending])
            assert said(events) == whole, name
            assert sum(isinstance(event, Done | StreamError) for event in events) == 1
