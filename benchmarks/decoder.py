"""What decoding an event costs in each wire format, beside a bare msgspec decode of the same bytes.

    python benchmarks/decoder.py [--events 20000] [--repeats 7] [--only anthropic gemini]

The stream is an answer of one-token events as each provider sends them. It is read in pieces of
64 KiB (a burst), and event by event (the pace of a model). The floor splits the events and decodes
each one's text into the smallest struct that holds it, and nothing else. Figures are the best of the
repeats, in microseconds of processor time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from callboard.providers.dialects import dialect_named
from callboard.providers.sse import SseParser
from callboard.runtime.stream import Done, TextDelta

WORDS = (
    "lorem ipsum dolor si",
    "t amet consectetur a",
    "dipiscing elit sed d",
    "o eiusmod tempor inc",
)
READ_BYTES = 65536

encode = msgspec.json.encode


class Stream(msgspec.Struct):
    """The bytes of an answer in one wire format.

    Attributes:
        head: Its events before the first text.
        text: Makes the event of one text.
        tail: Its events behind the last text.
        text_in: Decodes the data of a text's event and gives the text: the floor.
    """

    head: list[bytes]
    text: Callable[[str], bytes]
    tail: list[bytes]
    text_in: Callable[[bytes], str | None]


# ── Chat Completions ─────────────────────────────────────────────────────────────────────────────

CHAT_HEAD = {
    "id": "chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG",
    "object": "chat.completion.chunk",
    "created": 1741570283,
    "model": "gpt-4o-mini-2024-07-18",
    "service_tier": "default",
    "system_fingerprint": "fp_06737a9306",
}


class BareDelta(msgspec.Struct):
    content: str | None = None


class BareChoice(msgspec.Struct):
    delta: BareDelta


class BareChatChunk(msgspec.Struct):
    choices: list[BareChoice]


def chat() -> Stream:
    def event(delta: dict[str, str], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return b"data: " + encode({**CHAT_HEAD, "choices": [choice]}) + b"\n\n"

    decode = msgspec.json.Decoder(BareChatChunk).decode
    return Stream(
        head=[event({"role": "assistant", "content": ""})],
        text=lambda text: event({"content": text}),
        tail=[event({}, "stop"), b"data: [DONE]\n\n"],
        text_in=lambda data: decode(data).choices[0].delta.content,
    )


# ── Responses ────────────────────────────────────────────────────────────────────────────────────

ITEM_ID = "msg_00b9cc7a23d047270068faa0f63798819f83c5348ca838d252"


class BareResponsesEvent(msgspec.Struct):
    delta: str | None = None


def responses() -> Stream:
    def event(kind: str, **fields: Any) -> bytes:
        data = encode({"type": kind, "sequence_number": 18, **fields})
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)

    at = {"item_id": ITEM_ID, "output_index": 0, "content_index": 0}
    item = {"id": ITEM_ID, "type": "message", "status": "in_progress", "content": []}
    response = {"id": "resp_1", "object": "response", "status": "completed", "output": []}
    decode = msgspec.json.Decoder(BareResponsesEvent).decode
    return Stream(
        head=[event("response.output_item.added", output_index=0, item=item)],
        text=lambda text: event(
            "response.output_text.delta", **at, delta=text, logprobs=[], obfuscation="Vk0HCjd5u"
        ),
        tail=[event("response.completed", response=response)],
        text_in=lambda data: decode(data).delta,
    )


# ── Messages ─────────────────────────────────────────────────────────────────────────────────────


class BareText(msgspec.Struct):
    text: str | None = None


class BareMessagesEvent(msgspec.Struct):
    delta: BareText | None = None


def messages() -> Stream:
    def event(kind: str, **fields: Any) -> bytes:
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), encode({"type": kind, **fields}))

    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    begun = {"type": "text", "text": ""}
    decode = msgspec.json.Decoder(BareMessagesEvent).decode

    def text_in(data: bytes) -> str | None:
        delta = decode(data).delta
        return delta.text if delta is not None else None

    return Stream(
        head=[
            event("message_start", message=message),
            event("content_block_start", index=0, content_block=begun),
        ],
        text=lambda text: event(
            "content_block_delta", index=0, delta={"type": "text_delta", "text": text}
        ),
        tail=[
            event("content_block_stop", index=0),
            event("message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None}),
            event("message_stop"),
        ],
        text_in=text_in,
    )


# ── Gemini ───────────────────────────────────────────────────────────────────────────────────────


class BareContent(msgspec.Struct):
    parts: list[BareText]


class BareCandidate(msgspec.Struct):
    content: BareContent


class BareGeminiChunk(msgspec.Struct):
    candidates: list[BareCandidate]


def gemini() -> Stream:
    counts = {"promptTokenCount": 46, "candidatesTokenCount": 51, "totalTokenCount": 97}
    details = [{"modality": "TEXT", "tokenCount": 46}]
    tail = {
        "usageMetadata": {**counts, "promptTokensDetails": details},
        "modelVersion": "gemini-3-flash-preview",
        "responseId": "n1P6abvRFaKdz7IPkcuQ2Aw",
    }

    def event(text: str, **fields: Any) -> bytes:
        candidate = {"content": {"parts": [{"text": text}], "role": "model"}, **fields, "index": 0}
        return b"data: " + encode({"candidates": [candidate], **tail}) + b"\r\n\r\n"

    decode = msgspec.json.Decoder(BareGeminiChunk).decode
    return Stream(
        head=[],
        text=event,
        tail=[event("", finishReason="STOP")],
        text_in=lambda data: decode(data).candidates[0].content.parts[0].text,
    )


FORMATS = {
    "openai_chat": chat,
    "openai_responses": responses,
    "anthropic": messages,
    "gemini": gemini,
}


def bare(stream: Stream, pieces: list[bytes]) -> int:
    """Split and decode, and nothing else: the floor."""
    text_in, count, rest = stream.text_in, 0, b""
    end = b"\r\n\r\n" if stream.tail[-1].endswith(b"\r\n\r\n") else b"\n\n"
    for piece in pieces:
        parts = (rest + piece).split(end)
        rest = parts.pop()
        for part in parts:
            data = part[part.index(b"data: ") + 6 :]
            if data != b"[DONE]" and text_in(data):
                count += 1
    return count


def sse_only(stream: Stream, pieces: list[bytes]) -> int:
    """The parser alone."""
    parser = SseParser()
    return sum(len(parser.feed(piece)) for piece in pieces) - len(stream.head) - len(stream.tail)


def whole(name: str, pieces: list[bytes]) -> int:
    """The whole decoder: bytes in, stream events out."""
    answer = dialect_named(name).decoder()
    texts, last = 0, None
    for piece in pieces:
        events = answer.feed(piece)
        texts += len(events)
        last = events[-1] if events else last
    ended = answer.finish()
    if not isinstance((ended or [last])[-1], Done):
        raise SystemExit(f"{name}: the answer has no end")
    return texts


def measure(
    runs: Sequence[Callable[[list[bytes]], int]], pieces: list[bytes], repeats: int
) -> list[float]:
    """Seconds of processor time of each; they take turns, so that a busy moment meets all."""
    best = [float("inf")] * len(runs)
    for _ in range(repeats):
        for at, run in enumerate(runs):
            start = time.process_time()
            run(pieces)
            best[at] = min(best[at], time.process_time() - start)
    return best


def check(name: str, stream: Stream, pieces: list[bytes], count: int) -> None:
    """All three read every text, so that what is measured is the same work."""
    decoder = dialect_named(name).decoder()
    texts = sum(isinstance(e, TextDelta) for piece in pieces for e in decoder.feed(piece))
    found = {"bare": bare(stream, pieces), "sse": sse_only(stream, pieces), "decoder": texts}
    if set(found.values()) != {count}:
        raise SystemExit(f"{name}: of {count} texts there were read {found}")


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--only", nargs="*", choices=FORMATS, default=list(FORMATS))
    options = parser.parse_args()
    count: int = options.events
    print("| format | bytes an event | read | bare | SSE alone | decoder | ratio |")
    print("|---|---:|---|---:|---:|---:|---:|")
    for name in options.only:
        stream = FORMATS[name]()
        texts = [stream.text(WORDS[i & 3]) for i in range(count)]
        events = [*stream.head, *texts, *stream.tail]
        body = b"".join(events)
        burst = [body[at : at + READ_BYTES] for at in range(0, len(body), READ_BYTES)]
        for read, pieces in (("in a burst", burst), ("one by one", events)):
            check(name, stream, pieces, count)
            runs = (partial(bare, stream), partial(sse_only, stream), partial(whole, name))
            cost = [each / count * 1e6 for each in measure(runs, pieces, options.repeats)]
            row = (name, len(texts[0]), read, *(f"{each:.2f}" for each in cost))
            print(f"| {' | '.join(map(str, row))} | {cost[2] / cost[0]:.2f}× |")


if __name__ == "__main__":
    main()
