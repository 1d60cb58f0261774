"""The wire formats of a scripted server, and which one a request is in.

| path | wire format |
| --- | --- |
| `POST /v1/chat/completions` | `openai_chat` |
| `POST /v1/responses` | `openai_responses` |
| `POST /v1/messages` | `anthropic` |
| `POST /v1/models/MODEL:streamGenerateContent?alt=sse` | `gemini` |
| `GET /v1/models` | `anthropic` with its version in the headers, `gemini` with a `pageSize`, else OpenAI's |
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from ...runtime.errors import NotFoundError
from ...runtime.stream import StreamError
from . import anthropic_wire, chat_wire, gemini_wire, responses_wire
from .script import ScriptedReply

MODELS_PATH = "/v1/models"

_PATHS = {
    "openai_chat": re.compile(r"/v1/chat/completions"),
    "openai_responses": re.compile(r"/v1/responses"),
    "anthropic": re.compile(r"/v1/messages"),
    "gemini": re.compile(r"/v1/(?:models|tunedModels)/[^?:]+:streamGenerateContent\?alt=sse"),
}


class ScriptedWire(Protocol):
    """One wire format, as its provider's server writes it."""

    @property
    def PING(self) -> bytes:
        """Bytes that keep a connection alive and say nothing."""
        ...

    def reply_events(self, reply: ScriptedReply, number: int) -> list[bytes]:
        """Return the server-sent events of an answer; `number` makes its ids unique."""
        ...

    def error_events(self, error: StreamError) -> list[bytes]:
        """Return the events that end a stream which fails in the middle."""
        ...

    def error_body(self, status: int, message: str) -> bytes:
        """Return the body of an answer with an error status."""
        ...

    def model_list(self, models: Sequence[str]) -> bytes:
        """Return the only page of the list of models."""
        ...


_WIRES: dict[str, ScriptedWire] = {
    "openai_chat": chat_wire,
    "openai_responses": responses_wire,
    "anthropic": anthropic_wire,
    "gemini": gemini_wire,
}


def wire_named(dialect: str) -> ScriptedWire:
    """Return the wire format of that name.

    Raises:
        NotFoundError: There is none; the message lists those that exist.
    """
    wire = _WIRES.get(dialect)
    if wire is None:
        known = ", ".join(_WIRES)
        raise NotFoundError(f"No server speaks the wire format {dialect!r}. There are: {known}.")
    return wire


def dialect_of(method: str, path: str, headers: Mapping[str, str]) -> str:
    """Return the wire format of a request, by its address; empty where nothing is served."""
    if method == "POST":
        return next((name for name, known in _PATHS.items() if known.fullmatch(path)), "")
    address, _, query = path.partition("?")
    if method != "GET" or address != MODELS_PATH:
        return ""
    if "anthropic-version" in headers:
        return "anthropic"
    return "gemini" if "pageSize=" in query else "openai_chat"
