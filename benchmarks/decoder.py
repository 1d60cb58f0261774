"""What decoding a token costs, beside a bare msgspec decode of the same bytes.

    python benchmarks/decoder.py [--tokens 20000] [--repeats 7]

The stream is a burst of one-token chunks as OpenAI sends them, whole chunks joined: read in pieces
of 64 KiB (a burst), and event by event (the pace of a model). Figures are the best of the repeats.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import msgspec

from callboard.providers.openai_chat_decoder import OpenAiChatDecoder
from callboard.providers.sse import SseParser

WORDS = (
    "lorem ipsum dolor si",
    "t amet consectetur a",
    "dipiscing elit sed d",
    "o eiusmod tempor inc",
)
HEAD = {
    "id": "chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG",
    "object": "chat.completion.chunk",
    "created": 1741570283,
    "model": "gpt-4o-mini-2024-07-18",
    "service_tier": "default",
    "system_fingerprint": "fp_06737a9306",
}
READ_BYTES = 65536


class BareDelta(msgspec.Struct):
    """The least that a decoder can look at."""

    content: str | None = None


class BareChoice(msgspec.Struct):
    """The least that a decoder can look at."""

    delta: BareDelta
    finish_reason: str | None = None


class BareChunk(msgspec.Struct):
    """The least that a decoder can look at."""

    choices: list[BareChoice]


def event(delta: dict[str, str], finish_reason: str | None = None) -> bytes:
    """One server-sent event."""
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return b"data: " + msgspec.json.encode({**HEAD, "choices": [choice]}) + b"\n\n"


def bare(pieces: list[bytes]) -> int:
    """Split and decode, and nothing else: the floor."""
    decode = msgspec.json.Decoder(BareChunk).decode
    rest, count = b"", 0
    for piece in pieces:
        parts = (rest + piece).split(b"\n\n")
        rest = parts.pop()
        for part in parts:
            if part != b"data: [DONE]" and decode(part[6:]).choices[0].delta.content:
                count += 1
    return count


def sse_only(pieces: list[bytes]) -> int:
    """The parser alone."""
    parser = SseParser()
    return sum(len(parser.feed(piece)) for piece in pieces) - 2


def decoder(pieces: list[bytes]) -> int:
    """The whole decoder: bytes in, stream events out."""
    answer = OpenAiChatDecoder()
    return sum(len(answer.feed(piece)) for piece in pieces) - 1


def measure(
    run: Callable[[list[bytes]], int], pieces: list[bytes], tokens: int, repeats: int
) -> float:
    """Microseconds of processor time a token."""
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        count = run(pieces)
        best = min(best, time.process_time() - start)
        if count != tokens:
            raise SystemExit(f"{run.__name__} read {count} tokens of {tokens}")
    return best / tokens * 1e6


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--tokens", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    events = [event({"content": WORDS[i & 3]}) for i in range(options.tokens)]
    events += [event({}, "stop"), b"data: [DONE]\n\n"]
    body = b"".join(events)
    burst = [body[at : at + READ_BYTES] for at in range(0, len(body), READ_BYTES)]
    print("microseconds a token   burst   one by one")
    for run in (bare, sse_only, decoder):
        figures = [measure(run, p, options.tokens, options.repeats) for p in (burst, events)]
        print(f"{run.__name__:<19}{figures[0]:>9.2f}{figures[1]:>13.2f}")


if __name__ == "__main__":
    main()
