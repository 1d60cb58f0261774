"""Stop reasons: what the word that ends an answer means, and whether its calls may run.

Servers have many words, and new ones come. Of an answer without calls an unknown word does no harm:
it has ended. A call runs only after a word that says that the model came to its end, since what a
server broke off may hold half a call: without its arguments, which reads like a call with none.
"""

from __future__ import annotations

from ..runtime.stream import StopReason, StreamError
from .error_answer import plain_line

_FINISHED = frozenset(
    {
        "tool_calls",
        "tool_call",
        "tool_use",
        "function_call",
        "stop",
        "stop_sequence",
        "eos",
        "eos_token",
        "end_turn",
        # It paused for tools that the provider runs; its other calls are whole.
        "pause_turn",
        "complete",
        "completed",
        "done",
    }
)

_MAX_TOKENS = frozenset(
    {
        "length",
        "max_tokens",
        "max_output_tokens",
        "model_length",
        "context_length_exceeded",
        "model_context_window_exceeded",
    }
)

_REFUSED = frozenset(
    {
        "blocked",
        "content_filter",
        "content_filtered",
        "error_toxic",
        "guardrail_intervened",
        "prohibited_content",
        "recitation",
        "refusal",
        "safety",
        "sensitive",
    }
)

_BROKEN_OFF = {
    "error": ("provider", False),
    "abort": ("provider", True),
    "aborted": ("provider", True),
    "cancelled": ("provider", True),
    "canceled": ("provider", True),
    "interrupted": ("provider", True),
    "network_error": ("network", True),
    "timeout": ("timeout", True),
    "time_limit": ("timeout", True),
    "overloaded": ("overloaded", True),
    "engine_overloaded": ("overloaded", True),
    # DeepSeek: "the request is interrupted due to insufficient resource of the inference system".
    "insufficient_system_resource": ("overloaded", True),
}


def read_stop(
    reason: str, *, has_calls: bool, are_whole: bool = True
) -> StopReason | StreamError | None:
    """Return what this word means for an answer, `None` if the parts of the answer decide.

    Args:
        reason: The server's word, in any case; empty if there is none.
        has_calls: Whether the answer has calls.
        are_whole: Whether the decoder found them whole.
    """
    word = reason.lower().replace("-", "_")
    if word in _BROKEN_OFF:
        kind, retryable = _BROKEN_OFF[word]
        text = f"The provider broke off its answer ({plain_line(reason, 100)})."
        return StreamError(error_type=kind, message=text, retryable=retryable)
    if word in _MAX_TOKENS:
        return StopReason.MAX_TOKENS
    if word in _REFUSED:
        return StopReason.REFUSED
    if not has_calls:
        return None
    if word and word not in _FINISHED:
        said = plain_line(reason, 100)
        text = f"The provider ended its answer for a reason that is not known here ({said}), so its"
        text = f"{text} tool calls may be incomplete and were not run."
        advice = "Try again, or take another model."
        return StreamError(error_type="provider", message=text, retryable=True, advice=advice)
    if not are_whole:
        text = "The answer ended in the middle of a tool call, which was not run."
        return StreamError(error_type="network", message=text, retryable=True, advice="Try again.")
    return None
