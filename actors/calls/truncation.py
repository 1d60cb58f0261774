"""What a model gets of a result that is too large for it; the whole is kept as an artifact."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Any

import msgspec

from ...runtime.definitions import ToolResult

MIN_TEXT_BYTES = 128
"""Of JSON: what is left of a text that says something; room for the line in its middle is in it."""
_NOTE_BYTES = 80
"""The line in the middle, with the largest numbers that there are."""


def cut_output(
    result: ToolResult, encoded: bytes, artifact_id: str, max_bytes: int
) -> dict[str, Any]:
    """What the model is told of an output.

    Args:
        result: What the tool gave back.
        encoded: Its output as JSON.
        artifact_id: Under which the whole is kept.
        max_bytes: How large the JSON of what is shown may be.
    """
    short = None
    if isinstance(result.output, dict):
        short = with_short_texts(result.output, result.both_ends, max_bytes)
    if short is not None:
        truncated = _shortened_to(len(encoded), artifact_id)
        return {"status": "success", "result": short, "truncated": truncated}
    head = encoded[:max_bytes].decode(errors="ignore")
    truncated = (
        f"The result is {len(encoded)} bytes of JSON; this is the beginning. Read on with "
        f'read_file(path="artifact:{artifact_id}", offset={len(head.encode())}).'
    )
    return {"status": "success", "result": head, "truncated": truncated}


def cut_failure(content: str, artifact_id: str, max_bytes: int) -> dict[str, Any] | None:
    """What the model is told of a failure; `None` when it isn't its texts that are too long."""
    failure: dict[str, Any] = msgspec.json.decode(content)
    failure["truncated"] = _shortened_to(len(content.encode()), artifact_id)
    return with_short_texts(failure, failure, max_bytes)


def with_short_texts(
    output: dict[str, Any], names: Iterable[str], max_bytes: int
) -> dict[str, Any] | None:
    """The output with some of its texts shortened, so that its JSON has at most so many bytes.

    The shorter ones stay whole and the others share what is left. `None` when that does not do: the
    rest of it alone is too large.
    """
    texts = {name: output[name] for name in names if isinstance(output.get(name), str)}
    rest = {**output, **dict.fromkeys(texts, "")}
    left = max_bytes - len(msgspec.json.encode(rest))
    if not texts or left < MIN_TEXT_BYTES * len(texts):
        return None
    for waiting, name in zip(
        range(len(texts), 0, -1), sorted(texts, key=lambda name: _size(texts[name])), strict=True
    ):
        texts[name] = _shortened(texts[name], left // waiting)
        left -= _size(texts[name])
    return {**output, **texts}


def _shortened_to(size: int, artifact_id: str) -> str:
    return (
        f"The result is {size} bytes of JSON; long texts in it are cut in their middle. All of it: "
        f'read_file(path="artifact:{artifact_id}").'
    )


def _shortened(text: str, max_bytes: int) -> str:
    if _size(text) <= max_bytes:
        return text
    room = max_bytes - _NOTE_BYTES
    head = text[: _fitting(text, room // 2)]
    turned = text[len(head) :][::-1]
    tail = turned[: _fitting(turned, room - room // 2)][::-1]
    left_out = len(text) - len(head) - len(tail)
    return f"{head}\n(… {left_out} of {len(text)} characters are left out …)\n{tail}"


def _fitting(text: str, max_bytes: int) -> int:
    """How many characters of a text's beginning have a JSON of so many bytes."""
    lengths = range(min(len(text), max_bytes) + 1)
    return bisect_right(lengths, max_bytes, key=lambda length: _size(text[:length])) - 1


def _size(text: str) -> int:
    return len(msgspec.json.encode(text)) - 2  # without its quotation marks
