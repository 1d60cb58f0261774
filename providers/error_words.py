"""Why a provider refuses, where only its words say so: too much to read, or nothing left to pay with.

There is no status for either: most answer 400 to a conversation that is too long, and 400, 402, 403
or 429 to an account without credit. The words are those of OpenAI, Anthropic, Gemini, Groq, Mistral,
xAI, Moonshot, Bedrock, OpenRouter, vLLM, llama.cpp, LM Studio and Ollama.
"""

from __future__ import annotations

import re

MAX_READ_CHARS = 2_000
"""Of what a provider says: the reason stands at its beginning, or nowhere."""

_TOO_LONG_CODES = ("context_length_exceeded", "exceed_context_size", "context_window_exceeded")
_TOO_LONG = re.compile(
    r"context_length_exceeded|exceed_context_size"
    r"|(?:prompt|input) is too long"
    r"|maximum (?:context|prompt|model) length"
    r"|input token count.{0,40}exceeds the maximum"
    r"|(?:exceeds?|exceeding|larger than|longer than|greater than)"
    r" (?:the |this |your |its )?(?:model'?s )?(?:available |maximum )?context"
    r"|context window (?:is )?exceed|exceeded model token limit"
    r"|reduce the length of the (?:messages|prompt|input)"
    r"|too many (?:input |prompt )?tokens(?! per| requested)"
)
_WRONG_LIMIT = re.compile(
    r"max_(?:completion_|output_)?tokens['\"`]*(?:\(\w*\))? ?(?:is |was |must |:|=|exceeds |cannot )"
)
"""A limit that is wrong by itself; "input length and `max_tokens` exceed …" is about both."""
_NO_CREDIT_CODES = ("insufficient_quota", "insufficient_credits", "billing", "credit")
_NO_CREDIT = re.compile(
    r"credit balance|insufficient (?:credits?|balance|funds|quota)"
    r"|(?:requires more|out of|used all (?:available|your)|no) credits"
    r"|credits are depleted|spending limit|billing hard limit"
)


def is_too_long(code: str, said: str) -> bool:
    """Whether the conversation is longer than the model's window.

    Args:
        code: The words of the error that are meant for programs, in lower case.
        said: Those for people.
    """
    said = said[:MAX_READ_CHARS].lower()
    # First: such a message may go on with the length of the context.
    if _WRONG_LIMIT.search(said) is not None:
        return False
    return any(word in code for word in _TOO_LONG_CODES) or _TOO_LONG.search(said) is not None


def is_without_credit(code: str, said: str) -> bool:
    """Whether the account has nothing left; arguments as for `is_too_long`."""
    if any(word in code for word in _NO_CREDIT_CODES):
        return True
    return _NO_CREDIT.search(said[:MAX_READ_CHARS].lower()) is not None
