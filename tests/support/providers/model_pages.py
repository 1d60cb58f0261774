"""What model servers of each wire format answer, as pages of a web server."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from callboard.config.settings import ProviderSettings, Settings
from callboard.providers.catalog.catalog import ModelSelection
from support.web.web_server import Answer, page

MODEL = "talker-1"


class Wire(msgspec.Struct, frozen=True):
    """One wire format.

    Attributes:
        dialect: Its name.
        path: Where `MODEL` is asked, below the base URL.
        key_header: What carries the key.
        events: The server-sent events of the answer `Good morning.`, of 3 and 2 tokens.
    """

    dialect: str
    path: str
    key_header: str
    events: tuple[Mapping[str, Any], ...]

    @property
    def answer(self) -> bytes:
        """The answer."""
        lines = [f"data: {json.dumps(event)}\n\n" for event in self.events]
        done = "data: [DONE]\n\n" if self.dialect == "openai_chat" else ""
        return page("".join(lines) + done, content_type="text/event-stream")

    def models(self, ids: Sequence[str]) -> bytes:
        """The whole list of models."""
        return page(json.dumps(self.list_of(ids)), content_type="application/json")

    def list_of(self, ids: Sequence[str]) -> dict[str, Any]:
        """The body of a list that is one page."""
        if self.dialect == "gemini":
            methods = ["generateContent"]
            return {
                "models": [
                    {"name": f"models/{name}", "supportedGenerationMethods": methods}
                    for name in ids
                ]
            }
        return {"object": "list", "data": [{"id": name} for name in ids], "has_more": False}

    def pages(self, *, ids: Sequence[str] = (MODEL,), answer: Answer = b"") -> dict[str, Answer]:
        """A server that lists these models, and whose `MODEL` gives this answer."""
        return {"/v1/models": self.models(ids), f"/v1{self.path}": answer or self.answer}


def _chat(delta: Mapping[str, Any], finish: str | None) -> dict[str, Any]:
    return {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


TEXT = "Good morning."
_MESSAGE = {"type": "message", "id": "i", "role": "assistant", "content": []}
_WHOLE = {**_MESSAGE, "content": [{"type": "output_text", "text": TEXT}]}
_DELTA = {"type": "response.output_text.delta", "output_index": 0, "content_index": 0}

WIRES = (
    Wire(
        "openai_chat",
        "/chat/completions",
        "authorization",
        (
            _chat({"role": "assistant", "content": TEXT}, None),
            {**_chat({}, "stop"), "usage": {"prompt_tokens": 3, "completion_tokens": 2}},
        ),
    ),
    Wire(
        "openai_responses",
        "/responses",
        "authorization",
        (
            {"type": "response.created", "response": {"id": "r", "output": []}},
            {"type": "response.output_item.added", "output_index": 0, "item": _MESSAGE},
            {**_DELTA, "item_id": "i", "delta": TEXT},
            {
                "type": "response.completed",
                "response": {
                    "id": "r",
                    "status": "completed",
                    "output": [_WHOLE],
                    "usage": {"input_tokens": 3, "output_tokens": 2},
                },
            },
        ),
    ),
    Wire(
        "anthropic",
        "/messages",
        "x-api-key",
        (
            {
                "type": "message_start",
                "message": {"id": "m", "content": [], "usage": {"input_tokens": 3}},
            },
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": {"type": "text", "text": ""},
            },
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": TEXT},
            },
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn"},
                "usage": {"output_tokens": 2},
            },
            {"type": "message_stop"},
        ),
    ),
    Wire(
        "gemini",
        f"/models/{MODEL}:streamGenerateContent",
        "x-goog-api-key",
        (
            {
                "candidates": [
                    {
                        "content": {"role": "model", "parts": [{"text": TEXT}]},
                        "finishReason": "STOP",
                    }
                ],
                "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2},
            },
        ),
    ),
)
CHAT = WIRES[0]


def refusal(status: str, message: str, **error: Any) -> bytes:
    """An error in OpenAI's form, which all formats' readers understand."""
    body = json.dumps({"error": {"message": message, **error}})
    return page(body, status=status, content_type="application/json")


def wish_for(base_url: str, wire: Wire = CHAT, **provider: Any) -> ModelSelection:
    """A configuration whose provider `house` is at this URL, with its key in HOUSE_KEY."""
    fields = {"key_env": "HOUSE_KEY", "dialect": wire.dialect, **provider}
    house = msgspec.convert({"name": "house", "base_url": base_url, **fields}, ProviderSettings)
    settings = Settings(providers={"house": house})
    return ModelSelection(settings=settings, environ={"HOUSE_KEY": "sesame"})
