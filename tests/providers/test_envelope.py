"""The envelope of text events: what is read by it is what decoding finds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.providers.dialects import dialect_named
from callboard.providers.envelope import PieceEnvelope, TextEnvelope
from callboard.runtime.stream import AnyStreamEvent, TextDelta, ToolCallDelta
from callboard.runtime.turns.live_state import joined


def text_of(event: bytes) -> str | None:
    """The text of `{"id": …, "text": …}`."""
    try:
        value = json.loads(event)
    except ValueError:
        return None
    text = value.get("text") if isinstance(value, dict) else None
    return text if isinstance(text, str) else None


def learned(event: bytes, text: str) -> TextEnvelope:
    envelope = TextEnvelope(text_of)
    envelope.learn(event, text)
    return envelope


@pytest.mark.parametrize(
    "text", ["b", "é", "\u2028", "☃", "<&>", '"', "\\", "\n", "\u202e", "}" * 99]
)
def test_an_event_in_the_envelope_is_read(text: str) -> None:
    envelope = learned(b'{"id": 1, "text": "a", "more": [null]}', "a")
    for is_ascii in (True, False):
        inside = json.dumps(text, ensure_ascii=is_ascii).encode()
        assert envelope.read(b'{"id": 1, "text": %b, "more": [null]}' % inside) == text


@pytest.mark.parametrize(
    "event",
    [
        b'{"id": 2, "text": "b", "more": 1}',
        b'{"id": 1, "text": "b", "more": 2}',
        b'{"id": 1, "text": "", "more": 1}',
        b'{"id": 1, "text": "b", "text": "c", "more": 1}',
        b'{"id": 1, "text": "b"  "c", "more": 1}',
        b'{"id": 1, "text": "b\\", "more": 1}',
        b'{"id": 1, "text": "\xff", "more": 1}',
        b'{"id": 1, "text": "\n", "more": 1}',
        b'{"id": 1, "text": "\\ud83d", "more": 1}',
        b'{"id": 1, "text": null, "more": 1}',
        b'{"id": 1, "text": ["b"], "more": 1}',
        b'{"id": 1, "text": , "more": 1}',
        b'{"id": 1, "text": ',
        b"",
    ],
)
def test_any_other_event_is_left_to_decoding(event: bytes) -> None:
    assert learned(b'{"id": 1, "text": "a", "more": 1}', "a").read(event) == ""


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (b'{"id": "a", "text": "\\u0061"}', "a"),  # the text stands elsewhere too
        (b'{"text": "a", "text": "\\u0061"}', "a"),  # the second counts
        (b'{"a": "a", "text": "b"}', "a"),
        (b'{"text": "\\"a"}', "a"),
    ],
)
def test_a_place_that_is_not_that_of_the_text_is_not_learned(event: bytes, text: str) -> None:
    envelope = TextEnvelope(text_of)
    assert not envelope.learn(event, text)
    assert envelope.read(event) == ""


def test_events_are_read_at_once_if_all_are_in_the_envelope() -> None:
    events = [b'{"text": "%d", "id": 1}' % number for number in range(9)]
    envelope = learned(events[0], "0")
    assert envelope.read_all(events) == [f"{number}" for number in range(9)]
    for other in (b"", b'{"text": "9"}', b'{"text": "", "id": 1}', b'{"text": 9, "id": 1}'):
        for place in (0, 5, 9):
            assert envelope.read_all([*events[:place], other, *events[place:]]) == []
    assert TextEnvelope(text_of).read_all(events) == []
    assert envelope.read_all([]) == []


def test_nothing_is_read_before_an_envelope_is_known() -> None:
    assert TextEnvelope(text_of).read(b"") == ""
    assert TextEnvelope(text_of).read(b'"a"') == ""


def test_a_stream_that_never_repeats_its_envelope_is_learned_ever_less_often() -> None:
    decoded = 0

    def decode(event: bytes) -> str | None:
        nonlocal decoded
        decoded += 1
        return text_of(event)

    envelope = TextEnvelope(decode)
    for number in range(10_000):
        event = b'{"id": %d, "text": "a"}' % number
        assert envelope.read(event) == ""
        envelope.learn(event, "a")
    assert decoded < 30


def piece_of(event: bytes) -> tuple[int, str] | None:
    """The number and the piece of `{"id": …, "call": …, "piece": …}`."""
    try:
        value = json.loads(event)
    except ValueError:
        return None
    return (value["call"], value["piece"]) if isinstance(value, dict) and len(value) == 3 else None


def test_a_run_is_read_up_to_the_first_event_of_another_form() -> None:
    run = [b'{"id": 11, "call": 1, "piece": "%d"}' % number for number in range(9)]
    envelope = PieceEnvelope(piece_of)
    assert envelope.read_run(run, 0, 1) == []
    envelope.learn_piece(run[0], "0", 1)
    for number in (1, 0, 10, 1):
        numbered = [each.replace(b'"call": 1', b'"call": %d' % number) for each in run]
        assert envelope.read_run(numbered, 2, number) == list("2345678")
        assert envelope.read_run(numbered, 0, number + 1) == []
        for other in (b"", b"{}", numbered[0].replace(b'"0"', b'"0", "piece": "1"')):
            events = [*numbered[:5], other, *numbered[5:]]
            assert envelope.read_run(events, 1, number) == list("1234")


def test_of_a_place_that_is_not_the_calls_only_the_learned_call_is_read() -> None:
    event = b'{"call": 1, "id": 1, "piece": "a"}'  # the last 1 is not the call's
    envelope = PieceEnvelope(piece_of)
    envelope.learn_piece(event, "a", 1)
    assert envelope.read_run([event], 0, 1) == ["a"]
    assert envelope.read_run([b'{"call": 1, "id": 2, "piece": "a"}'], 0, 2) == []


def chat_piece(place: int | None, function: dict[str, str], **more: Any) -> dict[str, Any]:
    call = {"index": place, **more, "function": function}
    return {"id": "c0", "choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}


CALLS: list[dict[str, Any]] = [
    *(chat_piece(place, {"name": "t", "arguments": ""}, id=f"c{place}") for place in (0, 1)),
    *(chat_piece(place, {"arguments": "%s"}) for place in (0, 1)),
    chat_piece(0, {"arguments": "%s"}, id="c0"),
    chat_piece(0, {"arguments": "%s"}, id="c9"),
    chat_piece(1, {"name": "u", "arguments": "%s"}),
    chat_piece(None, {"arguments": "%s"}),
    {"id": "c0", "choices": [{"index": 0, "delta": {"content": "%s"}}]},
    {"id": "c0", "choices": [{"index": 0, "delta": {"reasoning": "%s"}}]},
    {"id": "c0", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
]
CHAT: list[dict[str, Any]] = [
    {"choices": [{"index": 0, "delta": {"content": "%s"}}]},
    {"id": "x", "choices": [{"index": 0, "delta": {"content": "%s"}, "finish_reason": None}]},
    {"choices": [{"index": 1, "delta": {"content": "%s"}}]},
    {"choices": [{"index": 0, "delta": {"content": "%s", "reasoning": "r"}}]},
    {"choices": [{"index": 0, "delta": {"reasoning": "%s"}}]},
    {"choices": [{"index": 0, "delta": {"refusal": "%s"}}]},
    {"choices": [{"index": 0, "delta": {"content": "%s"}}], "usage": {"prompt_tokens": 1}},
    {"choices": [{"index": 0, "message": {"content": "%s"}}]},
    {"choices": [{"index": 0, "delta": {"content": "%s"}}], "error": "e"},
]
MESSAGES: list[dict[str, Any]] = [
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "%s"}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "%s"}},
    {
        "type": "content_block_delta",
        "index": 1,
        "delta": {"type": "thinking_delta", "thinking": "%s"},
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": "%s"}},
    {
        "type": "content_block_start",
        "index": 1,
        "content_block": {"type": "thinking", "thinking": ""},
    },
    {"type": "content_block_stop", "index": 0},
    {"type": "message_stop"},
    {"type": "message_start", "message": {"type": "message", "content": []}},
]
TEXTS = ["a", "b", "text", "☃", '"', "\\", "\n", "\ud83d", "a\x00", "content", "0", "1", "r", "x"]


def events_of(dialect: str, stream: list[bytes], *, lone: bool) -> list[AnyStreamEvent]:
    decoder = dialect_named(dialect).decoder()
    events = [e for piece in (stream if lone else [b"".join(stream)]) for e in decoder.feed(piece)]
    events += decoder.finish()
    # Pieces of a call that come in one read may come out as one.
    return joined(events) if any(isinstance(e, ToolCallDelta) for e in events) else events


@pytest.mark.parametrize(
    ("dialect", "shapes"), [("openai_chat", CHAT), ("openai_chat", CALLS), ("anthropic", MESSAGES)]
)
@given(data=st.data())
def test_events_are_the_same_with_and_without_it(
    dialect: str, shapes: list[dict[str, Any]], data: st.DataObject
) -> None:
    picked = st.one_of(st.sampled_from(shapes[:4]), st.sampled_from(shapes))
    parts = data.draw(st.lists(st.tuples(picked, st.sampled_from(TEXTS)), max_size=30))
    stream = []
    for shape, text in parts:
        event = json.dumps(shape).replace('"%s"', json.dumps(text))
        stream.append(b"data: " + event.encode() + b"\n\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TextEnvelope, "read", lambda *_: "")
        patch.setattr(TextEnvelope, "read_all", lambda *_: [])
        patch.setattr(PieceEnvelope, "read_run", lambda *_: [])
        decoded = events_of(dialect, stream, lone=False)
    assert events_of(dialect, stream, lone=False) == decoded
    assert events_of(dialect, stream, lone=True) == decoded
    size = data.draw(st.integers(1, 9))
    reads = [b"".join(stream[at : at + size]) for at in range(0, len(stream), size)]
    assert events_of(dialect, reads, lone=True) == decoded


@pytest.mark.parametrize(
    ("dialect", "shapes"), [("openai_chat", CHAT[:1]), ("anthropic", [MESSAGES[3], MESSAGES[0]])]
)
def test_most_texts_of_a_usual_stream_are_read_by_it(
    dialect: str, shapes: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    real = TextEnvelope.read

    def watched(envelope: TextEnvelope, event: bytes) -> str:
        text = real(envelope, event)
        if text:
            read.append(text)
        return text

    monkeypatch.setattr(TextEnvelope, "read", watched)
    events = [*shapes[:-1], *([shapes[-1]] * 50)]
    stream = [b"data: " + json.dumps(event).encode() + b"\n\n" for event in events]
    for lone in (False, True):
        read.clear()
        found = events_of(dialect, stream, lone=lone)
        assert sum(isinstance(event, TextDelta) for event in found) == 50
        assert len(read) == 49


@pytest.mark.parametrize("size", [1, 4, 10_000])
def test_most_arguments_of_a_usual_stream_are_read_by_it(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    real = PieceEnvelope.read_run

    def watched(envelope: PieceEnvelope, events: list[bytes], start: int, number: int) -> list[str]:
        pieces = real(envelope, events, start, number)
        read.extend(pieces)
        return pieces

    monkeypatch.setattr(PieceEnvelope, "read_run", watched)
    shapes = [
        chat_piece(place, function, **more)
        for place in range(12)
        for function, more in [
            ({"name": "t", "arguments": ""}, {"id": f"c{place}"}),
            *[({"arguments": f'"{place}'}, {})] * 5,
        ]
    ]
    stream = [b"data: " + json.dumps(shape).encode() + b"\n\n" for shape in shapes]
    decoder = dialect_named("openai_chat").decoder()
    reads = [b"".join(stream[at : at + size]) for at in range(0, len(stream), size)]
    events = joined([event for data in reads for event in decoder.feed(data)])
    found = {event.index: event.arguments for event in events if isinstance(event, ToolCallDelta)}
    assert found == {place: 5 * f'"{place}' for place in range(12)}
    assert len(read) == 59
