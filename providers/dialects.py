"""The wire formats by name; each is imported when it is first used."""

from __future__ import annotations

from ..runtime.errors import NotFoundError
from .provider import Dialect


def dialect_named(name: str) -> Dialect:
    """Return the wire format of that name.

    Raises:
        NotFoundError: There is none; the message lists those that exist.
    """
    match name:
        case "openai_chat":
            from .openai_chat.dialect import OPENAI_CHAT

            return OPENAI_CHAT
        case "openai_responses":
            from .openai_responses.dialect import OPENAI_RESPONSES

            return OPENAI_RESPONSES
        case "anthropic":
            from .anthropic.dialect import ANTHROPIC

            return ANTHROPIC
        case "gemini":
            from .gemini.dialect import GEMINI

            return GEMINI
        case _:
            known = "openai_chat, openai_responses, anthropic, gemini"
            raise NotFoundError(f"There is no wire format {name!r}. There are: {known}.")


def dialect_at(name: str, base_url: str) -> Dialect:
    """Return the wire format of that name, as the server at this base URL speaks it.

    Raises:
        NotFoundError: As `dialect_named`.
    """
    if name == "openai_chat":
        from .openai_chat.dialect import openai_chat_at

        return openai_chat_at(base_url)
    return dialect_named(name)
