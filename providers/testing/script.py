"""The steps of a script, which both test doubles play.

A script is a list of steps, one for each request, in order. A step is what the model does with
that request: `reply(...)` answers, the others are faults. A function in place of a step is called
with the request and gives the step, so that an answer can depend on what was asked.

    steps = [
        reply(calls=[("read_file", {"path": "a.txt"})]),
        lambda request: reply(text=f"It has {len(last_result(request))} characters."),
    ]

`ScriptedModel` plays it in the process, `open_scripted_server` over a socket in a real wire format,
whichever of them it is asked in; faults that only a wire can have are marked so.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from ...runtime.history import Result
from ...runtime.stream import (
    AnyStreamEvent,
    Done,
    RefusalDelta,
    StopReason,
    StreamError,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from ..provider import ModelRequest

SOME_USAGE = Usage(10, 5, 0, 0)
"""What an answer reports by default."""

ARGUMENT_PIECE_CHARS = 16
"""Arguments come in pieces, as models write them; long ones in at most `MAX_PIECES` pieces."""
MAX_PIECES = 256


class ScriptedCall(msgspec.Struct, frozen=True):
    """A call that the model makes; `arguments` is its text, of any kind."""

    name: str
    arguments: str
    call_id: str = ""


class ScriptedReply(msgspec.Struct, frozen=True, kw_only=True):
    """An answer.

    Attributes:
        text: The text, in the pieces in which it comes.
        thinking: The reasoning before it, in pieces.
        signature: The proof of the reasoning, in wire formats that have one; a server makes one up if it
            is missing.
        refusal: Text in which the model refuses.
        calls: The calls that it makes.
        usage: The tokens that are reported, or `None` for no report.
        finish: The reason to stop, in the provider's word or in Chat Completions' (`stop`,
            `tool_calls`, `length`, `content_filter`); `None` leaves the end away, so that the
            answer is cut off.
        delay_seconds: Before the first byte.
        piece_seconds: Before each further piece.
        chunk: How a server writes it: `event` (an HTTP chunk for each event, as gateways do),
            `all` (one chunk), or `bytes:N` (chunks of N bytes, cut anywhere).
    """

    text: tuple[str, ...] = ()
    thinking: tuple[str, ...] = ()
    signature: str = ""
    refusal: tuple[str, ...] = ()
    calls: tuple[ScriptedCall, ...] = ()
    usage: Usage | None = None
    finish: str | None = None
    delay_seconds: float = 0.0
    piece_seconds: float = 0.0
    chunk: str = "event"


class Fail(msgspec.Struct, frozen=True):
    """The provider reports an error in the middle of its answer, after this text."""

    error: StreamError
    text: str = ""


class Stall(msgspec.Struct, frozen=True):
    """The model says this, which may be whole, and then nothing more."""

    reply: ScriptedReply


class Events(msgspec.Struct, frozen=True):
    """These stream events, as they are. In-process models only."""

    events: tuple[AnyStreamEvent, ...]


class Answered(msgspec.Struct, frozen=True):
    """An answer with this status and body; with a `message`, an error in the format's own shape.

    Servers only.
    """

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    message: str = ""


class Drip(msgspec.Struct, frozen=True):
    """Pings without end. Servers only."""

    interval_seconds: float = 0.01


class CutAfter(msgspec.Struct, frozen=True):
    """The body of a reply ends after so many bytes; `clean` ends it as if it were whole.

    Servers only.
    """

    reply: ScriptedReply
    size_bytes: int
    clean: bool = False


BrokenHow = Literal["reset", "close_before_head", "garbage"]


class Broken(msgspec.Struct, frozen=True):
    """The connection is reset, closed before the head, or answers without HTTP. Servers only."""

    how: BrokenHow


Step = ScriptedReply | Fail | Stall | Events | Answered | Drip | CutAfter | Broken


def reply(
    text: str | Sequence[str] = (),
    *,
    calls: Sequence[ScriptedCall | tuple[str, Any]] = (),
    thinking: str | Sequence[str] = (),
    signature: str = "",
    refusal: str | Sequence[str] = (),
    usage: Usage | None = SOME_USAGE,
    finish: str | None = "",
    delay_seconds: float = 0.0,
    piece_seconds: float = 0.0,
    chunk: str = "event",
) -> ScriptedReply:
    """Answer; see `ScriptedReply`.

    A call is `(name, arguments)`: a dict is encoded, a string is sent as it is, however broken.
    `finish` is by default `tool_calls` or `stop`, whichever fits.

    Example:
        steps = [
            callboard.reply("Let me look.", calls=[("list_directory", {"path": "."})]),
            callboard.reply(["There is ", "nothing here."]),
        ]
        model = callboard.ScriptedModel(steps)
        async with callboard.open_runtime(model=model) as runtime:
            session = await runtime.create_session()
            print(await session.run("What is here?"))
    """
    wanted = tuple(_call(call) for call in calls)
    return ScriptedReply(
        text=_pieces(text),
        thinking=_pieces(thinking),
        signature=signature,
        refusal=_pieces(refusal),
        calls=wanted,
        usage=usage,
        finish=("tool_calls" if wanted else "stop") if finish == "" else finish,
        delay_seconds=delay_seconds,
        piece_seconds=piece_seconds,
        chunk=chunk,
    )


def fail(
    message: str, *, error_type: str = "provider", retryable: bool = False, text: str = ""
) -> Fail:
    """Fail in the middle of an answer; the error has its type if the format has a word for it."""
    return Fail(StreamError(error_type=error_type, message=message, retryable=retryable), text)


def stall(said: str | ScriptedReply = "") -> Stall:
    """Say this, and then nothing more; after a whole reply the connection stays open."""
    return Stall(said if isinstance(said, ScriptedReply) else ScriptedReply(text=_pieces(said)))


def raw_events(*events: AnyStreamEvent) -> Events:
    """Send these stream events, as they are."""
    return Events(events)


def status(
    code: int, body: str | bytes | dict[str, Any] = b"", *, message: str = "", **headers: str
) -> Answered:
    """Answer with an error status; `retry_after="3"` becomes the header `retry-after`.

    The body is sent as it is; a `message` instead goes in the body that the wire format of the
    request has for errors.
    """
    if isinstance(body, dict):
        body = msgspec.json.encode(body)
        headers.setdefault("content_type", "application/json")
    content = body.encode() if isinstance(body, str) else body
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Answered(code, content, named, message)


def html(code: int = 200) -> Answered:
    """Answer with a web page, as proxies and wrong base URLs do."""
    page = "<!doctype html><html><head><title>Welcome</title></head><body>Hi.</body></html>"
    return status(code, page, content_type="text/html")


def drip(interval_seconds: float = 0.01) -> Drip:
    """Send pings without end."""
    return Drip(interval_seconds)


def cut_after(size_bytes: int, answer: ScriptedReply, *, clean: bool = False) -> CutAfter:
    """End the body of this answer after so many bytes."""
    return CutAfter(answer, size_bytes, clean)


def reset() -> Broken:
    """Reset the connection."""
    return Broken("reset")


def close_before_head() -> Broken:
    """Close the connection before any answer."""
    return Broken("close_before_head")


def garbage() -> Broken:
    """Answer with something that is not HTTP."""
    return Broken("garbage")


def events_of(answer: ScriptedReply) -> list[AnyStreamEvent]:
    """Return the stream events of a reply, as its decoder would."""
    events: list[AnyStreamEvent] = [ThinkingDelta(piece) for piece in answer.thinking]
    if answer.thinking or answer.signature:
        events.append(ThinkingEnd(answer.signature or None))
    events += [TextDelta(piece) for piece in answer.text]
    events += [RefusalDelta(piece) for piece in answer.refusal]
    for index, call in enumerate(answer.calls):
        events.append(ToolCallStart(index, call.call_id, call.name))
        if call.arguments:
            events.append(ToolCallDelta(index, call.arguments))
    events += [ToolCallEnd(index) for index in range(len(answer.calls))]
    if answer.usage is not None:
        events.append(answer.usage)
    if answer.finish is not None:
        events.append(Done(_stop_reason(answer), answer.finish))
    return events


def argument_pieces(arguments: str) -> Iterator[str]:
    """Return the arguments of a call in the pieces in which a server writes them."""
    size = max(ARGUMENT_PIECE_CHARS, -(-len(arguments) // MAX_PIECES))
    return (arguments[at : at + size] for at in range(0, len(arguments), size))


def signature_of(answer: ScriptedReply, number: int) -> str:
    """Return the signature of the n-th answer's reasoning; empty if it has none."""
    made_up = base64.b64encode(b"the proof of answer %d" % number).decode()
    return answer.signature or (made_up if answer.thinking else "")


def status_of(error: StreamError) -> int:
    """Return the status with which a server would send this error instead of an answer."""
    known = {"overloaded": 503, "auth": 401, "quota": 402, "timeout": 504}
    return known.get(error.error_type, 500 if error.retryable else 400)


def last_result(request: ModelRequest) -> str:
    """Return the content of the last tool result in a request; empty if there is none."""
    items = [item for round_ in request.rounds for item in round_.items]
    return next((item.content for item in reversed(items) if isinstance(item, Result)), "")


def _stop_reason(answer: ScriptedReply) -> StopReason:
    if answer.finish in {"length", "max_tokens"}:
        return StopReason.MAX_TOKENS
    if answer.finish == "content_filter" or (answer.refusal and not answer.text):
        return StopReason.REFUSED
    return StopReason.TOOL_CALLS if answer.calls else StopReason.END


def _pieces(text: str | Sequence[str]) -> tuple[str, ...]:
    if isinstance(text, str):
        return (text,) if text else ()
    return tuple(text)


def _call(call: ScriptedCall | tuple[str, Any]) -> ScriptedCall:
    if isinstance(call, ScriptedCall):
        return call
    name, arguments = call
    return ScriptedCall(
        name, arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
    )
