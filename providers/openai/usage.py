"""Counts of tokens, as OpenAI's two wire formats send them.

Chat Completions says `prompt` and `completion`, Responses `input` and `output`; all else is alike.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ...runtime.stream import Usage
from ..lenient_json import checked_count, read_count


class Details(msgspec.Struct, gc=False):
    """Counts within a count."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


class UsageCount(msgspec.Struct):
    """The counts of one answer."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    prompt_tokens_details: Details | None = None
    completion_tokens_details: Details | None = None
    input_tokens_details: Details | None = None
    output_tokens_details: Details | None = None


def usage_events(counts: UsageCount | None) -> list[Usage]:
    """Return the counts as a stream event, if there are any."""
    if counts is None:
        return []
    is_chat = counts.input_tokens is None and counts.output_tokens is None
    read = counts.prompt_tokens_details or counts.input_tokens_details or Details()
    written = counts.completion_tokens_details or counts.output_tokens_details or Details()
    tokens = (
        counts.prompt_tokens if is_chat else counts.input_tokens,
        counts.completion_tokens if is_chat else counts.output_tokens,
        read.cached_tokens,
        written.reasoning_tokens,
        read.cache_write_tokens,
    )
    return [Usage(*map(checked_count, tokens))]


def odd_usage(value: Any) -> UsageCount | None:
    """Return the counts of plain JSON values of any types, `None` if there are none."""
    if not isinstance(value, dict):
        return None
    fields: dict[str, Any] = {}
    for name in ("prompt_tokens", "completion_tokens", "input_tokens", "output_tokens"):
        fields[name] = read_count(value.get(name))
        if isinstance(details := value.get(f"{name}_details"), dict):
            counts = {key: read_count(details.get(key)) for key in Details.__struct_fields__}
            fields[f"{name}_details"] = Details(**counts)
    return UsageCount(**fields)
