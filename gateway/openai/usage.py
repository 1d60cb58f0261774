"""The tokens of a turn as OpenAI's clients count them."""

from __future__ import annotations

import msgspec

from ...runtime.events import AttemptCharged, AttemptFailed, HistoryCompacted, MessageCompleted
from ...runtime.stream import Usage


class PromptDetails(msgspec.Struct):
    """Of the tokens that the model read."""

    cached_tokens: int


class CompletionDetails(msgspec.Struct):
    """Of the tokens that the model wrote."""

    reasoning_tokens: int


class ChatUsage(msgspec.Struct):
    """All model calls of a turn together; what a provider did not count is 0."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails
    completion_tokens_details: CompletionDetails


class InputDetails(msgspec.Struct):
    """Of the tokens that the model read, as responses have it."""

    cached_tokens: int
    cache_write_tokens: int


class ResponseUsage(msgspec.Struct):
    """The same as `ChatUsage`, in the words of responses."""

    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: CompletionDetails
    total_tokens: int


class TurnUsage:
    """Adds up the tokens of a turn."""

    def __init__(self) -> None:
        self.input = self.output = self.cached = self.cache_writes = self.reasoning = 0

    def take(
        self, event: MessageCompleted | HistoryCompacted | AttemptFailed | AttemptCharged
    ) -> None:
        """Count a model call: an answer, a summary of what was said, or one that came to nothing."""
        used: Usage | None = event.usage
        if used is not None:
            self.input += used.input_tokens or 0
            self.output += used.output_tokens or 0
            self.cached += used.cached_tokens or 0
            self.cache_writes += used.cache_write_tokens or 0
            self.reasoning += used.reasoning_tokens or 0

    @property
    def of_chat(self) -> ChatUsage:
        """As chat completions have it."""
        return ChatUsage(
            self.input,
            self.output,
            self.input + self.output,
            PromptDetails(self.cached),
            CompletionDetails(self.reasoning),
        )

    @property
    def of_response(self) -> ResponseUsage:
        """As responses have it."""
        return ResponseUsage(
            self.input,
            InputDetails(self.cached, self.cache_writes),
            self.output,
            CompletionDetails(self.reasoning),
            self.input + self.output,
        )
