"""The fuzz targets: each takes any bytes, and raises when one of our promises is broken.

A target is a plain function, so that hypothesis (`test_fuzz.py`) and atheris (`scripts/fuzz`) can
both drive it. Its first byte says how the rest arrives: in how large pieces.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

import callboard
from callboard.actors.model.answer import AnswerBuilder
from callboard.client.reading import (
    read_params,
    read_result,
    read_snapshot,
    read_topic_update,
    read_update,
)
from callboard.config.files import parse_settings
from callboard.config.settings import Settings
from callboard.providers.anthropic.dialect import ANTHROPIC
from callboard.providers.error_answer import (
    MAX_RETRY_AFTER_SECONDS,
    read_error_answer,
    read_error_event,
)
from callboard.providers.gemini.dialect import GEMINI
from callboard.providers.openai_chat.dialect import OPENAI_CHAT
from callboard.providers.openai_responses.dialect import OPENAI_RESPONSES
from callboard.providers.provider import Dialect
from callboard.providers.sse import SseParser
from callboard.runtime.definitions import ErrorType, ToolFailure
from callboard.runtime.errors import ConflictError, NetworkError, ValidationError
from callboard.runtime.stream import AnyStreamEvent, Done, StreamError
from callboard.runtime.wire.hello import Welcome
from callboard.runtime.wire.rpc import ServerFrame
from callboard.tools.web.markdown import LinkBase, to_markdown
from callboard.tools.web.page_tree import main_content, parse_page
from callboard.tools.web.text import decoded, visible

MAX_LINE_CHARS = 800
"""Of an error for a person: the provider's 500, and what we say around them."""

CONFIGURATION = Path("callboard.toml")


def fuzz_sse(data: bytes) -> None:
    """Any bytes are events, the same however they arrive, and never more than came."""
    pieces = _cut(data)
    parser = SseParser()
    payloads = [payload for piece in pieces for payload in parser.feed(piece)] + parser.end()
    whole = SseParser()
    assert payloads == whole.feed(b"".join(pieces)) + whole.end()
    assert sum(map(len, payloads)) <= sum(map(len, pieces))


def fuzz_openai_chat(data: bytes) -> None:
    """Any bytes are events with one terminal event at the end, and what they make can be stored."""
    _check_answer(OPENAI_CHAT, data)


def fuzz_openai_responses(data: bytes) -> None:
    """The same in OpenAI's Responses format."""
    _check_answer(OPENAI_RESPONSES, data)


def fuzz_anthropic_messages(data: bytes) -> None:
    """The same in Anthropic's format."""
    _check_answer(ANTHROPIC, data)


def fuzz_gemini(data: bytes) -> None:
    """The same in Gemini's format."""
    _check_answer(GEMINI, data)


def _check_answer(dialect: Dialect, data: bytes) -> None:
    pieces = _cut(data)
    events = _decode(dialect, pieces)
    assert events == _decode(dialect, [b"".join(pieces)])
    *before, last = events
    assert isinstance(last, Done | StreamError)
    assert not [event for event in before if isinstance(event, Done | StreamError)]
    if isinstance(last, StreamError):
        _check_line(last.message)
    answer = AnswerBuilder()
    answer.add(events)
    stored = msgspec.json.encode([events, answer.parts()])
    # A byte becomes at most a replacement character, or an escape, in an event and in a part.
    assert len(stored) <= 1000 + 200 * len(data)


def fuzz_error_answer(data: bytes) -> None:
    """Any body, status and header is one line for a person, and a wait that can be waited."""
    status = 200 + data[0] if data else 500
    head, _, body = data[1:].partition(b"\n")
    headers = {"retry-after": head.decode("latin-1"), "date": head[::-1].decode("latin-1")}
    error = read_error_answer(status, headers, body)
    _check_line(error.message)
    assert 0 <= (error.retry_after_seconds or 0.0) <= MAX_RETRY_AFTER_SECONDS
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return
    _check_line(read_error_event(value).message)


def fuzz_arguments(data: bytes) -> None:
    """Any text is valid arguments, whose canonical form means the same, or a validation error."""
    text = data.decode("utf-8", "surrogateescape")
    for tool in TOOLS:
        try:
            canonical = tool.decode(text).canonical
        except ToolFailure as failure:
            if failure.error_type is ErrorType.VALIDATION_ERROR and len(str(failure)) < 4000:
                continue
            raise
        json.loads(canonical)
        assert tool.decode(canonical).canonical == canonical


def fuzz_toml(data: bytes) -> None:
    """Any text is settings, or one error that names the file."""
    try:
        settings = parse_settings(data.decode("utf-8", "replace"), CONFIGURATION)
    except ValidationError as error:
        if str(CONFIGURATION) in str(error):
            return
        raise
    assert isinstance(settings, Settings)


def fuzz_page(data: bytes) -> None:
    """Any bytes are a page, and nothing that nobody sees is in its text."""
    page = parse_page(decoded(data))
    for part in (page.body, main_content(page.body)):
        text = to_markdown(part, LinkBase("https://site.test/", page.base))
        assert visible(text) == text


class Place(msgspec.Struct):
    """A Struct in an argument."""

    name: str
    where: tuple[float, float] | None = None


@dataclass
class Leaf:
    """A dataclass that holds itself."""

    size: int
    leaves: list[Leaf]


@callboard.tool
async def plain(
    text: str, count: int = 1, ratio: float | None = None, *, flag: bool = False
) -> str:
    """Takes plain values."""
    return f"{text}{count}{ratio}{flag}"


@callboard.tool
async def nested(place: Place, tags: list[str], kind: Literal["a", "b"] = "a") -> str:
    """Takes nested values."""
    return f"{place}{tags}{kind}"


@callboard.tool
async def recursive(leaf: Leaf, more: dict[str, Place] | None = None) -> str:
    """Takes what may be deep."""
    return f"{leaf}{more}"


TOOLS = (plain, nested, recursive)


def fuzz_client_frame(data: bytes) -> None:
    """Any bytes of a daemon's websocket are understood, passed over, or one error of ours."""
    with suppress(NetworkError):
        frame = read_params(data, ServerFrame, "ws://127.0.0.1/ws")
        for read in (read_update, read_snapshot):
            with suppress(NetworkError):
                read(frame.params, "ws://127.0.0.1/ws")
        read_topic_update(frame.params, "ws://127.0.0.1/ws")
        with suppress(ConflictError):
            read_result(frame.result, Welcome, "initialize", "ws://127.0.0.1/ws")


TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__.removeprefix("fuzz_"): target
    for target in (
        fuzz_sse,
        fuzz_openai_chat,
        fuzz_openai_responses,
        fuzz_anthropic_messages,
        fuzz_gemini,
        fuzz_error_answer,
        fuzz_arguments,
        fuzz_toml,
        fuzz_page,
        fuzz_client_frame,
    )
}


def _cut(data: bytes) -> list[bytes]:
    """Pieces of the size that the first byte says; all at once for 0."""
    size, rest = (data[0], data[1:]) if data else (0, b"")
    size = size or len(rest) or 1
    return [rest[at : at + size] for at in range(0, len(rest), size)]


def _decode(dialect: Dialect, pieces: list[bytes]) -> list[AnyStreamEvent]:
    decoder = dialect.decoder()
    return [event for piece in pieces for event in decoder.feed(piece)] + decoder.finish()


def _check_line(message: str) -> None:
    assert 0 < len(message) < MAX_LINE_CHARS
    assert message.isprintable()
